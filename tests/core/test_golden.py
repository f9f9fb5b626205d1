"""Results on fixed problems do not change.

golden.json holds reference values, computed once; rtol 1e-12.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from tests.problems.fixed_logs import DATASETS, PROBLEMS, Problem, dataset

RTOL = 1e-12
GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden.json").read_text())


def statistics(problem: Problem) -> ove.TrajectoryStatistics:
    return ove.trajectory_statistics(
        problem.log_ratios,
        problem.rewards,
        problem.lengths,
        gamma=problem.gamma,
        horizon=problem.horizon,
        overlaps=problem.overlaps,
    )


def method_named(name: str) -> str | ove.Method:
    if name == "betting":
        return ove.Betting(n_shuffles=1)
    if name == "normal":
        return ove.Normal(estimator="crossfit")
    if name == "bootstrap":
        return ove.Bootstrap(variant="basic", n_resamples=200, estimator="crossfit")
    return ove.Concentration(name)


def check(values: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare the numbers under all names together, so that a failure shows every difference."""
    assert list(values) == list(expected)
    differences = {
        name: (values[name], value)
        for name, value in expected.items()
        if not np.allclose(values[name], value, rtol=RTOL, atol=0.0)
    }
    assert not differences, "values and expected values"


def test_every_problem_has_reference_values() -> None:
    assert list(GOLDEN["estimate"]) == list(GOLDEN["interval"]) == list(PROBLEMS)
    assert list(GOLDEN["evaluate"]) == list(DATASETS)


@pytest.mark.parametrize("quantity", ["mean", "variance"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_estimates(name: str, quantity: str) -> None:
    stats = statistics(PROBLEMS[name])
    expected = GOLDEN["estimate"][name][quantity]
    check({name: ove.estimate(stats, quantity, estimator=name) for name in expected}, expected)


@pytest.mark.parametrize("quantity", ["mean", "variance"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_intervals(name: str, quantity: str) -> None:
    problem = PROBLEMS[name]
    stats = statistics(problem)
    expected = GOLDEN["interval"][name][quantity]
    bounds = {}
    for method in expected:
        interval = ove.interval(
            stats,
            quantity,
            delta=0.05,
            method=method_named(method),
            # Other methods are for independent trajectories only.
            adaptive=problem.adaptive and method == "betting",
            rng=0,
            **problem.limits,
        )
        bounds[method] = [interval.lower, interval.upper]
    check(bounds, expected)


@pytest.mark.parametrize("together", ["separate", "simultaneous"])
@pytest.mark.parametrize("candidate", ["a", "b"])
@pytest.mark.parametrize("name", DATASETS)
def test_evaluations(name: str, candidate: str, together: str) -> None:
    problem = PROBLEMS[name]
    assert problem.steps is not None
    result = ove.evaluate(
        ove.Trajectories.from_arrays(**dataset(problem)),
        problem.steps.candidates[candidate],
        gamma=problem.gamma,
        horizon=problem.horizon,
        quantities=["mean", "variance", "std"],
        simultaneous=together == "simultaneous",
        method=ove.Betting(n_shuffles=1),
        **problem.limits,
    )
    expected = GOLDEN["evaluate"][name][candidate][together]
    for quantity in ("mean", "variance", "std"):
        of = result[quantity]
        values: dict[str, Any] = {
            "estimate": of.estimate,
            "behavior": of.behavior,
            "interval": [of.interval.lower, of.interval.upper],
        }
        if of.approximate is not None:
            values["approximate"] = [of.approximate.lower, of.approximate.upper]
        check(values, expected[quantity])
    assert result.episodes_to_halve == expected["episodes_to_halve"]
    size = result.diagnostics.effective_sample_size
    assert size == pytest.approx(expected["effective_sample_size"], rel=RTOL)
