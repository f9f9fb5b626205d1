"""Episodes that run concurrently under a behavior that learns: exact expectations.

Two environments, three rounds of episodes of two steps. In the first step both act by a coin. What
environment 0 does in the second depends on the first action in environment 1, and the other way
round: the behavior has learned. All outcomes are enumerated, so that the expected capital of a test
of the true mean is known to rounding error; it must not exceed the initial capital.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._validation import FloatArray
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.betting import averages
from ove_sb3.core.betting.capital import BetTarget, last_capitals
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.quantities import mean as mean_module
from ove_sb3.core.quantities import variance as variance_module
from ove_sb3.core.sample import Sample

LEVEL = 0.2
ROUNDS = 3
PI_FIRST, PI_SECOND = 0.7, 0.4  # the candidate's probabilities of action 1
REWARD = np.array([[0.0, 1.0], [0.0, 0.5]])  # of each step and action


def second_step(other: int, learned: bool) -> float:
    """The behavior's probability of action 1 in the second step."""
    if not learned:
        return 0.5
    return 0.9 if other else 0.1


def outcomes(learned: bool) -> list[tuple[float, FloatArray, FloatArray]]:
    """Probability, log-ratios (2, 2) and rewards (2, 2) of every outcome of one round."""
    result = []
    for actions in itertools.product((0, 1), repeat=4):
        first, second = actions[:2], actions[2:]
        beta = np.empty((2, 2))
        pi = np.empty((2, 2))
        for env in (0, 1):
            one = second_step(first[1 - env], learned)
            beta[env] = 0.5, one if second[env] else 1.0 - one
            pi[env, 0] = PI_FIRST if first[env] else 1.0 - PI_FIRST
            pi[env, 1] = PI_SECOND if second[env] else 1.0 - PI_SECOND
        rewards = np.array([[REWARD[0, first[e]], REWARD[1, second[e]]] for e in (0, 1)])
        result.append((float(beta.prod()), np.log(pi / beta), rewards))
    return result


def moments() -> tuple[float, float]:
    first, second = REWARD[0, 1], REWARD[1, 1]
    mean = PI_FIRST * first + PI_SECOND * second
    variance = PI_FIRST * (1 - PI_FIRST) * first**2 + PI_SECOND * (1 - PI_SECOND) * second**2
    return mean, variance


def expected_capital(
    quantity: str, *, learned: bool, use_overlaps: bool, monkeypatch: pytest.MonkeyPatch
) -> float:
    """E[capital] of a test of the truth, with `overlaps` or as if episodes were sequential."""
    mean, variance = moments()

    bets: list[tuple[BetTarget, Schedule]] = []

    def record(target: BetTarget, schedule: Schedule, grid: FloatArray, level: float) -> int:
        del grid, level
        bets.append((target, schedule))
        return -1

    monkeypatch.setattr(averages, "last_rejected", record)
    monkeypatch.setattr(variance_module, "last_rejected", record)
    rounds = outcomes(learned)
    total = 0.0
    for chosen in itertools.product(range(len(rounds)), repeat=ROUNDS):
        probability = float(np.prod([rounds[k][0] for k in chosen]))
        stats = ove.trajectory_statistics(
            np.concatenate([rounds[k][1].ravel() for k in chosen]),
            np.concatenate([rounds[k][2].ravel() for k in chosen]),
            np.full(2 * ROUNDS, 2),
            gamma=1.0,
            horizon=2,
            overlaps=[0, 1] * ROUNDS,
        )
        place_bet(stats, quantity)
        pilot = slice(0, bets[-1][1].epochs[0])
        weights, returns = stats.weights[pilot], stats.returns[pilot]
        reference = np.sum(weights * returns) / weights.sum()
        point = -variance if quantity == "variance" else mean - reference
        total += probability * capital(*bets[-1], use_overlaps, point)
    return total


def place_bet(stats: ove.TrajectoryStatistics, quantity: str) -> None:
    assumptions = Assumptions(gamma=stats.gamma, horizon=stats.horizon, reward_range=(0.0, 1.0))
    limits = assumptions.limits(stats)
    sample = Sample.of(stats, limits, adaptive=True, rng=np.random.default_rng(0))
    assert sample.overlaps is not None
    if quantity == "variance":
        variance_module.variance_upper(sample, LEVEL)
    else:
        mean_module.mean_lower(sample, LEVEL)


def capital(target: BetTarget, schedule: Schedule, use_overlaps: bool, point: float) -> float:
    if not use_overlaps:
        order = np.arange(schedule.n)
        in_block = np.searchsorted(schedule.blocks[:-1], order, side="right") - 1
        schedule = replace(schedule, bet_block=in_block)
    return float(last_capitals(target, schedule, np.array([point]), LEVEL)[0])


@pytest.mark.parametrize("quantity", ["mean", "variance"])
def test_the_expected_capital_never_exceeds_the_initial_capital(
    quantity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = expected_capital(quantity, learned=True, use_overlaps=True, monkeypatch=monkeypatch)
    assert value <= LEVEL * (1 + 1e-12)


def test_taking_overlapping_episodes_in_turn_would_be_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = expected_capital("mean", learned=True, use_overlaps=False, monkeypatch=monkeypatch)
    assert value > LEVEL * 1.001
    value = expected_capital("mean", learned=False, use_overlaps=False, monkeypatch=monkeypatch)
    assert value <= LEVEL * (1 + 1e-12)


def test_overlaps_cost_little_and_are_among_the_assumptions() -> None:
    rng = np.random.default_rng(0)
    actions = rng.random((1000, 6)) < 0.5
    stats = ove.trajectory_statistics(
        np.log(np.where(actions, 1.4, 0.6).ravel()),
        np.asarray(rng.random((1000, 6)) < np.where(actions, 0.7, 0.3), float).ravel(),
        np.full(1000, 6),
        gamma=1.0,
        horizon=6,
    )
    concurrent = replace(stats, overlaps=np.full(1000, 8))
    for function in (ove.mean_interval, ove.variance_interval):
        in_turn, overlapping = (
            function(logged, reward_range=(0, 1), adaptive=True) for logged in (stats, concurrent)
        )
        assert overlapping.guaranteed
        assert "while another was running" in overlapping.assumptions[0]
        assert overlapping.width == pytest.approx(in_turn.width, rel=0.2)
        assert overlapping != in_turn
        # A behavior that does not change ignores them.
        assert function(concurrent, reward_range=(0, 1)) == function(stats, reward_range=(0, 1))


def test_an_episode_that_outlasts_the_log_is_never_bet_on() -> None:
    schedule = Schedule.plan(100, 20, np.full(100, 100))
    assert schedule.bet_block is not None
    assert (schedule.bet_block == -1).all()
    lagged = Schedule.plan(100, 20, np.full(100, 7)).bet_block
    assert lagged is not None
    begins = Schedule.plan(100, 20).blocks[:-1]
    for i in np.flatnonzero(lagged >= 0):
        assert begins[lagged[i]] <= i - 7


def test_joined_parts_keep_their_overlaps() -> None:
    def part(overlaps: list[int] | None) -> ove.TrajectoryStatistics:
        return ove.trajectory_statistics(
            np.zeros(2), np.zeros(2), [1, 1], gamma=1.0, horizon=1, overlaps=overlaps
        )

    assert ove.TrajectoryStatistics.concatenate([part(None), part(None)]).overlaps is None
    joined = ove.TrajectoryStatistics.concatenate([part(None), part([0, 3])])
    assert joined.overlaps is not None
    assert joined.overlaps.tolist() == [0, 0, 0, 3]


@pytest.mark.parametrize("overlaps", [[0, -1], [0], [0.5, 1.0], "ab"])
def test_overlaps_that_make_no_sense_are_refused(overlaps: Any) -> None:
    with pytest.raises(ove.InvalidInputError, match="`overlaps` must"):
        ove.trajectory_statistics(
            np.zeros(2), np.zeros(2), [1, 1], gamma=1.0, horizon=1, overlaps=overlaps
        )


def test_the_way_of_betting_does_not_depend_on_what_happens_to_overlap() -> None:
    # Whoever decides by the results so far whether the last episodes overlap would have a choice.
    none, one = np.zeros(200, np.int64), np.zeros(200, np.int64)
    one[-1] = 1
    for overlaps in (none, one):
        schedule = Schedule.plan(200, 20, overlaps, warm_up=True)
        assert schedule.bet_block is not None
        assert not schedule.can_warm_up
        assert schedule.grid_error(1.0) == 0.0
