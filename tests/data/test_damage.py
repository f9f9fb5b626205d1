"""Damage: any flipped bit or cut is an error that names the file, or changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .damage import Patient, make_hot, make_log


@pytest.fixture(params=["plain", "hot journal"])
def patient(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Patient:
    # Some damage looks like a lock of another process, which is waited for.
    monkeypatch.setattr("ove_sb3.store.index._BUSY_SECONDS", 0.05)
    expected = make_log(tmp_path / "log")
    if request.param == "plain":
        return Patient(tmp_path / "log", expected)
    make_hot(tmp_path / "log", tmp_path / "hot")
    return Patient(tmp_path / "hot", expected)


def damage(patient: Patient, flips: int, cuts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for file, at, bit in patient.flips(flips, rng):
        patient.flip(file, at, bit)
    assert patient.errors > patient.intact / 4
    for file, content in patient.files.items():
        if content:
            for _ in range(cuts):
                patient.cut(file, int(rng.integers(len(content))))


def test_flips_and_cuts(patient: Patient) -> None:
    damage(patient, flips=40, cuts=6, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_flips_and_cuts(patient: Patient, seed: int) -> None:
    damage(patient, flips=900, cuts=100, seed=seed)


def test_a_journal_that_declares_an_enormous_index(tmp_path: Path) -> None:
    """SQLite would extend the index to terabytes."""
    expected = make_log(tmp_path / "log")
    make_hot(tmp_path / "log", tmp_path / "hot")
    patient = Patient(tmp_path / "hot", expected)
    journal = tmp_path / "hot" / "log.sqlite-journal"
    for bit in range(8):
        patient.flip(journal, 16, bit)  # the highest byte of the number of pages
    assert patient.errors == 8
