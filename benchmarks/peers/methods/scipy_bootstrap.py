"""scipy.stats.bootstrap on the paper's estimator and on the self-normalized variance."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.stats import bootstrap

from benchmarks.peers.methods.paper_formulas import (
    FloatArray,
    cdis,
    padded,
    pdis,
    weights_and_returns,
)
from benchmarks.peers.protocol import Answer, Log, Method

# BCa warns, and returns NaN, when a resampled distribution is degenerate: counted as a miss.
warnings.filterwarnings("ignore")


def split_variance(X: FloatArray, Y: FloatArray, axis: int = -1) -> Any:
    """Algorithm 1 of the paper on (resampled) arrays."""
    half = Y.shape[axis] // 2
    first, second = np.split(Y, [half], axis=axis)
    return X.mean(axis=axis) - first.mean(axis=axis) * second.mean(axis=axis)


def self_normalized(w: FloatArray, G: FloatArray, axis: int = -1) -> Any:
    """Weighted variance."""
    total = w.sum(axis=axis, keepdims=True)
    mean = (w * G).sum(axis=axis, keepdims=True) / total
    return (w * (G - mean) ** 2).sum(axis=axis) / total.squeeze(axis)


def paper_as_shipped(log: Log) -> Answer:
    """All defaults; resampling mixes the two halves."""
    ratios, rewards = padded(log)
    X, Y = cdis(ratios, rewards, log.gamma), pdis(ratios, rewards, log.gamma)
    low, high = bootstrap((X, Y), split_variance, paired=True, rng=0).confidence_interval
    return Answer(float(split_variance(X, Y)), low, high)


def paper_at_best(log: Log) -> Answer:
    """The paper's basic bootstrap: halves resampled separately, memory bounded by batches."""
    ratios, rewards = padded(log)
    X, Y = cdis(ratios, rewards, log.gamma), pdis(ratios, rewards, log.gamma)
    first, second = np.array_split(np.arange(len(X)), [len(X) // 2])

    def statistic(i: Any, j: Any, axis: int = -1) -> Any:
        X_mean = (X[i].sum(axis=axis) + X[j].sum(axis=axis)) / len(X)
        return X_mean - Y[i].mean(axis=axis) * Y[j].mean(axis=axis)

    options: dict[str, Any] = {"method": "basic", "n_resamples": 2000, "batch": 100}
    result = bootstrap((first, second), statistic, vectorized=True, rng=0, **options)
    low, high = result.confidence_interval
    return Answer(float(statistic(first, second)), low, high)


def weighted_as_shipped(log: Log) -> Answer:
    """All defaults."""
    w, G = weights_and_returns(log)
    low, high = bootstrap((w, G), self_normalized, paired=True, rng=0).confidence_interval
    return Answer(float(self_normalized(w, G)), low, high)


def weighted_at_best(log: Log) -> Answer:
    """BCa intervals from 2000 resamples, memory bounded by batches."""
    w, G = weights_and_returns(log)
    options: dict[str, Any] = {"paired": True, "n_resamples": 2000, "batch": 100}
    result = bootstrap((w, G), self_normalized, vectorized=True, rng=0, **options)
    low, high = result.confidence_interval
    return Answer(float(self_normalized(w, G)), low, high)


_PAPER = (padded, cdis, pdis)
METHODS = {
    ("variance", "paper's estimator, as shipped"): Method(
        paper_as_shipped, (*_PAPER, split_variance, paper_as_shipped), imports=2
    ),
    ("variance", "paper's estimator, at its best"): Method(
        paper_at_best, (*_PAPER, paper_at_best), imports=2
    ),
    ("variance", "self-normalized, as shipped"): Method(
        weighted_as_shipped,
        (padded, weights_and_returns, self_normalized, weighted_as_shipped),
        imports=2,
    ),
    ("variance", "self-normalized, at its best"): Method(
        weighted_at_best,
        (padded, weights_and_returns, self_normalized, weighted_at_best),
        imports=2,
    ),
}
