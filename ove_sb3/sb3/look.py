"""One look at a model during training: estimates, bounds, and how sure they are."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.diagnostics import diagnose
from ove_sb3.core.estimators import estimate_mean, estimate_variance, sample_variance
from ove_sb3.core.intervals import mean_interval, variance_interval
from ove_sb3.core.results import Interval
from ove_sb3.core.statistics import TrajectoryStatistics, trajectory_statistics
from ove_sb3.data.completeness import check_complete
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import MeanWeightError, SupportWarning, WeightOverflowError

from .log_prob import log_prob

VOID = "the candidate was trained on these very trajectories: coverage is not known"


@dataclass(frozen=True)
class Look:
    """What one look found.

    Attributes
    ----------
    number : int
        Counts the looks from 1.
    timesteps : int
        Steps of training so far.
    delta : float
        Probability with which any of the bounds of this look may miss.
    mean, variance : float
        Estimates for the candidate's return; NaN if the log says nothing about it.
    mean_interval, variance_interval : Interval
        Each holds with probability 1 - delta / 2, both together with 1 - delta.
    effective_sample_size : float
        About how many episodes of the candidate itself the log is worth.
    n_trajectories : int
        Number of logged episodes.
    behavior_mean, behavior_variance : float
        Of the logged returns themselves.
    warnings : tuple of str
        What to worry about, see `Diagnostics`.
    """

    number: int
    timesteps: int
    delta: float
    mean: float
    variance: float
    mean_interval: Interval
    variance_interval: Interval
    effective_sample_size: float
    n_trajectories: int
    behavior_mean: float
    behavior_variance: float
    warnings: tuple[str, ...]

    @property
    def guaranteed(self) -> bool:
        """Whether the confidence of the bounds is proven."""
        return self.mean_interval.guaranteed and self.variance_interval.guaranteed

    def satisfies(self, max_variance: float | None, min_mean: float | None) -> bool:
        """Whether the bounds keep within both limits, and are guaranteed if there is any."""
        if max_variance is None and min_mean is None:
            return True
        safe = max_variance is None or self.variance_interval.upper <= max_variance
        good = min_mean is None or self.mean_interval.lower >= min_mean
        return safe and good and self.guaranteed


@dataclass(frozen=True)
class Question:
    """What every look asks: how returns are counted, and what is known beforehand.

    Attributes
    ----------
    gamma : float
    horizon : int or None
        None: as noted in the log.
    reward_range, return_range, max_ratio, max_weight
        See `variance_interval`. Without either range: the one noted in the log.
    deterministic : bool
        See `log_prob`.
    """

    gamma: float
    horizon: int | None = None
    reward_range: tuple[float, float] | str | None = None
    return_range: tuple[float, float] | None = None
    max_ratio: float | None = None
    max_weight: float | None = None
    deterministic: bool = False

    def statistics(self, data: Trajectories, log_ratios: FloatArray) -> TrajectoryStatistics:
        """The statistics of `data` for these log-ratios, (n_steps,)."""
        horizon = data.metadata.horizon if self.horizon is None else self.horizon
        check_complete(data, horizon)
        return trajectory_statistics(
            log_ratios,
            data.rewards,
            data.lengths,
            gamma=self.gamma,
            horizon=horizon,
            overlaps=data.overlaps,
        )

    def intervals(
        self, data: Trajectories, stats: TrajectoryStatistics, delta: float
    ) -> tuple[Interval, Interval]:
        """Intervals for mean and variance that hold together with probability 1 - delta."""
        known = self.reward_range
        if known is None and self.return_range is None:
            known = data.metadata.reward_range
        mean, variance = (
            function(
                stats,
                reward_range=known,
                return_range=self.return_range,
                delta=delta / 2,
                max_ratio=self.max_ratio,
                max_weight=self.max_weight,
                adaptive=data.metadata.adaptive,
            )
            for function in (mean_interval, variance_interval)
        )
        return mean, variance

    def check(self, model: Any, data: Trajectories) -> None:
        """Raise now what would be raised at the first look: other spaces, violated ranges."""
        with warnings.catch_warnings():
            # Two episodes need not show every action; a look at all of them will tell.
            warnings.simplefilter("ignore", SupportWarning)
            log_prob(model, data[:2], deterministic=self.deterministic)
        self.intervals(data, self.statistics(data, np.zeros(data.n_steps)), 0.5)


def delta_of_look(delta: float, number: int) -> float:
    """Share of `delta` that look `number` = 1, 2, ... may spend: 6 / (pi k)^2; they add up to 1."""
    return delta * 6.0 / (math.pi * number) ** 2


def look_at(
    model: Any,
    data: Trajectories,
    question: Question,
    *,
    number: int,
    timesteps: int,
    delta: float,
    void: bool,
) -> Look:
    """Judge `model` by `data`.

    Parameters
    ----------
    model : BaseAlgorithm
    data : Trajectories
    question : Question
    number, timesteps, delta
        See `Look`.
    void : bool
        The model depends on `data`: label the bounds as approximate.
    """
    log_ratios = log_prob(model, data, deterministic=question.deterministic) - data.log_probs
    try:
        stats = question.statistics(data, log_ratios)
        mean = estimate_mean(stats, estimator="crossfit")
        variance = estimate_variance(stats)
        intervals = question.intervals(data, stats, delta)
        diagnostics = diagnose(stats, *intervals)
        ess, worries = diagnostics.effective_sample_size, diagnostics.warnings
    except (MeanWeightError, WeightOverflowError) as error:
        # Training goes on, and what always holds still does: the range of possible values.
        mean, variance, ess, worries = math.nan, math.nan, math.nan, (str(error),)
        plain = question.statistics(data, np.zeros(data.n_steps))
        first, second = question.intervals(data, plain, delta)
        intervals = (_trivial(first), _trivial(second))
        warnings.warn(
            f"the bounds of this look say no more than the range of returns does: {error}",
            SupportWarning,
            stacklevel=2,
        )
    if void:
        intervals = (intervals[0].approximate(VOID), intervals[1].approximate(VOID))
    returns = data.returns(question.gamma)
    return Look(
        number=number,
        timesteps=timesteps,
        delta=delta,
        mean=mean,
        variance=variance,
        mean_interval=intervals[0],
        variance_interval=intervals[1],
        effective_sample_size=ess,
        n_trajectories=len(data),
        behavior_mean=float(returns.mean()),
        behavior_variance=sample_variance(returns),
        warnings=worries,
    )


def _trivial(interval: Interval) -> Interval:
    return replace(interval, lower=interval.trivial[0], upper=interval.trivial[1])
