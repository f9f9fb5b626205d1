"""Promised values beside measured ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import promises


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "_measured", {})


def test_a_broken_promise_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    promises.record("statistics", 0.5)
    promises.record("bootstrap", 7.0)
    assert promises.print_promises()
    assert "BROKEN" not in capsys.readouterr().out
    promises.record("bootstrap", 5.9)
    assert not promises.print_promises()
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "BROKEN" in line]
    assert line.split()[-4:] == [">=", "6", "5.9", "BROKEN"]


def test_of_several_measured_values_the_worst_counts(capsys: pytest.CaptureFixture[str]) -> None:
    for value in (0.4, 0.9, 0.5):
        promises.record("statistics", value)
    for value in (8.0, 3.0, 9.0):
        promises.record("bootstrap", value)
    assert not promises.print_promises()
    printed = capsys.readouterr().out
    assert "0.9" in printed
    assert "  3 " in printed


def test_every_promise_is_measured() -> None:
    folder = Path(promises.__file__).parent
    sources = "".join(
        path.read_text() for path in folder.glob("*.py") if path.name != "promises.py"
    )
    assert [name for name in promises.PROMISES if f'"{name}"' not in sources] == []
