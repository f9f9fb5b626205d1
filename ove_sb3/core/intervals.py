"""Confidence intervals for the variance and the mean of the candidate's return."""

from __future__ import annotations

import math

import numpy as np

from ove_sb3._validation import IntArray, as_generator, check_choice, check_integer, check_real
from ove_sb3.errors import InvalidInputError

from .approximate import (
    APPROXIMATE_ESTIMATORS,
    BOOTSTRAP_KINDS,
    SmoothStatistic,
    bootstrap_bounds,
    delta_bounds,
    mean_statistic,
    variance_statistic,
)
from .betting_intervals import mean_lower, variance_lower, variance_upper
from .estimators import warn_if_blind
from .limits import Limits, check_mean_weight, resolve_limits
from .mean_bounds import MEAN_BOUNDS
from .paper_interval import (
    paper_mean_lower,
    paper_mean_upper,
    paper_variance_lower,
    paper_variance_upper,
)
from .results import Interval
from .statistics import TrajectoryStatistics

METHODS = ("betting", "paper", "bootstrap", "delta")
SIDES = ("both", "lower", "upper")


def variance_interval(
    stats: TrajectoryStatistics,
    *,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    delta: float = 0.05,
    method: str = "betting",
    side: str = "both",
    max_ratio: float | None = None,
    max_weight: float | None = None,
    adaptive: bool = False,
    mean_bound: str | None = None,
    estimator: str | None = None,
    mean_square: str | None = None,
    bootstrap_kind: str | None = None,
    n_resamples: int | None = None,
    rng: int | np.random.Generator | None = 0,
) -> Interval:
    """Confidence interval for the variance of the candidate's return.

    Parameters
    ----------
    stats : TrajectoryStatistics
        From `trajectory_statistics`.
    reward_range : (float, float) or "from_data"
        Smallest and largest reward the environment can give. It is an assumption: a logged reward
        outside it is an error. ``"from_data"`` takes the extremes of the log, and the interval
        is then labelled approximate. Unless ``horizon == 1``, the range is widened to contain
        0, because episodes that end early are padded with rewards of 0.
    return_range : (float, float), optional
        Smallest and largest return, where known to be tighter than the rewards imply.
    delta : float
        Total probability of a miss, over both sides or over the one asked for.
    method : {"betting", "paper", "bootstrap", "delta"}
        ``"betting"`` (default): guaranteed, several times narrower than the paper's.
        ``"paper"``: guaranteed, Algorithms 3 and 4 of the paper with their errors mended.
        ``"bootstrap"``: approximate, Algorithm 5 and its kin. ``"delta"``: approximate, normal
        limits with the standard error of the estimator.
    side : {"both", "lower", "upper"}
        A side that is not asked for is at the end of the possible range.
    max_ratio : float, optional
        Known bound on the importance ratio of one step, such as 1/alpha for a behavior that mixes
        in the candidate with probability alpha at every step. Makes guaranteed intervals far
        narrower. An assumption: a logged ratio above it is an error.
    max_weight : float, optional
        Known bound on the weight of a whole trajectory, such as 1/alpha for a behavior that
        follows the candidate for a whole episode with probability alpha.
    adaptive : bool
        The behavior was chosen in the light of earlier trajectories, as in the log of a training
        run. ``"betting"`` then takes the trajectories in the order of logging and remains valid;
        other methods refuse. Otherwise the order is shuffled by `rng`.
    mean_bound : {"thomas", "hoeffding", "empirical_bernstein"}, optional
        For ``"paper"``: the inequality behind it. The last two need a bound on the weights.
    estimator : {"crossfit", "cdis", "is"}, optional
        For ``"bootstrap"`` and ``"delta"``: whose distribution is approximated.
    mean_square : {"split", "u"}, optional
        For these with ``"cdis"`` or ``"is"``: see `estimate_variance`.
    bootstrap_kind : {"basic", "percentile", "bca", "studentized"}, optional
        For ``"bootstrap"``; ``"basic"`` is the paper's.
    n_resamples : int, optional
        For ``"bootstrap"``, 2000 unless given.
    rng : int, Generator or None
        Seed of shuffling and resampling; None for fresh entropy. The same seed gives the same
        interval, whatever the number of threads.

    Returns
    -------
    Interval
        With `guaranteed` and `assumptions` saying what the coverage rests on.

    Notes
    -----
    The guarantee is for a number of trajectories fixed in advance and a candidate that does not
    depend on them.
    """
    return _interval(
        "variance",
        stats,
        reward_range=reward_range,
        return_range=return_range,
        delta=delta,
        method=method,
        side=side,
        max_ratio=max_ratio,
        max_weight=max_weight,
        adaptive=adaptive,
        mean_bound=mean_bound,
        estimator=estimator,
        mean_square=mean_square,
        bootstrap_kind=bootstrap_kind,
        n_resamples=n_resamples,
        rng=rng,
    )


def mean_interval(
    stats: TrajectoryStatistics,
    *,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    delta: float = 0.05,
    method: str = "betting",
    side: str = "both",
    max_ratio: float | None = None,
    max_weight: float | None = None,
    adaptive: bool = False,
    mean_bound: str | None = None,
    estimator: str | None = None,
    bootstrap_kind: str | None = None,
    n_resamples: int | None = None,
    rng: int | np.random.Generator | None = 0,
) -> Interval:
    """Confidence interval for the mean of the candidate's return.

    The parameters are those of `variance_interval`. ``estimator="cdis"`` stands for per-decision
    importance sampling here.

    Returns
    -------
    Interval
    """
    return _interval(
        "mean",
        stats,
        reward_range=reward_range,
        return_range=return_range,
        delta=delta,
        method=method,
        side=side,
        max_ratio=max_ratio,
        max_weight=max_weight,
        adaptive=adaptive,
        mean_bound=mean_bound,
        estimator=estimator,
        mean_square=None,
        bootstrap_kind=bootstrap_kind,
        n_resamples=n_resamples,
        rng=rng,
    )


def _interval(
    quantity: str,
    stats: TrajectoryStatistics,
    *,
    reward_range: object,
    return_range: object,
    delta: float,
    method: str,
    side: str,
    max_ratio: float | None,
    max_weight: float | None,
    adaptive: bool,
    mean_bound: str | None,
    estimator: str | None,
    mean_square: str | None,
    bootstrap_kind: str | None,
    n_resamples: int | None,
    rng: object,
) -> Interval:
    """Check the options, compute the bounds asked for, and label them."""
    check_choice(method, "method", METHODS)
    check_choice(side, "side", SIDES)
    delta = check_real(delta, "delta", 0.0, 1.0, closed=False)
    approximate = ("bootstrap", "delta")
    _check_applies("mean_bound", mean_bound, method, ("paper",))
    _check_applies("estimator", estimator, method, approximate)
    _check_applies("mean_square", mean_square, method, approximate)
    _check_applies("bootstrap_kind", bootstrap_kind, method, ("bootstrap",))
    _check_applies("n_resamples", n_resamples, method, ("bootstrap",))
    if not isinstance(adaptive, (bool, np.bool_)):
        raise InvalidInputError(f"`adaptive` must be True or False, got {adaptive!r}.")
    if adaptive and method != "betting":
        raise InvalidInputError(
            f"`adaptive`=True needs method='betting', got {method!r}: the other methods assume "
            "independent trajectories."
        )
    limits = resolve_limits(
        stats,
        reward_range=reward_range,
        return_range=return_range,
        max_ratio=max_ratio,
        max_weight=max_weight,
    )
    generator = as_generator(rng)
    warn_if_blind(stats)
    tail = delta / 2 if side == "both" else delta
    tails = (tail if side != "upper" else 0.0, tail if side != "lower" else 0.0)
    trivial = (0.0, limits.max_variance) if quantity == "variance" else limits.return_range
    if method in approximate:
        statistic = _statistic(quantity, stats, estimator, mean_square)
        if method == "delta":
            bounds = delta_bounds(statistic, *tails)
        else:
            kind = check_choice(bootstrap_kind or "basic", "bootstrap_kind", BOOTSTRAP_KINDS)
            count = check_integer(2000 if n_resamples is None else n_resamples, "n_resamples", 10)
            bounds = bootstrap_bounds(statistic, kind, *tails, count, generator)
    else:
        _check_bounded(stats, limits)
        check_mean_weight(stats)
        order = np.arange(len(stats)) if adaptive else generator.permutation(len(stats))
        if method == "betting":
            overlaps = stats.overlaps if adaptive else None
            bounds = _betting_bounds(quantity, stats, limits, tails, order, overlaps)
        else:
            name = check_choice(mean_bound or "thomas", "mean_bound", MEAN_BOUNDS)
            bounds = _paper_bounds(quantity, stats, limits, tails, order, name)
    lower, upper = (min(max(bound, trivial[0]), trivial[1]) for bound in bounds)
    guaranteed = method not in approximate and not limits.from_data
    return Interval(
        # Two valid one-sided bounds cross with probability at most delta: one of them is wrong.
        # Nobody knows which, so that both are kept to.
        lower=min(lower, upper),
        upper=max(lower, upper),
        delta=delta,
        guaranteed=guaranteed,
        assumptions=_assumptions(method, limits, adaptive, stats.overlaps, guaranteed),
        quantity=quantity,
        method=method,
        side=side,
        n_trajectories=len(stats),
        trivial=trivial,
    )


def _betting_bounds(
    quantity: str,
    stats: TrajectoryStatistics,
    limits: Limits,
    tails: tuple[float, float],
    order: IntArray,
    overlaps: IntArray | None,
) -> tuple[float, float]:
    lower, upper = -math.inf, math.inf
    if quantity == "variance":
        if tails[0] > 0.0:
            lower = variance_lower(stats, limits, tails[0], order, overlaps)
        if tails[1] > 0.0:
            upper = variance_upper(stats, limits, tails[1], order, overlaps)
    else:
        if tails[0] > 0.0:
            lower = mean_lower(stats, limits, tails[0], order, overlaps)
        if tails[1] > 0.0:
            upper = -mean_lower(stats, limits, tails[1], order, overlaps, sign=-1.0)
    return lower, upper


def _paper_bounds(
    quantity: str,
    stats: TrajectoryStatistics,
    limits: Limits,
    tails: tuple[float, float],
    order: IntArray,
    mean_bound: str,
) -> tuple[float, float]:
    if quantity == "variance":
        functions = (paper_variance_lower, paper_variance_upper)
    else:
        functions = (paper_mean_lower, paper_mean_upper)
    bound = MEAN_BOUNDS[mean_bound]
    lower, upper = -math.inf, math.inf
    if tails[0] > 0.0:
        lower = functions[0](stats, limits, tails[0], order, bound)
    if tails[1] > 0.0:
        upper = functions[1](stats, limits, tails[1], order, bound)
    return lower, upper


def _statistic(
    quantity: str, stats: TrajectoryStatistics, estimator: str | None, mean_square: str | None
) -> SmoothStatistic:
    name = check_choice(estimator or "crossfit", "estimator", APPROXIMATE_ESTIMATORS)
    if mean_square is not None:
        check_choice(mean_square, "mean_square", ("split", "u"))
        if name == "crossfit":
            raise InvalidInputError(
                "`mean_square` applies to estimator='cdis' or 'is' only, got 'crossfit'. Leave it "
                "out."
            )
    if quantity == "mean":
        return mean_statistic(stats, name)
    return variance_statistic(stats, name, mean_square or "split")


def _check_applies(name: str, value: object, method: str, methods: tuple[str, ...]) -> None:
    if value is not None and method not in methods:
        raise InvalidInputError(
            f"`{name}` applies to method {' or '.join(map(repr, methods))} only, got "
            f"method={method!r}. Leave it out."
        )


def _check_bounded(stats: TrajectoryStatistics, limits: Limits) -> None:
    if all(map(math.isfinite, limits.return_range)):
        return
    if stats.gamma == 1.0 and stats.horizon is None:
        raise InvalidInputError(
            "`horizon` must be given for a guaranteed interval when gamma = 1, got None: the "
            "return has no bound. Pass horizon to trajectory_statistics, or state `return_range`."
        )
    raise InvalidInputError(
        "`reward_range` (or `return_range`) must be given for a guaranteed interval, got None. "
        "State the range the environment can produce, or use method='bootstrap'."
    )


def _assumptions(
    method: str, limits: Limits, adaptive: bool, overlaps: IntArray | None, guaranteed: bool
) -> tuple[str, ...]:
    if adaptive and overlaps is not None:
        sampling = (
            "trajectories are in the order in which they ended, as many of them while another was "
            "under way as `overlaps` says"
        )
    elif adaptive:
        sampling = "trajectories are in the order of logging, each begun when the last had ended"
    else:
        sampling = "trajectories are independent"
    base = (
        sampling,
        "logged log-ratios are exact, and the behavior can take every action of the candidate",
        "the candidate does not depend on these trajectories, and n was fixed in advance",
    )
    if guaranteed:
        return (*base, *limits.stated)
    if method in ("bootstrap", "delta"):
        return (*base, "n is large enough for a normal or resampling approximation", *limits.stated)
    return (*base, "the range seen in the data is the true one", *limits.stated)
