"""Episodes under way: what is known about them, and that bets do not depend on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.assumptions import Assumptions
from ove_sb3.core.betting.averages import BLOCKS, mean_target
from ove_sb3.core.betting.capital import BetTarget
from ove_sb3.core.betting.forms import per_decision_forms
from ove_sb3.core.betting.schedule import Schedule
from ove_sb3.core.inference import compute_interval
from ove_sb3.core.methods.anytime import AnytimeBetting
from ove_sb3.core.quantities import Mean
from ove_sb3.core.sample import Sample
from ove_sb3.core.sequence import part_at
from ove_sb3.core.stopping import Logging, LoggingRecord, begin_key
from ove_sb3.core.under_way import UnderWay, under_way
from tests.core.test_sequence import bandit, overlaps_of, statistics

STATED = Assumptions(gamma=1.0, horizon=1, reward_range=(0, 1), max_weight=4.0)


def test_when_an_unfinished_episode_can_have_begun() -> None:
    # Three environments: 0, 1 and 2 begin first, 1 ends, 3 begins, 3 ends, 4 begins, 4 ends.
    begins = np.array([begin_key(0, k) for k in (1, 3, 4)])
    overlaps = np.array([0, 0, 0])
    logging = Logging({0: LoggingRecord(6, 3, 3)})
    least, most = logging.begun_between(begins, overlaps)
    # 0 before 1, 2 between 1 and 3, 5 after 4.
    assert least.tolist() == [0, 0, 2]
    assert most.tolist() == [0, 1, 3]
    assert logging.lost_at(begins).tolist() == [3, 3, 3]
    # A second writer continues: it began when all episodes of the first had ended.
    more = np.append(begins, [begin_key(1, k) for k in (2, 3)])
    logging = Logging({0: LoggingRecord(6, 3, 3), 1: LoggingRecord(5, 2, 3)})
    least, most = logging.begun_between(more, np.append(overlaps, [0, 0]))
    assert least.tolist() == [0, 0, 2, 3, 3, 4]
    assert most.tolist() == [0, 1, 3, 3, 3, 5]
    assert logging.lost_at(more).tolist() == [3, 3, 3, 5, 5, 5]


def test_one_environment_after_another() -> None:
    # Number 2 was reset before its end, number 4 is under way.
    stats = replace(
        statistics(np.ones(3), np.zeros(3)),
        begins=np.array([begin_key(0, k) for k in (0, 1, 3)]),
        logging=Logging({0: LoggingRecord(5, 3, 1)}),
    )
    known = under_way(stats, 3)
    assert known.sequential
    assert known.most.tolist() == [2]
    sample = Sample.so_far(stats, STATED.limits(stats), known, 100, exact=True)
    assert sample.order.tolist() == [0, 1, 3, 2]  # a row of zeros in its place
    assert sample.overlaps is None


def several(n: int, n_envs: int, seed: int = 0) -> ove.TrajectoryStatistics:
    rng = np.random.default_rng(seed)
    weights, returns = bandit(n + n_envs, rng)
    order, overlaps = overlaps_of(returns, n_envs, rng)
    return statistics(weights[order], returns[order], overlaps)


def bets(stats: ove.TrajectoryStatistics, n: int, n_envs: int) -> tuple[Schedule, BetTarget]:
    """Schedule and bet target when n episodes had ended."""
    part, method = part_at(stats, n, 300, n_envs)
    assert method.running is not None
    sample = Sample.so_far(part, STATED.limits(part), method.running, 300, exact=True)
    schedule = sample.schedule(BLOCKS)
    return schedule, mean_target(per_decision_forms(sample, 0.3, 1.0), schedule, 0.01).target


@pytest.mark.parametrize("n_envs", [2, 32])
def test_bets_do_not_depend_on_what_follows(n_envs: int) -> None:
    stats = several(600, n_envs)
    (early, small), (late, large) = bets(stats, 200, n_envs), bets(stats, 500, n_envs)
    known = early.epochs <= 200
    k = int(known.sum())
    assert k > 3
    np.testing.assert_array_equal(early.epochs[:k], late.epochs[:k])
    for name in ("coefficients", "constants", "lower_bounds", "second_moments"):
        np.testing.assert_allclose(getattr(small, name)[:k], getattr(large, name)[:k], rtol=1e-12)
    assert early.bet_block is not None
    assert late.bet_block is not None
    np.testing.assert_array_equal(early.bet_block[:200], late.bet_block[:200])
    blocks = early.blocks[early.blocks <= 200]
    np.testing.assert_array_equal(blocks, late.blocks[: blocks.size])
    np.testing.assert_allclose(early.remaining[: blocks.size], late.remaining[: blocks.size])
    assert early.n_open == late.n_open == n_envs


def test_a_beginning_that_is_not_known_counts_as_the_worst_one() -> None:
    stats = replace(several(300, 8), overlaps=np.zeros(300, int))

    def bound(least: int, most: int) -> float:
        known = UnderWay(
            np.full(5, least), np.full(5, most), np.full(5, 300), sequential=False, n_expected=8
        )
        method = AnytimeBetting(300, known)
        return compute_interval(stats, Mean(), method, STATED, side="lower").lower

    exact = [bound(e, e) for e in range(40, 301, 10)]
    assert bound(40, 300) <= min(exact)
    assert min(exact) < max(exact)


def test_the_targets_share_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[float] = []

    def record(self: Mean, sample: Sample, level: float) -> float:
        levels.append(level)
        return 0.0

    monkeypatch.setattr(Mean, "betting_lower", record)
    stats = statistics(*bandit(1_000, np.random.default_rng(0)))
    compute_interval(stats, Mean(), AnytimeBetting(), STATED, side="lower")
    assert levels == [pytest.approx(0.05 / 7)] * 2  # seven targets, of which two are tried
    levels.clear()
    compute_interval(stats, Mean(), AnytimeBetting(1_000), STATED, side="lower")
    assert levels == [0.05]


def test_weights_of_episodes_under_way_count_as_zero() -> None:
    # Long episodes have small weights: those that have ended have an average far above 1.
    n = 500
    weights = np.where(np.arange(n) < 100, 4.0, 0.25)
    overlaps = np.where(np.arange(n) < 100, 0, np.arange(n))
    stats = statistics(weights, np.zeros(n), overlaps)
    sequence = ove.confidence_sequence(
        stats, "mean", reward_range=(0, 1), max_weight=4.0, n_envs=401
    )
    assert sequence.n[0] < 100
    alone = statistics(weights[:100], np.zeros(100))
    with pytest.raises(ove.MeanWeightError):
        ove.confidence_sequence(alone, "mean", reward_range=(0, 1), max_weight=4.0)
