"""Bet sizes of many grid points: the formulas, one point at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from ove_sb3._validation import FloatArray
from ove_sb3.core.betting.bet_sizes import LANES, bet_sizes, limit_bets
from ove_sb3.core.betting.moments import LARGEST_LOSS

RNG = np.random.default_rng(0)
CAPITAL = np.concatenate([[1e-150, 1e-60, 1e-30], RNG.random(LANES - 3)])
GAPS = RNG.uniform(0.1, 3.0, LANES)
SCALES = RNG.uniform(0.2, 2.0, LANES)
MAX_EXCESS = 0.7


def sizes(
    capital: FloatArray, second_moment: float, scales: FloatArray, gain_size: float
) -> FloatArray:
    shrinks, most, missing, hedged, bets = np.empty((5, LANES))
    limit_bets(GAPS, MAX_EXCESS, shrinks, most)
    bet_sizes(capital, second_moment, scales, gain_size, shrinks, most, missing, hedged, bets)
    return bets


def one_size(
    capital: float, gap: float, scale: float, second_moment: float, gain_size: float
) -> float:
    """Bet size of one grid point."""
    bet = math.sqrt(-2.0 * math.log(capital) / second_moment) / math.sqrt(scale)
    if math.isfinite(gain_size):
        z = norm.isf(capital / 1.1)
        hedged = math.exp(norm.logpdf(z) - norm.logsf(z)) / math.sqrt(second_moment)
        share = min(hedged * gain_size / 0.36, 1.0)
        bet = share * bet + (1.0 - share) * hedged
    if gap > MAX_EXCESS:
        bet *= MAX_EXCESS / gap
    return min(bet, LARGEST_LOSS / gap)


@pytest.mark.parametrize("second_moment", [0.3, 40.0, 1e6])
@pytest.mark.parametrize("gain_size", [0.0, 0.05, 2.0, math.inf])
@pytest.mark.parametrize("scaled", [False, True])
def test_bet_sizes_are_those_of_one_grid_point(
    second_moment: float, gain_size: float, scaled: bool
) -> None:
    expected = [
        one_size(capital, gap, scale if scaled else 1.0, second_moment, gain_size)
        for capital, gap, scale in zip(CAPITAL, GAPS, SCALES, strict=True)
    ]
    found = sizes(CAPITAL, second_moment, SCALES if scaled else np.empty(0), gain_size)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if gain_size == math.inf else 1e-4)


def test_a_capital_that_is_lost_or_not_a_number_has_a_finite_bet() -> None:
    capital = np.full(LANES, 0.01)
    capital[:3] = 0.0, 5e-324, np.nan
    found = sizes(capital, 2.0, np.empty(0), 0.1)
    assert np.isfinite(found).all()
    assert (found > 0.0).all()
    assert (found * GAPS <= LARGEST_LOSS * (1 + 1e-15)).all()
