from __future__ import annotations

import json
import math

import numpy as np
import pytest

import ove_sb3 as ove
from benchmarks.beds import chain, gridworld, recommender
from ove_sb3.core.diagnostics import tail_index


def statistics(weights: np.ndarray) -> ove.TrajectoryStatistics:
    with np.errstate(divide="ignore"):
        log_ratios = np.log(weights)
    n = len(weights)
    return ove.trajectory_statistics(
        log_ratios, np.zeros(n), np.ones(n, dtype=int), gamma=1.0, horizon=1
    )


def test_numbers_by_hand() -> None:
    found = ove.diagnose(statistics(np.array([2.0, 1.0, 1.0, 0.0])))
    assert found.effective_sample_size == pytest.approx(16 / 6)
    assert found.largest_share == pytest.approx(0.5)
    assert found.n_for_95_percent == 3
    assert found.mean_weight == pytest.approx(1.0)
    assert found.mean_weight_error == pytest.approx(np.std([2, 1, 1, 0], ddof=1) / 2)
    assert found.zero_weight_fraction == found.zero_ratio_fraction == 0.25
    assert found.max_weight == found.max_ratio == pytest.approx(2.0)
    assert found.unsupported_fraction == 0.0


def test_a_good_log_gets_a_good_verdict() -> None:
    stats = recommender().statistics(5000, np.random.default_rng(0))
    found = ove.diagnose(stats, ove.variance_interval(stats, reward_range=(0, 10)))
    assert found.warnings == ()
    assert "informative" in found.verdict
    assert found.verdict in str(found)


def test_a_broken_log_shows_in_the_mean_weight() -> None:
    rng = np.random.default_rng(1)
    found = ove.diagnose(statistics(rng.uniform(1.0, 1.4, 1000)))
    assert "probably wrong" in found.warnings[0]


def test_missing_support_shows_in_the_mean_weight() -> None:
    rng = np.random.default_rng(2)
    found = ove.diagnose(statistics(rng.uniform(0.5, 1.1, 1000)))
    assert found.unsupported_fraction == pytest.approx(0.2, abs=0.02)
    assert "never takes" in found.warnings[0]


def test_a_log_of_impossible_trajectories() -> None:
    found = ove.diagnose(statistics(np.zeros(10)))
    assert found.effective_sample_size == 0.0
    assert "no logged trajectory" in found.warnings[0]
    assert "next to nothing" in found.verdict


def test_concentrated_weights_are_pointed_out() -> None:
    bed = gridworld(15, alpha=0.0, temperature=0.05)
    stats = bed.statistics(2000, np.random.default_rng(3))
    interval = ove.variance_interval(stats, reward_range=bed.reward_range, method="paper")
    found = ove.diagnose(stats, interval)
    assert any("95% of the weight" in text for text in found.warnings)
    assert any("says no more than" in text for text in found.warnings)
    assert found.verdict.startswith("Use with care")


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_the_tail_index_is_that_of_a_pareto_tail(shape: float) -> None:
    rng = np.random.default_rng(4)
    draws = [tail_index(rng.random(4000) ** -shape) for _ in range(40)]
    assert np.mean(draws) == pytest.approx(shape, abs=0.08)


def test_no_tail_index_without_a_tail() -> None:
    assert math.isnan(tail_index(np.ones(1000)))
    assert math.isnan(tail_index(np.arange(10.0)))


def test_it_converts_to_plain_values() -> None:
    found = ove.diagnose(chain(5).statistics(50, np.random.default_rng(5)))
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["effective_sample_size"] == found.effective_sample_size
    assert isinstance(plain["warnings"], list)
    assert ove.diagnose(statistics(np.ones(4))).to_dict()["tail_index"] is None
