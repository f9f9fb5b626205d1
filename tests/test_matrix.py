"""Environments of `make test-matrix`."""

from __future__ import annotations

from .matrix import Combination, combinations


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
