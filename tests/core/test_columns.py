"""Columns of the statistics: further ones, selections of trajectories, joined shards."""

from __future__ import annotations

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._validation import FloatArray
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores

from .test_statistics import COLUMNS, episodes, random_log


def sums(steps: ove.Steps) -> FloatArray:
    """Undiscounted sum of rewards of every episode."""
    return np.asarray(np.add.reduceat(steps.rewards, steps.starts))


def last_ratios(steps: ove.Steps) -> FloatArray:
    return np.asarray(steps.scores.log_ratios[steps.starts + steps.lengths - 1])


SUM = ove.Column("sum", sums)
LAST_RATIO = ove.Column("last_ratio", last_ratios)
LOG = random_log(1)
STATS = ove.trajectory_statistics(*LOG, gamma=0.9, horizon=12, columns=[SUM, LAST_RATIO])


def part(first: int, last: int, *columns: ove.Column) -> ove.TrajectoryStatistics:
    log_ratios, rewards, lengths = LOG
    steps = slice(lengths[:first].sum(), lengths[:last].sum())
    return ove.trajectory_statistics(
        log_ratios[steps],
        rewards[steps],
        lengths[first:last],
        gamma=0.9,
        horizon=12,
        columns=columns,
    )


def test_further_columns_are_computed_from_the_steps() -> None:
    assert tuple(STATS.columns) == (*COLUMNS, "sum", "last_ratio")
    expected = [rewards.sum() for _, rewards in episodes(LOG)]
    np.testing.assert_allclose(STATS["sum"], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(STATS["last_ratio"], [ratios[-1] for ratios, _ in episodes(LOG)])
    plain = ove.trajectory_statistics(*LOG, gamma=0.9, horizon=12)
    assert tuple(plain.columns) == COLUMNS
    for name in COLUMNS:
        np.testing.assert_array_equal(STATS[name], plain[name])
        np.testing.assert_array_equal(getattr(STATS, name), STATS[name])


def test_columns_see_the_steps_as_they_were_given() -> None:
    seen: list[ove.Steps] = []

    def record(steps: ove.Steps) -> FloatArray:
        seen.append(steps)
        return np.zeros(len(steps.lengths))

    stats = ove.trajectory_statistics(
        *LOG, gamma=0.9, horizon=12, columns=[ove.Column("seen", record)]
    )
    (steps,) = seen
    log_ratios, rewards, lengths = LOG
    np.testing.assert_array_equal(steps.scores.log_ratios, log_ratios)
    np.testing.assert_array_equal(steps.rewards, rewards)
    np.testing.assert_array_equal(steps.lengths, lengths)
    np.testing.assert_array_equal(steps.starts, np.cumsum(lengths) - lengths)
    assert (steps.gamma, steps.horizon) == (0.9, 12)
    assert stats.steps is steps


def test_a_column_can_use_further_scores() -> None:
    entropy = ove.Column("entropy", lambda steps: steps.scores.extra["entropy"][steps.starts])
    scores = StepScores(np.zeros(3), {"entropy": np.array([1.0, 2.0, 3.0])})
    stats = shard_statistics(scores, [0.0, 0.0, 0.0], [2, 1], gamma=1.0, columns=[entropy])
    np.testing.assert_array_equal(stats["entropy"], [1.0, 3.0])
    assert stats.steps is None


def test_a_shard_may_be_a_single_trajectory() -> None:
    stats = shard_statistics(StepScores(np.zeros(2)), [1.0, 2.0], [2], gamma=1.0)
    assert len(stats) == 1
    with pytest.raises(ove.InvalidInputError, match="at least 2 trajectories, got 1"):
        ove.trajectory_statistics(np.zeros(2), [1.0, 2.0], [2], gamma=1.0)


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ove.InvalidInputError, match=r"`columns` must hold 'other', got 'weights'"):
        STATS["other"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(39), r"column 'broken' must have one entry per trajectory, 40, got 39"),
        (np.zeros((40, 2)), r"`broken` must be 1-dimensional"),
        (["a"] * 40, r"`broken` must hold real numbers"),
    ],
)
def test_a_broken_column_is_refused(values: FloatArray, message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.trajectory_statistics(
            *LOG, gamma=0.9, columns=[ove.Column("broken", lambda steps: values)]
        )


def test_concatenate_joins_further_columns() -> None:
    parts = [part(first, last, SUM, LAST_RATIO) for first, last in ((0, 7), (7, 30), (30, 40))]
    joined = ove.TrajectoryStatistics.concatenate(parts)
    assert tuple(joined.columns) == tuple(STATS.columns)
    for name in STATS.columns:
        np.testing.assert_array_equal(joined[name], STATS[name])
    assert joined.steps is None
    # The order in which they were declared does not matter.
    swapped = ove.TrajectoryStatistics.concatenate(
        [part(0, 7, SUM, LAST_RATIO), part(7, 40, LAST_RATIO, SUM)]
    )
    for name in STATS.columns:
        np.testing.assert_array_equal(swapped[name], STATS[name])


@pytest.mark.parametrize(("first", "second"), [((SUM,), ()), ((), (SUM,)), ((SUM,), (LAST_RATIO,))])
def test_parts_with_different_columns_are_refused(
    first: tuple[ove.Column, ...], second: tuple[ove.Column, ...]
) -> None:
    parts = [part(0, 20, *first), part(20, 40, *second)]
    with pytest.raises(ove.InvalidInputError, match="must have the same columns, got"):
        ove.TrajectoryStatistics.concatenate(parts)


@pytest.mark.parametrize("indices", [[3, 1, 39], [5, 5, 5, 5], list(range(40))])
def test_select_takes_all_columns_of_some_trajectories(indices: list[int]) -> None:
    chosen = np.array(indices)
    selected = STATS.select(chosen)
    assert len(selected) == len(indices)
    assert tuple(selected.columns) == tuple(STATS.columns)
    for name in STATS.columns:
        np.testing.assert_array_equal(selected[name], STATS[name][chosen])
    assert (selected.gamma, selected.horizon) == (STATS.gamma, STATS.horizon)
    assert (selected.reward_min, selected.reward_max) == (STATS.reward_min, STATS.reward_max)
    assert selected.step_sums is None
    assert selected.end_sums is None
    assert selected.steps is None
    assert len(STATS) == 40
    assert STATS.step_sums is not None


def test_select_keeps_overlaps() -> None:
    overlaps = np.arange(40) % 5
    stats = ove.trajectory_statistics(*LOG, gamma=0.9, overlaps=overlaps)
    selected = stats.select(np.array([4, 8, 30])).overlaps
    assert selected is not None
    assert selected.tolist() == [4, 3, 0]
    assert STATS.select(np.array([4, 8])).overlaps is None


def test_estimates_of_a_selection_are_those_of_the_selected_episodes() -> None:
    selected = STATS.select(np.arange(10, 30))
    recomputed = part(10, 30)
    for name in ("crossfit", "pair", "cdis", "is", "cdis_u", "is_u", "naive_is", "wis"):
        assert ove.estimate_variance(selected, name) == ove.estimate_variance(recomputed, name)
    assert ove.estimate_mean(selected) == ove.estimate_mean(recomputed)


def test_pair_cdis_is_refused_after_a_selection() -> None:
    selected = STATS.select(np.arange(20))
    assert np.isfinite(ove.estimate_variance(STATS, "pair_cdis"))
    message = r"'pair_cdis' needs sums over steps, which a selection of trajectories does not have"
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.estimate_variance(selected, "pair_cdis")
    # Joining selections does not restore the sums.
    joined = ove.TrajectoryStatistics.concatenate([part(0, 20, SUM, LAST_RATIO), selected])
    assert joined.step_sums is None
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.estimate_variance(joined, "pair_cdis")
    for method in (ove.Normal("pair_cdis"), ove.Bootstrap(estimator="pair_cdis")):
        with pytest.raises(ove.InvalidInputError, match=message):
            ove.variance_interval(selected, method=method)
