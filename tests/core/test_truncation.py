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
from ove_sb3.core.betting import averages, targets
from ove_sb3.core.quantities import as_quantity
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


def targets_of(
    monkeypatch: pytest.MonkeyPatch, problem: Enumerated, quantity: str, side: str
) -> list[Any]:
    """Bet targets of a bound of the quantity, with truncated forms preferred."""
    seen: list[Any] = []

    def capture(target: Any, *_: Any) -> int:
        seen.append(target)
        return 0

    original = targets._predicted_again

    def prefer(form: Any, *rest: Any) -> FloatArray:
        return original(form, *rest) + (1e6 if len(form.columns) == 4 else 0.0)

    monkeypatch.setattr(targets, "_predicted_again", prefer)
    for name in ("_FEWEST_PER_WEIGHT", "_FEWEST_OVER_STEPS"):
        monkeypatch.setattr(targets, name, 0)
    monkeypatch.setattr(averages, "last_rejected", capture)
    monkeypatch.setattr(variance_module, "last_rejected", capture)
    stats = problem.statistics()
    limits = Assumptions(1.0, HORIZON, reward_range=(-1.0, 1.0)).limits(stats)
    sample = Sample(stats, limits, np.arange(len(stats)), None)
    getattr(as_quantity(quantity), f"betting_{side}")(sample, 0.05)
    return seen


@pytest.mark.parametrize("n_draws", [0, 1])
@pytest.mark.parametrize(
    ("quantity", "side"),
    [("mean", "lower"), ("mean", "upper"), ("variance", "upper"), ("variance", "lower")],
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
        x = target.coefficients @ target.columns + target.constants[:, None]
        assert (x >= target.lower_bounds[:, None] - 1e-9).all()
        means = x @ problem.probabilities
        if quantity == "variance" and side == "upper":
            assert (means <= -variance + 1e-12).all()
        elif quantity == "mean":
            stats = problem.statistics()
            pilot = targets_reference(stats)
            sign = 1.0 if side == "lower" else -1.0
            assert (means <= sign * (mean - pilot) + 1e-12).all()


def targets_reference(stats: TrajectoryStatistics) -> float:
    from ove_sb3.core.betting.forms import reference_return
    from ove_sb3.core.betting.schedule import Schedule

    limits = Assumptions(1.0, HORIZON, reward_range=(-1.0, 1.0)).limits(stats)
    sample = Sample(stats, limits, np.arange(len(stats)), None)
    return reference_return(sample, Schedule.plan(len(stats), 400, None))


def test_a_stated_bound_on_ratios_is_checked_on_actions_not_taken() -> None:
    stats = enumerated().statistics()
    for name in ("max_ratio", "max_weight"):
        with pytest.raises(ove.errors.AssumptionError, match=f"`{name}` must be at least every"):
            ove.variance_interval(stats, reward_range=(-1, 1), **{name: 1e6})  # type: ignore[arg-type]
