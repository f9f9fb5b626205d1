"""The capital process against a plain transcription of its definition."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from ove_sb3.core.betting.bet_sizes import LANES
from ove_sb3.core.betting.capital import BetTarget, last_rejected
from ove_sb3.core.betting.grid import grid_around
from ove_sb3.core.betting.moments import effective_second_moment
from ove_sb3.core.betting.schedule import Schedule


def rejected(
    target: BetTarget, schedule: Schedule, s: float, level: float, *, together: bool = False
) -> bool:
    """One test, observation by observation, or several `together` while little is at risk."""
    capital = level
    for block, epoch in enumerate(schedule.epoch_of_block):
        begin, end = schedule.blocks[block], schedule.blocks[block + 1]
        gap = s - target.lower_bounds[epoch]
        if gap <= 0.0:
            return True
        second_moment = target.second_moments[epoch] * (schedule.n - begin)
        bet = math.sqrt(-2.0 * math.log(max(capital, 1e-300)) / second_moment)
        price = max(capital, 1e-300) / 1.1
        hedged = norm.pdf(norm.isf(price)) / price / math.sqrt(second_moment)
        skewness = 0.0 if target.gain_sizes is None else target.gain_sizes[epoch]
        share = min(max(hedged * skewness / 0.36, 0.0), 1.0)
        bet = share * bet + (1.0 - share) * hedged
        if gap > target.max_excess[epoch]:
            bet *= target.max_excess[epoch] / gap
        bet = min(bet, 0.95 / gap)
        x = target.coefficients[epoch] @ target.columns[:, begin:end] + target.constants[epoch]
        size = min(max(int(0.1 / (bet * gap)), 1), 32) if together else 1
        whole = x.size // size * size
        sums = (x[:whole] - s).reshape(-1, size).sum(axis=1)
        for gains in (sums, x[whole:] - s):
            for k, gain in enumerate(gains):
                capital *= 1.0 + bet * gain
                if ((k + 1) % 16 == 0 or k + 1 == gains.size) and capital >= 1.0:
                    return True
    return False


def random_target(seed: int, n: int, mean: float = 0.6) -> tuple[BetTarget, Schedule]:
    rng = np.random.default_rng(seed)
    schedule = Schedule.plan(n, 20)
    n_epochs = len(schedule.epochs)
    columns = np.stack([rng.exponential(mean, n), rng.random(n)])
    coefficients = np.stack([np.ones(n_epochs), rng.uniform(0, 0.2, n_epochs)], axis=1)
    constants = rng.uniform(-0.1, 0.1, n_epochs)
    max_excess = np.where(rng.random(n_epochs) < 0.5, np.inf, 0.5)
    target = BetTarget(
        columns, coefficients, constants, constants, rng.uniform(0.3, 0.6, n_epochs), max_excess
    )
    return target, schedule


@pytest.mark.parametrize("n", [3, 17, 200, 1500])
def test_the_compiled_sequence_of_tests_is_what_the_definition_says(n: int) -> None:
    results = set()
    for seed in range(6):
        target, schedule = random_target(seed, n)
        grid = np.linspace(-0.5, 1.5, 75)
        tests = [rejected(target, schedule, s, 0.05) for s in grid]
        expected = tests.index(False) - 1
        assert last_rejected(target, schedule, grid, 0.05) == expected
        results.add(expected)
    assert len(results) > 1


def test_many_observations_are_bet_on_together_while_little_is_at_risk() -> None:
    results, differences = [], 0
    for seed in range(4):
        target, schedule = random_target(seed, 20_000)
        mean = float(target.columns[0].mean() + 0.05)
        for s in np.linspace(mean - 0.1, mean + 0.1, 9):
            expected = rejected(target, schedule, s, 0.05, together=True)
            assert (last_rejected(target, schedule, np.array([s]), 0.05) == 0) == expected
            results.append(expected)
            differences += expected != rejected(target, schedule, s, 0.05)
    assert 5 < sum(results) < 31
    assert differences <= 1  # almost nothing is lost


def test_groups_of_grid_points_do_not_depend_on_each_other() -> None:
    # Sums of 32 observations are kept from group to group; alone, each group adds up its own.
    places = set()
    for seed in range(3):
        target, schedule = random_target(seed, 1_000_000)
        mean = float(target.columns[0].mean() + 0.05)
        grid = np.linspace(mean - 0.2, mean + 0.05, 4 * LANES)
        alone = [
            last_rejected(target, schedule, grid[first : first + LANES], 0.05)
            for first in range(0, grid.size, LANES)
        ]
        group = next(k for k, last in enumerate(alone) if last < LANES - 1)
        assert last_rejected(target, schedule, grid, 0.05) == group * LANES + alone[group]
        places.add((group, alone[group]))
    assert len(places) > 1
    assert min(places)[0] > 0


def test_observations_are_bet_on_one_by_one_where_the_end_is_open() -> None:
    # Otherwise the time of stopping would decide which observations are bet on together. Gains and
    # losses take turns: they cancel in a sum, but not in a product.
    n = 20_000
    plan = Schedule.plan(n, 20)
    each = np.ones(len(plan.epochs))
    x = 0.01 + np.resize([1.0, -1.0], n)
    target = BetTarget(x[None], each[:, None], 0 * each, -each, 0.33 * each, np.inf * each)
    open_end = replace(plan, unfinished=np.zeros(n, np.bool_), unfinished_fraction=0 * each)
    assert last_rejected(target, plan, np.zeros(1), 0.05) == 0
    assert last_rejected(target, open_end, np.zeros(1), 0.05) == -1


@pytest.mark.parametrize("n", [17, 200, 1500])
def test_observations_that_never_ended_count_at_the_lower_bound(n: int) -> None:
    # As an own column, or as a gain at every grid point: the same variable, so the same bets.
    results = set()
    for seed in range(4):
        target, schedule = random_target(seed, n)
        rng = np.random.default_rng([seed, 1])
        unfinished = rng.random(n) < 0.1
        gains = rng.exponential(0.2, n) * ~unfinished
        grid = np.linspace(-0.5, 1.5, 75)
        each = np.ones(len(schedule.epochs))
        open_end = replace(schedule, unfinished=unfinished, unfinished_fraction=0.1 * each)
        # Far below what the columns say of an observation: 0 would be far from the worst.
        target = replace(target, lower_bounds=target.lower_bounds - 1.0)
        as_gain = replace(target, gains=gains, ranks=np.full(n, grid.size))
        worst = np.where(unfinished, -1.0, 0.0)
        as_column = replace(
            target,
            columns=np.concatenate([target.columns * ~unfinished, [gains, worst]]),
            coefficients=np.concatenate(
                [target.coefficients, each[:, None], each[:, None]], axis=1
            ),
        )
        ended = replace(open_end, unfinished=np.zeros(n, np.bool_))
        expected = last_rejected(as_column, ended, grid, 0.05)
        assert last_rejected(as_column, open_end, grid, 0.05) == expected
        assert last_rejected(as_gain, open_end, grid, 0.05) == expected
        assert last_rejected(as_gain, ended, grid, 0.05) > expected or expected == -1
        results.add(expected)
    assert len(results) > 1 or n < 20


def test_all_points_rejected_gives_the_last_one() -> None:
    target, schedule = random_target(0, 200)
    assert last_rejected(target, schedule, np.array([-3.0, -2.0]), 0.05) == 1
    assert last_rejected(target, schedule, np.array([5.0]), 0.05) == -1


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_negative_excess_does_not_bet_the_wrong_way(overlapping: bool) -> None:
    # Values far below all grid points: a bet on small values would reject every true hypothesis.
    n = 200
    overlaps = np.ones(n, np.int64) if overlapping else None
    schedule = Schedule.plan(n, 20, overlaps)
    each = np.ones(len(schedule.epochs))
    target = BetTarget(np.zeros((1, n)), each[:, None], 0 * each, -each, each, -0.5 * each)
    assert last_rejected(target, schedule, np.array([0.5, 0.9]), 0.05) == -1


@pytest.mark.parametrize("n", [2, 3, 8, 20, 100, 1000, 123_456])
def test_schedules_cover_the_data_and_use_the_past_only(n: int) -> None:
    schedule = Schedule.plan(n, 100)
    assert schedule.blocks[0] == schedule.epochs[0] >= 1
    assert schedule.blocks[-1] == n
    assert (np.diff(schedule.blocks) > 0).all()
    starts = schedule.blocks[:-1]
    assert (schedule.epochs[schedule.epoch_of_block] <= starts).all()
    following = np.append(schedule.epochs[1:], n)[schedule.epoch_of_block]
    assert (schedule.blocks[1:] <= following).all()


def test_the_bound_is_nearly_a_normal_one_and_valid() -> None:
    n, level, trials = 2000, 0.1, 300
    schedule = Schedule.plan(n, 200)
    n_epochs = len(schedule.epochs)
    grid = grid_around(0.5, 0.3 / math.sqrt(n), 0.0, 1.0)
    excess, misses = [], 0
    for trial in range(trials):
        x = np.random.default_rng(trial).random(n)
        second_moments = [
            effective_second_moment(x[:end] - x[:end].mean(), level, n) for end in schedule.epochs
        ]
        zero = np.zeros(n_epochs)
        target = BetTarget(
            x[None, :],
            np.ones((n_epochs, 1)),
            zero,
            zero,
            np.array(second_moments),
            np.full(n_epochs, np.inf),
        )
        bound = grid[last_rejected(target, schedule, grid, level)]
        misses += bound > 0.5
        excess.append((x.mean() - bound) / (x.std() / math.sqrt(n)))
    assert binom.sf(misses - 1, trials, level) > 1e-3
    assert misses > 0.04 * trials, "a bound that hardly ever fails is too wide"
    assert np.mean(excess) < 1.2 * norm.isf(level)


def test_the_effective_second_moment_counts_large_gains_for_less() -> None:
    rng = np.random.default_rng(0)
    skewed = rng.exponential(1.0, 5000) ** 2
    centered = skewed - skewed.mean()
    assert effective_second_moment(centered, 0.05, 5000) < 0.9 * skewed.var()
    even = rng.choice([-1.0, 1.0], 5000)
    assert effective_second_moment(even, 0.05, 5000) == pytest.approx(1.0, rel=0.05)


def test_grids_are_fine_near_the_center_and_reach_the_ends() -> None:
    grid = grid_around(2.0, 0.1, 0.0, 100.0)
    assert (grid[0], grid[-1]) == (0.0, 100.0)
    assert (np.diff(grid) > 0).all()
    near = grid[np.abs(grid - 2.0) < 1.9]
    np.testing.assert_allclose(np.diff(near), 0.005, rtol=1e-6)
    assert grid.size < 1200
    assert grid_around(-5.0, 0.0, 0.0, 1.0)[0] == 0.0


def test_grids_stay_fine_where_the_center_may_be_wrong() -> None:
    center, unit, error = 50.0, 0.01, 1.0
    grid = grid_around(center, unit, 0.0, 100.0, error=error)
    middle = (grid[:-1] + grid[1:]) / 2
    distance = np.abs(middle - center)
    plausible = distance < 5.0 * error
    steps = np.diff(grid)[plausible]
    # Far less than the unit, which is the standard error of the bound, but for improbable errors.
    assert (steps <= np.maximum(0.0501 * unit, 0.0026 * distance[plausible])).all()
    assert (steps[distance[plausible] < error] < 0.3 * unit).all()
    assert grid.size < 4000
    coarse = grid_around(center, unit, 0.0, 100.0)
    assert np.diff(coarse)[np.searchsorted(coarse, center + error)] > 3.0 * unit
