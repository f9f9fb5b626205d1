"""Print all tables, or those of some topics: ``python -m benchmarks [topic ...]``.

The last table compares the measured values with the promised ones. The exit code is 1 if a promise
is broken. ``python -m benchmarks public`` is not part of the default: it downloads data and has its
own options.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time

from . import public
from .promises import print_promises

if sys.argv[1:2] == ["public"]:
    public.main(sys.argv[2:])
    sys.exit()

TOPICS = (
    *("speed", "tightness", "accuracy", "envs", "sb3", "evaluate", "callback", "scaling"),
    *("first_verdict", "own_tables", "risk", "sequence", "shuffles", "store", "unfinished"),
    "known_behavior",
)

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("topics", nargs="*", help=f"any of {', '.join(TOPICS)} (default: all)")
topics = parser.parse_args().topics or TOPICS
for topic in topics:
    if topic not in TOPICS:
        parser.error(f"unknown topic {topic!r}, choose from {', '.join(TOPICS)}")
print(
    f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores ({platform.machine()}), "
    f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}",
    flush=True,
)
for topic in topics:
    start = time.perf_counter()
    print(f"\n== {topic}", flush=True)
    importlib.import_module(f"benchmarks.{topic}").main()
    print(f"({topic}: {time.perf_counter() - start:.0f} s)", flush=True)
sys.exit(not print_promises())
