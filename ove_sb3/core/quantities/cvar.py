"""Mean of the worst returns: the conditional value at risk.

Let q be the p-quantile and ``phi`` the indicator of the worst fraction p: 1 below q, a fraction of
1 at q, 0 above, with mean p. Then ``p CVaR = E[phi G] = p m - E[phi (m - G)]`` for every m. Both
bounds follow from comparing phi with an indicator that does not depend on q:

- lower: ``phi (m - G) <= max(m - G, 0)`` for every m;
- upper: if q is in (l, r], then 1{G <= l} <= phi, and r - G >= 0 wherever phi > 0, so that
  ``CVaR <= E[v]`` with ``v = r - 1{G <= l} (r - G) / p``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numba
import numpy as np

from ove_sb3._validation import FloatArray, check_real
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.betting.averages import (
    BLOCKS,
    mean_target,
    target_lower,
    value_forms,
)
from ove_sb3.core.betting.forms import AnyForm
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.betting.targets import ChosenBets
from ove_sb3.core.betting.warm_up import WarmUp
from ove_sb3.core.estimators.weighted_distribution import WeightedDistribution
from ove_sb3.core.pilot import PilotDistribution, known_weights
from ove_sb3.core.sample import Sample

from .base import Quantity, number_argument, percentage, register_quantity, short_number

_SHARES = np.array([0.25, 0.5, 1.0])  # of p: levels of the m of the lower bound
_ERRORS = np.array([-1.0, 1.0])  # of the pilot, further levels
_SLACK = 0.15  # of the cell that holds the quantile, in standard errors of the CVaR
_DENSE = 2.0  # standard errors of the pilot within which cells are small
_FINEST = 8.0  # cells per standard error of the pilot
_MOST_CELLS = 40  # on either side; the remaining range is one cell
_ALIKE = 0.25  # relative difference of the mean excess of cells that have the same bets
_GROWTH = {-1.0: 1.5, 1.0: 4.0}  # of the cells further out, to the left and right


@dataclass(frozen=True)
class CVaR(Quantity):
    """Mean of the worst fraction `p` of the returns, the conditional value at risk."""

    p: float

    kind = "cvar"
    default_estimator = "wis"
    is_location = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", check_real(self.p, "p", 0.0, 1.0, closed=False))

    @property
    def name(self) -> str:
        """Short name, such as ``"cvar:0.1"``."""
        return f"cvar:{short_number(self.p)}"

    @property
    def label(self) -> str:
        """Display name."""
        return f"CVaR {percentage(self.p)}"

    @property
    def definition(self) -> str:
        """What it says about episodes."""
        return f"the average of the lowest {percentage(self.p)} of the episodes"

    def meaning(self, lower: str | None, upper: str | None, verb: str = "return") -> str | None:
        """Statement about episodes that the lower bound implies."""
        if lower is None:
            return None
        return f"the lowest {percentage(self.p)} of episodes {verb} at least {lower} on average"

    @property
    def parameter(self) -> float:
        """The fraction p."""
        return self.p

    def of_sample(self, returns: FloatArray) -> float:
        """Mean of the worst fraction p of the returns."""
        return WeightedDistribution.of(returns, np.ones_like(returns)).cvar(self.p)

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """Range of the return."""
        return limits.return_range

    def betting_lower(self, sample: Sample, level: float) -> float:
        """Lower confidence bound by betting."""
        return cvar_lower(sample, self.p, level)

    def betting_upper(self, sample: Sample, level: float) -> float:
        """Upper confidence bound by betting."""
        return cvar_upper(sample, self.p, level)


register_quantity("cvar", number_argument("cvar", CVaR))


def cvar_lower(sample: Sample, p: float, level: float) -> float:
    """Lower confidence bound on the CVaR: that of E[m - max(m - G, 0) / p] for several m.

    Each is at most the CVaR. The pilot fixes the values of m. The one to bet on is chosen per
    epoch, from its past.
    """
    schedule, pilot = _prepare(sample)
    error = pilot.own_error(p)
    levels = np.clip(np.concatenate([_SHARES * p, p + _ERRORS * error]), 0.0, 1.0)
    reference = pilot.quantile(p)
    forms: list[AnyForm] = []
    for m in np.unique(pilot.quantiles(levels)):
        values = m - np.maximum(m - sample.returns, 0.0) / p
        lowest = m - max(m - pilot.low, 0.0) / p
        forms += value_forms(sample, values, lowest, m, reference)
    low, high = pilot.low - reference, pilot.high - reference
    bets = mean_target(forms, schedule, level, as_charged=True)
    target = replace(bets.target, warm_up=_warm_up(sample, reference, schedule, p, level))
    bound = target_lower(replace(bets, target=target), schedule, level, low, high)
    return min(max(reference + bound, pilot.low), pilot.high)


def _warm_up(
    sample: Sample, reference: float, schedule: Schedule, p: float, level: float
) -> WarmUp | None:
    """Bets on the pilot for the lower bound, with an m of every epoch from its past.

    The grid is measured from `reference`, which the bets must not depend on.
    """
    G = sample.returns[: schedule.pilot]

    def value(k: int) -> tuple[FloatArray, float, float]:
        past = WeightedDistribution.of(G[:k], known_weights(sample.weights[:k]))
        m = past.quantile(p)
        v = m - np.maximum(m - G, 0.0) / p
        lowest = m - max(m - sample.limits.return_range[0], 0.0) / p
        return v, lowest, past.cvar(p)

    bets = WarmUp.of_values(sample.weights, value, sample.limits.max_weight, schedule, level)
    return None if bets is None else replace(bets, shifts=bets.shifts + reference)


def cvar_upper(sample: Sample, p: float, level: float) -> float:
    """Upper confidence bound on the CVaR: the largest over cells (l, r] that cover the range.

    Only the cell of the true quantile matters, so no union bound over cells is needed. Cells are
    fixed by the pilot and tested from its quantile outward. One whose r is no larger than the
    bound so far cannot raise it.
    """
    schedule, pilot = _prepare(sample)
    edges = _edges(pilot, p)
    middle = min(int(np.searchsorted(edges, pilot.quantile(p))), edges.size - 1)
    cells = sorted(range(1, edges.size), key=lambda k: abs(k - middle))
    own = sample.returns[: pilot.size]
    expected = {k: pilot.mean(_excess(own, edges[k - 1], edges[k], p)) for k in cells}
    # Which cell another one shares its bets with must not depend on what is bet on.
    models: dict[int, int] = {}
    model = cells[0]
    for k in cells:
        if abs(expected[k] - expected[model]) > _ALIKE * expected[model]:
            model = k
        models[k] = model
    bound, bets = pilot.low, dict[int, _CellBets]()
    for k in cells:
        left, r = edges[k - 1], edges[k]
        if r <= bound:
            continue
        model = models[k]
        if model not in bets:
            bets[model] = _CellBets.of(
                sample,
                _excess(sample.returns, edges[model - 1], edges[model], p),
                (edges[model] - pilot.low) / p,
                expected[model],
                schedule,
                level,
            )
        excess, highest = _excess(sample.returns, left, r, p), (r - pilot.low) / p
        bound = max(bound, r - bets[model].lower(excess, highest, expected[k], r - bound))
    return bound


@numba.njit(cache=True, nogil=True)
def _excess(returns: FloatArray, left: float, r: float, p: float) -> FloatArray:
    """Excess of r over v, 1{G <= l} (r - G) / p, in one pass over the returns."""
    excess = np.empty(returns.shape[0])
    for i in range(returns.shape[0]):
        excess[i] = (r - returns[i]) / p if returns[i] <= left else 0.0
    return excess


@dataclass(frozen=True)
class _CellBets:
    """Bets against one cell of the upper bound, which do for cells that are much alike.

    Only the columns of the excess and the grid differ: the lower bound on the bet target depends on
    the excess being at least 0, and its second moment is a prediction that need not be exact.
    """

    bets: ChosenBets
    weights: list[FloatArray]
    coefficients: FloatArray
    expected: float
    schedule: Schedule
    level: float

    @classmethod
    def of(
        cls,
        sample: Sample,
        excess: FloatArray,
        highest: float,
        expected: float,
        schedule: Schedule,
        level: float,
    ) -> _CellBets:
        """Bets chosen for the cell with this excess, of mean `expected` in the pilot."""
        forms = value_forms(sample, excess, 0.0, highest)
        bets = mean_target(forms, schedule, level, as_charged=True)
        weights = [form.bet_columns[2:] for form in bets.forms]
        return cls(bets, weights, bets.coefficients_from(1), expected, schedule, level)

    def lower(self, excess: FloatArray, highest: float, expected: float, enough: float) -> float:
        """Lower bound on the mean of an excess."""
        columns = [row for own in self.weights for row in (own[0] * excess, *own)]
        target = replace(
            self.bets.target, columns=np.stack(columns), coefficients=self.coefficients
        )
        center = self.bets.center + expected - self.expected
        bets = replace(self.bets, target=target, center=center)
        return target_lower(bets, self.schedule, self.level, 0.0, highest, enough=enough)


def _prepare(sample: Sample) -> tuple[Schedule, PilotDistribution]:
    schedule = sample.schedule(BLOCKS, large_pilot=True)
    limits = sample.limits.return_range
    return schedule, PilotDistribution(sample.returns, sample.weights, schedule, *limits)


def _edges(pilot: PilotDistribution, p: float) -> FloatArray:
    """Edges of the cells, increasing from the lowest to the highest possible return.

    A cell that holds the quantile, and mass u, adds about ``u (r - l) / (2 p)`` to the bound. That
    stays below a share of the standard error while the quantile may plausibly be in the cell. Cells
    further out grow, as long as their value stays below the CVaR.
    """
    wide = pilot.own_error(p)
    around = pilot.quantiles(np.clip([p - wide, p + wide], 0.0, 1.0))
    slope = float(around[1] - around[0]) / (2.0 * wide)  # of the quantile in its level
    q = pilot.quantile(p)
    shortfall = np.maximum(q - pilot.returns, 0.0)
    spread = math.sqrt(pilot.mean_square(shortfall) / pilot.n) / p  # about that of the CVaR
    step = math.sqrt(2.0 * p * _SLACK * spread / slope) if slope > 0.0 else wide
    step = max(step, wide / _FINEST)
    allowed = q - pilot.mean(shortfall) / p + _SLACK * spread

    def too_wide(low: float, high: float) -> bool:
        left, r = pilot.quantiles(np.clip([low, high], 0.0, 1.0))
        return bool(
            r - pilot.mean(np.where(pilot.returns <= left, r - pilot.returns, 0.0)) / p > allowed
        )

    levels = [p - step / 2, p + step / 2]
    for sign, end in ((-1.0, 0.0), (1.0, 1.0)):
        level, width = p + sign * step / 2, step
        for _ in range(_MOST_CELLS):
            if sign * (end - level) <= 0.0:
                break
            if abs(level - p) >= _DENSE * wide or width < step:
                width *= _GROWTH[sign]
            while sign < 0.0 and width > step / _FINEST and too_wide(level - width, level):
                width /= _GROWTH[sign]  # also below a step, where returns lie far apart
            level += sign * width
            levels.append(level)
    inner = pilot.quantiles(np.clip(np.sort(levels), 0.0, 1.0))
    return np.unique(np.concatenate([[pilot.low], inner, [pilot.high]]))
