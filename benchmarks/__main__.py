"""Print all tables, or those of some topics: ``python -m benchmarks [topic ...]``.

The last table compares the measured values with the promised ones. The exit code is 1 if a promise
is broken. With ``--docs`` the tables also replace those of the same name in the pages of ``docs/``.
``python -m benchmarks public`` is not part of the default: it downloads data and has its own
options.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time

from . import public
from .promises import print_promises
from .tables import DOCS, insert_into, stamp

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
parser.add_argument("--docs", action="store_true", help="insert the tables into docs/")
options = parser.parse_args()
topics = options.topics or TOPICS
for topic in topics:
    if topic not in TOPICS:
        parser.error(f"unknown topic {topic!r}, choose from {', '.join(TOPICS)}")
print(f"{stamp()}, load {os.getloadavg()[0]:.1f}", flush=True)
for topic in topics:
    start = time.perf_counter()
    print(f"\n== {topic}", flush=True)
    importlib.import_module(f"benchmarks.{topic}").main()
    print(f"({topic}: {time.perf_counter() - start:.0f} s)", flush=True)
kept = print_promises()
if options.docs:
    names = insert_into(DOCS)
    print(f"\ninserted into docs/: {', '.join(names) or 'nothing'}")
sys.exit(not kept)
