"""The harness: its results for known input, its report of a peer that fails, and its resumption."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.__main__ import run_line
from benchmarks.peers.environments import ENVIRONMENTS, Environment, last_words
from benchmarks.peers.harness import (
    PROBLEMS,
    Result,
    _draw,
    method_keys,
    run_all,
    write_data,
)
from benchmarks.peers.methods import ours, paper_formulas, scipy_bootstrap, scipy_risk
from benchmarks.peers.protocol import (
    QUANTITIES,
    Answer,
    Log,
    Method,
    code_lines,
    read_logs,
    write_logs,
)
from benchmarks.peers.stored import fingerprint, load
from benchmarks.peers.summary import Summary, number, summarize
from benchmarks.peers.tables import tables
from benchmarks.peers.worker import answers
from tests.problems.bandits import recommender
from tests.problems.chain import chain

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
PAPER = Environment("the paper", ("paper_formulas",), own=True)
KEY = ("variance", "as printed")


def test_summary_of_known_answers() -> None:
    known: list[list[float | None]] = [
        [2.0, 1.0, 3.0],  # exact, contains the truth 2, width 2
        [4.0, 2.5, 6.5],  # off by 2, above the truth, width 4
        [1.0, 0.0, 2.0],  # off by 1, ends at the truth, width 2
        [2.0, None, 5.0],  # no interval: a miss, without a width
    ]
    summary = summarize(known, [3.0, 1.0, 2.0, 9.0], 2.0, 4.0, has_interval=True)
    assert summary.trials == 4
    assert summary.rmse == pytest.approx(np.sqrt((4 + 1) / 4) / 4)
    assert summary.coverage == 0.5
    assert summary.width == pytest.approx((2 + 4 + 2) / 3 / 4)
    assert summary.seconds == 2.5


def test_an_end_at_the_truth_up_to_rounding_is_no_miss() -> None:
    truth = 0.1 + 0.2
    summary = summarize(
        [[0.0, 0.0, 0.3], [0.0, 0.3 - 1e-8, 0.3 - 1e-8]], [1.0], truth, 1.0, has_interval=True
    )
    assert summary.coverage == 0.5


def test_summary_without_estimate_or_interval() -> None:
    summary = summarize([[None, 1.0, 3.0]], [1.0], 2.0, 2.0, has_interval=True)
    assert (summary.rmse, summary.coverage) == (None, 1.0)
    summary = summarize([[1.0, None, None]], [1.0], 2.0, 2.0, has_interval=False)
    assert (summary.coverage, summary.width) == (None, None)
    summary = summarize([[1.0, None, None]], [1.0], 2.0, 2.0, has_interval=True)
    assert (summary.coverage, summary.width) == (0.0, np.inf)


def test_numbers() -> None:
    assert [number(None), number(0.12345, 100), number(12345.6)] == ["-", "12.3", "12346"]


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
    for module in (ours, paper_formulas, scipy_bootstrap, scipy_risk):
        name = module.__name__.rpartition(".")[2]
        keys = method_keys(Environment("x", (name,)))
        assert keys == [(name, *key) for key in module.METHODS]
    for environment in ENVIRONMENTS.values():
        keys = method_keys(environment)
        assert keys
        assert len(set(keys)) == len(keys)
        assert {quantity for _, quantity, _ in keys} <= set(QUANTITIES)


def test_ours_answers_for_every_quantity_with_and_without_a_guarantee() -> None:
    methods = {key[1:] for key in method_keys(ENVIRONMENTS["ours"])}
    names = ("betting", "betting, ratio bound", "bootstrap")
    assert methods >= {(quantity, name) for quantity in QUANTITIES for name in names}


def test_a_peer_that_cannot_be_installed_keeps_its_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = "noise\nERROR: No matching distribution found for peer==9\nmore noise\n"

    def refuse(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", output)

    monkeypatch.setattr(subprocess, "run", refuse)
    peer = Environment("Peer 9", ("confseq_betting",), ("peer==9",))
    results = run_all({"peer": peer}, QUANTITIES, tmp_path, tmp_path, 1.0)
    assert [result.quantity for result in results] == ["mean", "variance"]
    assert {result.reason for result in results} == {"No matching distribution found for peer==9"}
    printed = "".join(tables(results, [recommender()], [50]).values())
    row = "| Peer 9: not installed (No matching distribution found for peer==9) | -"
    assert printed.count(row) == 6


def test_a_method_that_crashes_keeps_its_row(tmp_path: Path) -> None:
    (tmp_path / "recommender-50.npz").write_text("no archive")
    (result,) = run_all({"paper": PAPER}, QUANTITIES, tmp_path, tmp_path, 1.0)
    assert "Error" in result.reason
    printed = tables([result], [recommender()], [50])
    assert f"as printed ({result.reason})" in printed["variance_interval"]


def test_methods_are_chosen_by_words_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "not run")

    monkeypatch.setattr(subprocess, "run", fail)
    (tmp_path / "recommender-50.npz").write_bytes(b"")
    monkeypatch.setattr("benchmarks.peers.harness.build", lambda *_: Path("python"))
    peer = Environment("ove_sb3", ("ours",), ())

    def chosen(*words: str) -> list[str]:
        results = run_all({"ours": peer}, ["variance"], tmp_path, tmp_path, 1.0, words=words)
        return [result.method for result in results]

    assert chosen("studentized") == ["regression, studentized bootstrap"]
    assert chosen("studentized", "paper") == [
        "regression, studentized bootstrap",
        "the paper's, corrected",
    ]
    assert len(chosen()) == 5


def test_the_line_with_an_error_comes_first() -> None:
    assert last_words("a\nERROR: b\nc\n") == "b"
    assert last_words("Traceback\nValueError: c\n") == "ValueError: c"
    assert last_words("") == ""


def test_a_real_run_from_data_to_table(tmp_path: Path) -> None:
    problem = recommender()
    write_data(tmp_path, [problem], [50], 3)
    results = run_all({"paper": PAPER}, QUANTITIES, tmp_path, tmp_path, 60.0)
    (result,) = results
    cell = result.cells[problem.name, 50]
    found = [paper_formulas.as_printed(log) for log in read_logs(tmp_path / "recommender-50.npz")]
    estimates = np.array([answer.estimate for answer in found], dtype=float)
    assert cell.trials == 3
    assert cell.rmse == pytest.approx(np.sqrt(np.mean((estimates / problem.variance - 1) ** 2)))
    assert cell.coverage == 1.0
    assert 0 < result.libraries <= result.memory[50]
    assert result.wall > 0
    assert result.lines == paper_formulas.METHODS[KEY].lines
    gone = Result("Gone", "variance", "x", reason="why")
    named = tables([*results, gone], [problem], [50])
    assert set(named) == {"variance_error", "variance_interval", "variance_cost"}
    for text in named.values():
        assert "the paper: as printed" in text
        assert "Gone: x (why)" in text


def test_finished_methods_are_not_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data, again = tmp_path / "data", tmp_path / "again"
    for folder in (data, again):
        folder.mkdir()
        write_data(folder, [recommender()], [20], 2)
    (first,) = run_all({"paper": PAPER}, ["variance"], tmp_path, data, 60.0)
    run: list[Any] = []

    def refuse(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        run.append(command)
        return subprocess.CompletedProcess(command, 1, "", "run again")

    monkeypatch.setattr(subprocess, "run", refuse)
    # The same data, drawn again in another folder.
    assert run_all({"paper": PAPER}, ["variance"], tmp_path, again, 60.0) == [first]
    assert not run
    # A complete result is kept, whatever the time; one that was cut short while writing is not.
    assert run_all({"paper": PAPER}, ["variance"], tmp_path, again, 99.0) == [first]
    (stored,) = (tmp_path / "results").glob("*.json")
    stored.write_text(stored.read_text()[:-1])
    (result,) = run_all({"paper": PAPER}, ["variance"], tmp_path, data, 60.0)
    assert result.reason == "run again"
    assert len(run) == 1


def test_a_result_of_some_data_sets_does_for_less_time_but_not_for_more(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert load(path, 1.0) is None
    cells = {"a": {"complete": True}, "b": {"complete": False}}
    path.write_text(json.dumps({"cpu_seconds": 3.0, "cells": cells}))
    assert load(path, 3.0) is not None
    assert load(path, 2.0) is not None
    assert load(path, 4.0) is None
    path.write_text(json.dumps({"cpu_seconds": 3.0, "cells": {"a": cells["a"]}}))
    assert load(path, 4.0) is not None


def test_a_result_depends_on_data_method_versions_and_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, rewards in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x-1.npz").write_bytes(np.float64(rewards).tobytes())
    a, b = (tmp_path / name / "x-1.npz" for name in "ab")
    peer = Environment("Peer", ("ours",), ("peer==1",))
    other = Environment("Peer", ("ours",), ("peer==2",))
    first = fingerprint(peer, "ours", "mean", "m", [a])
    variants = [
        fingerprint(peer, "ours", "mean", "m", [b]),
        fingerprint(peer, "ours", "mean", "other", [a]),
        fingerprint(peer, "ours", "cvar", "m", [a]),
        fingerprint(other, "ours", "mean", "m", [a]),
    ]
    package = tmp_path / "package"
    package.mkdir()
    (package / "core.py").write_text("x = 1")
    monkeypatch.setattr("benchmarks.peers.stored.PACKAGE", package)
    own = Environment("Ours", ("ours",), ("peer==1",), own=True)
    variants.append(fingerprint(own, "ours", "mean", "m", [a]))
    (package / "core.py").write_text("x = 2")
    variants.append(fingerprint(own, "ours", "mean", "m", [a]))
    assert len({first, *variants}) == 7
    assert fingerprint(peer, "ours", "mean", "m", [a]) == first


def test_a_slow_method_stops_when_its_time_is_used_up(tmp_path: Path) -> None:
    write_data(tmp_path, [recommender()], [20], 5)
    (result,) = run_all({"paper": PAPER}, QUANTITIES, tmp_path, tmp_path, 0.0)
    assert isinstance(result.cells["recommender", 20], Summary)
    assert result.cells["recommender", 20].trials == 1


def test_a_method_for_one_step_has_no_answer_for_longer_episodes(tmp_path: Path) -> None:
    write_data(tmp_path, [recommender(), chain(8)], [20], 1)
    one, any_length = (Method(lambda log: Answer(), (), 0, one_step=flag) for flag in (True, False))
    for name, expected in (("recommender", True), ("chain_8", False)):
        assert answers(one, tmp_path / f"{name}-20.npz") is expected
        assert answers(any_length, tmp_path / f"{name}-20.npz")
    cells = {("recommender", 20): Summary(1, 0.5, 1.0, 2.0, 0.001)}
    result = Result("Peer", "mean", "m", lines=3, memory={20: 9.0}, cells=cells)
    named = tables([result], [recommender(), chain(8)], [20])
    assert "| Peer: m | 50 (1) | - |" in named["mean_error"]
    assert "| Peer: m | 1.00 / 2 (1) | - |" in named["mean_interval"]
    assert "| Peer: m | 1 | - | 9 | 0 | 3 |" in named["mean_cost"]


def test_the_page_has_a_place_for_every_table_and_names_every_peer() -> None:
    text = PAGE.read_text()
    marks = re.findall(r"<!-- table (\w+) -->", text)
    cell = Summary(1, 0.5, 1.0, 2.0, 0.001)
    cells = {(problem.name, 100): cell for problem in PROBLEMS}
    results = [Result("x", q, "m", memory={100: 1.0}, cells=cells) for q in QUANTITIES]
    repeated = ["few_stamp", "few_variance_error", "few_variance_interval"]
    expected = [*tables(results, PROBLEMS, [100]), "stamp", *repeated]
    assert sorted(marks) == sorted(expected)
    for environment in ENVIRONMENTS.values():
        for _, quantity, method in method_keys(environment):
            part = text.partition(f"<!-- table {quantity}_cost -->")[2].partition("<!-- end -->")[0]
            assert f"| {environment.label}: {method} |" in part


def test_the_stamp_tells_the_total_time() -> None:
    results = [Result("x", "mean", "m", wall=90.0), Result("x", "cvar", "m", wall=30.0)]
    assert "2 methods" in run_line(results, 100, 30.0)
    assert "2 minutes in all" in run_line(results, 100, 30.0)
