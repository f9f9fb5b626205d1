"""Requirements relative to one policy of a mixture that was drawn once per episode."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from tests.policies.test_episode_mixture import NEW, OLD, Walk, likelihood

SETTINGS: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 3), "horizon": 3}
SHARES = (0.7, 0.3)
CALM = ove.TabularPolicy([[0.2, 0.8], [0.2, 0.8]])


def log(n: int, seed: int = 0) -> ove.Trajectories:
    mixture = ove.MixturePolicy([OLD, NEW], list(SHARES), per="episode")
    return ove.collect(mixture, Walk(), n, seed=seed)


def true_moments(policy: ove.TabularPolicy) -> tuple[float, float]:
    """Mean and variance of the return, from all paths."""
    paths = list(itertools.product((0, 1), repeat=3))
    chances = np.array([likelihood(policy, path) for path in paths])
    returns = np.array([float(np.dot(path, (1, 2, 3))) for path in paths])
    assert chances.sum() == pytest.approx(1)
    mean = float(chances @ returns)
    return mean, float(chances @ (returns - mean) ** 2)


@pytest.fixture(scope="module")
def data() -> ove.Trajectories:
    return log(600)


@pytest.fixture(scope="module")
def result(data: ove.Trajectories) -> ove.Evaluation:
    return ove.evaluate(data, CALM, **SETTINGS)


def test_the_toy_is_understood(data: ove.Trajectories) -> None:
    returns = np.add.reduceat(data.rewards, data.starts)
    mixed = sum(s * true_moments(p)[0] for s, p in zip(SHARES, (OLD, NEW), strict=True))
    assert returns.mean() == pytest.approx(mixed, abs=0.25)


def test_a_component_has_its_own_weights_and_their_bound(result: ove.Evaluation) -> None:
    assert result.logged is not None
    for index, (policy, share) in enumerate(zip((OLD, NEW), SHARES, strict=True)):
        component = result.logged.components[index]
        assert component.max_weight == pytest.approx(1 / share)
        assert component.stats.weights.max() <= 1 / share + 1e-9
        mean, variance = true_moments(policy)
        for name, truth in (("mean", mean), ("variance", variance)):
            quantity = result[name].quantity
            interval = result.logged.interval(quantity, 0.05, reference=f"behavior:{index}")
            assert interval.guaranteed
            assert truth in interval
            assert f"exceeds {1 / share:g}" in str(interval.assumptions)
            assert interval.width < 2.0
            estimate = result.logged.estimate(quantity, f"behavior:{index}")
            assert estimate == pytest.approx(truth, abs=0.4)


def test_it_equals_the_component_as_a_candidate(
    data: ove.Trajectories, result: ove.Evaluation
) -> None:
    assert result.logged is not None
    for index, policy in enumerate((OLD, NEW)):
        alone = ove.evaluate(data, policy, **SETTINGS)
        for name in ("variance", "median", "cvar:0.1"):
            one = alone[name]
            interval = result.logged.interval(one.quantity, 0.05, reference=f"behavior:{index}")
            assert (interval.lower, interval.upper) == (one.interval.lower, one.interval.upper)


def test_requirements_compare_with_the_component_not_with_the_mixture(
    result: ove.Evaluation,
) -> None:
    for name in ("behavior:0", "behavior:1"):
        verdict = result.check(f"mean >= {name}")
        assert verdict.status == "proven"
        assert f"97.5% upper bound of {name}" in verdict.reason
        assert result.check(f"mean < {name}").status == "refuted"
    assert result.check("variance <= behavior:0").status == "proven"
    gap = true_moments(CALM)[0] - true_moments(NEW)[0]
    undecided = result.check(f"mean >= behavior:1 + {gap - 0.05}")
    assert undecided.status == "undecided"
    assert undecided.episodes_needed is not None
    assert undecided.episodes_needed > 600
    with pytest.raises(ove.InvalidInputError, match=r'one of 2 policies .*such as "behavior:0"'):
        result.check("variance <= behavior")


def test_what_is_not_known_is_refused(data: ove.Trajectories, result: ove.Evaluation) -> None:
    with pytest.raises(ove.InvalidInputError, match=r'to "behavior:1".*got "behavior:2"'):
        result.check("variance <= behavior:2")
    bare = ove.evaluate(replace(data, columns={}), data.log_probs, **SETTINGS)
    with pytest.raises(ove.InvalidInputError, match="does not hold the action probabilities"):
        bare.check("variance <= behavior:0")
    plain = ove.evaluate(ove.collect(OLD, Walk(), 100, seed=0), CALM, **SETTINGS)
    with pytest.raises(ove.InvalidInputError, match=r'MixturePolicy\(..., per="episode"\)'):
        plain.check("variance <= behavior:0")
    adaptive = replace(data, metadata=replace(data.metadata, adaptive=True))
    with pytest.raises(ove.InvalidInputError, match="the behavior changed while"):
        ove.evaluate(adaptive, CALM, **SETTINGS).check("mean >= behavior:0")


def test_logs_on_disk_know_their_components(tmp_path: Path, result: ove.Evaluation) -> None:
    log(600).save(tmp_path / "log")
    stored = ove.evaluate(tmp_path / "log", CALM, **SETTINGS)
    verdict = stored.check("variance <= behavior:0")
    assert verdict == result.check("variance <= behavior:0")


def test_false_requirements_are_rarely_proven() -> None:
    # The component itself as the candidate: its variance is not below its variance.
    trials, proven = 8, 0
    for seed in range(trials):
        evaluation = ove.evaluate(
            log(80, seed), NEW, delta=0.4, approximate=None, quantities=["mean"], **SETTINGS
        )
        proven += evaluation.check("mean < behavior:1").proven
    assert binom.sf(proven - 1, trials, 0.4) > 1e-4
