"""Fixed problems whose results are known: the inputs behind golden.json.

Actions are drawn from a known behavior, so that importance weights are 1 on average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

UNIFORM = [[0.25, 0.25, 0.25, 0.25]] * 3
MILD = [[0.3, 0.2, 0.3, 0.2], [0.2, 0.3, 0.2, 0.3], [0.35, 0.25, 0.2, 0.2]]
SKEWED = [[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4], [0.25, 0.15, 0.35, 0.25]]
SHARP = [[0.5, 0.3, 0.1, 0.1], [0.1, 0.1, 0.3, 0.5], [0.1, 0.5, 0.3, 0.1]]
SLIGHT = [[0.3, 0.25, 0.2, 0.25], [0.25, 0.2, 0.25, 0.3], [0.2, 0.3, 0.25, 0.25]]
ONE_SIDED = [[0.0, 0.4, 0.3, 0.3], [0.3, 0.0, 0.4, 0.3], [0.4, 0.3, 0.3, 0.0]]


@dataclass(frozen=True, eq=False)
class Steps:
    """Logged steps, episode after episode, and the candidates' log-probabilities of the actions."""

    observations: IntArray
    actions: IntArray
    log_probs: FloatArray
    rewards: FloatArray
    lengths: IntArray
    candidates: dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Problem:
    """Statistics need the first group of fields, intervals also the second."""

    name: str
    log_ratios: FloatArray
    rewards: FloatArray
    lengths: IntArray
    gamma: float
    horizon: int | None

    reward_range: tuple[float, float]
    return_range: tuple[float, float] | None = None
    max_ratio: float | None = None
    max_weight: float | None = None
    adaptive: bool = False
    overlaps: IntArray | None = None

    steps: Steps | None = None

    @property
    def limits(self) -> dict[str, Any]:
        """Assumptions known in advance, as keyword arguments of intervals and evaluations."""
        return {
            "reward_range": self.reward_range,
            "return_range": self.return_range,
            "max_ratio": self.max_ratio,
            "max_weight": self.max_weight,
        }


def dataset(problem: Problem) -> dict[str, Any]:
    """The arguments of `Trajectories.from_arrays` for a problem in `DATASETS`."""
    steps = problem.steps
    assert steps is not None
    cut = steps.lengths == (problem.horizon or 0)
    return {
        "observations": steps.observations,
        "actions": steps.actions,
        "log_probs": steps.log_probs,
        "rewards": steps.rewards,
        "lengths": steps.lengths,
        "terminated": ~cut,
        "truncated": cut,
        "overlaps": problem.overlaps,
        "metadata": {"adaptive": problem.adaptive},
    }


def _lengths(rng: np.random.Generator, n: int, shortest: int, longest: int) -> IntArray:
    return shortest + np.floor(rng.random(n) * (longest - shortest + 1)).astype(np.int64)


def _log(table: Any) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.array(table)))


def _simulate(
    rng: np.random.Generator,
    lengths: IntArray,
    behavior: Any,
    candidates: dict[str, Any],
    reward_range: tuple[float, float],
    drift: float = 0.0,
) -> Steps:
    """Actions of `behavior`, a table of probabilities by observation, and rewards for them.

    With `drift` the behavior moves toward uniform and back while episodes are logged.
    """
    n = int(lengths.sum())
    episode = np.repeat(np.arange(lengths.size), lengths)
    observations = np.floor(rng.random(n) * 3).astype(np.int64)
    share = drift * (0.5 + 0.5 * np.sin(episode / 20.0))[:, None]
    probabilities = (1.0 - share) * np.array(behavior)[observations] + share * 0.25
    above = rng.random(n)[:, None] > np.cumsum(probabilities, axis=1)[:, :-1]
    actions = np.asarray(above.sum(axis=1), dtype=np.int64)
    low, high = reward_range
    liked = (actions + observations) % 4 / 3.0
    return Steps(
        observations=observations,
        actions=actions,
        log_probs=np.log(probabilities[np.arange(n), actions]),
        rewards=low + (high - low) * (0.6 * liked + 0.4 * rng.random(n)),
        lengths=lengths,
        candidates={name: _log(p)[observations, actions] for name, p in candidates.items()},
    )


def _problem(
    name: str,
    steps: Steps,
    *,
    gamma: float,
    horizon: int | None,
    reward_range: tuple[float, float],
    **known: Any,
) -> Problem:
    return Problem(
        name=name,
        log_ratios=steps.candidates["a"] - steps.log_probs,
        rewards=steps.rewards,
        lengths=steps.lengths,
        gamma=gamma,
        horizon=horizon,
        reward_range=reward_range,
        steps=steps,
        **known,
    )


def _ragged() -> Problem:
    rng = np.random.default_rng(101)
    candidates = {"a": SKEWED, "b": MILD}
    steps = _simulate(rng, _lengths(rng, 400, 1, 8), UNIFORM, candidates, (0.0, 1.0))
    return _problem("ragged", steps, gamma=0.95, horizon=10, reward_range=(0.0, 1.0))


def _horizon_one() -> Problem:
    rng = np.random.default_rng(102)
    steps = _simulate(rng, np.ones(300, np.int64), MILD, {"a": SHARP}, (0.5, 1.5))
    return _problem("horizon_one", steps, gamma=1.0, horizon=1, reward_range=(0.5, 1.5))


def _mixed_signs() -> Problem:
    rng = np.random.default_rng(103)
    steps = _simulate(rng, _lengths(rng, 500, 3, 6), UNIFORM, {"a": SKEWED}, (-1.0, 2.0))
    return _problem("mixed_signs", steps, gamma=0.9, horizon=6, reward_range=(-1.0, 2.0))


def _heavy_weights() -> Problem:
    # Behavior and candidate are normal with unit variance, 0.5 apart: lognormal weights.
    rng = np.random.default_rng(104)
    n, horizon, shift = 600, 10, 0.5
    actions = rng.standard_normal(n * horizon)
    return Problem(
        name="heavy_weights",
        log_ratios=shift * actions - shift**2 / 2,
        rewards=np.clip(0.5 + 0.2 * actions, 0.0, 1.0),
        lengths=np.full(n, horizon),
        gamma=0.97,
        horizon=horizon,
        reward_range=(0.0, 1.0),
    )


def _adaptive_overlaps() -> Problem:
    rng = np.random.default_rng(105)
    n = 400
    lengths, candidates = _lengths(rng, n, 2, 5), {"a": MILD, "b": SKEWED}
    steps = _simulate(rng, lengths, SKEWED, candidates, (-0.5, 1.0), drift=0.8)
    overlaps = np.minimum(np.arange(n), np.floor(rng.random(n) * 4).astype(np.int64))
    return _problem(
        "adaptive_overlaps",
        steps,
        gamma=0.95,
        horizon=5,
        reward_range=(-0.5, 1.0),
        adaptive=True,
        overlaps=overlaps,
    )


def _adaptive_in_order() -> Problem:
    rng = np.random.default_rng(106)
    steps = _simulate(rng, _lengths(rng, 250, 1, 4), SHARP, {"a": SKEWED}, (0.0, 1.0), drift=0.6)
    return _problem(
        "adaptive_in_order", steps, gamma=1.0, horizon=4, reward_range=(0.0, 1.0), adaptive=True
    )


def _max_ratio() -> Problem:
    rng = np.random.default_rng(107)
    candidates = {"a": SHARP, "b": SKEWED}
    steps = _simulate(rng, np.full(800, 4), UNIFORM, candidates, (0.0, 1.0))
    return _problem(
        "max_ratio", steps, gamma=1.0, horizon=4, reward_range=(0.0, 1.0), max_ratio=2.0
    )


def _max_weight() -> Problem:
    rng = np.random.default_rng(108)
    steps = _simulate(rng, _lengths(rng, 200, 1, 3), UNIFORM, {"a": SKEWED}, (-1.0, 0.0))
    return _problem(
        "max_weight", steps, gamma=0.9, horizon=3, reward_range=(-1.0, 0.0), max_weight=5.0
    )


def _return_range() -> Problem:
    rng = np.random.default_rng(123)
    steps = _simulate(rng, np.full(500, 5), MILD, {"a": SKEWED}, (0.1, 0.7))
    return _problem(
        "return_range",
        steps,
        gamma=0.9,
        horizon=5,
        reward_range=(0.0, 1.0),
        return_range=(0.4, 3.0),
    )


def _no_horizon() -> Problem:
    rng = np.random.default_rng(110)
    steps = _simulate(rng, _lengths(rng, 400, 1, 7), UNIFORM, {"a": MILD}, (0.0, 1.0))
    return _problem("no_horizon", steps, gamma=0.9, horizon=None, reward_range=(0.0, 1.0))


def _undiscounted() -> Problem:
    rng = np.random.default_rng(111)
    steps = _simulate(rng, _lengths(rng, 300, 1, 6), UNIFORM, {"a": MILD}, (0.0, 1.0))
    return _problem(
        "undiscounted",
        steps,
        gamma=1.0,
        horizon=None,
        reward_range=(0.0, 1.0),
        return_range=(0.0, 6.0),
    )


def _zero_ratios() -> Problem:
    rng = np.random.default_rng(115)
    steps = _simulate(rng, _lengths(rng, 500, 1, 3), UNIFORM, {"a": ONE_SIDED}, (0.0, 2.0))
    return _problem("zero_ratios", steps, gamma=0.8, horizon=3, reward_range=(0.0, 2.0))


def _few() -> Problem:
    rng = np.random.default_rng(113)
    steps = _simulate(rng, _lengths(rng, 60, 1, 3), UNIFORM, {"a": MILD}, (0.0, 1.0))
    return _problem("few", steps, gamma=1.0, horizon=3, reward_range=(0.0, 1.0))


def _large() -> Problem:
    rng = np.random.default_rng(114)
    steps = _simulate(rng, _lengths(rng, 3000, 1, 12), UNIFORM, {"a": MILD}, (-0.2, 1.0))
    return _problem("large", steps, gamma=0.98, horizon=12, reward_range=(-0.2, 1.0))


def _coin(name: str, horizon: int | None, **known: Any) -> Problem:
    """Two rewards of 1 or -1, mostly the same: here every method is informative."""
    rng = np.random.default_rng(115)
    n = 3000
    steps = _simulate(rng, np.full(n, 2), UNIFORM, {"a": SLIGHT}, (-1.0, 1.0))
    first = np.where(rng.random(n) < 0.5 + 0.1 * steps.actions[::2], 1.0, -1.0)
    second = np.where(rng.random(n) < 0.9, first, -first)
    steps = replace(steps, rewards=np.stack([first, second], axis=1).ravel())
    return _problem(name, steps, gamma=1.0, horizon=horizon, reward_range=(-1.0, 1.0), **known)


def crossing() -> Problem:
    """Bad luck at delta = 0.2: the lower bound exceeds the upper bound. Has no reference values."""
    rng = np.random.default_rng(109)
    steps = _simulate(rng, np.full(500, 5), MILD, {"a": SKEWED}, (0.1, 0.7))
    return _problem(
        "crossing",
        steps,
        gamma=0.9,
        horizon=5,
        reward_range=(0.0, 1.0),
        return_range=(0.4, 3.0),
    )


PROBLEMS = {
    problem.name: problem
    for problem in (
        _ragged(),
        _horizon_one(),
        _mixed_signs(),
        _heavy_weights(),
        _adaptive_overlaps(),
        _adaptive_in_order(),
        _max_ratio(),
        _max_weight(),
        _return_range(),
        _no_horizon(),
        _undiscounted(),
        _zero_ratios(),
        _few(),
        _large(),
        _coin("coin", horizon=2, max_ratio=1.2),
        _coin("coin_no_horizon", horizon=None, return_range=(-2.0, 2.0), max_weight=1.5),
    )
}
DATASETS = ("ragged", "max_ratio", "adaptive_overlaps")
