"""From logged steps to the seven numbers per trajectory that every estimate and bound needs.

With ``S_t`` the discounted sum of rewards up to step t, ``C_t`` that of ones, and ``rho_t`` the
product of importance ratios up to step t, a trajectory is reduced to

====================  ===  ==============================================
``weights``           w    rho at the last step
``returns``           G    S at the last step
``pdis``              Y    sum of rho_t (S_t - S_{t-1}): per-decision IS
``cdis``              X    sum of rho_t (S_t^2 - S_{t-1}^2): coupled-decision IS
``pdis_ones``         A    Y for rewards of one, padded to the horizon
``cdis_ones``         B    X for rewards of one, padded to the horizon
``cdis_cross``        E    sum of rho_t (S_t C_t - S_{t-1} C_{t-1}), padded
====================  ===  ==============================================

X is the double sum of CDIS grouped by its later step, where it telescopes: O(T), not O(T^2). A
shift of every reward by r0 and a control variate xi enter linearly, so that these seven carry
every estimator and bound: ``PDIS(R - r0) = Y - r0 A`` and
``CDIS(R - r0, xi) = X - 2 r0 E + r0^2 B - xi B``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import (
    FloatArray,
    IntArray,
    as_counts,
    as_float_vector,
    as_lengths,
    check_integer,
    check_real,
    check_same_size,
)
from ove_sb3.errors import InvalidInputError, WeightOverflowError

from .step_kernel import LARGEST_LOG_WEIGHT, accumulate

_STEPS_PER_TASK = 1 << 18
_MOST_TASKS = 64
_FAR = 3e-4  # of a reward: the range of all rewards is less
_LARGEST_STATISTIC = 1e75  # its fourth power is still a finite number


@dataclass(frozen=True, eq=False)
class TrajectoryStatistics:
    """What the estimators and intervals need to know of n logged trajectories.

    Made by `trajectory_statistics`; statistics of several shards are joined by `concatenate`.

    Attributes
    ----------
    weights, returns, pdis, cdis, pdis_ones, cdis_ones, cdis_cross : ndarray of float64, (n,)
        The seven numbers per trajectory: w, G, Y, X, A, B, E. The last three are NaN when
        ``gamma == 1`` and no horizon was given.
    gamma : float
        Discount factor.
    horizon : int or None
        Largest possible number of steps; None if unknown.
    step_sums : ndarray, (5, longest)
        Over the trajectories still running at step t, the sums of rho_t, rho_t S_{t-1},
        rho_t S_{t-1}^2, rho_t S_t and rho_t S_t^2.
    end_sums : ndarray, (3, longest + 1)
        Sums of w, w G and w G^2 over the trajectories of each length.
    reward_min, reward_max : float
        Extremes of the logged rewards.
    max_log_ratio : float
        Largest logged per-step log-ratio.
    n_steps, n_zero_ratios : int
        Number of logged steps, and of those whose ratio is exactly 0.
    overlaps : ndarray of int64, (n,), or None
        How many other trajectories ended while each was under way; None if they followed one
        another. Of interest only if the behavior changed in the light of what was logged.
    """

    weights: FloatArray = field(repr=False)
    returns: FloatArray = field(repr=False)
    pdis: FloatArray = field(repr=False)
    cdis: FloatArray = field(repr=False)
    pdis_ones: FloatArray = field(repr=False)
    cdis_ones: FloatArray = field(repr=False)
    cdis_cross: FloatArray = field(repr=False)
    gamma: float
    horizon: int | None
    step_sums: FloatArray = field(repr=False)
    end_sums: FloatArray = field(repr=False)
    reward_min: float
    reward_max: float
    max_log_ratio: float
    n_steps: int
    n_zero_ratios: int
    overlaps: IntArray | None = field(default=None, repr=False)

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories, n."""
        return int(self.weights.size)

    @property
    def longest(self) -> int:
        """Length of the longest logged episode."""
        return int(self.step_sums.shape[1])

    @property
    def annuity(self) -> float:
        """C = 1 + gamma + ... over the horizon; infinite if that is not known to be finite."""
        return annuity(self.gamma, self.horizon)

    @property
    def far_from_zero(self) -> bool:
        """Whether rewards lie so far from 0 that their differences suffer from rounding."""
        spread = self.reward_max - self.reward_min
        return 0.0 < spread < _FAR * max(abs(self.reward_min), abs(self.reward_max))

    def __len__(self) -> int:
        return self.n_trajectories

    def __str__(self) -> str:
        horizon = "unknown" if self.horizon is None else str(self.horizon)
        return (
            f"TrajectoryStatistics: {self.n_trajectories} trajectories, {self.n_steps} steps, "
            f"gamma {self.gamma:g}, horizon {horizon}, mean weight {self.weights.mean():.3g}"
        )

    @classmethod
    def concatenate(cls, parts: Sequence[TrajectoryStatistics]) -> TrajectoryStatistics:
        """Join the statistics of several shards, in order."""
        if not parts:
            raise InvalidInputError("`parts` must hold at least one TrajectoryStatistics, got 0.")
        first = parts[0]
        for part in parts:
            if (part.gamma, part.horizon) != (first.gamma, first.horizon):
                raise InvalidInputError(
                    "`parts` must share gamma and horizon, got "
                    f"({first.gamma}, {first.horizon}) and ({part.gamma}, {part.horizon}). "
                    "Compute all shards with the same settings."
                )
        longest = max(part.longest for part in parts)
        step_sums, end_sums = np.zeros((5, longest)), np.zeros((3, longest + 1))
        for part in parts:
            step_sums[:, : part.longest] += part.step_sums
            end_sums[:, : part.longest + 1] += part.end_sums
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS
        }
        return cls(
            **joined,
            gamma=first.gamma,
            horizon=first.horizon,
            step_sums=step_sums,
            end_sums=end_sums,
            reward_min=min(part.reward_min for part in parts),
            reward_max=max(part.reward_max for part in parts),
            max_log_ratio=max(part.max_log_ratio for part in parts),
            n_steps=sum(part.n_steps for part in parts),
            n_zero_ratios=sum(part.n_zero_ratios for part in parts),
            overlaps=_join_overlaps(parts),
        )


def _join_overlaps(parts: Sequence[TrajectoryStatistics]) -> IntArray | None:
    if all(part.overlaps is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(p), np.int64) if p.overlaps is None else p.overlaps for p in parts]
    )


_COLUMNS = tuple(f.name for f in fields(TrajectoryStatistics))[:7]


def annuity(gamma: float, horizon: int | None) -> float:
    """C = 1 + gamma + ... + gamma^(horizon - 1), infinite for an unbounded sum."""
    if gamma == 1.0:
        return np.inf if horizon is None else float(horizon)
    if horizon is None:
        return 1.0 / (1.0 - gamma)
    return float((1.0 - gamma**horizon) / (1.0 - gamma))


def trajectory_statistics(
    log_ratios: object,
    rewards: object,
    lengths: object,
    *,
    gamma: float,
    horizon: int | None = None,
    overlaps: object = None,
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
        For episodes of several environments that ran at once under a behavior that learned: in
        the order in which they ended, how many others ended while each was under way.

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
    return shard_statistics(
        log_ratios, rewards, lengths, gamma=gamma, horizon=horizon, overlaps=overlaps, fewest=2
    )


def shard_statistics(
    log_ratios: object,
    rewards: object,
    lengths: object,
    *,
    gamma: float,
    horizon: int | None = None,
    overlaps: object = None,
    fewest: int = 1,
) -> TrajectoryStatistics:
    """The same for a part of the trajectories, to be joined by `concatenate`: one is enough."""
    log_ratios = as_float_vector(log_ratios, "log_ratios")
    rewards = as_float_vector(rewards, "rewards")
    check_same_size(log_ratios, rewards, ("log_ratios", "rewards"))
    episode_lengths = as_lengths(lengths, log_ratios.size, fewest)
    gamma = check_real(gamma, "gamma", 0.0, 1.0)
    longest = int(episode_lengths.max())
    if horizon is not None:
        horizon = check_integer(horizon, "horizon", 1)
        if horizon < longest:
            raise InvalidInputError(
                f"`horizon` must be at least the longest episode, got {horizon} but episode "
                f"{int(episode_lengths.argmax())} has {longest} steps."
            )
    n = episode_lengths.size
    if overlaps is not None:
        counts = as_counts(overlaps, "overlaps", n)
        overlaps = counts if counts.any() else None
    starts = np.concatenate([[0], np.cumsum(episode_lengths)[:-1]])
    discounts = gamma ** np.arange(longest, dtype=np.float64)
    annuities = np.concatenate([[0.0], np.cumsum(discounts)])
    limit = annuity(gamma, horizon)
    limit = max(limit, annuities[-1]) if np.isfinite(limit) else np.nan

    columns = np.empty((7, n))
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
            annuities,
            limit,
            columns[:, part],
            *outputs[task],
        )

    if len(outputs) == 1:
        run(0)
    else:
        with ThreadPoolExecutor(n_threads()) as pool:
            list(pool.map(run, range(len(outputs))))

    step_sums = np.sum([sums for sums, _, _ in outputs], axis=0)
    end_sums = np.sum([sums for _, sums, _ in outputs], axis=0)
    low, high, log_ratio, log_weight, zeros, inadmissible = np.stack([e for _, _, e in outputs]).T
    if inadmissible.any():
        _raise_inadmissible(log_ratios, rewards, starts)
    if log_weight.max() > LARGEST_LOG_WEIGHT:
        raise WeightOverflowError(
            "`log_ratios` must not multiply up to a weight that overflows double precision, got a "
            f"log-weight of {log_weight.max():.6g} on the way through an episode. The two "
            "policies have next to nothing in common, or the log-probabilities are wrong."
        )
    needed = columns if np.isfinite(limit) else columns[:4]
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.max([np.abs(needed).max(), np.square(columns[1]).max(), step_sums.max()])
    if not largest < _LARGEST_STATISTIC:
        raise WeightOverflowError(
            "weights times squared returns must stay below "
            f"{_LARGEST_STATISTIC:g} for their products to be computed, got {largest:.3g} (largest "
            f"log-weight {log_weight.max():.6g}). Rescale the rewards, or check the "
            "log-probabilities."
        )
    w, G, Y, X, A, B, E = columns
    return TrajectoryStatistics(
        weights=w,
        returns=G,
        pdis=Y,
        cdis=X,
        pdis_ones=A,
        cdis_ones=B,
        cdis_cross=E,
        gamma=gamma,
        horizon=horizon,
        step_sums=step_sums,
        end_sums=end_sums,
        reward_min=float(low.min()),
        reward_max=float(high.max()),
        max_log_ratio=float(log_ratio.max()),
        n_steps=int(log_ratios.size),
        n_zero_ratios=int(zeros.sum()),
        overlaps=overlaps,
    )


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


def _raise_inadmissible(log_ratios: FloatArray, rewards: FloatArray, starts: IntArray) -> None:
    """Name the first value that is not admissible."""
    bad = ~np.isfinite(rewards)
    if bad.any():
        raise InvalidInputError(
            f"`rewards` must be finite, got {_first_place(rewards, bad, starts)}. Drop or repair "
            "the broken episodes."
        )
    bad = np.isnan(log_ratios) | (log_ratios == np.inf)
    raise InvalidInputError(
        f"`log_ratios` must be finite or -inf, got {_first_place(log_ratios, bad, starts)}. A "
        "ratio of +inf means that the behavior's probability of an action it took was logged as 0."
    )


def _first_place(values: FloatArray, bad: NDArray[np.bool_], starts: IntArray) -> str:
    places = np.flatnonzero(bad)
    episode = int(np.searchsorted(starts, places[0], side="right")) - 1
    return (
        f"{values[places[0]]} at episode {episode}, step {places[0] - starts[episode]} "
        f"({places.size} of {values.size} entries)"
    )
