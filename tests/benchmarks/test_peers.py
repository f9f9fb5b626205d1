"""The harness: its results for known input, and its report of a peer that fails."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.environments import ENVIRONMENTS, Environment, last_words
from benchmarks.peers.harness import Result, _draw, method_names, run_all, tables, write_data
from benchmarks.peers.methods import ours, paper_formulas, scipy_bootstrap
from benchmarks.peers.protocol import Log, code_lines, read_logs, write_logs
from benchmarks.peers.summary import Summary, markdown, number, summarize
from tests.problems.bandits import recommender
from tests.problems.chain import chain


def test_summary_of_known_answers() -> None:
    answers: list[list[float | None]] = [
        [2.0, 1.0, 3.0],  # exact, contains the truth 2, width 2
        [4.0, 2.5, 6.5],  # error 100%, above the truth, width 4
        [1.0, 0.0, 2.0],  # error 50%, ends at the truth, width 2
        [2.0, None, 5.0],  # no interval: a miss, without a width
    ]
    summary = summarize(answers, [3.0, 1.0, 2.0, 9.0], 2.0, has_interval=True)
    assert summary.trials == 4
    assert summary.rmse == pytest.approx(np.sqrt((1.0 + 0.25) / 4))
    assert summary.coverage == 0.5
    assert summary.width == pytest.approx((1 + 2 + 1) / 3)
    assert summary.seconds == 2.5


def test_summary_without_estimate_or_interval() -> None:
    summary = summarize([[None, 1.0, 3.0]], [1.0], 2.0, has_interval=True)
    assert (summary.rmse, summary.coverage) == (None, 1.0)
    summary = summarize([[1.0, None, None]], [1.0], 2.0, has_interval=False)
    assert (summary.coverage, summary.width) == (None, None)
    summary = summarize([[1.0, None, None]], [1.0], 2.0, has_interval=True)
    assert (summary.coverage, summary.width) == (0.0, np.inf)


def test_numbers_and_table() -> None:
    assert [number(None), number(0.12345, 100), number(12345.6)] == ["-", "12.3", "12346"]
    assert markdown(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_logs_survive_storage(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logs = [_draw(chain(8), 5, rng) for _ in range(3)]
    write_logs(tmp_path / "chain.npz", logs)
    for before, after in zip(logs, read_logs(tmp_path / "chain.npz"), strict=True):
        for name in Log.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_lines_that_hold_code() -> None:
    source = '''
    def f(x):
        """Summary.

        Details.
        """
        # comment

        return [
            x,
        ]
    '''
    assert code_lines(source) == 4


def test_names_of_methods_are_read_without_importing() -> None:
    for module in (ours, paper_formulas, scipy_bootstrap):
        assert method_names(module.__name__.rpartition(".")[2]) == list(module.METHODS)
    assert all(method_names(environment.module) for environment in ENVIRONMENTS.values())


def test_a_peer_that_cannot_be_installed_keeps_its_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = "noise\nERROR: No matching distribution found for peer==9\nmore noise\n"

    def refuse(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", output)

    monkeypatch.setattr(subprocess, "run", refuse)
    peer = Environment("Peer 9", "ours", ("peer==9",))
    (result,) = run_all({"peer": peer}, tmp_path, tmp_path, 1.0)
    assert result.reason == "No matching distribution found for peer==9"
    printed = tables([result], [recommender()], [50])
    row = "| Peer 9: not installed (No matching distribution found for peer==9) | -"
    assert printed.count(row) == 3


def test_a_method_that_crashes_keeps_its_row(tmp_path: Path) -> None:
    (tmp_path / "recommender-50.npz").write_text("no archive")
    paper = Environment("the paper", "paper_formulas", own=True)
    (result,) = run_all({"paper": paper}, tmp_path, tmp_path, 1.0)
    assert "Error" in result.reason
    assert f"as printed ({result.reason})" in tables([result], [recommender()], [50])


def test_the_line_with_an_error_comes_first() -> None:
    assert last_words("a\nERROR: b\nc\n") == "b"
    assert last_words("Traceback\nValueError: c\n") == "ValueError: c"
    assert last_words("") == ""


def test_a_real_run_from_data_to_table(tmp_path: Path) -> None:
    problem = recommender()
    write_data(tmp_path, [problem], [50], 3)
    paper = Environment("the paper", "paper_formulas", own=True)
    results = run_all({"paper": paper}, tmp_path, tmp_path, 60.0)
    (result,) = results
    cell = result.cells[problem.name, 50]
    answers = [paper_formulas.as_printed(log) for log in read_logs(tmp_path / "recommender-50.npz")]
    estimates = np.array([answer.estimate for answer in answers], dtype=float)
    assert cell.trials == 3
    assert cell.rmse == pytest.approx(np.sqrt(np.mean((estimates / problem.variance - 1) ** 2)))
    assert cell.coverage == 1.0
    assert 0 < result.libraries <= result.memory[50]
    assert result.lines == paper_formulas.METHODS["as printed"].lines
    printed = tables([*results, Result("Gone", "x", reason="why")], [problem], [50])
    assert "the paper: as printed" in printed
    assert "Gone: x (why)" in printed


def test_a_slow_method_stops_when_its_time_is_used_up(tmp_path: Path) -> None:
    write_data(tmp_path, [recommender()], [20], 5)
    paper = Environment("the paper", "paper_formulas", own=True)
    (result,) = run_all({"paper": paper}, tmp_path, tmp_path, 0.0)
    assert isinstance(result.cells["recommender", 20], Summary)
    assert result.cells["recommender", 20].trials == 1
