"""Dynamic programming, enumeration and simulation agree."""

from __future__ import annotations

import numpy as np
import pytest

from .chain import chain
from .corridor import MDP as CORRIDOR
from .mdp import FiniteMDP, FloatArray
from .three_states import MDP as THREE_STATES
from .tiny import TinyProcess

PROCESSES = {
    "chain": chain(4).mdp,
    "corridor": CORRIDOR,
    "three_states": THREE_STATES,
    "tiny": TinyProcess.of().mdp,
}


def some_policy(mdp: FiniteMDP) -> FloatArray:
    weights = np.random.default_rng(0).random(mdp.transition.shape[:2])
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("gamma", [None, 0.0, 1.0])
@pytest.mark.parametrize("mdp", PROCESSES.values(), ids=PROCESSES)
def test_exact_moments(mdp: FiniteMDP, gamma: float | None) -> None:
    policy = some_policy(mdp)
    values, p = mdp.returns(policy, gamma)
    mean = float(values @ p)
    variance = float((values - mean) ** 2 @ p)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert mdp.moments(policy, gamma) == pytest.approx((mean, variance), abs=1e-12)


@pytest.mark.parametrize("mdp", PROCESSES.values(), ids=PROCESSES)
def test_trajectories_have_the_distribution_of_the_returns(mdp: FiniteMDP) -> None:
    policy = some_policy(mdp)
    trajectories = mdp.trajectories(policy)
    p = np.array([trajectory.probability for trajectory in trajectories])
    values = np.array(
        [mdp.gamma ** np.arange(len(t.rewards)) @ np.array(t.rewards) for t in trajectories]
    )
    mean = float(values @ p)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    exact = mdp.moments(policy)
    assert (mean, float((values - mean) ** 2 @ p)) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("mdp", PROCESSES.values(), ids=PROCESSES)
def test_simulated_episodes(mdp: FiniteMDP) -> None:
    n, policy = 20_000, some_policy(mdp)
    episodes = mdp.sample(policy, n, np.random.default_rng(1))
    assert episodes.states.size == episodes.actions.size == episodes.lengths.sum()
    starts = np.concatenate([[0], np.cumsum(episodes.lengths)[:-1]])
    time = np.arange(episodes.rewards.size) - np.repeat(starts, episodes.lengths)
    returns = np.add.reduceat(mdp.gamma**time * episodes.rewards, starts)
    mean, variance = mdp.moments(policy)
    assert abs(returns.mean() - mean) <= 4 * np.sqrt(variance / n)
    squares = (returns - mean) ** 2
    assert abs(squares.mean() - variance) <= 4 * squares.std() / np.sqrt(n)
    assert (mdp.terminal[episodes.states] == 0).all()
    assert (episodes.lengths[~episodes.terminated] == mdp.horizon).all()
