"""Studies small enough for tests."""

from __future__ import annotations

import dataclasses

import numpy as np

from ove_sb3.experiments.runner import StudyResult, Truth
from ove_sb3.experiments.settings import (
    GRIDWORLD,
    RECOMMENDER_AUTHORS,
    RISK,
    RISK_BOUNDS,
    Sizes,
    Training,
)

#: A study without training, at the paper's confidence level.
BANDIT = dataclasses.replace(RECOMMENDER_AUTHORS, name="bandit", delta=0.05)
SIZES = Sizes(n_trials=3, n_grid=(40, 120), truth_episodes=50_000)
SHORT = Training(total_timesteps=1024, n_envs=16, n_steps=4, learning_rate=1e-2)


def diagonal_policy(probability: float = 0.86) -> list[list[float]]:
    """A gridworld policy that mostly moves diagonally, down and right."""
    table = np.full((16, 8), (1.0 - probability) / 7)
    table[:, 7] = probability
    return [[float(p) for p in row] for row in table / table.sum(axis=1, keepdims=True)]


def known_result() -> StudyResult:
    """Four trials of one n around a truth of 2, to be summarized by hand."""
    estimates = dict.fromkeys(
        ("naive_is", "naive_plugin", "is", "cdis", "pair", "pair_cdis", "crossfit"), 2.0
    )
    bounds = {
        "paper": [(0.0, 10.0), (0.0, 10.0), (0.0, 10.0), (0.0, 10.0)],
        "bootstrap": [(1.0, 3.0), (2.5, 3.0), (1.0, 1.5), (2.1, 4.0)],
        "betting": [(1.0, 3.0), (1.0, 3.0), (1.0, 3.0), (1.0, 3.0)],
        "betting_ratio": [(1.5, 2.5), (1.5, 2.5), (1.5, 2.5), (1.5, 2.5)],
        "betting_known": [(1.6, 2.4), (1.6, 2.4), (1.6, 2.4), (1.6, 2.4)],
        "betting_canary": [(1.8, 2.2), (1.8, 2.2), (1.8, 2.2), (1.8, 2.2)],
        "bootstrap_crossfit": [(2.0, 2.0), (2.0, 2.0), (2.0, 2.0), (2.0, 2.0)],
    }
    cells = [
        {
            "trial": trial,
            "n": 100,
            "estimates": {**estimates, "cdis": cdis},
            "bounds": {name: list(pairs[trial]) for name, pairs in bounds.items()},
            "risk": {
                name: {"estimate": cdis, "bounds": {k: bounds[k][trial] for k in RISK_BOUNDS}}
                for name in RISK
            },
            "mean_weight": 1.0,
            "least_cdis": 0.0,
        }
        for trial, cdis in enumerate((1.0, 2.0, 3.0, 6.0))
    ]
    study = dataclasses.replace(GRIDWORLD, name="known")
    truth = Truth(1.0, 2.0, risk=dict.fromkeys(RISK, 2.0))
    sizes = Sizes(n_trials=4, n_grid=(100,), truth_episodes=0)
    return StudyResult(study, sizes, 0, truth, np.ones((1, 1)), cells)
