from datetime import datetime
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp

from ove_sb3.envs.common.streams import draw_keys
from ove_sb3.envs.diabetes.meals import draw_meals, first_of_each_minute
from ove_sb3.envs.diabetes.simglucose_package import load_simulator

WINDOWS = [(5, 9), (9, 10), (10, 14), (14, 16), (16, 20), (20, 23)]
PROBABILITY = [0.95, 0.3, 0.95, 0.3, 0.95, 0.3]


@pytest.fixture(scope="module")
def theirs() -> list[tuple[Any, Any]]:
    """Times and amounts of the meals of 1,500 days drawn by simglucose."""
    scenario = load_simulator().random_scenario(datetime(2018, 1, 1), seed=0)
    days = [scenario.create_scenario()["meal"] for _ in range(1_500)]
    return [(np.array(day["time"]), np.array(day["amount"])) for day in days]


@pytest.fixture(scope="module")
def ours() -> list[tuple[Any, Any]]:
    meals = draw_meals(draw_keys(np.random.default_rng(1), 20_000))
    return [(m[m >= 0], g[m >= 0]) for m, g in zip(meals.minutes, meals.grams, strict=True)]


def test_number_of_meals_and_total_carbohydrates(theirs: Any, ours: Any) -> None:
    numbers = [[len(times) for times, _ in days] for days in (theirs, ours)]
    carbohydrates = [[grams.sum() for _, grams in days] for days in (theirs, ours)]
    assert ks_2samp(*numbers).pvalue > 1e-3
    assert ks_2samp(*carbohydrates).pvalue > 1e-3


@pytest.mark.parametrize("window", WINDOWS)
def test_times_and_amounts_in_each_window(window: tuple[int, int], theirs: Any, ours: Any) -> None:
    samples = []
    for days in (theirs, ours):
        inside = [(t > 60 * window[0]) & (t < 60 * window[1]) for t, _ in days]
        times = np.concatenate([t[i] for (t, _), i in zip(days, inside, strict=True)])
        grams = np.concatenate([g[i] for (_, g), i in zip(days, inside, strict=True)])
        samples.append((times, grams))
    assert len(samples[0][0]) > 300
    for a, b in zip(*samples, strict=True):
        assert ks_2samp(a, b).pvalue > 1e-3


def test_each_meal_takes_place_with_its_probability() -> None:
    n = 100_000
    taken = (draw_meals(draw_keys(np.random.default_rng(2), n)).minutes >= 0).sum(axis=0)
    # Two meals in the same minute drop one of them, in less than one day in a thousand.
    for count, p in zip(taken, PROBABILITY, strict=True):
        assert binom.ppf(1e-4, n, p) - n / 1_000 <= count <= binom.isf(1e-4, n, p)


def test_only_the_first_meal_of_a_minute_is_kept() -> None:
    minutes = np.array([[540, 540, 600, -1, 600, 600], [1, 2, 3, 4, 5, 6], [-1, -1, 7, 7, 8, -1]])
    expected = [[540, -1, 600, -1, -1, -1], [1, 2, 3, 4, 5, 6], [-1, -1, 7, -1, 8, -1]]
    np.testing.assert_array_equal(first_of_each_minute(minutes), expected)


def test_meals_are_within_their_limits() -> None:
    meals = draw_meals(draw_keys(np.random.default_rng(3), 100_000))
    taken = meals.minutes >= 0
    assert (meals.grams[~taken] == 0).all()
    assert (meals.grams >= 0).all()
    for meal, (low, high) in enumerate(WINDOWS):
        times = meals.minutes[taken[:, meal], meal]
        assert 60 * low <= times.min() <= times.max() <= 60 * high


def test_times_and_amounts_are_independent() -> None:
    n = 50_000
    meals = draw_meals(draw_keys(np.random.default_rng(5), n))
    taken = meals.minutes >= 0
    main = taken[:, [0, 2, 4]].all(axis=1)
    columns = np.hstack([meals.minutes[main][:, [0, 2, 4]], meals.grams[main][:, [0, 2, 4]]])
    columns = np.hstack([columns, taken[main][:, [1, 3, 5]]])
    correlations = np.corrcoef(columns.T)[np.triu_indices(9, 1)]
    assert abs(correlations).max() < 4.5 / np.sqrt(main.sum())
