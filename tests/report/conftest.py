"""Results to show: a good one, one that says little, and a comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import ove_sb3 as ove

ODD = "<b>odd</b> & 'name'"


def log(n: int = 800) -> tuple[ove.Trajectories, dict[str, NDArray[np.float64]]]:
    """Eight steps, two actions, and candidates from near to far."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=8 * n)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((8 * n, 1)),
        actions=actions,
        log_probs=np.full(8 * n, np.log(0.5)),
        rewards=actions + rng.choice([-1.0, 0.0, 1.0], size=8 * n),
        lengths=np.full(n, 8),
        metadata={"env_id": "Steps-v0", "horizon": 8, "reward_range": (-1, 2), "behavior": "Coin"},
    )
    candidates = {"near": 0.6, ODD: 0.75, "far": 0.999}
    return data, {k: np.log(np.where(actions == 1, p, 1 - p)) for k, p in candidates.items()}


@pytest.fixture(scope="session")
def result() -> ove.Evaluation:
    data, candidates = log()
    return replace(ove.evaluate(data, candidates["near"], gamma=0.95), candidate="near")


@pytest.fixture(scope="session")
def comparison() -> ove.Comparison:
    data, candidates = log()
    return ove.compare(data, candidates, gamma=0.95)


@pytest.fixture(scope="session")
def blind() -> ove.Evaluation:
    data, _ = log(20)
    with pytest.warns(ove.SupportWarning):
        return ove.evaluate(data, np.full(data.n_steps, -np.inf), gamma=0.95)
