"""Exact values of the compared quantities, and the units of errors and widths."""

from __future__ import annotations

import math

import ove_sb3 as ove
from benchmarks import risk
from tests.problems.bandits import Bandit
from tests.problems.problem import Problem, Tabular
from tests.problems.risk import true_cvar, true_quantile

from .protocol import FRACTION


def true_values(problem: Problem) -> dict[str, float]:
    """Mean, variance, quantile and CVaR of the candidate's return."""
    values = {"mean": problem.mean, "variance": problem.variance}
    if isinstance(problem, Bandit):
        values["quantile"] = risk.truth(problem, ove.Quantile(FRACTION))
        values["cvar"] = risk.truth(problem, ove.CVaR(FRACTION))
        return values
    assert isinstance(problem, Tabular)
    distribution: dict[float, float] = {}
    for value, probability in zip(*problem.mdp.returns(problem.candidate), strict=True):
        value = round(float(value), 12)  # equal returns, summed in a different order
        distribution[value] = distribution.get(value, 0.0) + float(probability)
    distribution = dict(sorted(distribution.items()))
    values["quantile"] = true_quantile(distribution, FRACTION)
    values["cvar"] = true_cvar(distribution, FRACTION)
    return values


def unit(quantity: str, variance: float) -> float:
    """The true variance for the variance, the true standard deviation for all others.

    A mean or a quantile can be 0, and its size depends on the origin of the rewards.
    """
    return variance if quantity == "variance" else math.sqrt(variance)
