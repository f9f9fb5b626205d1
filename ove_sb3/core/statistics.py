"""Per-trajectory statistics: the reduction of logged steps that every estimate and bound uses.

With ``S_t`` the discounted sum of rewards up to step t, ``C_t`` that of ones, and ``rho_t`` the
product of importance ratios up to step t, a trajectory is reduced to the columns

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
shift of every reward by r0 and a control variate xi enter linearly:
``PDIS(R - r0) = Y - r0 A`` and ``CDIS(R - r0, xi) = X - 2 r0 E + r0^2 B - xi B``. So these seven
columns carry every built-in estimator and bound. Others declare the columns they need as `Column`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_

import numpy as np

from ove_sb3._validation import FloatArray, IntArray
from ove_sb3.errors import InvalidInputError

from .label import Evidence
from .repetition import n_repeated
from .steps import Steps
from .stopping import UNKNOWN_BEGIN, Logging

_FAR = 3e-4  # of a reward: the range of all rewards is less


@dataclass(frozen=True, eq=False)
class TrajectoryStatistics:
    """Statistics of n logged trajectories, one entry per trajectory and column.

    Made by `trajectory_statistics`; shards are joined by `concatenate`.

    Attributes
    ----------
    columns : dict of str to ndarray of float64, (n,)
        ``weights, returns, pdis, cdis, pdis_ones, cdis_ones, cdis_cross`` (w, G, Y, X, A, B, E),
        also available as attributes, and any further `Column`. The last three are NaN when
        ``gamma == 1`` and no horizon was given.
    gamma : float
        Discount factor.
    horizon : int or None
        Largest possible number of steps; None if unknown.
    lengths : ndarray of int64, (n,)
        Number of steps of every trajectory.
    longest : int
        Length of the longest logged episode.
    reward_min, reward_max : float
        Extremes of the logged rewards.
    max_log_ratio : float
        Largest logged per-step log-ratio.
    max_log_weight : float
        Largest logarithm of a product of ratios from the first step of an episode to any later one.
    n_steps, n_zero_ratios : int
        Number of logged steps, and of those whose ratio is exactly 0.
    step_sums : ndarray, (5, longest), or None
        Over the trajectories still running at step t, the sums of rho_t, rho_t S_{t-1},
        rho_t S_{t-1}^2, rho_t S_t and rho_t S_t^2. None after `select`.
    end_sums : ndarray, (3, longest + 1), or None
        Sums of w, w G and w G^2 over the trajectories of each length. None after `select`.
    overlaps : ndarray of int64, (n,), or None
        Number of other trajectories that ended while each was running; None if they followed one
        another. Used only if the behavior changed based on what was logged.
    begins : ndarray of int64, (n,), or None
        Identifies every trajectory among those that were begun, see `logging`.
    logging : Logging or None
        How logging stopped, for logs whose number of trajectories was not fixed in advance. None
        after `select`.
    steps : Steps or None
        The logged steps themselves, where they are still in memory.
    evidence : Evidence
        What is known about the log and the candidate; intervals take it into account.
    """

    columns: Mapping[str, FloatArray] = field(repr=False)
    gamma: float
    horizon: int | None
    lengths: IntArray = field(repr=False)
    longest: int
    reward_min: float
    reward_max: float
    max_log_ratio: float
    max_log_weight: float
    n_steps: int
    n_zero_ratios: int
    step_sums: FloatArray | None = field(default=None, repr=False)
    end_sums: FloatArray | None = field(default=None, repr=False)
    overlaps: IntArray | None = field(default=None, repr=False)
    begins: IntArray | None = field(default=None, repr=False)
    logging: Logging | None = field(default=None, repr=False)
    steps: Steps | None = field(default=None, repr=False)
    evidence: Evidence = field(default=Evidence(), repr=False)

    def __getitem__(self, name: str) -> FloatArray:
        """Column `name`, (n,)."""
        try:
            return self.columns[name]
        except KeyError:
            known = ", ".join(map(repr, self.columns))
            raise InvalidInputError(
                f"`columns` must hold {name!r}, got {known}. Pass its `Column` to "
                "trajectory_statistics(..., columns=[...])."
            ) from None

    @property
    def weights(self) -> FloatArray:
        """Importance weight of every trajectory, w, (n,)."""
        return self.columns["weights"]

    @property
    def returns(self) -> FloatArray:
        """Discounted return of every trajectory, G, (n,)."""
        return self.columns["returns"]

    @property
    def pdis(self) -> FloatArray:
        """Per-decision importance sampling, Y, (n,)."""
        return self.columns["pdis"]

    @property
    def cdis(self) -> FloatArray:
        """Coupled-decision importance sampling, X, (n,)."""
        return self.columns["cdis"]

    @property
    def pdis_ones(self) -> FloatArray:
        """PDIS of rewards of one, A, (n,)."""
        return self.columns["pdis_ones"]

    @property
    def cdis_ones(self) -> FloatArray:
        """CDIS of rewards of one, B, (n,)."""
        return self.columns["cdis_ones"]

    @property
    def cdis_cross(self) -> FloatArray:
        """CDIS of rewards times ones, E, (n,)."""
        return self.columns["cdis_cross"]

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories, n."""
        return int(self.weights.size)

    @property
    def n_unfinished(self) -> int:
        """Number of trajectories that were begun but did not end before logging stopped."""
        if self.logging is None or self.begins is None:
            return 0
        return self.logging.n_unfinished(self.begins)

    @property
    def beginnings_known(self) -> bool:
        """Whether all begun trajectories are known, if their number was not fixed in advance."""
        if self.logging is None:
            return True
        return self.has_beginnings and not self.logging.cut

    @property
    def has_beginnings(self) -> bool:
        """Whether all trajectories that were begun are known by their number."""
        if self.logging is None or self.begins is None:
            return False
        return bool(self.logging.known(self.begins).all())

    @property
    def effective_horizon(self) -> float:
        """C = 1 + gamma + ... over the horizon; infinite if not known to be finite."""
        return effective_horizon(self.gamma, self.horizon)

    @property
    def far_from_zero(self) -> bool:
        """Whether rewards lie so far from 0 that their differences suffer from rounding."""
        width = self.reward_max - self.reward_min
        return 0.0 < width < _FAR * max(abs(self.reward_min), abs(self.reward_max))

    @cached_property
    def n_repeated(self) -> int:
        """Number of trajectories that repeat others, beyond chance."""
        return n_repeated(self.weights, self.returns, self.pdis, self.cdis)

    def __len__(self) -> int:
        return self.n_trajectories

    def __str__(self) -> str:
        horizon = "unknown" if self.horizon is None else str(self.horizon)
        return (
            f"TrajectoryStatistics: {self.n_trajectories} trajectories, {self.n_steps} steps, "
            f"gamma {self.gamma:g}, horizon {horizon}, mean weight {self.weights.mean():.3g}"
        )

    def select(self, indices: IntArray) -> TrajectoryStatistics:
        """Statistics of some of the trajectories, without the sums over steps."""
        return replace(
            self,
            columns={name: column[indices] for name, column in self.columns.items()},
            step_sums=None,
            end_sums=None,
            overlaps=None if self.overlaps is None else self.overlaps[indices],
            lengths=self.lengths[indices],
            begins=None,
            logging=None,
            steps=None,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[TrajectoryStatistics]) -> TrajectoryStatistics:
        """Join the statistics of several shards, in order."""
        if not parts:
            raise InvalidInputError("`parts` must hold at least one TrajectoryStatistics, got 0.")
        for part in parts:
            check_statistics(part, "parts")
        first = parts[0]
        for part in parts:
            if (part.gamma, part.horizon) != (first.gamma, first.horizon):
                raise InvalidInputError(
                    "`parts` must share gamma and horizon, got "
                    f"({first.gamma}, {first.horizon}) and ({part.gamma}, {part.horizon}). "
                    "Compute all shards with the same settings."
                )
            if set(part.columns) != set(first.columns):
                raise InvalidInputError(
                    f"`parts` must have the same columns, got {sorted(first.columns)} and "
                    f"{sorted(part.columns)}. Compute all shards with the same settings."
                )
        longest = max(part.longest for part in parts)
        return cls(
            columns={
                name: np.concatenate([part.columns[name] for part in parts])
                for name in first.columns
            },
            gamma=first.gamma,
            horizon=first.horizon,
            lengths=np.concatenate([part.lengths for part in parts]),
            longest=longest,
            reward_min=min(part.reward_min for part in parts),
            reward_max=max(part.reward_max for part in parts),
            max_log_ratio=max(part.max_log_ratio for part in parts),
            max_log_weight=max(part.max_log_weight for part in parts),
            n_steps=sum(part.n_steps for part in parts),
            n_zero_ratios=sum(part.n_zero_ratios for part in parts),
            step_sums=_join_sums([part.step_sums for part in parts], (5, longest)),
            end_sums=_join_sums([part.end_sums for part in parts], (3, longest + 1)),
            overlaps=_join_overlaps(parts),
            begins=_join_begins(parts),
            evidence=reduce(or_, (part.evidence for part in parts)),
        )


def check_statistics(stats: object, name: str = "stats") -> TrajectoryStatistics:
    """Return `stats` if it is what `trajectory_statistics` makes."""
    if not isinstance(stats, TrajectoryStatistics):
        raise InvalidInputError(
            f"`{name}` must be TrajectoryStatistics, got {type(stats).__name__}. Pass what "
            "trajectory_statistics(log_ratios, rewards, lengths, gamma=...) returns; for a log and "
            "a candidate use evaluate(data, candidate, ...)."
        )
    return stats


def _join_sums(parts: Sequence[FloatArray | None], shape: tuple[int, int]) -> FloatArray | None:
    total = np.zeros(shape)
    for part in parts:
        if part is None:
            return None
        total[:, : part.shape[1]] += part
    return total


def _join_overlaps(parts: Sequence[TrajectoryStatistics]) -> IntArray | None:
    if all(part.overlaps is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(len(p), np.int64) if p.overlaps is None else p.overlaps for p in parts]
    )


def _join_begins(parts: Sequence[TrajectoryStatistics]) -> IntArray | None:
    if all(part.begins is None for part in parts):
        return None
    unknown = np.int64(UNKNOWN_BEGIN)
    return np.concatenate(
        [np.full(len(p), unknown) if p.begins is None else p.begins for p in parts]
    )


def effective_horizon(gamma: float, horizon: int | None) -> float:
    """C = 1 + gamma + ... + gamma^(horizon - 1), infinite for an unbounded sum."""
    if gamma == 1.0:
        return np.inf if horizon is None else float(horizon)
    if horizon is None:
        return 1.0 / (1.0 - gamma)
    if gamma < 0.5:
        return (1.0 - gamma**horizon) / (1.0 - gamma)
    # 1 - gamma is exact near gamma = 1, where 1 - gamma^horizon would lose all digits.
    return -math.expm1(horizon * math.log1p(gamma - 1.0)) / (1.0 - gamma)
