"""Stated assumptions, and the limits on returns and weights that follow from them.

Every guarantee rests on them. Data that contradict them are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ove_sb3._validation import FloatArray, check_integer, check_range, check_real
from ove_sb3.errors import AssumptionError, InvalidInputError, MeanWeightError

from .assigned import balanced, is_assigned, share_factors
from .label import Evidence
from .stated import Assumption
from .statistics import TrajectoryStatistics
from .truncation import MAX_RATIOS

_SLACK = 1e-9  # relative: room for rounding when data are compared with a limit
_SLACK_OF_DERIVED = 1e-3  # with a bound on ratios of networks, which compute in single precision
_SINGLE_PRECISION = 2.0**-23  # relative: rounding of rewards in single precision
_SLACK_OF_WIDTH, _ROUNDING = 1e-3, 1e-12  # the most of it, relative to the range's width
_LONGEST_SUM = 1_000_000
_BET_SIZES = (0.003, 0.03, 0.3, 0.9)  # on the mean weight, in units of the largest loss
_SIGNIFICANT = math.log(1e6)
FROM_DATA = "from_data"
_UNSEEN = " Values that were never seen cannot be."


@dataclass(frozen=True)
class Limits:
    """Limits on returns and weights, all implied by the stated assumptions.

    Attributes
    ----------
    return_range : tuple of float
        The candidate's returns lie in it; infinite ends if nothing is known.
    scaled_reward_range : tuple of float or None
        (c R_min, c R_max), of rewards that may be padded with zeros; None if unknown, in which
        case the per-decision forms have no bounds.
    max_weight : float
        Bound on the full weight w and on every partial product; infinite if unknown.
    max_pdis_weight, max_cdis_weight : float
        Bounds on A/c and B/c^2.
    stated : tuple of Assumption
        The assumptions behind the limits, in words.
    """

    return_range: tuple[float, float]
    scaled_reward_range: tuple[float, float] | None
    max_weight: float
    max_pdis_weight: float
    max_cdis_weight: float
    stated: tuple[Assumption, ...]

    @property
    def max_variance(self) -> float:
        """Popoviciu's bound: a quarter of the squared range of the return."""
        low, high = self.return_range
        return (high - low) ** 2 / 4

    def reweighted(self, factor: float) -> Limits:
        """Limits for weights that are multiplied by at most `factor`."""
        return replace(
            self,
            max_weight=factor * self.max_weight,
            max_pdis_weight=factor * self.max_pdis_weight,
            max_cdis_weight=factor * self.max_cdis_weight,
        )


@dataclass(frozen=True)
class Assumptions:
    """Assumptions stated before seeing the data, checked on construction.

    Attributes
    ----------
    gamma : float
        Discount factor in [0, 1].
    horizon : int or None
        Largest number of steps of an episode; None if unknown.
    reward_range : (float, float), "from_data" or None
        Smallest and largest reward the environment can give. ``"from_data"`` takes the extremes
        of the log and voids the guarantee.
    return_range : (float, float) or None
        Smallest and largest return, where known to be tighter than the rewards imply.
    max_ratio, max_weight : float or None
        Bounds on the importance ratio of one step and on the weight of a whole episode.
    delta : float
        Total probability of a miss, in (0, 1).
    evidence : Evidence
        Facts about the log and the candidate.
    max_ratio_reason : str or None
        Why `max_ratio` holds, if it was derived from the policies and not stated.
    """

    gamma: float
    horizon: int | None = None
    reward_range: tuple[float, float] | str | None = None
    return_range: tuple[float, float] | None = None
    max_ratio: float | None = None
    max_weight: float | None = None
    delta: float = 0.05
    evidence: Evidence = field(default_factory=Evidence)
    max_ratio_reason: str | None = None

    def __post_init__(self) -> None:
        checked = {
            "gamma": check_real(self.gamma, "gamma", 0.0, 1.0),
            "delta": check_real(self.delta, "delta", 0.0, 1.0, closed=False),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", check_integer(self.horizon, "horizon", 1))
        if isinstance(self.reward_range, str):
            if self.reward_range != FROM_DATA:
                raise InvalidInputError(
                    f"`reward_range` must be a pair of numbers or {FROM_DATA!r}, got "
                    f"{self.reward_range!r}."
                )
        elif self.reward_range is not None:
            pair = check_range(self.reward_range, "reward_range")
            object.__setattr__(self, "reward_range", pair)
        if self.return_range is not None:
            pair = check_range(self.return_range, "return_range")
            object.__setattr__(self, "return_range", pair)
        for name in ("max_ratio", "max_weight"):
            bound = getattr(self, name)
            if bound is not None:
                object.__setattr__(self, name, _weight_bound(bound, name))

    @property
    def range_from_data(self) -> bool:
        """Whether the reward range is taken from the data."""
        return isinstance(self.reward_range, str)

    def check_bounded(self) -> None:
        """Refuse assumptions that leave the return unbounded."""
        if self.return_range is not None:
            return
        if self.reward_range is None:
            raise InvalidInputError(
                "`reward_range` (or `return_range`) must be given for a guaranteed interval, got "
                "None. State the smallest and largest reward the environment can give, or use "
                "method='bootstrap'."
            )
        if self.gamma == 1.0 and self.horizon is None:
            raise InvalidInputError(
                "`horizon` must be given for a guaranteed interval when gamma = 1, got None: the "
                "return has no bound. Pass the environment's max_episode_steps, or state "
                "`return_range`."
            )

    def limits(self, stats: TrajectoryStatistics) -> Limits:
        """Limits implied by the assumptions; data that contradict them are refused."""
        stated: list[Assumption] = []
        low, high = -math.inf, math.inf
        scaled: tuple[float, float] | None = None
        if self.reward_range is not None:
            rewards = _reward_range(stats, self.reward_range)
            stated.append(
                Assumption(
                    f"rewards lie in [{rewards[0]:g}, {rewards[1]:g}]"
                    + " (as seen in the data)" * self.range_from_data,
                    "Taken from the log itself, which proves nothing about other rewards."
                    if self.range_from_data
                    else f"Every logged reward was compared.{_UNSEEN}",
                )
            )
            if stats.horizon != 1:
                # Episodes that end early are padded with rewards of 0.
                rewards = min(rewards[0], 0.0), max(rewards[1], 0.0)
            if math.isfinite(stats.effective_horizon):
                scaled = stats.effective_horizon * rewards[0], stats.effective_horizon * rewards[1]
                low, high = scaled
                stated.append(_length(stats))
        if self.return_range is not None:
            known = _return_range(stats, self.return_range)
            checked = f"Every logged return was compared.{_UNSEEN}"
            stated.append(Assumption(f"returns lie in [{known[0]:g}, {known[1]:g}]", checked))
            # Both contain the data, so that they overlap; up to rounding, hence the sorting.
            low, high = sorted((max(low, known[0]), min(high, known[1])))
        if MAX_RATIOS in stats.columns:
            stated.append(
                Assumption(
                    "the behavior is the given policy, whose probabilities were logged",
                    "Its probabilities of the logged actions were computed again and compared.",
                )
            )
        ratio, weight = self._weight_limits(stats, stated)
        return Limits(
            return_range=(low, high),
            scaled_reward_range=scaled,
            max_weight=weight,
            max_pdis_weight=min(weight, _discounted_power_sum(stats, ratio, order=1)),
            max_cdis_weight=min(weight, _discounted_power_sum(stats, ratio, order=2)),
            stated=tuple(stated),
        )

    def _weight_limits(
        self, stats: TrajectoryStatistics, stated: list[Assumption]
    ) -> tuple[float, float]:
        """Bounds on the ratio of one step and on the weight of a trajectory."""
        weight = math.inf
        ratio = self._ratio_limit(stats, stated)
        if ratio == 1.0:
            weight = 1.0
        elif stats.horizon is not None and ratio < math.inf:
            weight = math.exp(min(stats.horizon * math.log(ratio), 709.0))
            weight = weight if weight < math.exp(709.0) else math.inf
        if self.max_weight is not None:
            # A partial product is the mean of the weights that may follow: it has the same bound.
            largest = math.exp(min(stats.max_log_weight, 709.0))
            largest = max(largest, _largest_first_ratio(stats))
            if largest > self.max_weight * (1 + _SLACK):
                raise AssumptionError(
                    "`max_weight` must be at least every product of ratios from the first step of "
                    f"an episode on, got {self.max_weight:g} but the largest is {largest:g}. State "
                    "a bound that follows from how the behavior was built."
                )
            stated.append(
                Assumption(
                    f"no trajectory's importance weight exceeds {self.max_weight:g}",
                    f"Every product of logged ratios was compared.{_UNSEEN}",
                )
            )
            weight = min(weight, self.max_weight)
        return ratio, weight

    def _ratio_limit(self, stats: TrajectoryStatistics, stated: list[Assumption]) -> float:
        ratio, reason = self.max_ratio, self.max_ratio_reason
        if ratio is None:
            return math.inf
        largest = math.exp(min(stats.max_log_ratio, 709.0))
        if MAX_RATIOS in stats.columns:  # also of actions that were not taken
            largest = max(largest, float(stats[MAX_RATIOS].max()))
        if largest > ratio * (1 + (_SLACK if reason is None else _SLACK_OF_DERIVED)):
            raise AssumptionError(
                f"`max_ratio` must be at least every ratio at the logged states, got {ratio:g} but "
                f"the largest is {largest:g}. State a bound that follows from how the behavior was "
                "built."
            )
        because = "" if reason is None else f", {reason}"
        checked = (
            f"Every logged ratio was compared.{_UNSEEN}"
            if reason is None
            else (
                "Derived from how the two policies are built, and every logged ratio was compared."
            )
        )
        stated.append(Assumption(f"no step's importance ratio exceeds {ratio:g}{because}", checked))
        return ratio if reason is None else max(ratio, largest)


def _length(stats: TrajectoryStatistics) -> Assumption:
    """Assumption that bounds the length of an episode, or its effect."""
    if stats.horizon is None:
        checked = "A definition of the return, not a fact about the log."
        return Assumption(f"the discount factor is {stats.gamma:g}", checked)
    checked = f"Every logged episode was compared.{_UNSEEN}"
    steps = f"{stats.horizon} step{'s' * (stats.horizon > 1)}"
    return Assumption(f"episodes have at most {steps}", checked)


def _largest_first_ratio(stats: TrajectoryStatistics) -> float:
    """Infinite if the behavior lacks an action of the candidate at a logged state, else 0."""
    known = MAX_RATIOS in stats.columns
    return math.inf if known and np.isinf(stats[MAX_RATIOS]).any() else 0.0


def _reward_range(
    stats: TrajectoryStatistics, reward_range: tuple[float, float] | str
) -> tuple[float, float]:
    observed = (stats.reward_min, stats.reward_max)
    if isinstance(reward_range, str):
        return observed
    low, high = reward_range
    # Environments often hand out rewards in single precision: -0.6 becomes -0.60000002.
    low, high = min(low, _single(low)), max(high, _single(high))
    return _containing(observed, (low, high), "reward_range", "logged rewards")


def _return_range(
    stats: TrajectoryStatistics, return_range: tuple[float, float]
) -> tuple[float, float]:
    observed = (float(stats.returns.min()), float(stats.returns.max()))
    return _containing(observed, return_range, "return_range", "logged returns", _SINGLE_PRECISION)


def _single(value: float) -> float:
    """`value` rounded to single precision, or itself if that is not possible."""
    rounded = float(np.float32(value)) if abs(value) < 3e38 else value
    return rounded if math.isfinite(rounded) else value


def _containing(
    observed: tuple[float, float],
    stated: tuple[float, float],
    name: str,
    what: str,
    rounding: float = _SLACK,
) -> tuple[float, float]:
    """The stated range, widened by what only rounding has added to the observed one."""
    size = max(abs(stated[0]), abs(stated[1]))
    # Far from zero, rounding of the size of the numbers may be more than the range itself.
    slack = min(rounding * size, _SLACK_OF_WIDTH * (stated[1] - stated[0]) + _ROUNDING * size)
    if observed[0] < stated[0] - slack or observed[1] > stated[1] + slack:
        raise AssumptionError(
            f"`{name}` must contain all {what}, got ({stated[0]:.10g}, {stated[1]:.10g}) but they "
            f"span [{observed[0]:.10g}, {observed[1]:.10g}]. State the range the environment can "
            "produce."
        )
    return min(stated[0], observed[0]), max(stated[1], observed[1])


def check_mean_weight(
    stats: TrajectoryStatistics, n_unfinished: int, max_weight: float = math.inf
) -> None:
    """Refuse weights whose mean is significantly off 1: some probability or bound must be wrong.

    Bets on weights above 1 with a few fixed bet sizes, and against them where they have a bound.
    Where probabilities and bound are right, each side refuses with probability at most 1e-6
    (Ville's inequality).
    """
    weights = balanced(stats).weights
    got = (
        "importance weights must be 1 on average, got a mean of "
        f"{float(weights.mean()):.4g} over {len(stats)} trajectories, which is"
    )
    # An episode that never ended counts as one of weight 0, which is the least it can have.
    if _significant(weights - 1.0, -1.0, n_unfinished, 1.0):
        raise MeanWeightError(
            f"{got} significantly more than 1: "
            "log-probabilities of the behavior or of the candidate are wrong, or "
            "episodes were left out because of what happened in them. Pass log-probabilities, not "
            "probabilities, of the action that was executed, as it was drawn, and all episodes."
        )
    if math.isinf(max_weight):
        return
    if is_assigned(stats):
        max_weight *= float(share_factors(stats, np.arange(len(stats))).max())
    most = max(max_weight, float(weights.max()))  # larger by rounding only
    # Here it counts as one of the largest weight.
    if _significant(1.0 - weights, 1.0 - most, n_unfinished, max(most - 1.0, 1.0)):
        raise MeanWeightError(
            f"{got} significantly less than 1, given that no weight exceeds {max_weight:.4g}: the "
            "behavior lacks actions that the candidate takes, logged probabilities are too large, "
            "`max_ratio` or `max_weight` is too small, or episodes were left out because of what "
            "happened in them. Log with a behavior that can take every action of the candidate, "
            "such as a mixture with it, and state bounds that follow from how it was built."
        )


def _significant(gains: FloatArray, least: float, n_least: int, largest_loss: float) -> bool:
    """Whether bets on gains with mean 0, of which `n_least` more are the `least`, win too much."""
    sizes = np.array(_BET_SIZES) / largest_loss
    capital = [np.sum(np.log1p(b * gains)) + n_least * math.log1p(b * least) for b in sizes]
    return bool(np.logaddexp.reduce(capital) - math.log(len(sizes)) >= _SIGNIFICANT)


def _weight_bound(value: object, name: str) -> float | None:
    """The bound; None for an infinite one, which states nothing."""
    remedy = "Importance ratios average 1 under the behavior, so their bound is at least 1."
    bound = check_real(value, name, 1.0, math.inf, remedy=remedy)
    return bound if math.isfinite(bound) else None


def _discounted_power_sum(stats: TrajectoryStatistics, ratio: float, order: int) -> float:
    """Sum over t of ratio^(t+1) (C_{t+1}^order - C_t^order) / c^order: bounds A/c and B/c^2."""
    c, gamma, horizon = stats.effective_horizon, stats.gamma, stats.horizon
    if not (math.isfinite(ratio) and math.isfinite(c)):
        return math.inf
    if horizon is None:
        # 1 - ratio gamma and 1 - ratio gamma^2, from differences that are exact near 1.
        left = (1.0 - gamma) - (ratio - 1.0) * gamma
        if left <= 0.0:
            return math.inf
        if order == 1:
            return ratio * (1.0 - gamma) / left
        left_squared = left + ratio * gamma * (1.0 - gamma)
        return ratio * (1.0 - gamma) ** 2 * (1.0 + ratio * gamma) / (left * left_squared)
    if horizon > _LONGEST_SUM:
        return 1.0 if ratio == 1.0 else math.inf
    steps = np.arange(horizon)
    discounted_steps = np.concatenate([[0.0], np.cumsum(gamma ** steps.astype(float))])
    with np.errstate(over="ignore", invalid="ignore"):
        # Fused in log space so that a vanishing discount can tame a growing power of the ratio.
        total = float(np.sum(ratio ** (steps + 1.0) * np.diff(discounted_steps**order)) / c**order)
    return total if math.isfinite(total) else math.inf
