"""Confidence sequences: bounds valid simultaneously at every n, also for several environments."""

from __future__ import annotations

import heapq
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

import ove_sb3 as ove
from ove_sb3.core.sequence import evaluation_sizes
from ove_sb3.core.under_way import under_way
from tests.misses import ruled_out

DELTA = 0.2
FloatArray = NDArray[np.float64]


def bandit(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Weights and returns of one-step episodes; the candidate prefers the rare, large return."""
    arm = rng.random(n) < 0.1
    return np.where(arm, 4.0, 2.0 / 3.0), np.where(arm, rng.random(n) < 0.5, rng.random(n) * 0.2)


# The candidate takes the arm with probability 0.4.
_SECOND = 0.4 * 0.5 + 0.6 * 0.04 / 3
TRUTH = {"mean": 0.26, "variance": _SECOND - 0.26**2, "p_below:0.5": 0.8}


def statistics(
    weights: FloatArray, returns: FloatArray, overlaps: object = None
) -> ove.TrajectoryStatistics:
    lengths = np.ones(returns.size, int)
    return ove.trajectory_statistics(
        np.log(weights), returns, lengths, gamma=1.0, horizon=1, overlaps=overlaps
    )


def sequence(weights: FloatArray, returns: FloatArray, quantity: str, **options: Any) -> Any:
    stats = statistics(weights, returns, options.pop("overlaps", None))
    return ove.confidence_sequence(
        stats, quantity, reward_range=(0, 1), max_weight=4.0, delta=DELTA, **options
    )


def misses(result: Any, truth: float) -> tuple[bool, bool]:
    """Whether the lower and the upper bound miss at any n."""
    return bool((result.lower > truth + 1e-9).any()), bool((result.upper < truth - 1e-9).any())


def check_coverage(n_runs: int, n: int, quantity: str, **options: Any) -> None:
    counts = np.zeros(2, int)
    for run in range(n_runs):
        weights, returns = bandit(n, np.random.default_rng(run))
        counts += misses(sequence(weights, returns, quantity, **options), TRUTH[quantity])
    for count in counts:
        assert binomtest(int(count), n_runs, DELTA / 2, alternative="greater").pvalue > 1e-4


@pytest.mark.parametrize(
    ("quantity", "target_n"),
    [("mean", None), ("mean", 200), ("variance", 200), ("p_below:0.5", 200)],
)
def test_no_bound_misses_at_any_time(quantity: str, target_n: int | None) -> None:
    check_coverage(25, 400, quantity, target_n=target_n)


def overlaps_of(returns: FloatArray, n_envs: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Order in which the first episodes end, and how many ended during each of them.

    Episodes begin in the given order. Those with a large return take 100 times as long as others,
    so that at any time those that have ended are the ones with small returns.
    """
    lengths = np.where(returns > 0.5, 100.0, 1.0) + rng.random(returns.size) * 0.01
    ends = [(lengths[k], k) for k in range(n_envs)]
    heapq.heapify(ends)
    ended_before = np.zeros(returns.size, int)
    n = returns.size - n_envs
    order, overlaps = np.empty(n, int), np.empty(n, int)
    for i in range(n):
        now, k = ends[0]
        order[i], overlaps[i] = k, i - ended_before[k]
        ended_before[n_envs + i] = i + 1
        heapq.heapreplace(ends, (now + lengths[n_envs + i], n_envs + i))
    return order, overlaps


@pytest.mark.slow
@pytest.mark.parametrize("n_envs", [1, 8, 64, 256])
@pytest.mark.parametrize("quantity", ["mean", "variance"])
def test_no_bound_misses_at_any_time_in_many_runs(quantity: str, n_envs: int) -> None:
    n_runs, n = 250, 10_000
    counts = np.zeros(2, int)
    for run in range(n_runs):
        rng = np.random.default_rng([run, n_envs])
        weights, returns = bandit(n + n_envs, rng)
        order, overlaps = overlaps_of(returns, n_envs, rng)
        options = {"overlaps": overlaps, "n_envs": n_envs} if n_envs > 1 else {}
        target_n = None if run % 2 else 1_000
        result = sequence(weights[order], returns[order], quantity, target_n=target_n, **options)
        counts += misses(result, TRUTH[quantity])
        if all(ruled_out(int(count), run + 1, DELTA / 2) for count in counts):
            break
    for count in counts:
        assert binomtest(int(count), run + 1, DELTA / 2, alternative="greater").pvalue > 1e-4


def run_concurrent(n_runs: int, n_envs: int, *, known: bool) -> int:
    count = 0
    for run in range(n_runs):
        rng = np.random.default_rng(run)
        returns = rng.integers(0, 2, 250 + n_envs).astype(float)
        order, overlaps = overlaps_of(returns, n_envs, rng)
        options = {"overlaps": overlaps, "n_envs": n_envs} if known else {}
        result = sequence(np.ones(250), returns[order], "mean", **options)
        count += misses(result, 0.5)[1]
    return count


@pytest.mark.parametrize("n_envs", [2, 64])
def test_episodes_under_way_count(n_envs: int) -> None:
    n_runs = 8
    count = run_concurrent(n_runs, n_envs, known=True)
    assert binomtest(count, n_runs, DELTA / 2, alternative="greater").pvalue > 1e-4
    if n_envs == 64:  # without them the bounds fail
        assert run_concurrent(n_runs, n_envs, known=False) > 0.8 * n_runs


def test_who_is_under_way() -> None:
    # Episodes in the order of their ends; the third began first and ran through the others.
    stats = statistics(np.ones(4), np.zeros(4), np.array([0, 0, 2, 1]))
    began = [sorted(under_way(stats, n, 2).least) for n in (0, 1, 2)]
    assert began == [[0, 0], [0, 1], [0, 2]]
    # Two more are under way at the end, and nothing is known about them.
    last = under_way(stats, 4, 2)
    assert (last.least.tolist(), last.most.tolist()) == ([0, 0], [4, 4])
    assert not last.sequential
    with pytest.raises(ove.InvalidInputError, match="`n_envs` must be the number of environments"):
        under_way(stats, 1, 1)
    alone = under_way(statistics(np.ones(4), np.zeros(4)), 2)
    assert alone.sequential
    assert len(alone) == 0


def test_a_longer_log_only_adds_to_the_sequence() -> None:
    weights, returns = bandit(3_000, np.random.default_rng(0))
    sizes = evaluation_sizes(3_000)
    cut = int(sizes[-4])
    whole = sequence(weights, returns, "mean")
    part = sequence(weights[:cut], returns[:cut], "mean")
    np.testing.assert_array_equal(part.lower, whole.lower[: part.n.size])
    np.testing.assert_array_equal(part.upper, whole.upper[: part.n.size])
    assert (np.diff(whole.lower) >= 0).all()
    assert (np.diff(whole.upper) <= 0).all()
    assert whole.n[-1] == 3_000
    assert whole.guaranteed
    assert whole.interval.assumptions[0].startswith("trajectories are in an order fixed in advance")
    assert "the number of trajectories was fixed in advance" not in whole.interval.assumptions
    assert "at every n <= 3000" in str(whole)


def test_the_target_is_where_it_is_tightest() -> None:
    weights, returns = bandit(4_000, np.random.default_rng(1))
    aimed, any_n = (sequence(weights, returns, "mean", target_n=target) for target in (4_000, None))
    assert aimed.upper[-1] - aimed.lower[-1] < any_n.upper[-1] - any_n.lower[-1]


def test_the_figure() -> None:
    weights, returns = bandit(500, np.random.default_rng(2))
    axes = matplotlib.figure.Figure().subplots()
    result = sequence(weights, returns, "mean")
    assert result.plot(axes) is axes.get_figure()
    assert axes.get_xlabel() == "episodes"
    (own,) = result.plot().axes
    assert own.get_ylabel() == "mean of the return"


def test_invalid_input() -> None:
    weights, returns = bandit(500, np.random.default_rng(2))
    with pytest.raises(ove.InvalidInputError, match="`target_n` must be an integer"):
        sequence(weights, returns, "mean", target_n=0)
    with pytest.raises(ove.InvalidInputError, match="`n_envs` must be 1 for `stats` without"):
        sequence(weights, returns, "mean", n_envs=2)
    with pytest.raises(ove.InvalidInputError, match="`adaptive` must be True or False, got 'yes'"):
        sequence(weights, returns, "mean", adaptive="yes")
    with pytest.raises(ove.InvalidInputError, match="`stats` must be TrajectoryStatistics, got"):
        ove.confidence_sequence(weights, "mean", reward_range=(0, 1))  # type: ignore[arg-type]
