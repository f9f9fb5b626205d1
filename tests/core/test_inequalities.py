from __future__ import annotations

import math

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.concentration.inequalities import (
    Inequality,
    _best_threshold,
    _empirical_bernstein,
    empirical_bernstein,
    hoeffding,
    thomas,
)
from tests.core import reference


def test_thomas_is_the_printed_formula_on_the_later_data() -> None:
    values = np.random.default_rng(0).exponential(1.0, 100) ** 2
    threshold = _best_threshold(values[:5], 95, 0.1)
    expected = reference.thomas_lower(values[5:], threshold, 0.1)
    assert thomas(values, 0.1, math.inf) == pytest.approx(expected, rel=1e-12)


def test_the_threshold_maximizes_the_predicted_bound() -> None:
    pre = np.random.default_rng(1).exponential(1.0, 60) ** 3
    chosen = _best_threshold(pre, 1000, 0.05)
    log = math.log(2 / 0.05)

    def predicted(threshold: float) -> float:
        cut = np.minimum(pre, threshold)
        spread = math.sqrt(2 * cut.var(ddof=1) * log / 1000)
        return float(cut.mean() - spread - 7 * threshold * log / (3 * 999))

    others = max(predicted(t) for t in np.geomspace(1e-4, 2 * pre.max(), 3000))
    assert predicted(chosen) >= others - 1e-3 * abs(others)
    assert chosen <= pre.max()


def test_the_threshold_ignores_the_data_it_is_used_on() -> None:
    values = np.random.default_rng(2).exponential(1.0, 200)
    changed = values.copy()
    changed[10:] = 0.0
    assert _best_threshold(values[:10], 190, 0.1) == _best_threshold(changed[:10], 190, 0.1)
    assert thomas(changed, 0.1, math.inf) < 0.0 < thomas(values, 0.1, math.inf)


def test_hoeffding_and_empirical_bernstein_by_hand() -> None:
    values = np.array([0.0, 1.0, 1.0, 2.0])
    assert hoeffding(values, 0.1, 2.0) == pytest.approx(1 - 2 * math.sqrt(math.log(10) / 8))
    log = math.log(20)
    expected = 1 - math.sqrt(2 * (2 / 3) * log / 4) - 7 * 2 * log / 9
    assert empirical_bernstein(values, 0.1, 2.0) == pytest.approx(expected)
    assert _empirical_bernstein(values, 2.0, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("bound", [hoeffding, empirical_bernstein])
def test_bounds_that_need_a_maximum_ask_for_it(bound: Inequality) -> None:
    with pytest.raises(ove.InvalidInputError, match="max_ratio"):
        bound(np.ones(5), 0.1, math.inf)


def test_degenerate_values() -> None:
    assert thomas(np.zeros(50), 0.1, math.inf) < 0.0
    assert thomas(np.ones(3), 0.1, math.inf) == 0.0  # one left after the choice of the threshold
