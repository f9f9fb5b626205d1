from __future__ import annotations

import dataclasses
import zlib

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.quantities import as_quantity
from ove_sb3.core.truncation import column_names
from ove_sb3.experiments.domains import GaussianDomain, TabularDomain, make_domain, random_mean
from ove_sb3.experiments.settings import (
    DIABETES,
    DIABETES_HALF_RANGE,
    DOMAINS,
    FULL,
    GRIDWORLD,
    GRIDWORLD_GOAL,
    STUDIES,
    Study,
    studies_of,
)
from ove_sb3.experiments.trials import (
    TRUTH_PART,
    merge_risk,
    merge_truth,
    run_trial,
    run_truth,
)

from .small import BANDIT, diagonal_policy

TABULAR = [(BANDIT, [[0.1, 0.6, 0.1, 0.1, 0.1]]), (GRIDWORLD, diagonal_policy())]


@pytest.mark.parametrize(("study", "candidate"), TABULAR, ids=["recommender", "gridworld"])
def test_the_behavior_is_the_mixture_and_bounds_the_ratio(
    study: Study, candidate: list[list[float]]
) -> None:
    domain = make_domain(study, candidate)
    assert isinstance(domain, TabularDomain)
    n_actions = len(candidate[0])
    assert domain.behavior == pytest.approx(0.5 * np.array(candidate) + 0.5 / n_actions)
    log_ratios, episodes = domain.log(5000, np.random.default_rng(0))
    assert log_ratios.max() <= np.log(2.0)
    drawn = domain.behavior[episodes.observations, episodes.actions]
    assert np.exp(episodes.log_probs) == pytest.approx(drawn)


@pytest.mark.parametrize(
    ("study", "candidate"), [*TABULAR, (GRIDWORLD_GOAL, diagonal_policy())], ids=lambda x: ""
)
def test_exact_moments_are_those_of_simulated_returns(
    study: Study, candidate: list[list[float]]
) -> None:
    domain = make_domain(study, candidate)
    moments = domain.exact_moments()
    assert moments is not None
    returns = domain.returns(200_000, np.random.default_rng(1))
    assert returns.mean() == pytest.approx(moments[0], abs=5 * returns.std() / 200_000**0.5)
    assert returns.var() == pytest.approx(moments[1], rel=0.03)
    low, high = study.return_range or (-np.inf, np.inf)
    assert low <= returns.min()
    assert returns.max() <= high


def test_both_interpretations_of_the_random_mean() -> None:
    dosing = GaussianDomain(DIABETES, [0.5, 0.5]).env.dosing
    middle, half = (
        dosing.ratios(random_mean(study)[np.newaxis])[0]
        for study in (DIABETES, DIABETES_HALF_RANGE)
    )
    assert middle == pytest.approx([16.5, 27.5])
    assert half == pytest.approx([13.5, 22.5])
    behavior = GaussianDomain(DIABETES_HALF_RANGE, [0.5, 0.5]).behavior
    assert dosing.ratios(behavior.mean[np.newaxis])[0] == pytest.approx(
        0.5 * dosing.ratios(np.array([[0.5, 0.5]]))[0] + 0.5 * np.array([13.5, 22.5])
    )
    assert behavior.sd == pytest.approx([0.3, 0.3])


def test_a_log_of_days_estimates_the_variance() -> None:
    domain = make_domain(DIABETES, [0.3, 0.5])
    assert domain.exact_moments() is None
    stats = domain.statistics(domain.log(2000, np.random.default_rng(2)), 2000)
    assert stats.weights.mean() == pytest.approx(1.0, abs=0.15)
    on_policy = domain.returns(2000, np.random.default_rng(3))
    assert ove.estimate_variance(stats) == pytest.approx(on_policy.var(), rel=0.5)


def test_a_trial_is_one_growing_log() -> None:
    candidate = [[0.1, 0.6, 0.1, 0.1, 0.1]]
    cells = run_trial(BANDIT, candidate, (50, 200), seed=0, trial=3)
    assert [cell["n"] for cell in cells] == [50, 200]
    assert run_trial(BANDIT, candidate, (200,), seed=0, trial=3)[0] == cells[1]
    for lower, upper in cells[0]["bounds"].values():
        assert lower <= upper


def test_parts_of_the_truth_are_merged_exactly() -> None:
    rng = np.random.default_rng(4)
    samples = [rng.gamma(2.0, size=size) + size / 1000 for size in (300, 500, 1000)]
    parts = [
        {
            "n": x.size,
            "mean": float(x.mean()),
            "moments": [float(((x - x.mean()) ** k).mean()) for k in (2, 3, 4)],
        }
        for x in samples
    ]
    merged, whole = merge_truth(parts), np.concatenate(samples)
    assert merged["mean"] == pytest.approx(whole.mean())
    assert merged["variance"] == pytest.approx(whole.var(ddof=1))
    fourth = ((whole - whole.mean()) ** 4).mean()
    assert merged["standard_error"] == pytest.approx(((fourth - whole.var() ** 2) / 1800) ** 0.5)
    assert merged["episodes"] == 1800


def test_the_settings_are_those_of_the_paper() -> None:
    assert FULL.n_trials == 100
    assert FULL.n_grid == (100, 316, 1000, 3162, 10_000, 31_622)
    assert FULL.truth_episodes >= 1_000_000 >= TRUTH_PART
    assert all(study.mixing == 0.5 for study in STUDIES.values())
    assert {study.domain for study in studies_of("all")} == set(DOMAINS)
    with pytest.raises(ValueError, match="nowhere"):
        studies_of("nowhere")
    changed = dataclasses.replace(GRIDWORLD, delta=0.1)
    assert changed != GRIDWORLD


@pytest.mark.parametrize(
    ("study", "candidate"), [*TABULAR, (DIABETES, [0.2, 0.1])], ids=["reco", "grid", "diabetes"]
)
def test_weights_of_a_canary_log_and_of_a_known_behavior(
    study: Study, candidate: list[list[float]]
) -> None:
    domain = make_domain(study, candidate)
    rng = np.random.default_rng(0)
    canary = domain.statistics(domain.canary_log(2_000, 0.1, rng), 1_500)
    assert len(canary) == 1_500
    assert canary.weights.max() <= 10.0 * (1 + 1e-12)
    known = domain.known_statistics(domain.log(2_000, rng), 1_500, rng)
    w, k = (known[name] for name in column_names(4.0))
    assert (w + k).max() <= 4.0 * (1 + 1e-12)
    for weights in (canary.weights, w + k):
        assert abs(weights.mean() - 1.0) < 5 * weights.std() / 1_500**0.5 + 1e-9
    mean = float(np.mean(canary.weights * canary.returns))
    returns = domain.returns(20_000, rng)
    spread = (canary.weights * canary.returns).std() / 1_500**0.5
    assert mean == pytest.approx(returns.mean(), abs=5 * spread)


def test_risk_quantities_of_the_truth_are_those_of_on_policy_returns() -> None:
    assert BANDIT.candidate is not None
    candidate = [list(BANDIT.candidate)]
    parts = [run_truth(BANDIT, candidate, 0, part) for part in range(2)]
    streams = [np.random.SeedSequence([0, zlib.crc32(b"truth"), part]) for part in range(2)]
    domain = make_domain(BANDIT, candidate)
    returns = np.concatenate(
        [domain.returns(TRUTH_PART, np.random.default_rng(stream)) for stream in streams]
    )
    for name, value in merge_risk(parts).items():
        assert value == pytest.approx(as_quantity(name).of_sample(returns), abs=0.005), name
    assert not merge_risk([])
