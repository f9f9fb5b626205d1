"""The public entry points, with valid arguments and checks of their results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import ove_sb3 as ove
from tests.core import reference
from tests.data.test_metadata import value_of

N, HORIZON = 12, 3
LENGTHS = np.array([3, 1, 2, 3, 2, 1, 3, 3, 1, 2, 3, 1])
STEPS = int(LENGTHS.sum())
_RNG = np.random.default_rng(0)
ACTIONS = _RNG.integers(2, size=STEPS)
LOG_PROBS = np.log(_RNG.uniform(0.3, 0.7, STEPS))
REWARDS = _RNG.integers(-1, 3, STEPS) / 2
CANDIDATE = LOG_PROBS + _RNG.uniform(-0.2, 0.1, STEPS)


@dataclass(frozen=True)
class EntryPoint:
    """A call with valid arguments.

    Attributes
    ----------
    call : callable
    arguments : dict
        By name; some of them are changed.
    check : callable
        Takes the result and the arguments; raises if the result is wrong.
    """

    name: str
    call: Callable[..., Any]
    arguments: dict[str, Any]
    check: Callable[[Any, dict[str, Any]], None] = field(default=lambda result, arguments: None)


def log(**changes: Any) -> ove.Trajectories:
    """A valid log, with some arguments changed."""
    arguments: dict[str, Any] = {
        "observations": np.arange(2.0 * STEPS).reshape(STEPS, 2),
        "actions": ACTIONS,
        "log_probs": LOG_PROBS,
        "rewards": REWARDS,
        "lengths": LENGTHS,
        "metadata": METADATA,
    }
    return ove.Trajectories.from_arrays(**{**arguments, **changes})


METADATA: dict[str, Any] = {
    "horizon": HORIZON,
    "reward_range": (-0.5, 1.0),
    "action_space": {"type": "Discrete", "n": 2, "start": 0},
}
LOG = log()
STATS = ove.trajectory_statistics(
    CANDIDATE - LOG_PROBS, REWARDS, LENGTHS, gamma=0.9, horizon=HORIZON
)


def episodes(array: Any, lengths: Any) -> list[NDArray[np.float64]]:
    """Steps of every episode."""
    return np.split(np.asarray(array, dtype=np.float64), np.cumsum(lengths)[:-1])


def check_statistics(result: Any, given: dict[str, Any]) -> None:
    """Columns agree with the literal formulas."""
    lengths = np.asarray(given["lengths"])
    gamma = float(given["gamma"])
    ratios = episodes(given["log_ratios"], lengths)
    rewards = episodes(given["rewards"], lengths)
    for i, (ratio, reward) in enumerate(zip(ratios, rewards, strict=True)):
        with np.errstate(under="ignore"):
            weight = math.exp(math.fsum(ratio))
            value = math.fsum(gamma**t * r for t, r in enumerate(reward))
            pdis = reference.pdis(ratio, reward, gamma, len(ratio))
        size = float(np.abs(reward).sum())
        assert math.isclose(result.weights[i], weight, rel_tol=1e-9, abs_tol=1e-300)
        assert math.isclose(result.returns[i], value, rel_tol=1e-9, abs_tol=1e-9 * size)
        scale = size * float(np.exp(np.cumsum(ratio)).max())
        assert math.isclose(result.pdis[i], pdis, rel_tol=1e-9, abs_tol=1e-9 * scale)


def check_interval(result: ove.Interval, given: dict[str, Any]) -> None:
    """The bounds lie in the a priori range, and the label has its reasons."""
    low, high = result.a_priori
    assert result.delta == float(given["delta"])
    assert 0.0 < result.delta < 1.0
    for bound in (result.lower, result.upper):
        assert low <= bound <= high
    assert result.consistent == (result.lower <= result.upper)
    assert result.guaranteed == (not result.reasons)
    if result.guaranteed:
        assert isinstance(given["reward_range"], (tuple, list, np.ndarray))
        smallest, largest = given["reward_range"]
        assert smallest <= STATS.reward_min + 1e-6
        assert largest >= STATS.reward_max - 1e-6
    json.dumps(result.to_dict(), allow_nan=False)


def check_estimate(result: float, given: dict[str, Any]) -> None:
    """The PDIS estimate of the mean is the average over trajectories."""
    assert isinstance(result, float)
    assert math.isfinite(result)
    if given["quantity"] == "mean" and given["estimator"] == "pdis":
        assert math.isclose(result, STATS.pdis.mean())


def check_trajectories(result: ove.Trajectories, given: dict[str, Any]) -> None:
    """The arrays equal those that were given."""
    for name in ("log_probs", "rewards", "lengths", "actions"):
        np.testing.assert_array_equal(getattr(result, name), np.asarray(given[name]))
    assert result.log_probs.size == result.rewards.size == len(result.actions)
    assert int(result.lengths.sum()) == result.n_steps
    assert np.isfinite(result.rewards).all()
    assert np.isfinite(result.log_probs).all()
    for name in ("terminated", "truncated"):
        flags = getattr(result, name)
        assert flags.shape == result.lengths.shape
        if given[name] is not None:
            np.testing.assert_array_equal(flags, np.asarray(given[name]))


def check_metadata(result: ove.Metadata, given: dict[str, Any]) -> None:
    """All entries survive JSON."""
    del given
    assert ove.Metadata.from_stored(json.loads(json.dumps(result.to_dict()))) == result


def check_evaluation(result: ove.Evaluation, given: dict[str, Any]) -> None:
    """Estimates agree with those of the statistics; bounds stay in the a priori range."""
    candidate = np.asarray(given["candidate"], dtype=float)
    stats = ove.trajectory_statistics(
        candidate - LOG_PROBS,
        REWARDS,
        LENGTHS,
        gamma=float(given["gamma"]),
        horizon=given["horizon"] or HORIZON,
    )
    if not math.isnan(result.mean):
        assert math.isclose(result.mean, ove.estimate(stats, "mean"), rel_tol=1e-9, abs_tol=1e-12)
    for one in result.quantities.values():
        interval = one.interval
        assert interval.a_priori[0] <= min(interval.lower, interval.upper)
        assert interval.a_priori[1] >= max(interval.lower, interval.upper)
        assert interval.guaranteed == (not interval.reasons)
        if interval.guaranteed and given["reward_range"] is not None:
            low, high = given["reward_range"]
            assert low <= -0.5 + 1e-6
            assert high >= 1.0 - 1e-6
    if given["horizon"] is not None:
        assert given["horizon"] >= HORIZON
    json.dumps(result.to_dict(), allow_nan=False)
    assert "nan" not in str(result)


def check_log_prob(result: NDArray[np.float64], given: dict[str, Any]) -> None:
    """Log-probabilities of a fair coin, or of a deterministic policy, one for every action."""
    actions = given["actions"]
    assert result.shape == (STEPS if actions is None else len(actions),)
    expected = (0.0, -math.inf) if given.get("deterministic") else (math.log(0.5),)
    assert np.isclose(result[:, None], expected).any(axis=1).all()


class OneStep(gym.Env[Any, Any]):
    """Episodes of one step."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode with an observation of zeros."""
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        """End the episode, with the action as the reward."""
        return np.zeros(2, np.float32), float(action), True, False, {}


def collect(**arguments: Any) -> ove.Trajectories:
    """Collect, with limits on the size of the run."""
    for name in ("n_episodes", "n_envs"):
        value = arguments[name]
        if isinstance(value, (int, np.integer)) and value > 5:
            arguments[name] = 5
    return ove.collect(ove.UniformPolicy(OneStep.action_space), OneStep(), **arguments)


def check_collected(result: ove.Trajectories, given: dict[str, Any]) -> None:
    """As many episodes as asked for, each with the probability of a fair coin."""
    assert len(result) == min(given["n_episodes"], 5)
    np.testing.assert_allclose(result.log_probs, 0.0 if given["deterministic"] else math.log(0.5))
    np.testing.assert_array_equal(result.rewards, result.actions)


def write(folder: Path, **arguments: Any) -> ove.Trajectories:
    """Write a log and read it."""
    data, path = arguments.pop("data"), arguments.pop("path")
    target = folder / "log" if path is None or isinstance(path, str) else path
    writer = ove.EpisodeWriter(target, **arguments)
    try:
        writer.add(data)
    finally:
        writer.close()
    return ove.Trajectories.load(target)


def check_written(result: ove.Trajectories, given: dict[str, Any]) -> None:
    """The log is the one that was written."""
    np.testing.assert_array_equal(result.rewards, given["data"].rewards)


def read(folder: Path, **arguments: Any) -> Any:
    """Open a log and read its chunks."""
    if isinstance(arguments["path"], str):
        arguments["path"] = folder / "elsewhere"
    elif arguments["path"] is None:
        LOG.save(folder / "log")
        arguments["path"] = folder / "log"
    return list(ove.open_log(**arguments).chunks())


def check_read(result: Any, given: dict[str, Any]) -> None:
    """All steps are there."""
    del given
    assert sum(chunk.n_steps for chunk in result) == STEPS


def verdict(requirement: Any) -> Any:
    """Decide a requirement."""
    return EVALUATION.check(requirement)


def check_verdict(result: Any, given: dict[str, Any]) -> None:
    """A proven requirement has a bound on the right side."""
    del given
    assert result.status in ("proven", "refuted", "undecided")


EVALUATION = ove.evaluate(LOG, CANDIDATE, gamma=0.9, approximate=None)
_RANGES = {"reward_range": (-0.5, 1.0), "return_range": None, "max_ratio": None, "max_weight": None}

ENTRY_POINTS = [
    EntryPoint(
        "trajectory_statistics",
        ove.trajectory_statistics,
        {
            "log_ratios": CANDIDATE - LOG_PROBS,
            "rewards": REWARDS,
            "lengths": LENGTHS,
            "gamma": 0.9,
            "horizon": HORIZON,
            "overlaps": None,
        },
        check_statistics,
    ),
    EntryPoint(
        "estimate",
        ove.estimate,
        {"stats": STATS, "quantity": "mean", "estimator": "pdis"},
        check_estimate,
    ),
    EntryPoint(
        "interval",
        ove.interval,
        {
            "stats": STATS,
            "quantity": "variance",
            **_RANGES,
            "delta": 0.05,
            "method": "betting",
            "side": "both",
            "adaptive": False,
            "rng": 0,
        },
        check_interval,
    ),
    EntryPoint(
        "mean_interval",
        ove.mean_interval,
        {"stats": STATS, **_RANGES, "delta": 0.05, "side": "both", "adaptive": False},
        check_interval,
    ),
    EntryPoint(
        "variance_interval",
        ove.variance_interval,
        {"stats": STATS, **_RANGES, "delta": 0.05, "method": "paper", "rng": 0},
        check_interval,
    ),
    EntryPoint(
        "from_arrays",
        ove.Trajectories.from_arrays,
        {
            "observations": np.arange(float(STEPS)),
            "actions": ACTIONS,
            "log_probs": LOG_PROBS,
            "rewards": REWARDS,
            "lengths": LENGTHS,
            "terminated": None,
            "truncated": np.zeros(N, bool),
            "action_masks": None,
            "final_observations": None,
            "overlaps": np.zeros(N, int),
            "metadata": {"horizon": 5},
        },
        check_trajectories,
    ),
    EntryPoint(
        "Metadata",
        ove.Metadata,
        {entry.name: value_of(entry) for entry in fields(ove.Metadata)},
        check_metadata,
    ),
    EntryPoint("Metadata.from_dict", ove.Metadata.from_dict, {"values": METADATA}, check_metadata),
    EntryPoint(
        "evaluate",
        lambda **arguments: ove.evaluate(**arguments, approximate=None),
        {
            "data": LOG,
            "candidate": CANDIDATE,
            "gamma": 0.9,
            **_RANGES,
            "horizon": None,
            "delta": 0.05,
            "simultaneous": False,
            "estimators": None,
            "deterministic": False,
            "rng": 0,
        },
        check_evaluation,
    ),
    EntryPoint(
        "compare",
        lambda **arguments: ove.compare(**arguments, approximate=None),
        {
            "data": LOG,
            "candidates": {"a": CANDIDATE, "b": LOG_PROBS},
            "gamma": 0.9,
            "reward_range": (-0.5, 1.0),
            "horizon": None,
            "delta": 0.05,
            "rank_by": "variance",
            "model_class": None,
            "vec_normalize": None,
        },
    ),
    EntryPoint(
        "log_prob",
        lambda **arguments: ove.log_prob(ove.UniformPolicy(spaces.Discrete(2)), **arguments),
        {"data": LOG, "deterministic": False, "batch_size": 64, "actions": None},
        check_log_prob,
    ),
    EntryPoint(
        "log_prob of arrays",
        lambda **arguments: ove.log_prob(ove.UniformPolicy(spaces.Discrete(2)), **arguments),
        {"data": np.zeros((STEPS, 2)), "actions": ACTIONS, "lengths": LENGTHS},
        check_log_prob,
    ),
    EntryPoint(
        "collect",
        collect,
        {
            "n_episodes": 3,
            "seed": 0,
            "n_envs": 1,
            "deterministic": False,
            "reward_range": (0, 1),
            "progress": False,
        },
        check_collected,
    ),
    EntryPoint(
        "EpisodeWriter",
        write,
        {"path": None, "metadata": LOG.metadata, "flush_every": 2, "data": LOG},
        check_written,
    ),
    EntryPoint("open_log", read, {"path": None, "chunk_steps": 5}, check_read),
    EntryPoint("check", verdict, {"requirement": "variance <= 2"}, check_verdict),
    EntryPoint("concat", ove.Trajectories.concat, {"parts": [LOG, LOG]}),
    EntryPoint("split", LOG.split, {"fraction": 0.5, "rng": 0}),
    EntryPoint("index", lambda index: LOG[index], {"index": np.arange(5)}),
    EntryPoint("diagnose", ove.diagnose, {"stats": STATS}),
]
