"""Quantiles, CVaR and probabilities: exact values on problems with a known distribution."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.estimators.per_decision import per_decision
from ove_sb3.core.estimators.weighted_distribution import WeightedDistribution
from ove_sb3.core.quantities import as_quantity, cvar
from ove_sb3.core.steps import Steps, StepScores
from tests.problems.risk import Outcomes, one_step, problems, truth
from tests.problems.tiny import TinyProcess

PROBLEMS = problems()
LEVELS = (1e-6, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999999)
RISKS = [f"quantile:{p}" for p in LEVELS] + [f"cvar:{p}" for p in LEVELS] + ["median"]


def whole_population(problem: Outcomes) -> ove.TrajectoryStatistics:
    """A log in which every outcome occurs exactly as often as the behavior's probability says."""
    counts = np.array(problem.probabilities) * 2100
    assert np.allclose(counts, np.round(counts)), "probabilities must be multiples of 1/2100"
    return problem.of(np.repeat(np.arange(counts.size), np.round(counts).astype(int)))


@pytest.mark.parametrize("quantity", RISKS)
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "tiny"])
def test_estimates_are_exact_where_the_log_is_the_population(name: str, quantity: str) -> None:
    problem = PROBLEMS[name]
    expected = truth(problem.distribution, quantity)
    assert ove.estimate(whole_population(problem), quantity) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "tiny"])
def test_probabilities_count_returns_equal_to_x(name: str) -> None:
    problem = PROBLEMS[name]
    stats = whole_population(problem)
    for value in problem.distribution:
        for x in (value - 0.01, value, value + 0.01):
            expected = truth(problem.distribution, f"p_below:{x}")
            for estimator in ("wis", "is"):
                found = ove.estimate(stats, ove.ProbabilityBelow(x), estimator=estimator)
                assert found == pytest.approx(expected, abs=1e-9)


def test_a_quantile_is_the_value_at_which_the_distribution_reaches_p_exactly() -> None:
    problem = one_step("quarters", [0.25] * 4, [0.25] * 4, [0.0, 1.0, 2.0, 3.0])
    stats = problem.of(np.arange(4))
    assert [ove.estimate(stats, f"quantile:{p}") for p in (0.25, 0.5, 0.75)] == [0.0, 1.0, 2.0]
    assert ove.estimate(stats, "quantile:0.2500001") == 1.0
    assert ove.estimate(stats, "cvar:0.5") == 0.5
    assert ove.Quantile(0.5).of_sample(stats.returns) == 1.0
    assert ove.CVaR(0.75).of_sample(stats.returns) == 1.0
    # Twenty equal weights of 0.05: rounding of their sum must not move the quantile.
    twenty = ove.trajectory_statistics(
        np.zeros(20), np.arange(20.0), np.ones(20, int), gamma=1.0, horizon=1
    )
    for k in range(19):
        assert ove.estimate(twenty, ove.Quantile((k + 1) / 20)) == k


def test_returns_that_differ_by_rounding_are_equal() -> None:
    assert ove.ProbabilityBelow(0.3).of_sample(np.array([0.1 + 0.2, 0.4])) == 0.5


@pytest.mark.parametrize("estimator", ["is", "pdis"])
def test_unbiased_probabilities_have_the_exact_expectation(estimator: str) -> None:
    process = TinyProcess.of()
    distribution = PROBLEMS["tiny"].distribution
    for x in (-3.0, -2.0, -1.0, 0.0, 1.0, 2.5):
        quantity = ove.ProbabilityBelow(x)
        columns = quantity.find_estimator(estimator).columns
        expectation = 0.0
        for probability, log_ratios, rewards, lengths in process.data_sets(2):
            stats = ove.trajectory_statistics(
                log_ratios, rewards, lengths, gamma=0.9, horizon=3, columns=columns
            )
            expectation += probability * quantity.estimate(stats, estimator)
        assert expectation == pytest.approx(truth(distribution, quantity.name), abs=1e-10)


@pytest.mark.parametrize("m", [-2.0, 0.3, 4.0])
def test_the_per_decision_form_of_a_hinge_is_unbiased(m: float) -> None:
    process = TinyProcess.of()
    every = process.trajectories()
    lengths = np.array([rewards.size for _, _, rewards in every])
    steps = Steps(
        StepScores(np.concatenate([logs for _, logs, _ in every])),
        np.concatenate([rewards for _, _, rewards in every]),
        np.concatenate([[0], np.cumsum(lengths)[:-1]]),
        lengths,
        process.mdp.gamma,
        process.mdp.horizon,
    )
    values = per_decision(steps, lambda S: np.maximum(m - S, 0.0))
    expectation = sum(p * v for (p, _, _), v in zip(every, values, strict=True))
    distribution = PROBLEMS["tiny"].distribution
    expected = math.fsum(p * max(m - value, 0.0) for value, p in distribution.items())
    assert expectation == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("quantity", ["quantile:0.05", "median", "cvar:0.1", "p_below:1"])
@pytest.mark.parametrize("n", [2, 20, 500])
def test_constant_returns(quantity: str, n: int) -> None:
    stats = ove.trajectory_statistics(
        np.zeros(n), np.ones(n), np.ones(n, int), gamma=1.0, horizon=1
    )
    for max_weight in (None, 1.0):
        interval = ove.interval(stats, quantity, reward_range=(0.0, 2.0), max_weight=max_weight)
        assert 1.0 in interval
        assert interval.consistent
        if n == 500 and quantity != "p_below:1":
            assert interval.lower == 1.0 or quantity == "cvar:0.1"
    assert ove.estimate(stats, quantity) == 1.0


def test_limits_at_the_ends_of_the_range_are_known_in_advance() -> None:
    stats = PROBLEMS["on policy"].statistics(100, np.random.default_rng(0))
    top = ove.interval(stats, "p_below:1", reward_range=(0.0, 1.0))
    assert (top.lower, top.upper) == (1.0, 1.0)
    below = ove.interval(stats, "p_below:-0.1", reward_range=(0.0, 1.0))
    assert (below.lower, below.upper) == (0.0, 0.0)
    bottom = ove.interval(stats, "p_below:0", reward_range=(0.0, 1.0))
    assert bottom.lower < 1 / 21 < bottom.upper < 1.0


@pytest.mark.parametrize("quantity", RISKS)
def test_bounds_stay_in_the_range_and_are_monotone_in_delta(quantity: str) -> None:
    problem = PROBLEMS["many values"]
    stats = problem.statistics(400, np.random.default_rng(1))
    intervals = [
        ove.interval(stats, quantity, reward_range=problem.reward_range, delta=delta)
        for delta in (0.4, 0.05, 0.001)
    ]
    for wide, narrow in itertools.pairwise(reversed(intervals)):
        assert wide.lower <= narrow.lower
        assert wide.upper >= narrow.upper
    assert intervals[-1].lower >= -1.0
    assert intervals[-1].upper <= 2.0


def test_returns_shifted_and_scaled_shift_and_scale_the_bounds() -> None:
    problem = PROBLEMS["many values"]
    stats = problem.statistics(2000, np.random.default_rng(2))
    moved = ove.trajectory_statistics(
        np.log(stats.weights), 10.0 + 4.0 * stats.returns, np.ones(2000, int), gamma=1.0, horizon=1
    )
    for quantity in ("quantile:0.1", "median", "cvar:0.25"):
        first = ove.interval(stats, quantity, reward_range=(-1.0, 2.0))
        second = ove.interval(moved, quantity, reward_range=(6.0, 18.0))
        assert second.lower == pytest.approx(10.0 + 4.0 * first.lower, abs=0.02)
        assert second.upper == pytest.approx(10.0 + 4.0 * first.upper, abs=0.02)


def test_negating_returns_mirrors_quantiles() -> None:
    rng = np.random.default_rng(3)
    log_ratios, returns = rng.normal(-0.02, 0.2, 3000), rng.normal(size=3000).clip(-4, 4)
    ones = np.ones(3000, int)
    stats = ove.trajectory_statistics(log_ratios, returns, ones, gamma=1.0, horizon=1)
    mirrored = ove.trajectory_statistics(log_ratios, -returns, ones, gamma=1.0, horizon=1)
    low = ove.interval(stats, "quantile:0.1", reward_range=(-4, 4))
    high = ove.interval(mirrored, "quantile:0.9", reward_range=(-4, 4))
    assert (low.lower, low.upper) == pytest.approx((-high.upper, -high.lower))


def test_approximate_intervals_agree_and_are_near_the_truth() -> None:
    problem = PROBLEMS["many values"]
    stats = problem.statistics(20_000, np.random.default_rng(4))
    for quantity in ("quantile:0.1", "median", "cvar:0.25", "p_below:0.5"):
        expected = truth(problem.distribution, quantity)
        bootstrap = ove.interval(stats, quantity, method="bootstrap")
        normal = ove.interval(stats, quantity, method="normal")
        assert not bootstrap.guaranteed
        assert normal.lower == pytest.approx(bootstrap.lower, abs=0.051)
        assert normal.upper == pytest.approx(bootstrap.upper, abs=0.051)
        assert normal.lower - 1e-9 <= expected <= normal.upper + 1e-9


def test_the_bootstrap_of_a_quantile_has_the_coverage_it_states() -> None:
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(300):
        log_ratios = rng.normal(-0.125, 0.5, 300)
        returns = rng.normal(size=300)
        stats = ove.trajectory_statistics(
            log_ratios, returns, np.ones(300, int), gamma=1.0, horizon=1
        )
        interval = ove.interval(stats, "quantile:0.25", method="normal", delta=0.2)
        missed += -0.6744897501960817 not in interval
    assert 35 <= missed <= 95


def test_a_log_without_weight_gives_no_estimate() -> None:
    empty = WeightedDistribution.of(np.array([1.0, 2.0]), np.zeros(2))
    assert math.isnan(empty.quantile(0.5))
    assert math.isnan(empty.cvar(0.5))
    stats = ove.trajectory_statistics(
        np.full(30, -np.inf), np.linspace(0, 1, 30), np.ones(30, int), gamma=1.0, horizon=1
    )
    for quantity in ("quantile:0.1", "cvar:0.1", "p_below:0.5"):
        with pytest.warns(ove.SupportWarning):
            assert math.isnan(ove.estimate(stats, quantity))
        with pytest.warns(ove.SupportWarning):
            interval = ove.interval(stats, quantity, reward_range=(0, 1))
        assert (interval.lower, interval.upper) == (0.0, 1.0)


def test_names_and_labels() -> None:
    for name, label in {
        "quantile:0.05": "5% quantile",
        "median": "median",
        "cvar:0.1": "CVaR 10%",
        "p_below:10": "P(return <= 10)",
        "p_below:-0.5": "P(return <= -0.5)",
        "quantile:0.123456789": "12.3456789% quantile",
    }.items():
        quantity = as_quantity(name)
        assert (quantity.name, quantity.label) == (name, label)
    assert as_quantity("quantile:0.5") == as_quantity("median") == ove.Quantile(0.5)
    assert ove.ProbabilityBelow(2).title == "probability of a return of at most 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantile", "'quantile' must have a number after a colon"),
        ("quantile:abc", "got 'quantile:abc'"),
        ("quantile:0", r"`p` must lie in \(0, 1\), got 0.0"),
        ("cvar:1", r"`p` must lie in \(0, 1\)"),
        ("cvar:nan", "`p` must"),
        ("p_below:inf", r"`x` must lie in \(-inf, inf\)"),
        ("median:0.4", "'median' without an argument, got 'median:0.4'"),
    ],
)
def test_bad_names_are_refused(text: str, message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        as_quantity(text)


def test_cells_share_bets_by_the_pilot_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Cells that the results so far make superfluous are skipped; that must not change the others.
    rng = np.random.default_rng(0)
    n = 400
    seen: list[dict[float, float]] = []
    lower = cvar._CellBets.lower

    def spy(self: cvar._CellBets, excess: Any, highest: float, expected: float, *more: Any) -> Any:
        seen[-1][expected] = self.expected
        return lower(self, excess, highest, expected, *more)

    monkeypatch.setattr(cvar._CellBets, "lower", spy)
    first = rng.normal(0.5, 0.15, n).clip(0, 1)
    for _ in range(8):
        later = rng.normal(rng.uniform(0.3, 0.7), 0.15, n).clip(0, 1)
        returns = np.concatenate([first[:60], later[60:]])
        stats = ove.trajectory_statistics(
            np.zeros(n), returns, np.ones(n, int), gamma=1.0, horizon=1
        )
        seen.append({})
        ove.interval(stats, "cvar:0.3", reward_range=(0, 1), side="upper", adaptive=True)
    assert len({tuple(sorted(cells)) for cells in seen}) > 1, "the same cells were skipped"
    models: dict[float, float] = {}
    for cells in seen:
        for cell, model in cells.items():
            assert models.setdefault(cell, model) == model
