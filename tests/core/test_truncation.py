"""Truncated weights: a mean of exactly 1, never beyond the cap, by enumeration."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ove_sb3 as ove
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.betting import averages, squares, targets
from ove_sb3.core.betting.forms import (
    AnyForm,
    reference_return,
    truncated_returns,
    whole_form,
)
from ove_sb3.core.betting.schedule import OpenEnd, Schedule
from ove_sb3.core.quantities import as_quantity, cvar, quantile
from ove_sb3.core.quantities import variance as variance_module
from ove_sb3.core.sample import Sample
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores
from ove_sb3.core.truncation import CAPS, ActionRatios, column_names, truncated_columns

FloatArray = NDArray[np.float64]
HORIZON = 3
# Two states, three actions. The behavior never takes the last action in state 1. A ratio of exactly
# 1 in state 0 is a tie with the first limit for draws at a cap of 2.
BEHAVIOR = np.array([[0.7, 0.25, 0.05], [0.75, 0.25, 0.0]])
CANDIDATE = np.array([[0.05, 0.25, 0.7], [0.15, 0.75, 0.1]])
NEXT = np.array([[1, 0, 1], [0, 1, 0]])  # deterministic; an episode ends after action 0 in state 1
REWARDS = np.array([[0.2, -0.5, 1.0], [-1.0, 0.6, 1.0]])
END = (1, 0)


@dataclass(frozen=True)
class Enumerated:
    """All trajectories of the behavior (and all draws of the candidate), with probabilities."""

    probabilities: FloatArray
    actions: ActionRatios
    rewards: FloatArray
    lengths: NDArray[np.int64]

    @property
    def columns(self) -> dict[str, FloatArray]:
        return truncated_columns(self.actions, self.lengths)

    def statistics(self) -> TrajectoryStatistics:
        with np.errstate(divide="ignore"):
            log_ratios = np.log(self.actions.logged)
        return shard_statistics(
            StepScores(log_ratios, columns=self.columns),
            self.rewards,
            self.lengths,
            gamma=1.0,
            horizon=HORIZON,
        )


def ratio_table() -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(CANDIDATE / BEHAVIOR)


def paths(policy: FloatArray, n_draws: int = 0) -> list[tuple[float, list[Any]]]:
    """Probability and steps (state, action, draws) of every trajectory; draws of the candidate."""
    done: list[tuple[float, list[Any]]] = []
    open_paths: list[tuple[float, int, list[Any]]] = [(1.0, 0, [])]
    for t in range(HORIZON):
        longer = []
        for p, state, steps in open_paths:
            for action, *draws in itertools.product(range(3), repeat=1 + n_draws):
                q = p * policy[state, action] * np.prod([CANDIDATE[state, a] for a in draws])
                if q == 0.0:
                    continue
                path = [*steps, (state, action, draws)]
                if (state, action) == END or t == HORIZON - 1:
                    done.append((float(q), path))
                else:
                    longer.append((float(q), int(NEXT[state, action]), path))
        open_paths = longer
    return done


def enumerated(n_draws: int = 0, *, exact: bool | None = None) -> Enumerated:
    found = paths(BEHAVIOR, n_draws)
    steps = [step for _, path in found for step in path]
    states, actions = (np.array([step[k] for step in steps]) for k in (0, 1))
    table = ratio_table()
    if n_draws:
        drawn = np.array([step[2] for step in steps])
        ratios = table[states[:, None], drawn]
        masses = np.full(ratios.shape, 1.0 / n_draws)
    else:
        ratios, masses = table[states], CANDIDATE[states]
    is_exact = n_draws == 0 if exact is None else exact
    return Enumerated(
        np.array([p for p, _ in found]),
        ActionRatios(table[states, actions], ratios, masses, is_exact),
        REWARDS[states, actions],
        np.array([len(path) for _, path in found]),
    )


def candidate_returns() -> tuple[FloatArray, FloatArray]:
    found = paths(CANDIDATE)
    returns = [sum(REWARDS[state, action] for state, action, _ in path) for _, path in found]
    return np.array([p for p, _ in found]), np.array(returns)


@pytest.mark.parametrize("n_draws", [0, 1, 2])
def test_the_mean_is_one_and_the_cap_is_kept(n_draws: int) -> None:
    problem = enumerated(n_draws)
    assert problem.probabilities.sum() == pytest.approx(1.0)
    columns = problem.columns
    for cap in CAPS:
        w, k = (columns[name] for name in column_names(cap))
        assert problem.probabilities @ (w + k) == pytest.approx(1.0, abs=1e-12), cap
        assert min(w.min(), k.min()) >= 0.0
        assert (w + k).max() <= cap * (1 + 1e-15), cap
    # The unsupported action alone must be charged whatever the cap is.
    assert problem.probabilities @ columns[column_names(CAPS[-1])[1]] > 0.05
    assert np.isinf(columns["max_ratios"]).any()


@pytest.mark.parametrize("n_draws", [0, 2])
def test_charges_bound_the_candidate_from_both_sides(n_draws: int) -> None:
    problem = enumerated(n_draws)
    p, G = candidate_returns()
    returns = np.add.reduceat(problem.rewards, np.cumsum(problem.lengths) - problem.lengths)
    for cap in CAPS:
        w, k = (problem.columns[name] for name in column_names(cap))
        for bad in np.unique(np.round(G, 9)):  # probability of this and lower returns
            truth = p @ (bad + 1e-9 >= G)
            seen = problem.probabilities @ (w * (returns <= bad + 1e-9))
            assert seen <= truth + 1e-12 <= seen + problem.probabilities @ k + 2e-12


def test_a_larger_cap_on_exact_masses_cuts_less() -> None:
    problem = enumerated()
    charged = [problem.probabilities @ problem.columns[column_names(cap)[1]] for cap in CAPS]
    assert charged[0] > 2 * charged[-1]
    assert (np.diff(charged) <= 1e-12).all()


def test_the_tighter_rule_is_refuted_for_draws() -> None:
    # Why draws take c = W - k - rho: with the rule of exact masses M exceeds W or is not 1.
    problem = enumerated(1, exact=True)
    w, k = (problem.columns[name] for name in column_names(2.0))
    mean = problem.probabilities @ (w + k)
    assert (w + k).max() > 2.0 or abs(mean - 1.0) > 1e-3


def prefer_truncated(monkeypatch: pytest.MonkeyPatch, cap: float | None = None) -> None:
    """Let truncated forms be chosen, of any or of one cap, however small the past is."""
    original = targets.predicted_bounds

    def prefer(form: Any, *rest: Any, as_charged: bool) -> FloatArray:
        preferred = len(form.columns) == 4 and cap in (None, form.max_weight)
        return original(form, *rest, as_charged=as_charged) + (1e6 if preferred else 0.0)

    for module in (targets, squares):
        monkeypatch.setattr(module, "predicted_bounds", prefer)
    for name in ("_FEWEST_PER_WEIGHT", "_FEWEST_OVER_STEPS"):
        monkeypatch.setattr(targets, name, 0)


def sample_of(problem: Enumerated) -> Sample:
    stats = problem.statistics()
    limits = Assumptions(1.0, HORIZON, reward_range=(-1.0, 1.0)).limits(stats)
    return Sample(stats, limits, np.arange(len(stats)), None)


def targets_of(
    monkeypatch: pytest.MonkeyPatch, problem: Enumerated, quantity: str, side: str
) -> list[Any]:
    """Bet targets of a bound of the quantity, with truncated forms preferred."""
    seen: list[Any] = []

    def capture(target: Any, _schedule: Any, grid: FloatArray, _level: float) -> int:
        seen.append(target)
        return len(grid) - 1

    prefer_truncated(monkeypatch)
    monkeypatch.setattr(averages, "last_rejected", capture)
    monkeypatch.setattr(variance_module, "last_rejected", capture)
    getattr(as_quantity(quantity), f"betting_{side}")(sample_of(problem), 0.05)
    return seen


def test_caps_do_not_depend_on_an_open_number_of_episodes() -> None:
    def caps(n: int, *, open_number: bool) -> list[float]:
        whole = sample_of(enumerated(0))
        open_end = OpenEnd(np.zeros(n, np.bool_), 2, None, 0) if open_number else None
        stats = whole.stats.select(np.arange(n) % len(whole.stats))
        sample = Sample(stats, whole.limits, np.arange(n), None, open_end)
        return [form.max_weight for form in truncated_returns(sample, 0.0)]

    assert caps(8, open_number=True) == caps(200, open_number=True)
    assert caps(8, open_number=False) < caps(200, open_number=False)


@pytest.mark.parametrize("n_draws", [0, 1])
@pytest.mark.parametrize(
    ("quantity", "side"), [("mean", "lower"), ("mean", "upper"), ("variance", "upper")]
)
def test_what_is_bet_on_is_bounded_and_has_the_right_mean(
    monkeypatch: pytest.MonkeyPatch, quantity: str, side: str, n_draws: int
) -> None:
    problem = enumerated(n_draws)
    p, G = candidate_returns()
    mean, variance = p @ G, p @ G**2 - (p @ G) ** 2
    bets = targets_of(monkeypatch, problem, quantity, side)
    assert bets
    for target in bets:
        assert len(target.columns) % 4 == 0
        x = target.coefficients @ target.columns + target.constants[:, None]
        assert (x >= target.lower_bounds[:, None] - 1e-9).all()
        means = x @ problem.probabilities
        if quantity == "variance":
            assert (means <= -variance + 1e-12).all()
        else:
            pilot = targets_reference(problem.statistics())
            sign = 1.0 if side == "lower" else -1.0
            assert (means <= sign * (mean - pilot) + 1e-12).all()


@pytest.mark.parametrize("n_draws", [1, 2])
@pytest.mark.parametrize("cap", [2.0, 4.0])
def test_squares_about_any_center_are_bounded_and_have_no_larger_mean(
    monkeypatch: pytest.MonkeyPatch, cap: float, n_draws: int
) -> None:
    problem, (p, G) = enumerated(n_draws), candidate_returns()
    prefer_truncated(monkeypatch, cap)
    sample = sample_of(problem)
    schedule = sample.schedule(100, large_pilot=True)
    reference = reference_return(sample, schedule)
    forms: list[AnyForm] = [whole_form(sample, reference), *truncated_returns(sample, reference)]
    bets = squares.SquareBets(forms, schedule, 0.05)
    controlled = 0
    for d in (-2.0, -0.3, 0.0, 1.5):
        (target,) = bets.targets(np.array([d]), np.array([0.1]))
        assert len(target.columns) == 4
        x = target.coefficients @ target.columns + target.constants[:, None]
        assert (x >= target.lower_bounds[:, None] - 1e-9).all()
        assert (x @ problem.probabilities <= p @ (G - reference - d) ** 2 + 1e-12).all()
        np.testing.assert_allclose(target.lower_bounds, -target.constants * (cap - 1.0))
        controlled += int(np.count_nonzero(target.constants > 0.0))
    assert controlled


@pytest.mark.parametrize("n_draws", [0, 1])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_threshold_bets_on_no_more_than_its_probability(
    monkeypatch: pytest.MonkeyPatch, sign: float, n_draws: int
) -> None:
    problem, (p, G) = enumerated(n_draws), candidate_returns()
    prefer_truncated(monkeypatch, 3.0)
    seen: list[Any] = []
    thresholds: list[FloatArray] = []
    find = quantile._ranked

    def ranked(*args: Any) -> Any:
        found = find(*args)
        thresholds.append(found[0])
        return found

    def capture(target: Any, *_: Any) -> int:
        seen.append(target)
        return 0

    monkeypatch.setattr(quantile, "_ranked", ranked)
    monkeypatch.setattr(quantile, "last_rejected", capture)
    quantile.threshold_lower(sample_of(problem), 0.4, 0.05, sign=sign)
    (target,), (levels,) = seen, thresholds
    assert len(target.columns) == 2
    assert levels.size > 3
    base = target.coefficients @ target.columns + target.constants[:, None]
    for j, threshold in enumerate(levels):
        x = base + np.where(j < target.ranks, target.gains, 0.0)
        assert (x >= target.lower_bounds[:, None] - 1e-9).all()
        truth = p @ (sign * G >= threshold - 1e-9)
        assert (x @ problem.probabilities <= truth + 1e-12).all()


@pytest.mark.parametrize("n_draws", [0, 1])
def test_every_cell_of_the_cvar_bets_on_no_more_than_its_excess(
    monkeypatch: pytest.MonkeyPatch, n_draws: int
) -> None:
    problem, (p, G) = enumerated(n_draws), candidate_returns()
    edges = np.array([-3.0, -0.9, 0.1, 1.3, 3.0])
    cells: list[float] = []
    lower = cvar._CellBets.lower

    def record(self: Any, excess: FloatArray, highest: float, *rest: float) -> float:
        cells.append(highest)
        return lower(self, excess, highest, *rest)

    monkeypatch.setattr(cvar, "_edges", lambda *_: edges)
    monkeypatch.setattr(cvar._CellBets, "lower", record)
    bets = targets_of(monkeypatch, problem, "cvar:0.3", "upper")
    assert len(bets) == len(cells) >= 3
    for target, highest in zip(bets, cells, strict=True):
        assert len(target.columns) % 3 == 0
        k = int(np.abs(edges - (0.3 * highest - 3.0)).argmin())
        truth = p @ np.where(edges[k - 1] >= G, (edges[k] - G) / 0.3, 0.0)
        x = target.coefficients @ target.columns + target.constants[:, None]
        assert (x >= target.lower_bounds[:, None] - 1e-9).all()
        assert (x @ problem.probabilities <= truth + 1e-12).all()


def targets_reference(stats: TrajectoryStatistics) -> float:
    limits = Assumptions(1.0, HORIZON, reward_range=(-1.0, 1.0)).limits(stats)
    sample = Sample(stats, limits, np.arange(len(stats)), None)
    return reference_return(sample, Schedule.plan(len(stats), 400, None, warm_up=True))


def test_a_stated_bound_on_ratios_is_checked_on_actions_not_taken() -> None:
    stats = enumerated().statistics()
    for name in ("max_ratio", "max_weight"):
        with pytest.raises(ove.errors.AssumptionError, match=f"`{name}` must be at least every"):
            ove.variance_interval(stats, reward_range=(-1, 1), **{name: 1e6})  # type: ignore[arg-type]
