"""Tests draw the same numbers in every run."""

from __future__ import annotations

import random

import gymnasium as gym
import numpy as np
import torch

from .entropy import seed_everything


def draws() -> list[float]:
    """Numbers from every generator that a test may use without a seed."""
    space = gym.spaces.Box(0, 1, dtype=np.float64)
    return [
        random.random(),
        np.random.random(),  # noqa: NPY002
        float(torch.rand(())),
        np.random.default_rng().random(),
        np.random.default_rng().random(),
        float(space.sample()[0]),
    ]


def test_the_name_of_the_test_decides_all_numbers() -> None:
    seed_everything("one")
    first = draws()
    seed_everything("one")
    assert draws() == first
    assert len(set(first)) == len(first)
    seed_everything("other")
    assert not set(draws()) & set(first)


def test_a_test_is_seeded_before_it_runs() -> None:
    found = draws()
    seed_everything("tests/test_entropy.py::test_a_test_is_seeded_before_it_runs")
    assert draws() == found
