"""Tabular policies: arrays of action probabilities."""

from __future__ import annotations

import numpy as np

from .types import FloatArray


def cumulative_table(probabilities: FloatArray) -> FloatArray:
    """Cumulative probabilities along the last axis, for sampling by inversion.

    The result is exactly 1 from the last action of positive probability on, so that rounding of the
    sum never selects an action of probability 0.
    """
    cumulative = np.cumsum(probabilities, axis=-1)
    remaining = np.flip(np.cumsum(np.flip(probabilities, -1), -1), -1)
    after = np.concatenate([remaining[..., 1:], np.zeros_like(remaining[..., :1])], axis=-1)
    cumulative[after == 0.0] = 1.0
    return cumulative


def log_table(probabilities: FloatArray) -> FloatArray:
    """Log-probabilities, -inf for probability 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities))
