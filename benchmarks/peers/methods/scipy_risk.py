"""scipy.stats.bootstrap on the self-normalized mean, quantile and CVaR."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import bootstrap

from benchmarks.peers.methods.paper_formulas import FloatArray, padded, weights_and_returns
from benchmarks.peers.protocol import FRACTION, Answer, Log, Method

# BCa warns, and returns NaN, when a resampled distribution is degenerate: counted as a miss.
warnings.filterwarnings("ignore")


def mean(w: FloatArray, G: FloatArray, axis: int = -1) -> Any:
    """Weighted mean."""
    return (w * G).sum(axis=axis) / w.sum(axis=axis)


def in_order(w: FloatArray, G: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sorted returns, last axis, and their normalized weights."""
    order = np.argsort(G, axis=-1)
    w, G = np.broadcast_arrays(w, G)
    w, G = np.take_along_axis(w, order, axis=-1), np.take_along_axis(G, order, axis=-1)
    return w / w.sum(axis=-1, keepdims=True), G


def quantile(w: FloatArray, G: FloatArray, axis: int = -1) -> Any:
    """Weighted quantile: the first return whose cumulative weight reaches the fraction."""
    share, G = in_order(w, G)
    first = (share.cumsum(axis=-1) < FRACTION).sum(axis=-1, keepdims=True)
    return np.take_along_axis(G, np.minimum(first, G.shape[-1] - 1), axis=-1)[..., 0]


def cvar(w: FloatArray, G: FloatArray, axis: int = -1) -> Any:
    """Weighted mean of the worst fraction, with a part of the return at the quantile."""
    share, G = in_order(w, G)
    before = share.cumsum(axis=-1) - share
    return (np.clip(FRACTION - before, 0.0, share) * G).sum(axis=-1) / FRACTION


def at_best(log: Log, statistic: Callable[..., Any], method: str) -> Answer:
    """2000 resamples, memory bounded by batches."""
    w, G = weights_and_returns(log)
    options: dict[str, Any] = {"paired": True, "n_resamples": 2000, "batch": 100}
    result = bootstrap((w, G), statistic, vectorized=True, method=method, rng=0, **options)
    low, high = result.confidence_interval
    return Answer(float(statistic(w, G)), low, high)


_COMMON = (padded, weights_and_returns, at_best)
METHODS = {
    ("mean", "self-normalized, BCa"): Method(
        partial(at_best, statistic=mean, method="BCa"), (*_COMMON, mean), imports=2
    ),
    # BCa needs a smooth statistic, which a quantile is not.
    ("quantile", "self-normalized, percentile"): Method(
        partial(at_best, statistic=quantile, method="percentile"),
        (*_COMMON, in_order, quantile),
        imports=2,
    ),
    ("cvar", "self-normalized, BCa"): Method(
        partial(at_best, statistic=cvar, method="BCa"), (*_COMMON, in_order, cvar), imports=2
    ),
}
