"""Bets on the pilot: the expected capital is at most its start, wherever the grid is laid."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.betting.squares import square_about
from ove_sb3.core.betting.warm_up import WarmUp, fraction_at_risk
from ove_sb3.core.quantities import as_quantity
from ove_sb3.core.sample import Sample

OUTCOMES, PROBABILITIES = np.array([0.0, 3.0]), np.array([0.8, 0.2])
MEAN = float(OUTCOMES @ PROBABILITIES)
VARIANCE = float((OUTCOMES - MEAN) ** 2 @ PROBABILITIES)
LEVEL = 0.1
N, PILOT, FIRST = 72, 9, 5  # observations in all, in the pilot, and before the first bet


def pilots() -> list[tuple[np.ndarray, float]]:
    """Every pilot and its probability."""
    indices = (np.array(k) for k in itertools.product(range(2), repeat=PILOT))
    return [(OUTCOMES[k], float(PROBABILITIES[k].prod())) for k in indices]


def schedule() -> Schedule:
    plan = Schedule.plan(N, 10, warm_up=True)
    assert (plan.epochs[0], plan.pilot, plan.n_warm_up) == (FIRST, PILOT, 3)
    return plan


def past_means(x: np.ndarray, plan: Schedule) -> np.ndarray:
    """Mean of the past of every epoch of the warm-up."""
    return np.array([x[:end].mean() for end in plan.epochs[: plan.n_warm_up]])


def test_the_grid_may_depend_on_the_pilot() -> None:
    plan, grid = schedule(), np.linspace(MEAN, 4 * MEAN, 40)
    ones = np.ones(len(plan.epochs))
    fractions, expected = set(), 0.0
    for x, probability in pilots():
        warm_up = WarmUp.of_target(
            x[None], ones[:, None], 0 * ones, 0 * ones, past_means(x, plan), plan, LEVEL
        )
        assert warm_up is not None
        np.testing.assert_array_equal(warm_up.values, x[FIRST:])
        fractions.update(warm_up.fractions.round(6).tolist())
        expected += probability * warm_up.capital(grid, LEVEL, None, None).max()
    assert len(fractions) > 10
    # Exactly the start: of all true hypotheses that of the mean itself has the largest capital.
    assert expected == pytest.approx(LEVEL, rel=1e-10)


def test_other_fractions_for_other_points_would_not_be_valid() -> None:
    grid = np.linspace(MEAN, 4 * MEAN, 40)
    expected = 0.0
    for x, probability in pilots():
        f = fraction_at_risk(x[:FIRST], float(x[:FIRST].mean()), 0.0, LEVEL, N)
        fractions = np.where(grid > MEAN, 0.0, f)  # no bets against larger means
        factors = 1.0 + fractions * (x[FIRST:, None] - grid) / grid
        expected += probability * LEVEL * factors.prod(axis=0).max()
    assert expected > 1.05 * LEVEL


@pytest.mark.parametrize("weighted", [False, True])
def test_thresholds_may_depend_on_the_pilot(weighted: bool) -> None:
    # "P(x >= t) <= mass" is true for t > 0. Weights are independent of x, with a mean of 1.
    mass, thresholds = float(PROBABILITIES[1]), np.array([0.0, 1.5, 3.0, 4.0])
    plan, grid = Schedule.plan(N, 10), np.full(thresholds.size, mass)
    possible = itertools.product([0.4, 1.6], repeat=PILOT) if weighted else [np.ones(PILOT)]
    weights = [np.array(w) for w in possible]
    expected, controls = 0.0, 0
    rng = np.random.default_rng(0)
    for x, probability in pilots():
        some = [weights[k] for k in rng.choice(len(weights), 8)] if weighted else weights
        for w in some:

            def above(k: int, x: np.ndarray = x) -> tuple[np.ndarray, float, float]:
                return (np.quantile(x[:k], 1 - mass) <= x).astype(np.float64), 0.0, mass

            limit = 1.6 if weighted else math.inf
            warm_up = WarmUp.of_values(w, above, limit, plan, LEVEL, gains=True)
            assert warm_up is not None
            controls += bool((warm_up.lower_bounds < 0.0).any())
            ranks = np.searchsorted(thresholds, x, side="right")
            capital = warm_up.capital(grid, LEVEL, w, ranks)
            assert (np.diff(capital) <= 1e-15).all()
            expected += probability * capital[1:].max() / len(some)
    assert bool(controls) == weighted
    assert expected == pytest.approx(LEVEL, rel=0.1 if weighted else 1e-10)


def test_centers_may_depend_on_the_pilot() -> None:
    plan = schedule()
    ones = np.ones(len(plan.epochs))
    expected = 0.0
    near = [
        (MEAN + sign * share * h, h) for h in (0.1, 1.0) for sign in (-1, 1) for share in (0, 1)
    ]
    for x, probability in pilots():
        means = past_means(x, plan)
        columns = np.stack([x * x, x, np.ones(PILOT)])
        variances = np.array([x[:end].var() for end in plan.epochs[: plan.n_warm_up]])
        warm_up = WarmUp.of_target(
            columns, square_about(means), 0 * ones, 0 * ones, variances, plan, LEVEL
        )
        assert warm_up is not None
        largest = 0.0
        for center, h in near:
            shifts = (np.abs(center - means) + h) ** 2 - h**2
            grid = np.array([VARIANCE, 1.5 * VARIANCE]) + h**2
            capital = warm_up.shifted(shifts, plan).capital(grid, LEVEL, None, None)
            largest = max(largest, float(capital.max()))
        expected += probability * largest
    assert 0.5 * LEVEL < expected <= LEVEL


def test_fractions_are_moderate() -> None:
    assert fraction_at_risk(np.zeros(5), 0.0, 0.0, LEVEL, N) == 0.0
    assert fraction_at_risk(np.ones(5), 1.0, 0.0, LEVEL, N) == 0.5  # no spread in sight
    wide, narrow = (
        fraction_at_risk(1.0 + s * np.array([-1.0, 1.0, -1.0, 1.0]), 1.0, 0.0, LEVEL, 10_000)
        for s in (0.9, 0.3)
    )
    assert 0.0 < wide < narrow < 0.5
    assert narrow == pytest.approx(3 * wide)


def test_no_warm_up_where_observations_overlap_or_their_number_is_open() -> None:
    overlapping = Schedule.plan(N, 10, np.full(N, 3), warm_up=True)
    assert overlapping.n_warm_up == 0
    assert not overlapping.can_warm_up
    none = np.zeros(N, np.int64)
    assert Schedule.plan(N, 10, none, warm_up=True).n_warm_up == 0  # none happened to overlap
    assert Schedule.plan(N, 10, warm_up=True).n_warm_up == 3
    assert not Schedule.from_pilot(N).can_warm_up


@pytest.mark.parametrize("quantity", ["mean", "median"])
def test_bets_on_the_pilot_make_the_order_matter_less(
    quantity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewards = np.random.default_rng(0).random(1000)
    stats = ove.trajectory_statistics(
        np.zeros(1000), rewards, np.ones(1000, int), gamma=1.0, horizon=1
    )

    def spread() -> float:
        bounds = [
            ove.interval(
                stats,
                quantity,
                reward_range=(0, 1),
                method=ove.Betting(n_shuffles=1),
                side="lower",
                rng=seed,
            ).lower
            for seed in range(24)
        ]
        return float(np.std(bounds))

    with_bets = spread()
    monkeypatch.setattr("ove_sb3.core.betting.schedule._FIRST", 1000)  # no warm-up
    assert with_bets < 0.85 * spread()


def logged(kind: str, rng: np.random.Generator, n: int, horizon: int) -> tuple[np.ndarray, ...]:
    """Log-ratios and rewards in which the past often says nothing: no weight, or one return."""
    size = n * horizon
    if kind == "no weight":
        log_ratios = np.where(rng.random(size) < 0.3, math.log(1 / 0.3), -np.inf)
        return log_ratios, rng.random(size) - 0.7
    log_ratios = np.log(rng.choice([0.7, 1.3], size))
    return log_ratios, (rng.random(size) < 0.03) * 1.0 - 0.7


@pytest.mark.parametrize("max_weight", [None, 100.0])
@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("kind", ["no weight", "one return"])
@pytest.mark.parametrize(
    ("quantity", "side"),
    [
        *(("mean", "lower"), ("mean", "upper"), ("variance", "lower"), ("variance", "upper")),
        *(("median", "lower"), ("median", "upper"), ("cvar:0.3", "lower")),
        *(("p_below:-0.5", "lower"), ("p_below:-0.5", "upper")),
    ],
)
def test_bets_do_not_depend_on_the_future(
    quantity: str,
    side: str,
    kind: str,
    horizon: int,
    max_weight: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[WarmUp] = []
    capital = WarmUp.capital

    def spy(self: WarmUp, *args: Any) -> np.ndarray:
        seen.append(self)
        return capital(self, *args)

    monkeypatch.setattr(WarmUp, "capital", spy)

    def bets(log_ratios: np.ndarray, rewards: np.ndarray) -> WarmUp:
        seen.clear()
        stats = ove.trajectory_statistics(
            log_ratios, rewards, np.full(400, horizon), gamma=1.0, horizon=horizon
        )
        limits = Assumptions(
            gamma=1.0, horizon=horizon, reward_range=(-0.7, 0.3), max_weight=max_weight
        ).limits(stats)
        sample = Sample(stats, limits, np.arange(400), None)
        getattr(as_quantity(quantity), f"betting_{side}")(sample, 0.1)
        return seen[0]

    positive = False
    for seed in range(6):
        rng = np.random.default_rng(seed)
        cut = int(rng.integers(FIRST + 1, 24))
        before, after = (logged(kind, rng, 400, horizon) for _ in range(2))
        changed = [
            np.concatenate([a[: cut * horizon], b[cut * horizon :]])
            for a, b in zip(before, after, strict=True)
        ]
        one, other = bets(*before), bets(*changed)
        known = cut - FIRST
        # The bet on observation `cut` is the last that is made before anything differs.
        for name in ("fractions", "lower_bounds"):
            np.testing.assert_array_equal(
                getattr(one, name)[: known + 1], getattr(other, name)[: known + 1]
            )
        np.testing.assert_array_equal(one.values[:known], other.values[:known])
        positive |= bool((one.fractions > 0.0).any())
    assert positive or kind == "one return"  # nothing to gain where all returns are the worst


@pytest.mark.parametrize(
    "quantity", ["mean", "variance", "quantile:0.05", "median", "cvar:0.1", "p_below:0.5"]
)
def test_weights_whose_squares_are_zero_do_not_widen_a_bound(quantity: str) -> None:
    # A canary log: the candidate would almost never have acted as in the other 90% of the episodes.
    rng = np.random.default_rng(0)
    canary, weights, returns = rng.random(400) < 0.1, 1.0 + rng.random(400), rng.random(400)

    def width(scale: float) -> float:
        log_ratios = np.log(np.where(canary, 10.0, scale * weights))
        stats = ove.trajectory_statistics(
            log_ratios, returns, np.ones(400, int), gamma=1.0, horizon=1
        )
        result = ove.interval(stats, quantity, reward_range=(0.0, 1.0), max_weight=10.0)
        return result.upper - result.lower

    assert (1e-150**2, 1e-200**2) == (1e-300, 0.0)
    assert width(1e-200) < 1.1 * width(1e-150)
