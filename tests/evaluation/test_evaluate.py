"""evaluate() on real models and logs whose truth is known."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.data.metadata import Metadata

from .corridor import (
    GAMMA,
    HORIZON,
    REWARD_RANGE,
    choices,
    exact_moments,
    make_model,
    simulate,
)


@pytest.fixture(scope="module")
def result(data: ove.Trajectories, candidate: PPO) -> ove.Evaluation:
    return ove.evaluate(data, candidate, gamma=GAMMA)


def known_log_probs(model: PPO, data: ove.Trajectories) -> NDArray[np.float64]:
    """By table: the cell that was seen, the action that was taken."""
    forward = choices(model)[np.asarray(data.observations).argmax(axis=1)]
    return np.asarray(np.log(np.where(data.actions == 1, forward, 1 - forward)))


def test_guaranteed_bounds_cover_the_truth(result: ove.Evaluation, candidate: PPO) -> None:
    mean, variance = exact_moments(choices(candidate))
    assert mean in result.mean_intervals["guaranteed"]
    assert variance in result.intervals["guaranteed"]
    assert variance**0.5 in result.std_intervals["guaranteed"]
    assert result.intervals["guaranteed"].guaranteed
    assert not result.intervals["bootstrap"].guaranteed
    assert abs(result.mean - mean) < 0.5
    assert abs(result.variance - variance) < 0.25 * variance


def test_the_simulator_of_these_tests_follows_the_exact_law() -> None:
    forward = choices(make_model(0))
    returns = simulate(forward, 200_000, seed=0).returns(GAMMA)
    mean, variance = exact_moments(forward)
    assert abs(returns.mean() - mean) < 5 * (variance / 200_000) ** 0.5
    assert abs(returns.var() / variance - 1) < 0.02


def misses(n_trials: int, n: int, delta: float) -> tuple[int, int]:
    """How often the joint interval misses mean or variance, and the same for one interval."""
    behavior, candidate = make_model(0, 0.4), make_model(2, 0.4)
    mean, variance = exact_moments(choices(candidate))
    joint = single = 0
    for trial in range(n_trials):
        data = simulate(choices(behavior), n, seed=trial)
        both = ove.evaluate(data, candidate, gamma=GAMMA, delta=delta, simultaneous=True)
        joint += (
            mean not in both.mean_intervals["guaranteed"]
            or variance not in both.intervals["guaranteed"]
        )
        alone = ove.evaluate(data, candidate, gamma=GAMMA, delta=delta)
        single += variance not in alone.intervals["guaranteed"]
    return joint, single


def test_misses_are_as_rare_as_promised() -> None:
    for missed in misses(60, n=150, delta=0.2):
        assert binomtest(missed, 60, 0.2, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
def test_misses_are_as_rare_as_promised_over_many_logs() -> None:
    for missed in misses(1500, n=200, delta=0.1):
        assert binomtest(missed, 1500, 0.1, alternative="greater").pvalue > 1e-3


def test_the_behavior_itself_gives_the_on_policy_figures(
    data: ove.Trajectories, behavior: PPO
) -> None:
    same = ove.evaluate(data, behavior, gamma=GAMMA)
    returns = data.returns(GAMMA)
    assert same.mean == pytest.approx(returns.mean(), abs=1e-12)
    assert same.variance == pytest.approx(returns.var(ddof=1), rel=1e-3)  # up to the folds
    assert same.behavior_mean == pytest.approx(returns.mean())
    assert same.behavior_variance == pytest.approx(returns.var(ddof=1))
    assert same.behavior_std == pytest.approx(returns.std(ddof=1))
    assert same.diagnostics.effective_sample_size == len(data)
    assert same.warnings == ()


def test_it_agrees_with_the_core(data: ove.Trajectories, candidate: PPO) -> None:
    log_probs = known_log_probs(candidate, data)
    options = {"reward_range": REWARD_RANGE, "delta": 0.1, "max_ratio": 10.0}
    result = ove.evaluate(data, log_probs, gamma=GAMMA, rng=3, delta=0.1, max_ratio=10.0)
    stats = ove.trajectory_statistics(
        log_probs - data.log_probs, data.rewards, data.lengths, gamma=GAMMA, horizon=HORIZON
    )
    assert result.variance == ove.estimate_variance(stats)
    for found, function in (
        (result.intervals, ove.variance_interval),
        (result.mean_intervals, ove.mean_interval),
    ):
        assert found["guaranteed"] == function(stats, rng=3, **options)  # type: ignore[arg-type]
        approximate = function(stats, rng=3, method="bootstrap", **options)  # type: ignore[arg-type]
        assert found["bootstrap"] == approximate
    bounds = result.std_intervals["guaranteed"]
    assert bounds.upper**2 == pytest.approx(result.intervals["guaranteed"].upper)
    assert bounds.lower**2 == pytest.approx(result.intervals["guaranteed"].lower)


def test_all_kinds_of_candidates_agree(
    data: ove.Trajectories, candidate: PPO, result: ove.Evaluation, tmp_path: Path
) -> None:
    candidate.save(tmp_path / "model")
    data.save(tmp_path / "log")
    for source, judged, model_class in (
        (data, candidate.policy, None),
        (data, known_log_probs(candidate, data), None),
        (data, tmp_path / "model.zip", PPO),
        (data, str(tmp_path / "model"), PPO),
        (tmp_path / "log", candidate, None),
        (str(tmp_path / "log"), str(tmp_path / "model.zip"), PPO),
    ):
        other = ove.evaluate(source, judged, gamma=GAMMA, model_class=model_class)
        assert other.variance == pytest.approx(result.variance, rel=1e-5)
        assert other.intervals["guaranteed"].upper == pytest.approx(
            result.intervals["guaranteed"].upper, rel=1e-5
        )


def test_several_processes_give_the_same(
    data: ove.Trajectories, candidate: PPO, result: ove.Evaluation
) -> None:
    parallel = ove.evaluate(data, candidate, gamma=GAMMA, n_jobs=2)
    assert parallel.variance == pytest.approx(result.variance, rel=1e-6)


def test_a_deterministic_candidate(data: ove.Trajectories, candidate: PPO) -> None:
    result = ove.evaluate(data, candidate, gamma=GAMMA, deterministic=True)
    mean, variance = exact_moments((choices(candidate) > 0.5).astype(float))
    assert mean in result.mean_intervals["guaranteed"]
    assert variance in result.intervals["guaranteed"]
    assert result.diagnostics.zero_ratio_fraction > 0


def test_simultaneous_splits_delta(data: ove.Trajectories, candidate: PPO) -> None:
    result = ove.evaluate(data, candidate, gamma=GAMMA, delta=0.1, simultaneous=True)
    half = ove.evaluate(data, candidate, gamma=GAMMA, delta=0.05)
    assert result.intervals == half.intervals
    assert result.mean_intervals == half.mean_intervals
    assert result.settings.delta == 0.1
    assert "hold together with 90%" in str(result)


def test_an_adaptive_log_is_taken_in_order(data: ove.Trajectories, candidate: PPO) -> None:
    adaptive = replace(data, metadata=replace(data.metadata, adaptive=True))
    result = ove.evaluate(adaptive, candidate, gamma=GAMMA)
    assert set(result.intervals) == {"guaranteed"}
    assert any("order of logging" in text for text in result.intervals["guaranteed"].assumptions)
    assert any("bootstrap" in text and "left out" in text for text in result.warnings)
    assert "bootstrap" not in str(result).partition("warning")[0]
    other_seed = ove.evaluate(adaptive, candidate, gamma=GAMMA, rng=5)
    assert other_seed.intervals == result.intervals


def test_episodes_that_ran_together_while_the_behavior_learned_are_heeded(
    data: ove.Trajectories, candidate: PPO
) -> None:
    def logged(adaptive: bool, together: bool) -> ove.Evaluation:
        return ove.evaluate(
            replace(
                data,
                metadata=replace(data.metadata, adaptive=adaptive),
                overlaps=np.full(len(data), 4) if together else None,
            ),
            candidate,
            gamma=GAMMA,
        )

    assert logged(False, True).intervals == logged(False, False).intervals
    queue, overlapping = logged(True, False), logged(True, True)
    for name in ("intervals", "mean_intervals"):
        one, other = (getattr(each, name)["guaranteed"] for each in (queue, overlapping))
        assert other.guaranteed
        assert one.width != other.width == pytest.approx(one.width, rel=0.2)
        assert "while another was under way" in other.assumptions[0]


def test_many_unfinished_episodes_are_worth_a_warning(
    data: ove.Trajectories, candidate: PPO
) -> None:
    few, many = (
        ove.evaluate(
            replace(data, metadata=replace(data.metadata, n_envs=n)), candidate, gamma=GAMMA
        ).warnings
        for n in (1, len(data) // 50)
    )
    assert not any("had not ended" in text for text in few)
    assert any(f"up to {len(data) // 50} episodes that had not ended" in text for text in many)


def test_limits_default_to_those_of_the_log(data: ove.Trajectories, candidate: PPO) -> None:
    bare = replace(data, metadata=Metadata())
    explicit = ove.evaluate(
        bare, candidate, gamma=GAMMA, reward_range=REWARD_RANGE, horizon=HORIZON
    )
    assert explicit.settings.horizon == HORIZON
    known = ove.evaluate(data, candidate, gamma=GAMMA)
    assert explicit.intervals == known.intervals
    wider = ove.evaluate(data, candidate, gamma=GAMMA, reward_range=(-10, 20))
    assert wider.intervals["guaranteed"].width > known.intervals["guaranteed"].width
    tighter = ove.evaluate(data, candidate, gamma=GAMMA, return_range=(-6, 7))
    low, high = tighter.mean_intervals["guaranteed"].trivial
    assert low == pytest.approx(-sum(GAMMA**t for t in range(HORIZON)))
    assert high == 7


def test_the_seed_is_named_and_repeats_the_result(data: ove.Trajectories, candidate: PPO) -> None:
    for rng in (None, np.random.default_rng(1), 7):
        first = ove.evaluate(data, candidate, gamma=GAMMA, rng=rng)
        again = ove.evaluate(data, candidate, gamma=GAMMA, rng=first.settings.seed)
        assert again.intervals == first.intervals
    assert again.settings.seed == 7


def test_how_many_episodes_halve_the_interval() -> None:
    behavior, candidate = make_model(0, 0.4), make_model(2, 0.4)
    widths = []  # vary from log to log: the middle of several counts
    for seed in range(9):
        small = ove.evaluate(simulate(choices(behavior), 1000, seed=seed), candidate, gamma=GAMMA)
        assert small.episodes_to_halve is not None
        more = simulate(choices(behavior), small.episodes_to_halve, seed=100 + seed)
        large = ove.evaluate(more, candidate, gamma=GAMMA)
        widths.append([found.intervals["guaranteed"].width for found in (small, large)])
    before, after = np.median(widths, axis=0)
    assert 0.3 < after / before < 0.7
    tiny = ove.evaluate(simulate(choices(behavior), 20, seed=0), candidate, gamma=GAMMA)
    assert tiny.episodes_to_halve is None


def test_the_gate_uses_the_guaranteed_bounds(result: ove.Evaluation) -> None:
    upper, lower = result.intervals["guaranteed"].upper, result.mean_intervals["guaranteed"].lower
    assert result.variance < upper
    assert result.satisfies(max_variance=upper, min_mean=lower)
    assert not result.satisfies(max_variance=np.nextafter(upper, 0))
    assert not result.satisfies(min_mean=np.nextafter(lower, np.inf))
    assert not result.satisfies(max_variance=upper, min_mean=lower + 1)
    assert not result.satisfies(max_variance=upper / 2, min_mean=lower)
    with pytest.raises(ove.InvalidInputError, match="must be given, got neither"):
        result.satisfies()
    with pytest.raises(ove.InvalidInputError, match="`max_variance`"):
        result.satisfies(max_variance=float("nan"))


def test_few_episodes_are_answered_honestly(data: ove.Trajectories, candidate: PPO) -> None:
    result = ove.evaluate(data[:3], candidate, gamma=GAMMA)
    assert "bootstrap" not in result.intervals
    assert result.warnings


def test_a_blind_log_warns(data: ove.Trajectories) -> None:
    with pytest.warns(ove.SupportWarning, match="importance weight 0"):
        result = ove.evaluate(data, np.full(data.n_steps, -np.inf), gamma=GAMMA)
    assert "no logged trajectory is possible under the candidate." in result.warnings
    assert not result.intervals["guaranteed"].informative


def test_text_dict_and_frozen(result: ove.Evaluation) -> None:
    lines = str(result).splitlines()
    assert (
        lines[0] == "return of PPO, judged by 600 episodes of Corridor-v0 logged by PPO (gamma 0.9)"
    )
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        "mean",
        "variance",
        "standard deviation",
    ]
    assert len({len(line) for line in lines[2:6]}) == 1, "aligned"
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert found["variance"] == result.variance
    assert found["intervals"]["guaranteed"]["upper"] == result.intervals["guaranteed"].upper
    assert found["settings"]["seed"] == 0
    assert found["versions"]["ove-sb3"] == ove.__version__
    with pytest.raises(FrozenInstanceError):
        result.mean = 0.0  # type: ignore[misc]


def test_progress_is_shown_only_if_asked_for(
    data: ove.Trajectories, candidate: PPO, capsys: pytest.CaptureFixture[str]
) -> None:
    ove.evaluate(data, candidate, gamma=GAMMA)
    assert capsys.readouterr() == ("", "")
    ove.evaluate(data, candidate, gamma=GAMMA, progress=True)
    assert "100%" in capsys.readouterr().err
