"""Comparison of simulated returns with exact moments."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def assert_moments_match(returns: NDArray[np.float64], exact: Any) -> None:
    """Mean and variance of `returns` are within four standard errors of the exact moments."""
    n = returns.shape[0]
    assert abs(returns.mean() - exact.mean) <= 4 * returns.std() / np.sqrt(n)
    squares = (returns - exact.mean) ** 2
    assert abs(squares.mean() - exact.variance) <= 4 * squares.std() / np.sqrt(n)
