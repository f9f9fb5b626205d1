from __future__ import annotations

import json
import math

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.diagnostics import pareto_k, share_text
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld


def statistics(weights: np.ndarray) -> ove.TrajectoryStatistics:
    with np.errstate(divide="ignore"):
        log_ratios = np.log(weights)
    n = len(weights)
    return ove.trajectory_statistics(
        log_ratios, np.zeros(n), np.ones(n, dtype=int), gamma=1.0, horizon=1
    )


def test_numbers_by_hand() -> None:
    diagnostics = ove.diagnose(statistics(np.array([2.0, 1.0, 1.0, 0.0])))
    assert diagnostics.effective_sample_size == pytest.approx(16 / 6)
    assert diagnostics.largest_share == pytest.approx(0.5)
    assert diagnostics.n_for_95_percent == 3
    assert diagnostics.mean_weight == pytest.approx(1.0)
    assert diagnostics.mean_weight_error == pytest.approx(np.std([2, 1, 1, 0], ddof=1) / 2)
    assert diagnostics.zero_weight_fraction == diagnostics.zero_ratio_fraction == 0.25
    assert diagnostics.max_weight == diagnostics.max_ratio == pytest.approx(2.0)
    assert diagnostics.unsupported_fraction == 0.0


def test_a_good_log_gets_a_good_verdict() -> None:
    stats = recommender().statistics(5000, np.random.default_rng(0))
    diagnostics = ove.diagnose(stats, ove.variance_interval(stats, reward_range=(0, 10)))
    assert diagnostics.warnings == ()
    assert "informative" in diagnostics.verdict
    assert diagnostics.verdict in str(diagnostics)


def test_a_broken_log_shows_in_the_mean_weight() -> None:
    rng = np.random.default_rng(1)
    diagnostics = ove.diagnose(statistics(rng.uniform(1.0, 1.4, 1000)))
    assert "probably wrong" in diagnostics.warnings[0]


def test_missing_support_shows_in_the_mean_weight() -> None:
    rng = np.random.default_rng(2)
    diagnostics = ove.diagnose(statistics(rng.uniform(0.5, 1.1, 1000)))
    assert diagnostics.unsupported_fraction == pytest.approx(0.2, abs=0.02)
    assert "never takes" in diagnostics.warnings[0]


def test_shares_are_shown_without_exponents() -> None:
    hardly_any = ove.diagnose(statistics(np.full(1000, 1e-3)))
    assert "(about 99.9% of its outcomes)" in hardly_any.warnings[0]
    none = ove.diagnose(statistics(np.array([1e-9] * 999 + [2e-9])))
    assert "(about 100% of its outcomes)" in none.warnings[0]
    one = ove.diagnose(statistics(np.array([1.0] + [0.0] * 999)))
    assert "largest share of weight  100%" in str(one)
    shares = (0.0, 1e-9, 1e-5, 0.123, 0.98999, 0.995, 0.99999, 1.0)
    texts = ("0%", "less than 0.0001%", "0.001%", "12%", "99%", "99.5%", "100%", "100%")
    assert tuple(map(share_text, shares)) == texts


def test_a_log_of_impossible_trajectories() -> None:
    diagnostics = ove.diagnose(statistics(np.zeros(10)))
    assert diagnostics.effective_sample_size == 0.0
    assert "no logged trajectory" in diagnostics.warnings[0]
    assert "next to nothing" in diagnostics.verdict


def test_concentrated_weights_are_pointed_out() -> None:
    problem = gridworld(15, alpha=0.0, temperature=0.05)
    stats = problem.statistics(2000, np.random.default_rng(3))
    interval = ove.variance_interval(stats, reward_range=problem.reward_range, method="paper")
    diagnostics = ove.diagnose(stats, interval)
    assert any("95% of the weight" in text for text in diagnostics.warnings)
    assert any("no tighter than" in text for text in diagnostics.warnings)
    assert diagnostics.verdict.startswith("Use with care")


@pytest.mark.parametrize("shape", [0.2, 0.5, 0.9])
def test_pareto_k_is_the_shape_of_a_pareto_tail(shape: float) -> None:
    rng = np.random.default_rng(4)
    draws = [pareto_k(rng.random(4000) ** -shape) for _ in range(40)]
    assert np.mean(draws) == pytest.approx(shape, abs=0.08)


def test_no_pareto_k_without_a_tail() -> None:
    assert math.isnan(pareto_k(np.ones(1000)))
    assert math.isnan(pareto_k(np.arange(10.0)))


def test_it_converts_to_plain_values() -> None:
    diagnostics = ove.diagnose(chain(5).statistics(50, np.random.default_rng(5)))
    plain = json.loads(json.dumps(diagnostics.to_dict()))
    assert plain["effective_sample_size"] == diagnostics.effective_sample_size
    assert isinstance(plain["warnings"], list)
    assert ove.diagnose(statistics(np.ones(4))).to_dict()["pareto_k"] is None


def test_a_known_bound_on_the_weights_leaves_no_tail() -> None:
    rng = np.random.default_rng(0)
    weights = np.where(rng.random(500) < 0.1, 10.0 - rng.random(500), 1e-3 * rng.random(500))
    stats = statistics(weights)
    without, known = ove.diagnose(stats), ove.diagnose(stats, max_weight=10.0)
    assert "heavy tail" in str(without.warnings)
    assert "closer to the candidate" in str(without.warnings)
    assert "heavy tail" not in str(known.warnings)
    assert "closer to the candidate" not in str(known.warnings)
    assert known.pareto_k == without.pareto_k
    assert "heavy tail" in str(ove.diagnose(stats, max_weight=1e6).warnings)
