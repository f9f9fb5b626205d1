from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ove_sb3.experiments.tables import as_text, bound_rows, estimate_rows, save

from .small import known_result


def test_misses_widths_and_ratios_by_hand() -> None:
    rows = {row["bounds"]: row for row in bound_rows(known_result())}
    bootstrap = rows["bootstrap"]
    assert (bootstrap["misses_lower"], bootstrap["misses_upper"]) == (2, 1)
    assert bootstrap["lower"] == pytest.approx((1 + 2.5 + 1 + 2.1) / 4)
    assert bootstrap["upper"] == pytest.approx((3 + 3 + 1.5 + 4) / 4)
    assert bootstrap["width"] == pytest.approx((2 + 0.5 + 0.5 + 1.9) / 4)
    # At least 1 of 4, and at least 2 of 4, with probability 0.05 each.
    assert bootstrap["p_upper"] == pytest.approx(1 - 0.95**4)
    assert bootstrap["p_lower"] == pytest.approx(1 - 0.95**4 - 4 * 0.05 * 0.95**3)
    assert rows["betting"]["times_narrower"] == pytest.approx(10 / 2)
    assert rows["betting_ratio"]["times_narrower"] == pytest.approx(10 / 1)
    assert rows["paper"]["times_narrower"] == 1.0
    assert rows["paper"]["misses_lower"] == rows["paper"]["misses_upper"] == 0
    assert rows["paper"]["p_lower"] == 1.0
    # A bound that is equal to the truth does not miss it.
    assert rows["bootstrap_crossfit"]["misses_lower"] == 0
    assert rows["bootstrap_crossfit"]["misses_upper"] == 0
    assert math.isinf(rows["bootstrap_crossfit"]["times_narrower"])


def test_bias_deviation_and_error_by_hand() -> None:
    rows = {row["estimator"]: row for row in estimate_rows(known_result())}
    cdis = rows["cdis"]  # 1, 2, 3, 6 around 2
    assert cdis["mean"] == 3.0
    assert cdis["sd"] == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3))
    assert cdis["bias"] == 1.0
    assert cdis["bias_z"] == pytest.approx(1.0 / (cdis["sd"] / 2))
    assert cdis["error_percent"] == pytest.approx(100 * math.sqrt((1 + 0 + 1 + 16) / 4) / 2)
    assert rows["pair"]["error_percent"] == rows["pair"]["sd"] == rows["pair"]["bias_z"] == 0.0


def test_saved_results_can_be_read(tmp_path: Path) -> None:
    result = known_result()
    save(result, tmp_path)
    bounds = pyarrow.csv.read_csv(tmp_path / "bounds.csv").to_pylist()
    assert [row["misses_lower"] for row in bounds] == [0, 2, 0, 0, 0, 0, 0]
    assert len(pyarrow.csv.read_csv(tmp_path / "estimates.csv")) == 7
    trials = pq.read_table(tmp_path / "trials.parquet").to_pylist()
    assert len(trials) == 4 * (7 + 7)
    third = [row for row in trials if row["trial"] == 2 and row["name"] == "bootstrap"]
    assert [(row["lower"], row["upper"]) for row in third] == [(1.0, 1.5)]
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["truth"]["variance"] == 2.0
    assert settings["study"]["name"] == "known"


def test_the_printed_tables() -> None:
    text = as_text(known_result())
    assert "true variance 2 moves² (exact)" in text
    assert "4 trials, each bound at level 0.05" in text
    (line,) = [line for line in text.splitlines() if "Bootstrap (paper)" in line]
    assert "2 / 1" in line
    assert "3 ± 2.2" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in tables}) == 3  # three tables, each of one width
