"""Day and machine of a measurement."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from ove_sb3.experiments.storage import last_day, measurement, stamp, write_json


def at_noon(day: str) -> float:
    return datetime.datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp()


def test_the_day_is_that_of_the_newest_result(tmp_path: Path) -> None:
    for name, day in (("00000", "2026-01-02"), ("00001", "2026-01-05"), ("00002", "2026-01-03")):
        path = tmp_path / f"{name}.json"
        write_json(path, [])
        os.utime(path, (at_noon(day), at_noon(day)))
    assert last_day(tmp_path) == "2026-01-05"
    assert last_day(tmp_path / "nothing") == measurement()["date"]


def test_a_stamp_names_day_machine_and_python() -> None:
    measured = measurement("2026-01-05") | {"machine": "a machine", "versions": {"python": "3.1"}}
    assert stamp(measured) == "Measured on 2026-01-05, a machine, Python 3.1."
