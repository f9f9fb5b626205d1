"""confseq's betting intervals for a bounded mean, propagated to the variance.

A weight bounded by W makes w G and w G^2 bounded, so their means can be bounded, and with them
the variance E[w G^2] - E[w G]^2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from confseq.betting import betting_ci, betting_mart
from confseq.betting_strategies import lambda_predmix_eb

from benchmarks.peers.methods.paper_formulas import DELTA, padded
from benchmarks.peers.protocol import Answer, Log, Method

warnings.filterwarnings("ignore", category=RuntimeWarning)  # wealth may overflow, harmlessly


def problem(log: Log) -> tuple[Any, Any, float, float, float]:
    """Weights, returns, the bound on a weight and the range of the return."""
    ratios, rewards = padded(log)
    discount = log.gamma ** np.arange(log.horizon)
    low, high = np.array(log.reward_range) * discount.sum()
    return ratios.prod(axis=1), rewards @ discount, log.max_ratio**log.horizon, low, high


def scaled_interval(x: Any, low: float, high: float, alpha: float) -> tuple[float, float]:
    """The interval of confseq after mapping [low, high] to [0, 1]."""
    lower, upper = betting_ci((x - low) / (high - low), alpha=alpha)
    return low + (high - low) * lower, low + (high - low) * upper


def as_shipped(log: Log) -> Answer:
    """Two intervals with all defaults, and propagation; delta shared equally."""
    w, G, W, low, high = problem(log)
    square = max(low**2, high**2)
    X_lower, X_upper = scaled_interval(w * G**2, 0.0, W * square, DELTA / 2)
    Y_lower, Y_upper = scaled_interval(w * G, W * min(low, 0.0), W * max(high, 0.0), DELTA / 2)
    least = 0.0 if Y_lower <= 0 <= Y_upper else min(Y_lower**2, Y_upper**2)
    most = (high - low) ** 2 / 4
    lower = max(X_lower - max(Y_lower**2, Y_upper**2), 0.0)
    return Answer(None, min(lower, most), min(X_upper - least, most))


def bet(x: Any, m: float, level: float, lower: bool, prior: tuple[float, float]) -> bool:
    """Whether a bet against the mean m of x in [0, 1] wins at this level."""

    def stakes(x: Any, m: float) -> Any:
        mean, variance = prior
        options = {"prior_mean": mean, "prior_variance": variance, "fake_obs": 10}
        return lambda_predmix_eb(x, truncation=np.inf, alpha=level, fixed_n=len(x), **options)

    options: dict[str, Any] = {"theta": 1.0 if lower else 0.0, "m_trunc": True, "trunc_scale": 0.9}
    wealth = betting_mart(x, m, level, stakes, stakes, **options)
    return bool(wealth.max() >= 1 / level)


def bound(x: Any, low: float, high: float, level: float, lower: bool, pilot: int) -> float:
    """One-sided bound by bisection, the bets tuned on the first values."""
    unit = (x - low) / (high - low)
    prior = (float(unit[:pilot].mean()), float(max(unit[:pilot].var(), 1e-12)))
    rejected, kept = (0.0, 1.0) if lower else (1.0, 0.0)
    for _ in range(30):
        middle = (rejected + kept) / 2
        if bet(unit[pilot:], middle, level, lower, prior):
            rejected = middle
        else:
            kept = middle
    return low + (high - low) * rejected


def at_best(log: Log) -> Answer:
    """Returns centred by a pilot, exact inversion, stakes up to the limit, delta well spent."""
    w, G, W, low, high = problem(log)
    pilot = max(len(w) // 10, 10)
    centre = float(w[:pilot] @ G[:pilot] / max(w[:pilot].sum(), 1e-12))
    centre = min(max(centre, low), high)
    X, Y = w * (G - centre) ** 2, w * (G - centre)
    X_range = 0.0, W * max((low - centre) ** 2, (high - centre) ** 2)
    Y_range = W * (low - centre), W * (high - centre)
    upper = bound(X, *X_range, DELTA / 2, False, pilot)
    lower = bound(X, *X_range, 0.4 * DELTA, True, pilot)
    sides = [bound(Y, *Y_range, 0.05 * DELTA, side, pilot) for side in (True, False)]
    lower -= max(sides[0] ** 2, sides[1] ** 2)
    most = (high - low) ** 2 / 4
    return Answer(None, min(max(lower, 0.0), most), min(upper, most))


_COMMON: tuple[Callable[..., object], ...] = (padded, problem)
METHODS = {
    "as shipped": Method(as_shipped, (*_COMMON, scaled_interval, as_shipped), imports=2),
    "at its best": Method(at_best, (*_COMMON, bet, bound, at_best), imports=3),
}
