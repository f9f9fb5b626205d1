"""Results to show: a good one, some that prove nothing, and a comparison."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import ove_sb3 as ove
from ove_sb3.data.log import MemoryLog
from ove_sb3.evaluation.candidates import KnownLogProbs
from ove_sb3.evaluation.pipeline import evaluate_a_priori

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
def no_support() -> ove.Evaluation:
    """No logged episode is possible under the candidate."""
    data, _ = log(20)
    with pytest.warns(ove.SupportWarning):
        return ove.evaluate(data, np.full(data.n_steps, -np.inf), gamma=0.95)


@pytest.fixture(scope="session")
def no_weights(result: ove.Evaluation) -> ove.Evaluation:
    """The weights could not be computed: the estimates are NaN, the intervals a priori."""
    data, candidates = log()
    candidate = KnownLogProbs(candidates["far"], label="far")
    return evaluate_a_priori(
        MemoryLog(data), candidate, result.plan, "an importance weight is too large to compute."
    )


class Crossed(ove.Betting):
    """Bounds of the variance that contradict each other."""

    def bounds(self, quantity: ove.Quantity, inputs: ove.MethodInputs) -> tuple[float, float]:
        lower, upper = super().bounds(quantity, inputs)
        return (upper, lower) if quantity.name == "variance" else (lower, upper)


@pytest.fixture(scope="session")
def contradictory() -> ove.Evaluation:
    """The bounds of variance and standard deviation contradict each other."""
    data, candidates = log()
    return ove.evaluate(data, candidates["near"], gamma=0.95, method=Crossed())
