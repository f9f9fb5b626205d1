"""The paper's double sums agree with the one-pass statistics of the core."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import ove_sb3 as ove
from benchmarks.peers.harness import _draw
from benchmarks.peers.methods import paper_formulas as paper
from benchmarks.peers.methods import scipy_bootstrap
from tests.problems.bandits import recommender
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

PROBLEMS = [recommender(), gridworld(6, gamma=0.9), gridworld(15), chain(8)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("n", [40, 41])
def test_double_sums_agree_with_the_core(problem: Problem, n: int) -> None:
    log = _draw(problem, n, np.random.default_rng(0))
    stats = ove.trajectory_statistics(
        log.log_ratios, log.rewards, log.lengths, gamma=log.gamma, horizon=log.horizon
    )
    ratios, rewards = paper.padded(log)
    X, Y = paper.cdis(ratios, rewards, log.gamma), paper.pdis(ratios, rewards, log.gamma)
    np.testing.assert_allclose(X, stats.cdis, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(Y, stats.pdis, rtol=1e-10, atol=1e-12)
    expected = ove.estimate_variance(stats, estimator="cdis")
    assert paper.algorithm_1(X, Y) == pytest.approx(expected, rel=1e-9)
    assert scipy_bootstrap.split_variance(X, Y) == pytest.approx(expected, rel=1e-9)
    # Shifted by a constant, as with a control variate.
    shifted = paper.cdis(ratios, rewards, log.gamma, 0.7)
    np.testing.assert_allclose(shifted, stats.cdis - 0.7 * stats.cdis_ones, atol=1e-9, rtol=1e-10)
    shifted = paper.pdis(ratios, rewards, log.gamma, 0.7)
    np.testing.assert_allclose(shifted, stats.pdis - 0.7 * stats.pdis_ones, atol=1e-9, rtol=1e-10)


def test_self_normalized_variance_agrees_with_the_core() -> None:
    log = _draw(chain(8), 50, np.random.default_rng(1))
    stats = ove.trajectory_statistics(
        log.log_ratios, log.rewards, log.lengths, gamma=log.gamma, horizon=log.horizon
    )
    w, G = paper.weights_and_returns(log)
    expected = ove.estimate_variance(stats, estimator="wis")
    assert float(scipy_bootstrap.self_normalized(w, G)) == pytest.approx(expected)


def test_scipy_at_its_best_is_an_interval_around_the_same_estimate() -> None:
    log = _draw(gridworld(6), 200, np.random.default_rng(2))
    plain = scipy_bootstrap.paper_as_shipped(log)
    best = scipy_bootstrap.paper_at_best(log)
    assert best.estimate == pytest.approx(plain.estimate)
    assert best.lower is not None
    assert best.upper is not None
    assert best.lower < log.variance < best.upper


def test_thomas_bound_of_constant_values_is_the_second_term() -> None:
    """Without variance, c is at most the value itself: mean - 7 c log(2/delta) / (3 (n - 1))."""
    n, delta = 20_000, 0.05
    value = paper.thomas_lower(np.ones(n), delta)
    post = n - n // 20
    assert value == pytest.approx(1 - 7 * math.log(2 / delta) / (3 * (post - 1)), rel=1e-9)


@pytest.mark.parametrize("problem", [gridworld(6), chain(8)], ids=lambda problem: problem.name)
def test_the_printed_interval_contains_the_truth_and_shrinks(problem: Problem) -> None:
    widths = []
    for n in (1000, 20_000):
        answer = paper.as_printed(_draw(problem, n, np.random.default_rng(n)))
        assert answer.lower is not None
        assert answer.upper is not None
        assert answer.lower <= problem.variance <= answer.upper
        widths.append(answer.upper - answer.lower)
    assert widths[1] < 0.8 * widths[0]


def test_padding_does_not_change_the_weight_or_the_return() -> None:
    log = _draw(gridworld(6), 30, np.random.default_rng(3))
    longer = dataclasses.replace(log, horizon=log.horizon + 3)
    for short, long in zip(
        paper.weights_and_returns(log),
        paper.weights_and_returns(longer),
        strict=True,
    ):
        np.testing.assert_allclose(short, long)
