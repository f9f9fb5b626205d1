"""Help, tables that fit the terminal, and the errors of all commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.cli.evaluation import evaluate as evaluate_command
from ove_sb3.cli.wording import in_options
from tests.problems.corridor import GAMMA

from .running import ENV, evaluate, run


def test_wrong_usage_gives_a_message_and_code_2(folder: Path, tmp_path: Path) -> None:
    log, model = folder / "log", folder / "new.zip"
    common = ("evaluate", log, model, "--gamma", 0.9)
    ppo = ("--model-class", "PPO")
    for arguments, message in (
        ((*common, "--model-class", "PPPO"), "--model-class"),
        ((*common, "--model-class", "no.where:X"), "imported"),
        ((*common, *ppo, "--require", "variance"), "a requirement must be"),
        ((*common, *ppo, "--require", "variance <= much"), "finite number"),
        ((*common, *ppo, "--require", "variance <= nan"), "finite number"),
        ((*common, *ppo, "--require", "variance == 3"), "a requirement must"),
        ((*common, *ppo, "--require", "wealth <= 3"), "'wealth'"),
        ((*common, *ppo, "--require", "mean >= 0", "--require", "oops"), "'oops'"),
        ((*common, *ppo, "--quantity", "wealth"), "'wealth'"),
        ((*common, *ppo, "--method", "luck"), "'luck'"),
        ((*common, *ppo, "--approximate", "luck"), "'luck'"),
        ((*common, *ppo, "--estimator", "pair"), "QUANTITY=NAME"),
        ((*common, *ppo, "--estimator", "variance="), "QUANTITY=NAME"),
        ((*common, *ppo, "--estimator", "variance=luck"), "'luck'"),
        ((*common, *ppo, "--estimator", "wealth=pair"), "'wealth'"),
        ((*common, *ppo, "--max-variance", 3), "--max-variance"),
        ((*common, *ppo, "--delta", "small"), "--delta"),
        (("evaluate", log, model, *ppo), "--gamma"),
        (("evaluate", log, "--gamma", 0.9), "Missing argument"),
        (("compare", log, model, model, "--gamma", 0.9, *ppo), "different names"),
        (("compare", log, model, "--gamma", 0.9, *ppo, *ppo), "NAME=CLASS"),
        (("compare", log, model, "--gamma", 0.9, *ppo, "--rank-by", "ess"), "--rank-by"),
        (("compare", log, model, "--gamma", 0.9, *ppo, "--require", "mean"), "a requirement must"),
        (("collect", "uniform", ENV, tmp_path / "x"), "--episodes"),
        (("nonsense",), "nonsense"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output, result.exception)
        words = " ".join(result.stderr.replace("│", " ").split())
        assert message in words, (arguments, words)
        assert "Usage: " in words
        assert "Traceback" not in result.output
        assert result.stdout == ""


def test_refused_input_gives_a_message_and_code_3(folder: Path, tmp_path: Path) -> None:
    log, model = folder / "log", folder / "new.zip"
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    ppo = ("--model-class", "PPO")
    for arguments, message in (
        (("evaluate", log, tmp_path / "no.zip", "--gamma", 0.9, *ppo), "does not exist"),
        (("evaluate", log, model, "--gamma", 0.9), "executes pickled code"),
        (("evaluate", log, model, "--gamma", 1.9, *ppo), "`--gamma` must lie in"),
        (("evaluate", log, tmp_path / "bad.npy", "--gamma", 0.9), "numpy.save"),
        (("evaluate", log, tmp_path / "no.npy", "--gamma", 0.9), "numpy.save"),
        (("evaluate", tmp_path, model, "--gamma", 0.9, *ppo), "directory of logged episodes"),
        (
            ("evaluate", log, model, "--gamma", 0.9, *ppo, "--reward-range", 0, 1),
            "`--reward-range`",
        ),
        (
            ("evaluate", log, model, "--gamma", 0.9, *ppo, "--html", tmp_path / "a" / "b"),
            "`--html`",
        ),
        (("compare", log, tmp_path / "no.zip", "--gamma", 0.9, *ppo), "does not exist"),
        (("compare", log, tmp_path / "bad.npy", "--gamma", 0.9), "numpy.save"),
        (("inspect", tmp_path), "directory of logged episodes"),
        (("compact", tmp_path / "none"), "directory of logged episodes"),
        (("collect", "uniform", "Nowhere-v0", tmp_path / "x", "--episodes", 1), "Nowhere"),
        (("collect", "uniform", "no_module:X-v0", tmp_path / "x", "--episodes", 1), "no_module"),
        (("collect", "uniform", ENV, log, "--episodes", 1), "--overwrite"),
        (("collect", "uniform", ENV, tmp_path / "bad.npy", "--episodes", 1), "LOG must be a dir"),
        (("collect", "uniform", ENV, tmp_path / "bad.npy" / "x", "--episodes", 1), "LOG must be"),
        (("evaluate", log, model, "--gamma", 0.9), "such as --model-class PPO"),
        (("evaluate", log, model, "--gamma", 0.9), "CANDIDATE is a path"),
        (("evaluate", log, model, "--gamma", 0.9, *ppo, "--html", tmp_path), "`--html`"),
        (
            ("evaluate", log, model, "--gamma", 0.9, *ppo, "--plot", tmp_path / "a/b.png"),
            "`--plot`",
        ),
        (("collect", "uniform", ENV, tmp_path / "x", "--episodes", 0), "`--episodes`"),
    ):
        result = run(*arguments)
        assert result.exit_code == 3, (arguments, result.output, result.exception)
        assert message in result.stderr, arguments
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.output
        assert result.stdout == ""


def test_outputs_are_checked_before_the_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("ove_sb3.cli.evaluation.evaluate_candidate", fail)
    monkeypatch.setattr("ove_sb3.cli.evaluation.compare_candidates", fail)
    nowhere = tmp_path / "none"
    for arguments in (("--html", nowhere / "a.html"), ("--plot", nowhere / "a.png")):
        assert "in an existing directory" in evaluate(folder, *arguments).stderr
    compared = run(
        "compare", folder / "log", folder / "new.zip", "--gamma", GAMMA, "--model-class", "PPO",
        "--html", nowhere / "a.html",
    )  # fmt: skip
    assert "in an existing directory" in compared.stderr
    assert "in an existing directory" in evaluate(folder, "--plot", tmp_path).stderr


def test_a_picture_of_an_unknown_kind_is_refused(folder: Path, tmp_path: Path) -> None:
    result = evaluate(folder, "--plot", tmp_path / "figure.xyz")
    assert result.exit_code == 3
    assert "`--plot` must name a picture such as report.png" in result.stderr
    assert not (tmp_path / "figure.xyz").exists()


def test_an_unexpected_error_is_not_taken_for_a_requirement_that_is_not_proven(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("an unforeseen error")

    monkeypatch.setattr("ove_sb3.cli.evaluation.evaluate_candidate", broken)
    result = evaluate(folder, "--require", "mean >= 0")
    assert result.exit_code == 3
    assert "an unforeseen error" in result.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`delta` must lie in (0, 1)", "`--delta` must lie in (0, 1)"),
        ("pass reward_range=(0, 1.5).", "pass --reward-range 0 1.5."),
        ("pass density=True for it", "pass --density for it"),
        ("`data` must hold episodes", "LOG must hold episodes"),
        ("`candidates['a']` must be", "CANDIDATE['a'] must be"),
        ("needs method='betting', got", "needs --method betting, got"),
        ("such as stable_baselines3.PPO.", "such as --model-class PPO."),
        ("columns: episode=..., step=...", "columns: --episode ..., --step ..."),
        ("`log_prob` and x=3 stay", "`log_prob` and x=3 stay"),
        ("With return_range=(6.7, 19.9), the", "With --return-range 6.7 19.9, the"),
        ("max_weight=3.5: variance", "--max-weight 3.5: variance"),
    ],
)
def test_errors_speak_of_options(text: str, expected: str) -> None:
    assert in_options(text, evaluate_command) == expected


def test_help_warns_of_pickles() -> None:
    for command in ((), ("evaluate",), ("compare",), ("collect",)):
        result = run(*command, "--help")
        assert result.exit_code == 0
        words = " ".join(result.stdout.replace("│", " ").split())
        assert "can execute code in it" in words


@pytest.mark.parametrize(
    "command", ["", "collect", "inspect", "evaluate", "compare", "watch", "compact", "repair"]
)
def test_flags_are_shown_without_a_type(command: str) -> None:
    result = run(*command.split(), "--help")
    assert "--help" in result.stdout
    assert "bool" not in result.stdout.lower()


def test_the_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"ove-sb3 {ove.__version__}\n"


@pytest.mark.parametrize("columns", [60, 72, 120])
def test_tables_fit_the_terminal(
    folder: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    log, new, other = folder / "log", folder / "new.zip", folder / "other.zip"
    results = [
        evaluate(folder, "--require", "variance <= 3"),
        run("compare", log, new, other, "--gamma", GAMMA, "--model-class", "PPO"),
        run("inspect", log),
    ]
    for result in results:
        lines = result.stdout.splitlines()
        assert max(map(len, lines)) <= columns, max(lines, key=len)
        assert "…" not in result.stdout
    words = results[0].stdout.split()
    expected = ove.evaluate(log, new, gamma=GAMMA, model_class=PPO)
    for quantity in ("mean", "variance"):
        for cell in (row for row in expected.table.rows if row[0] == quantity):
            assert all(word in words for text in cell for word in text.split())
