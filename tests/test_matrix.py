"""Environments of `make test-matrix`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .matrix import Combination, combinations, interpreter


def test_the_oldest_gymnasium_replaces_the_pinned_one() -> None:
    pinned = Combination("3.11").constraints().splitlines()
    oldest = Combination("3.11", oldest=True).constraints().splitlines()
    assert any(line.startswith("gymnasium==1") for line in pinned)
    assert [line for line in oldest if line.startswith("gymnasium==")] == ["gymnasium==0.29.1"]
    assert {line.split("==")[0] for line in pinned} - {line.split("==")[0] for line in oldest} == {
        "minari"
    }


def test_every_python_that_is_present_is_tested_in_a_folder_of_its_own() -> None:
    chosen = combinations(["3.11", "3.13"])
    assert [one.name for one in chosen] == [
        "python-3.11",
        "python-3.13",
        "python-3.11-gymnasium-0.29.1",
    ]
    assert len({one.folder for one in chosen}) == 3
    assert combinations([]) == []


def test_pythons_are_found_on_the_path_and_in_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim, installed = tmp_path / "shims" / "python3.99", tmp_path / "versions" / "3.99.1" / "bin"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert interpreter("3.99") is None  # a shim whose version is not selected
    installed.mkdir(parents=True)
    (installed / "python3.99").symlink_to(sys.executable)
    assert interpreter("3.99") == str(installed / "python3.99")
