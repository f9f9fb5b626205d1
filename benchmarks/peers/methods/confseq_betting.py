"""confseq's betting intervals for a bounded mean: the mean return, and the variance from two.

If the weight w is bounded by W, so are w G and w G^2. Intervals for their means give one for the
variance E[w G^2] - E[w G]^2.
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

warnings.filterwarnings(
    "ignore", category=RuntimeWarning
)  # capital may overflow, which is harmless


def weighted_returns(log: Log) -> tuple[Any, Any, float, float, float]:
    """Weights, returns, the bound on a weight and the range of the return."""
    ratios, rewards = padded(log)
    discount = log.gamma ** np.arange(log.horizon)
    low, high = np.array(log.reward_range) * discount.sum()
    return ratios.prod(axis=1), rewards @ discount, log.max_ratio**log.horizon, low, high


def scaled_interval(x: Any, low: float, high: float, alpha: float) -> tuple[float, float]:
    """Interval of confseq for values in [low, high]."""
    lower, upper = betting_ci((x - low) / (high - low), alpha=alpha)
    return low + (high - low) * lower, low + (high - low) * upper


def mean_as_shipped(log: Log) -> Answer:
    """All defaults, for w G; the interval is clipped to the range of the return."""
    w, G, W, low, high = weighted_returns(log)
    lower, upper = scaled_interval(w * G, W * min(low, 0.0), W * max(high, 0.0), DELTA)
    return Answer(None, max(lower, low), min(upper, high))


def as_shipped(log: Log) -> Answer:
    """Two intervals with all defaults; delta is shared equally."""
    w, G, W, low, high = weighted_returns(log)
    square = max(low**2, high**2)
    X_lower, X_upper = scaled_interval(w * G**2, 0.0, W * square, DELTA / 2)
    Y_lower, Y_upper = scaled_interval(w * G, W * min(low, 0.0), W * max(high, 0.0), DELTA / 2)
    least = 0.0 if Y_lower <= 0 <= Y_upper else min(Y_lower**2, Y_upper**2)
    most = (high - low) ** 2 / 4
    lower = max(X_lower - max(Y_lower**2, Y_upper**2), 0.0)
    return Answer(None, min(lower, most), min(X_upper - least, most))


def bet(x: Any, m: float, level: float, lower: bool, prior: tuple[float, float]) -> bool:
    """Whether betting rejects the mean m of x in [0, 1] at this level."""

    def lambdas(x: Any, m: float) -> Any:
        mean, variance = prior
        options = {"prior_mean": mean, "prior_variance": variance, "fake_obs": 10}
        return lambda_predmix_eb(x, truncation=np.inf, alpha=level, fixed_n=len(x), **options)

    options: dict[str, Any] = {"theta": 1.0 if lower else 0.0, "m_trunc": True, "trunc_scale": 0.9}
    capital = betting_mart(x, m, level, lambdas, lambdas, **options)
    return bool(capital.max() >= 1 / level)


def bound(x: Any, low: float, high: float, level: float, lower: bool, pilot: int) -> float:
    """One-sided bound by bisection, with bets tuned on the first values."""
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
    """Returns centered by a pilot, exact inversion, bets up to the limit, delta spent unequally."""
    w, G, W, low, high = weighted_returns(log)
    pilot = max(len(w) // 10, 10)
    center = float(w[:pilot] @ G[:pilot] / max(w[:pilot].sum(), 1e-12))
    center = min(max(center, low), high)
    X, Y = w * (G - center) ** 2, w * (G - center)
    X_range = 0.0, W * max((low - center) ** 2, (high - center) ** 2)
    Y_range = W * (low - center), W * (high - center)
    upper = bound(X, *X_range, DELTA / 2, False, pilot)
    lower = bound(X, *X_range, 0.4 * DELTA, True, pilot)
    sides = [bound(Y, *Y_range, 0.05 * DELTA, side, pilot) for side in (True, False)]
    lower -= max(sides[0] ** 2, sides[1] ** 2)
    most = (high - low) ** 2 / 4
    return Answer(None, min(max(lower, 0.0), most), min(upper, most))


def mean_at_best(log: Log) -> Answer:
    """Returns centered by a pilot, exact inversion, bets up to the limit."""
    w, G, W, low, high = weighted_returns(log)
    pilot = max(len(w) // 10, 10)
    center = float(w[:pilot] @ G[:pilot] / max(w[:pilot].sum(), 1e-12))
    center = min(max(center, low), high)
    Y, Y_range = w * (G - center), (W * (low - center), W * (high - center))
    lower, upper = (bound(Y, *Y_range, DELTA / 2, side, pilot) for side in (True, False))
    return Answer(None, max(center + lower, low), min(center + upper, high))


_COMMON: tuple[Callable[..., object], ...] = (padded, weighted_returns)
METHODS = {
    ("mean", "as shipped"): Method(
        mean_as_shipped, (*_COMMON, scaled_interval, mean_as_shipped), imports=2
    ),
    ("mean", "at its best"): Method(mean_at_best, (*_COMMON, bet, bound, mean_at_best), imports=3),
    ("variance", "as shipped"): Method(
        as_shipped, (*_COMMON, scaled_interval, as_shipped), imports=2
    ),
    ("variance", "at its best"): Method(at_best, (*_COMMON, bet, bound, at_best), imports=3),
}
