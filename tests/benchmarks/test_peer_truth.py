"""True values of the compared quantities, and the peers' formulas that answer for them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ove_sb3 as ove
from benchmarks.peers.harness import PROBLEMS, _draw
from benchmarks.peers.methods import scipy_risk
from benchmarks.peers.methods.paper_formulas import weights_and_returns
from benchmarks.peers.protocol import FRACTION
from benchmarks.peers.truth import true_values, unit
from tests.problems.chain import chain
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem, Tabular


@pytest.mark.parametrize(
    "problem", [chain(4), gridworld(3, gamma=0.9)], ids=lambda problem: problem.name
)
def test_quantile_and_cvar_of_every_possible_episode(problem: Tabular) -> None:
    episodes = problem.mdp.trajectories(problem.candidate)
    returns = np.array(
        [sum(problem.gamma**t * r for t, r in enumerate(each.rewards)) for each in episodes]
    )
    mass = np.array([each.probability for each in episodes])
    values = true_values(problem)
    q = values["quantile"]
    assert mass[returns <= q + 1e-9].sum() >= FRACTION
    assert mass[returns < q - 1e-9].sum() < FRACTION
    # CVaR = q - E[max(q - G, 0)] / p.
    shortfall = float(mass @ np.maximum(q - returns, 0.0))
    assert values["cvar"] == pytest.approx(q - shortfall / FRACTION, rel=1e-9)
    assert values["mean"] == pytest.approx(float(mass @ returns))


def test_true_values_of_the_recommender_by_simulation() -> None:
    problem = PROBLEMS[0]
    log = _draw(problem, 400_000, np.random.default_rng(0))
    w, G = weights_and_returns(log)
    for name, function in (("quantile", scipy_risk.quantile), ("cvar", scipy_risk.cvar)):
        assert float(function(w, G)) == pytest.approx(true_values(problem)[name], abs=5e-3)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_self_normalized_formulas_agree_with_the_core(problem: Problem) -> None:
    log = _draw(problem, 101, np.random.default_rng(1))
    stats = ove.trajectory_statistics(
        log.log_ratios, log.rewards, log.lengths, gamma=log.gamma, horizon=log.horizon
    )
    w, G = weights_and_returns(log)
    for function, quantity in (
        (scipy_risk.quantile, ove.Quantile(FRACTION)),
        (scipy_risk.cvar, ove.CVaR(FRACTION)),
    ):
        assert float(function(w, G)) == pytest.approx(ove.estimate(stats, quantity))
        # Batches of resamples, last axis, as scipy passes them.
        pair = np.stack([w, w[::-1]]), np.stack([G, G[::-1]])
        np.testing.assert_allclose(function(*pair), ove.estimate(stats, quantity))
    wis = ove.estimate(stats, "mean", estimator="wis")
    assert float(scipy_risk.mean(w, G)) == pytest.approx(wis)


def test_units() -> None:
    assert unit("variance", 4.0) == 4.0
    assert [unit(name, 4.0) for name in ("mean", "quantile", "cvar")] == [math.sqrt(4.0)] * 3
