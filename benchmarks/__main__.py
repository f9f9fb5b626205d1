"""Print all tables, or those of some topics: ``python -m benchmarks [topic ...]``.

``python -m benchmarks public`` downloads data, takes options of its own, and is not among all.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from . import public

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
for topic in topics:
    importlib.import_module(f"benchmarks.{topic}").main()
