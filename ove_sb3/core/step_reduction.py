"""Reduction of logged steps to per-trajectory statistics, by one compiled pass."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from ove_sb3._validation import (
    FloatArray,
    IntArray,
    as_counts,
    as_float_vector,
    as_lengths,
    bad_step,
    check_integer,
    check_real,
    check_same_size,
)
from ove_sb3.errors import PLACE, InvalidInputError, WeightOverflowError

from ._kernel import LARGEST_LOG_WEIGHT, accumulate
from .statistics import TrajectoryStatistics, effective_horizon
from .steps import Column, Steps, StepScores

_STEPS_PER_TASK = 1 << 18
_MOST_TASKS = 64
_LARGEST_STATISTIC = 1e75  # its fourth power is still a finite number
_BASE_COLUMNS = (
    "weights",
    "returns",
    "pdis",
    "cdis",
    "pdis_ones",
    "cdis_ones",
    "cdis_cross",
)


def trajectory_statistics(
    log_ratios: object,
    rewards: object,
    lengths: object,
    *,
    gamma: float,
    horizon: int | None = None,
    overlaps: object = None,
    columns: Sequence[Column] = (),
) -> TrajectoryStatistics:
    """Reduce logged steps to the statistics that all estimators and intervals use.

    One compiled pass in log space, O(number of steps), several threads on large logs; the result
    does not depend on the number of threads.

    Parameters
    ----------
    log_ratios : array_like, (n_steps,)
        log pi(a|s) - log beta(a|s) of every logged step, episode after episode; ``-inf`` for
        an action the candidate never takes.
    rewards : array_like, (n_steps,)
        Rewards of the same steps.
    lengths : array_like of int, (n,)
        Length of every episode; they add up to n_steps.
    gamma : float
        Discount factor in [0, 1].
    horizon : int, optional
        Largest number of steps an episode can have. None: not known, and the longest logged
        episode is not taken for it. Guaranteed intervals then need ``gamma < 1`` (the return is
        bounded all the same) or a ``return_range``.
    overlaps : array_like of int, (n,), optional
        For episodes of several environments that ran concurrently under a behavior that learned:
        in the order in which they ended, how many others ended while each was running.
    columns : sequence of Column, optional
        Further per-trajectory columns to compute.

    Returns
    -------
    TrajectoryStatistics

    Examples
    --------
    >>> import numpy as np
    >>> import ove_sb3 as ove
    >>> stats = ove.trajectory_statistics(
    ...     np.log([2.0, 0.5, 1.5]), [1.0, 0.0, 2.0], [2, 1], gamma=0.9, horizon=2
    ... )
    >>> stats.weights, stats.returns
    (array([1. , 1.5]), array([1., 2.]))
    """
    scores = StepScores(as_float_vector(log_ratios, "log_ratios"))
    return _reduce(scores, rewards, lengths, gamma, horizon, overlaps, columns, 2, keep_steps=True)


def shard_statistics(
    scores: StepScores,
    rewards: object,
    lengths: object,
    *,
    gamma: float,
    horizon: int | None = None,
    overlaps: object = None,
    begins: IntArray | None = None,
    columns: Sequence[Column] = (),
) -> TrajectoryStatistics:
    """Statistics of some of the trajectories, at least one, to be joined by `concatenate`."""
    stats = _reduce(
        scores, rewards, lengths, gamma, horizon, overlaps, columns, 1, keep_steps=False
    )
    return replace(stats, begins=begins)


def _reduce(
    scores: StepScores,
    rewards: object,
    lengths: object,
    gamma: float,
    horizon: int | None,
    overlaps: object,
    extra_columns: Sequence[Column],
    fewest: int,
    *,
    keep_steps: bool,
) -> TrajectoryStatistics:
    log_ratios = as_float_vector(scores.log_ratios, "log_ratios")
    rewards = as_float_vector(rewards, "rewards")
    check_same_size(log_ratios, rewards, ("log_ratios", "rewards"))
    episode_lengths = as_lengths(lengths, log_ratios.size, fewest)
    gamma = check_real(gamma, "gamma", 0.0, 1.0)
    longest = int(episode_lengths.max())
    if horizon is not None:
        horizon = check_integer(horizon, "horizon", 1)
        if horizon < longest:
            raise InvalidInputError(
                f"`horizon` must be at least the longest episode, got {horizon} but {PLACE} has "
                f"{longest} steps.",
                episode=int(episode_lengths.argmax()),
            )
    n = episode_lengths.size
    counts: IntArray | None = None
    if overlaps is not None:
        counts = as_counts(overlaps, "overlaps", n)
        counts = counts if counts.any() else None
    starts = np.concatenate([[0], np.cumsum(episode_lengths)[:-1]])
    discounts = gamma ** np.arange(longest, dtype=np.float64)
    discounted_steps = np.concatenate([[0.0], np.cumsum(discounts)])
    limit = effective_horizon(gamma, horizon)
    limit = max(limit, discounted_steps[-1]) if np.isfinite(limit) else np.nan

    table = np.empty((7, n))
    cuts = _task_cuts(starts, n_steps=log_ratios.size, longest=longest)
    outputs = [(np.zeros((5, longest)), np.zeros((3, longest + 1)), np.empty(6)) for _ in cuts[:-1]]

    def run(task: int) -> None:
        part = slice(cuts[task], cuts[task + 1])
        accumulate(
            log_ratios,
            rewards,
            starts[part],
            episode_lengths[part],
            discounts,
            discounted_steps,
            limit,
            table[:, part],
            *outputs[task],
        )

    if len(outputs) == 1:
        run(0)
    else:
        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(run, range(len(outputs))))

    step_sums = np.sum([sums for sums, _, _ in outputs], axis=0)
    end_sums = np.sum([sums for _, sums, _ in outputs], axis=0)
    low, high, log_ratio, log_weight, zeros, invalid = np.stack([e for _, _, e in outputs]).T
    if invalid.any():
        _raise_invalid(log_ratios, rewards, episode_lengths)
    _check_size(table, step_sums, float(log_weight.max()), np.isfinite(limit))
    columns = {**dict(zip(_BASE_COLUMNS, table, strict=True)), **scores.columns}
    steps = Steps(scores, rewards, starts, episode_lengths, gamma, horizon)
    for column in extra_columns:
        columns[column.name] = _extra_column(column, steps, n)
    return TrajectoryStatistics(
        columns=columns,
        gamma=gamma,
        horizon=horizon,
        lengths=episode_lengths,
        longest=longest,
        reward_min=float(low.min()),
        reward_max=float(high.max()),
        max_log_ratio=float(log_ratio.max()),
        max_log_weight=float(log_weight.max()),
        n_steps=int(log_ratios.size),
        n_zero_ratios=int(zeros.sum()),
        step_sums=step_sums,
        end_sums=end_sums,
        overlaps=counts,
        steps=steps if keep_steps else None,
    )


def _check_size(
    table: FloatArray, step_sums: FloatArray, log_weight: float, bounded: bool | np.bool_
) -> None:
    """Refuse numbers whose products would overflow."""
    if log_weight > LARGEST_LOG_WEIGHT:
        raise WeightOverflowError(
            "`log_ratios` must not multiply up to a weight that overflows double precision, got a "
            f"log-weight of {log_weight:.6g} in the course of an episode. The two policies have "
            "next to nothing in common, or the log-probabilities are wrong."
        )
    needed = table if bounded else table[:4]
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.max([np.abs(needed).max(), np.square(table[1]).max(), step_sums.max()])
    if not largest < _LARGEST_STATISTIC:
        raise WeightOverflowError(
            "weights times squared returns must stay below "
            f"{_LARGEST_STATISTIC:g} for their products to be computed, got {largest:.3g} (largest "
            f"log-weight {log_weight:.6g}). Rescale the rewards, or check the "
            "log-probabilities."
        )


def _extra_column(column: Column, steps: Steps, n: int) -> FloatArray:
    values = as_float_vector(column.compute(steps), column.name)
    if values.size != n:
        raise InvalidInputError(
            f"column {column.name!r} must have one entry per trajectory, {n}, got {values.size}."
        )
    return values


def _task_cuts(starts: IntArray, n_steps: int, longest: int) -> list[int]:
    """Cut the trajectories into tasks of about equal size; depends on the data's shape only."""
    # Every task owns 8 sums per step index: on few, long episodes more tasks only cost memory.
    n_tasks = max(1, min(_MOST_TASKS, n_steps // _STEPS_PER_TASK, n_steps // (16 * longest)))
    targets = np.arange(1, n_tasks) * (n_steps // n_tasks)
    inner = np.searchsorted(starts, targets)
    return sorted({0, *inner.tolist(), starts.size})


def n_threads() -> int:
    """Number of threads this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def _raise_invalid(log_ratios: FloatArray, rewards: FloatArray, lengths: IntArray) -> None:
    """Name the first invalid value."""
    bad = ~np.isfinite(rewards)
    if bad.any():
        remedy = "Drop or repair the broken episodes."
        raise bad_step("`rewards` must be finite", rewards, bad, lengths, remedy)
    bad = np.isnan(log_ratios) | (log_ratios == np.inf)
    remedy = (
        "A ratio of +inf means that the behavior's probability of an action it took was logged as "
        "0."
    )
    raise bad_step("`log_ratios` must be finite or -inf", log_ratios, bad, lengths, remedy)
