"""Concentration inequalities for the mean of a non-negative variable.

Each returns a lower confidence bound on E[x] from independent x >= 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.errors import InvalidInputError

Inequality = Callable[[FloatArray, float, float], float]

TUNING_FRACTION = 1 / 20  # of the data, on which the threshold is chosen (D_pre)


def thomas(values: FloatArray, delta: float, _maximum: float) -> float:
    """Bound of Thomas et al. (2015): values cut at a threshold chosen on the first 1/20.

    The threshold maximizes the bound predicted for the remaining data, which alone enter it.
    """
    n_pre = max(2, int(values.size * TUNING_FRACTION))
    pre, post = values[:n_pre], values[n_pre:]
    if post.size < 2:
        return 0.0
    threshold = _best_threshold(pre, post.size, delta)
    return _empirical_bernstein(np.minimum(post, threshold), threshold, delta)


def hoeffding(values: FloatArray, delta: float, maximum: float) -> float:
    """Hoeffding's inequality; needs a known maximum."""
    _check_maximum("hoeffding", maximum)
    return float(values.mean() - maximum * math.sqrt(math.log(1 / delta) / (2 * values.size)))


def empirical_bernstein(values: FloatArray, delta: float, maximum: float) -> float:
    """Maurer and Pontil's empirical Bernstein inequality; needs a known maximum."""
    _check_maximum("empirical_bernstein", maximum)
    return _empirical_bernstein(values, maximum, delta)


INEQUALITIES: dict[str, Inequality] = {
    "thomas": thomas,
    "hoeffding": hoeffding,
    "empirical_bernstein": empirical_bernstein,
}


def _empirical_bernstein(values: FloatArray, maximum: float, delta: float) -> float:
    n = values.size
    return float(values.mean()) - _half_width(float(values.var(ddof=1)), maximum, n, delta)


def _half_width(variance: float, maximum: float, n: int, delta: float) -> float:
    log = math.log(2 / delta)
    return math.sqrt(2 * variance * log / n) + 7 * maximum * log / (3 * (n - 1))


def _best_threshold(pre: FloatArray, n_post: int, delta: float) -> float:
    """Threshold that maximizes the predicted bound, over a fine grid up to the largest value."""
    largest = float(pre.max())
    if largest <= 0.0:
        return 1.0
    ordered = np.sort(pre)
    n = ordered.size
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    squares = np.concatenate([[0.0], np.cumsum(ordered**2)])
    grid = np.unique(np.concatenate([largest * np.geomspace(1e-6, 1.0, 400), ordered[ordered > 0]]))
    below = np.searchsorted(ordered, grid)
    mean = (sums[below] + grid * (n - below)) / n
    square = (squares[below] + grid**2 * (n - below)) / n
    variance = np.maximum(square - mean**2, 0.0) * n / (n - 1)
    log = math.log(2 / delta)
    predicted = mean - np.sqrt(2 * variance * log / n_post) - 7 * grid * log / (3 * (n_post - 1))
    return float(grid[predicted.argmax()])


def _check_maximum(name: str, maximum: float) -> None:
    if not math.isfinite(maximum):
        raise InvalidInputError(
            f"`inequality` {name!r} needs a bound on the importance weights, got none. State "
            "`max_ratio` or `max_weight`, or use inequality='thomas'."
        )
