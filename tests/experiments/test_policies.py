from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ove_sb3.experiments import policies
from ove_sb3.experiments.domains import make_domain
from ove_sb3.experiments.settings import DIABETES, GRIDWORLD, RECOMMENDER, Study, Training

from .small import BANDIT, SHORT


@pytest.mark.parametrize("study", [GRIDWORLD, RECOMMENDER], ids=lambda study: study.name)
def test_training_returns_a_table_and_is_seeded(study: Study) -> None:
    table = policies.train(study, SHORT, seed=0)
    assert table.shape == ((16, 8) if study is GRIDWORLD else (1, 5))
    assert table.sum(axis=1) == pytest.approx(1.0)
    assert (table > 0).all()
    assert (policies.train(study, SHORT, seed=0) == table).all()
    assert (policies.train(study, SHORT, seed=1) != table).any()


def test_training_improves_the_policy() -> None:
    training = Training(total_timesteps=12_800, n_envs=64, n_steps=1, learning_rate=1e-2)
    trained = make_domain(RECOMMENDER, policies.train(RECOMMENDER, training, seed=0))
    uniform = make_domain(RECOMMENDER, np.full((1, 5), 0.2))
    moments, least = trained.exact_moments(), uniform.exact_moments()
    assert moments is not None
    assert least is not None
    assert moments[0] > 6.5 > 4.0 > least[0]  # the best item is worth 7.2 on average


def test_the_mean_of_a_gaussian_lies_in_the_range() -> None:
    training = Training(total_timesteps=64, n_envs=16, n_steps=1, learning_rate=0.1, sd=0.3)
    mean = policies.train(DIABETES, training, seed=0)
    assert mean.shape == (2,)
    assert (abs(mean) < 1.0).all()


def test_a_policy_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def train(study: Study, training: Training, seed: int) -> np.ndarray:
        calls.append(seed)
        return np.full((1, 5), 0.2)

    monkeypatch.setattr(policies, "train", train)
    for seed in (0, 0, 1, 0):
        policies.evaluation_policy(RECOMMENDER, tmp_path, seed)
    assert calls == [0, 1]
    longer = dataclasses.replace(RECOMMENDER, training=SHORT)
    policies.evaluation_policy(longer, tmp_path, 0)
    assert calls == [0, 1, 0]


def test_a_given_policy_is_normalized(tmp_path: Path) -> None:
    table = policies.evaluation_policy(BANDIT, tmp_path, 0)
    assert table.shape == (1, 5)
    assert table.sum() == pytest.approx(1.0)
    assert not list(tmp_path.iterdir())
