"""DQN explores in all environments or in none: the log records it and the label says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from tests.problems.three_states import GAMMA, REWARD_RANGE, ThreeStates, exact

N_ENVS, N_STEPS, EPSILON, DELTA = 192, 16, 0.5, 0.2
REASON = "decided once for all of its environments"


def dqn(seed: int, venv: Any) -> DQN:
    model = DQN(
        "MlpPolicy",
        venv,
        policy_kwargs={"net_arch": [4]},
        buffer_size=1000,
        gamma=GAMMA,
        device="cpu",
        seed=seed,
    )
    model.exploration_rate = EPSILON
    return model


def evaluated(data: ove.Trajectories | Path, model: DQN) -> ove.Evaluation:
    return ove.evaluate(
        data,
        model,
        gamma=GAMMA,
        reward_range=REWARD_RANGE,
        horizon=4,
        max_ratio=1.0,
        delta=DELTA,
        quantities=["mean"],
        approximate=None,
        method=ove.Betting(n_shuffles=1),
    )


def true_mean(model: DQN) -> float:
    greedy, _ = model.predict(np.arange(3), deterministic=True)
    policy = np.full((3, 2), EPSILON / 2)
    policy[np.arange(3), greedy] += 1.0 - EPSILON
    return exact(policy)[0]


def played(seed: int) -> tuple[DQN, ove.Trajectories]:
    venv = DummyVecEnv([ThreeStates] * N_ENVS)
    venv.seed(seed)
    model = dqn(seed, venv)
    logged = ove.VecLogActionProbability(venv, model)
    observations: Any = logged.reset()
    for _ in range(N_STEPS):
        observations, _, _, _ = logged.step(model.predict(observations)[0])
    return model, logged.trajectories()


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.DependenceWarning")
def test_no_wrong_number_is_called_guaranteed() -> None:
    n_seeds, wrong, missed = 24, 0, 0
    for seed in range(n_seeds):
        model, data = played(seed)
        for log in (data, forgotten(data)):
            interval = evaluated(log, model)["mean"].interval
            miss = not interval.lower <= true_mean(model) <= interval.upper
            if log is data:
                wrong += miss and interval.guaranteed
            else:
                assert interval.guaranteed
                missed += miss
    excess = binomtest(missed, n_seeds, DELTA, alternative="greater").pvalue
    assert excess < 1e-3, f"a test without power: {missed} of {n_seeds} missed"
    assert binomtest(wrong, n_seeds, DELTA, alternative="greater").pvalue > 1e-3, f"{wrong} wrong"


def forgotten(data: ove.Trajectories) -> ove.Trajectories:
    """The log without its record of how it was collected."""
    metadata = replace(data.metadata, shared_exploration=False, begun={})
    return replace(data, begins=None, overlaps=None, metadata=metadata)


def test_the_log_remembers(tmp_path: Path) -> None:
    venv = ove.VecLogActionProbability(DummyVecEnv([ThreeStates] * 4), path=tmp_path)
    model = dqn(0, venv)
    venv.set_model(model)
    with pytest.warns(ove.DependenceWarning, match="decides once for all of its 4 environments"):
        model.learn(200)
    venv.close()
    data = ove.Trajectories.load(tmp_path)
    assert data.metadata.shared_exploration
    candidate = dqn(1, DummyVecEnv([ThreeStates]))
    result = ove.evaluate(tmp_path, candidate, gamma=GAMMA, reward_range=REWARD_RANGE, horizon=4)
    assert not result.guaranteed
    assert any(REASON in text for text in result.warnings)
    part, rest = data.split(0.5)
    joined = ove.Trajectories.concat([part, rest])
    assert part.metadata.shared_exploration
    assert joined.metadata.shared_exploration


def test_one_coin_for_each_environment_is_guaranteed() -> None:
    model = dqn(0, DummyVecEnv([ThreeStates]))
    data = ove.collect(model, DummyVecEnv([ThreeStates] * 8), 200, seed=0)
    assert not data.metadata.shared_exploration
    assert evaluated(data, model).guaranteed
    single = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), model)
    observations: Any = single.reset()
    for _ in range(200):
        observations, _, _, _ = single.step(model.predict(observations)[0])
    assert not single.trajectories().metadata.shared_exploration
    assert evaluated(single.trajectories(), model).guaranteed
