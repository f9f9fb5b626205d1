"""Policies given as tables of action probabilities."""

from __future__ import annotations

import numpy as np

from .streams import FloatArray


def cumulative_table(probabilities: FloatArray) -> FloatArray:
    """Cumulative probabilities over the last axis, for drawing by inversion.

    From the last possible action on the result is exactly 1, so that rounding of the sum never
    selects an action of probability 0.
    """
    cumulative = np.cumsum(probabilities, axis=-1)
    from_here_on = np.flip(np.cumsum(np.flip(probabilities, -1), -1), -1)
    after = np.concatenate([from_here_on[..., 1:], np.zeros_like(from_here_on[..., :1])], axis=-1)
    cumulative[after == 0.0] = 1.0
    return cumulative


def log_table(probabilities: FloatArray) -> FloatArray:
    """Logarithms of the probabilities, -inf where an action is impossible."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities))
