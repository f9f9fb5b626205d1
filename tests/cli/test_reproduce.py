"""``ove-sb3 reproduce``."""

from __future__ import annotations

from pathlib import Path

import pytest

from .running import run


def test_reproduce_runs_the_experiments(tmp_path: Path) -> None:
    help_text = run("reproduce", "--help")
    assert help_text.exit_code == 0
    assert "ove-sb3 reproduce" in help_text.stdout
    assert run("reproduce", "chess").exit_code == 2
    command = ["recommender", "--trials", 2, "--n", 100, "--jobs", 1, "--quiet"]
    result = run("reproduce", *command, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "recommender" in result.stdout.lower()
    assert any(tmp_path.rglob("*.png"))


def test_errors_of_the_experiments_have_exit_codes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in ((RuntimeError("broken"), 3), (KeyboardInterrupt(), 130)):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("ove_sb3.experiments.__main__.main", fail)
        assert run("reproduce", "recommender").exit_code == code
