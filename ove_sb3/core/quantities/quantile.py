"""Quantiles of the return."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ove_sb3._validation import FloatArray, IntArray, check_real
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.betting.averages import BLOCKS, mean_target, value_forms
from ove_sb3.core.betting.capital import BetTarget, last_rejected
from ove_sb3.core.betting.grid import grid_around
from ove_sb3.core.betting.moments import PAST
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.betting.targets import ChosenBets
from ove_sb3.core.betting.warm_up import WarmUp
from ove_sb3.core.estimators.weighted_distribution import WeightedDistribution, rounding
from ove_sb3.core.pilot import PilotDistribution, known_weights
from ove_sb3.core.sample import Sample
from ove_sb3.core.sorted_returns import sorted_returns

from .base import (
    Quantity,
    number_argument,
    percentage,
    register_quantity,
    short_number,
    without_argument,
)

_STEP = 0.1  # of the grid near the quantile, in standard errors of the distribution function
_SEEN = 5.0  # fewest observations of the rarer outcome from which its variance is estimated


@dataclass(frozen=True)
class Quantile(Quantity):
    """Quantile of the return: the least x with P(G <= x) >= p."""

    p: float

    kind = "quantile"
    default_estimator = "wis"
    is_location = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", check_real(self.p, "p", 0.0, 1.0, closed=False))

    @property
    def name(self) -> str:
        """Short name, such as ``"quantile:0.05"``; ``"median"`` for p = 0.5."""
        return "median" if self.p == 0.5 else f"quantile:{short_number(self.p)}"

    @property
    def label(self) -> str:
        """Display name."""
        return "median" if self.p == 0.5 else f"{percentage(self.p)} quantile"

    @property
    def definition(self) -> str:
        """What it says about episodes."""
        if self.p == 0.5:
            return "the value that half of the episodes are at or below"
        return f"the value that {percentage(self.p)} of the episodes are at or below"

    def meaning(self, lower: str | None, upper: str | None, verb: str = "return") -> str | None:
        """Statement about episodes that the bound on the side of the tail implies."""
        if self.p <= 0.5:
            share, end = percentage(1 - self.p), f"at least {lower}"
        else:
            share, end = percentage(self.p), f"at most {upper}"
        known = lower if self.p <= 0.5 else upper
        return None if known is None else f"at least {share} of episodes {verb} {end}"

    @property
    def parameter(self) -> float:
        """The probability p."""
        return self.p

    def of_sample(self, returns: FloatArray) -> float:
        """Smallest x such that at least a fraction p of the returns is at most x."""
        return WeightedDistribution.of(returns, np.ones_like(returns)).quantile(self.p)

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """Range of the return."""
        return limits.return_range

    def betting_lower(self, sample: Sample, level: float) -> float:
        """Lower confidence bound by betting."""
        return threshold_lower(sample, 1.0 - self.p, level)

    def betting_upper(self, sample: Sample, level: float) -> float:
        """Upper confidence bound by betting."""
        return -threshold_lower(sample, self.p, level, sign=-1.0)


register_quantity("quantile", number_argument("quantile", Quantile))
register_quantity("median", without_argument(lambda: Quantile(0.5), "median"))


def threshold_lower(sample: Sample, mass: float, level: float, *, sign: float = 1.0) -> float:
    """Largest x for which P(sign G >= x) > mass is proven, at the given level.

    The thresholds x are an increasing sequence fixed by the pilot. Each tests "E[w 1{sign G >= x}]
    <= mass", and the first that is not rejected ends the sequence. The result is wrong only if
    the first true hypothesis is rejected: no union bound over the thresholds is needed. With >=,
    the result is exact at atoms.
    """
    schedule = sample.schedule(BLOCKS, large_pilot=True)
    low, high = sorted(sign * end for end in sample.limits.return_range)
    G = sign * sample.returns
    pilot = PilotDistribution(G, sample.weights, schedule, low, high)
    p = 1.0 - mass
    unit = pilot.standard_error(p)
    error = schedule.grid_error(pilot.own_error(p))
    thresholds = pilot.thresholds(grid_around(p, unit, 0.0, 1.0, error=error, step=_STEP))
    slack = rounding(np.array([low, high]))
    thresholds, ranks = _ranked(sample, thresholds, slack, sign)
    if not thresholds.size:
        return low
    above = (pilot.quantile(p) - slack <= G).astype(np.float64)
    forms = value_forms(sample, above, 0.0, 1.0)
    bets = mean_target(forms, schedule, level, as_charged=True)
    target = _for_thresholds(sample, bets, schedule, mass, ranks)
    target = replace(target, scales=_scales(target, schedule, above, thresholds.size))
    target = replace(target, warm_up=_warm_up(sample, G, schedule, mass, level))
    index = last_rejected(target, schedule, np.full(thresholds.size, mass), level)
    return float(thresholds[index]) if index >= 0 else low


def _warm_up(
    sample: Sample, G: FloatArray, schedule: Schedule, mass: float, level: float
) -> WarmUp | None:
    """Bets on the pilot, for all thresholds: w 1{G >= x} is a gain up to the rank."""

    def above(k: int) -> tuple[FloatArray, float, float]:
        past = WeightedDistribution.of(G[:k], known_weights(sample.weights[:k]))
        return (past.quantile(1.0 - mass) <= G[: schedule.pilot]).astype(np.float64), 0.0, mass

    return WarmUp.of_values(
        sample.weights, above, sample.limits.max_weight, schedule, level, gains=True
    )


def _ranked(
    sample: Sample, thresholds: FloatArray, slack: float, sign: float
) -> tuple[FloatArray, IntArray]:
    """Thresholds, and how many of them every observation reaches, in the order of processing.

    Without the thresholds whose test equals that of a larger one: no weight lies between them.
    """
    known = sorted_returns(sample.stats)
    n = known.values.size
    if sign > 0.0:  # reached from a position on
        cuts = np.searchsorted(known.values, thresholds - slack, side="left")
        between = np.diff(known.n_weighted[np.append(cuts, n)])
    else:  # reached before a position
        cuts = np.searchsorted(known.values, slack - thresholds, side="right")
        between = -np.diff(known.n_weighted[np.append(cuts, 0)])
    kept = between > 0
    passed = np.cumsum(np.bincount(cuts[kept], minlength=n + 1))[:n]
    reached = passed if sign > 0.0 else np.count_nonzero(kept) - passed
    return thresholds[kept], np.asarray(reached[known.positions][sample.order])


def _scales(
    target: BetTarget, schedule: Schedule, above: FloatArray, n_points: int
) -> FloatArray | None:
    """Second moments at every threshold over that at the pilot's quantile, from the past.

    The tests of thresholds in the tail come first and are the easiest: hardly an outcome is beyond
    them. With bets that are sized for the quantile they could fail all the same.
    """
    assert target.gains is not None
    assert target.ranks is not None
    scales = np.ones((len(schedule.epochs), n_points))
    for e, end in enumerate(schedule.epochs.tolist()):
        past = slice(max(0, end - PAST), end)
        base = np.einsum("i,in->n", target.coefficients[e], target.columns[:, past])
        gains, ranks = target.gains[past], target.ranks[past]
        n_beyond = np.count_nonzero(gains[above[past] == 0.0])
        at_quantile = float(np.var(base + gains * above[past]))
        if not n_beyond or not at_quantile > 0.0:
            continue
        first = base.sum() + _reaching(gains, ranks, n_points)
        second = np.sum(base**2) + _reaching(gains * (2.0 * base + gains), ranks, n_points)
        variances = np.maximum(second / base.size - (first / base.size) ** 2, 0.0)
        # One further outcome beyond each threshold is taken for granted.
        scales[e] = (variances / at_quantile + 1.0 / n_beyond) / (1.0 + 1.0 / n_beyond)
    return np.minimum(scales, 1.0)


def _reaching(values: FloatArray, ranks: IntArray, n_points: int) -> FloatArray:
    """Sum over the observations that reach each of the thresholds."""
    by_rank = np.bincount(ranks, values, minlength=n_points + 1)
    return np.asarray(by_rank[::-1].cumsum()[::-1][1:])


def _for_thresholds(
    sample: Sample, bets: ChosenBets, schedule: Schedule, mass: float, ranks: IntArray
) -> BetTarget:
    """Extend the bet target of one indicator to the indicators of all thresholds.

    Only the column w 1{G >= x} differs: it becomes a gain of w up to the observation's rank. Until
    the rarer outcome has been seen a few times, its variance is taken to be that of a fair coin.
    """
    seen = schedule.epochs * min(mass, 1.0 - mass)
    least = mass * (1.0 - mass) * np.minimum(1.0, _SEEN / seen)
    target = bets.target
    return replace(
        target,
        columns=np.concatenate([form.bet_columns[2:] for form in bets.forms]),
        coefficients=bets.coefficients_from(2),
        second_moments=np.maximum(target.second_moments, least),
        max_excess=np.full_like(target.max_excess, np.inf),
        gains=sample.weights,
        ranks=ranks,
    )
