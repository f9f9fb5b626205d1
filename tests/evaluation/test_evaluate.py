"""evaluate() on real models and logs whose truth is known."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.data.metadata import Metadata
from tests.problems.corridor import (
    GAMMA,
    HORIZON,
    REWARD_RANGE,
    choices,
    exact_moments,
    make_model,
    simulate,
    with_unfinished,
)


@pytest.fixture(scope="module")
def result(data: ove.Trajectories, candidate: PPO) -> ove.Evaluation:
    return ove.evaluate(data, candidate, gamma=GAMMA)


def known_log_probs(model: PPO, data: ove.Trajectories) -> NDArray[np.float64]:
    """Log-probabilities of the logged actions, from a table."""
    forward = choices(model)[np.asarray(data.observations).argmax(axis=1)]
    return np.asarray(np.log(np.where(data.actions == 1, forward, 1 - forward)))


def intervals(result: ove.Evaluation) -> dict[str, tuple[ove.Interval, ...]]:
    """All intervals by quantity: the main ones, and the approximate ones."""
    return {name: one.intervals for name, one in result.quantities.items()}


def test_guaranteed_bounds_cover_the_truth(result: ove.Evaluation, candidate: PPO) -> None:
    mean, variance = exact_moments(choices(candidate))
    assert mean in result["mean"].interval
    assert variance in result["variance"].interval
    assert variance**0.5 in result["std"].interval
    assert result.guaranteed
    for one in result.quantities.values():
        assert one.interval.guaranteed
        assert one.approximate is not None
        assert not one.approximate.guaranteed
    assert abs(result.mean - mean) < 0.5
    assert abs(result.variance - variance) < 0.25 * variance


def test_the_simulator_of_these_tests_follows_the_exact_distribution() -> None:
    forward = choices(make_model(0))
    returns = simulate(forward, 200_000, seed=0).returns(GAMMA)
    mean, variance = exact_moments(forward)
    assert abs(returns.mean() - mean) < 5 * (variance / 200_000) ** 0.5
    assert abs(returns.var() / variance - 1) < 0.02


ONE_ORDER = ove.Betting(n_shuffles=1)
DEFAULT_NAMES = ["mean", "variance", "std", "quantile:0.05", "median", "quantile:0.95", "cvar:0.1"]


def misses(n_trials: int, n: int, delta: float) -> tuple[int, int]:
    """Misses of mean or variance by joint intervals, and of the variance by single intervals."""
    behavior, candidate = make_model(0, 0.4), make_model(2, 0.4)
    mean, variance = exact_moments(choices(candidate))
    joint = single = 0
    for trial in range(n_trials):
        data = simulate(choices(behavior), n, seed=trial)
        options: dict[str, Any] = {"gamma": GAMMA, "delta": delta, "method": ONE_ORDER}
        both = ove.evaluate(data, candidate, simultaneous=True, **options)
        joint += mean not in both["mean"].interval or variance not in both["variance"].interval
        alone = ove.evaluate(data, candidate, **options)
        single += variance not in alone["variance"].interval
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
    # The average of the variances within folds: differences between their means do not count.
    assert same.variance == pytest.approx(returns.var(ddof=1), rel=0.02)
    assert same["mean"].behavior == pytest.approx(returns.mean())
    assert same["variance"].behavior == pytest.approx(returns.var(ddof=1))
    assert same["std"].behavior == pytest.approx(returns.std(ddof=1))
    assert same.diagnostics.effective_sample_size == len(data)
    assert same.warnings == ()


def test_it_agrees_with_the_core(data: ove.Trajectories, candidate: PPO) -> None:
    log_probs = known_log_probs(candidate, data)
    options: dict[str, Any] = {"reward_range": REWARD_RANGE, "delta": 0.1, "max_ratio": 10.0}
    result = ove.evaluate(data, log_probs, gamma=GAMMA, rng=3, delta=0.1, max_ratio=10.0)
    stats = ove.trajectory_statistics(
        log_probs - data.log_probs, data.rewards, data.lengths, gamma=GAMMA, horizon=HORIZON
    )
    assert list(result.quantities) == DEFAULT_NAMES
    for name, one in result.quantities.items():
        assert one.estimate == ove.estimate(stats, name)
        assert one.interval == ove.interval(stats, name, rng=3, **options)
        assert one.approximate == ove.interval(stats, name, rng=3, method="bootstrap", **options)
    assert result.mean == ove.estimate_mean(stats)
    assert result.variance == ove.estimate_variance(stats)
    assert result["mean"].interval == ove.mean_interval(stats, rng=3, **options)
    assert result["variance"].interval == ove.variance_interval(stats, rng=3, **options)
    bounds = result["std"].interval
    assert bounds.upper**2 == pytest.approx(result["variance"].interval.upper)
    assert bounds.lower**2 == pytest.approx(result["variance"].interval.lower)


def test_all_kinds_of_candidates_agree(
    data: ove.Trajectories, candidate: PPO, result: ove.Evaluation, tmp_path: Path
) -> None:
    candidate.save(tmp_path / "model")
    data.save(tmp_path / "log")
    for source, model, model_class in (
        (data, candidate.policy, None),
        (data, known_log_probs(candidate, data), None),
        (data, tmp_path / "model.zip", PPO),
        (data, str(tmp_path / "model"), PPO),
        (tmp_path / "log", candidate, None),
        (str(tmp_path / "log"), str(tmp_path / "model.zip"), PPO),
    ):
        other = ove.evaluate(source, model, gamma=GAMMA, model_class=model_class)
        assert other.variance == pytest.approx(result.variance, rel=1e-5)
        assert other["variance"].interval.upper == pytest.approx(
            result["variance"].interval.upper, rel=1e-5
        )


def test_several_processes_give_the_same(
    data: ove.Trajectories, candidate: PPO, result: ove.Evaluation
) -> None:
    parallel = ove.evaluate(data, candidate, gamma=GAMMA, n_jobs=2)
    assert parallel.variance == pytest.approx(result.variance, rel=1e-6)


def test_a_deterministic_candidate(data: ove.Trajectories, candidate: PPO) -> None:
    result = ove.evaluate(data, candidate, gamma=GAMMA, deterministic=True)
    mean, variance = exact_moments((choices(candidate) > 0.5).astype(float))
    assert mean in result["mean"].interval
    assert variance in result["variance"].interval
    assert result.diagnostics.zero_ratio_fraction > 0


def test_simultaneous_splits_delta(data: ove.Trajectories, candidate: PPO) -> None:
    result = ove.evaluate(data, candidate, gamma=GAMMA, delta=0.1, simultaneous=True)
    sixth = ove.evaluate(data, candidate, gamma=GAMMA, delta=0.1 / 6)  # std: that of the variance
    assert intervals(result) == intervals(sixth)
    assert result.plan.budget.delta == 0.1
    assert result.interval_delta == result.plan.interval_delta == 0.1 / 6
    assert result.joint_delta == 0.1
    assert sixth.joint_delta is None
    assert "hold simultaneously with 90%" in str(result)


def test_an_adaptive_log_is_taken_in_order(data: ove.Trajectories, candidate: PPO) -> None:
    metadata = replace(data.metadata, adaptive=True, log_ids=("a run",))
    adaptive = replace(data, metadata=metadata)
    result = ove.evaluate(adaptive, candidate, gamma=GAMMA)
    for one in result.quantities.values():
        assert one.approximate is None
        assert one.intervals == (one.interval,)
        assert one.interval.guaranteed
        assert any("order of logging" in text for text in one.interval.assumptions)
    assert any("bootstrap" in text and "left out" in text for text in result.warnings)
    assert "bootstrap" not in str(result).partition("warning")[0]
    other_seed = ove.evaluate(adaptive, candidate, gamma=GAMMA, rng=5)
    assert intervals(other_seed) == intervals(result)


def test_overlaps_count_if_and_only_if_the_behavior_learned(
    data: ove.Trajectories, candidate: PPO
) -> None:
    def logged(adaptive: bool, together: bool) -> ove.Evaluation:
        return ove.evaluate(
            replace(
                data,
                metadata=replace(data.metadata, adaptive=adaptive, log_ids=("a run",)),
                overlaps=np.full(len(data), 4) if together else None,
            ),
            candidate,
            gamma=GAMMA,
        )

    assert intervals(logged(False, True)) == intervals(logged(False, False))
    queue, overlapping = logged(True, False), logged(True, True)
    for name in ("mean", "variance", "std"):
        one, other = queue[name].interval, overlapping[name].interval
        assert other.guaranteed
        assert one.width != other.width == pytest.approx(one.width, rel=0.2)
        assert "ended while another was running" in other.assumptions[0]


def test_episodes_that_never_ended_are_warned_of_and_accounted_for(
    data: ove.Trajectories, candidate: PPO
) -> None:
    def evaluate(log: ove.Trajectories, **options: Any) -> ove.Evaluation:
        return ove.evaluate(log, candidate, gamma=GAMMA, **options)

    assert not any("before their end" in text for text in evaluate(data).warnings)
    widths = []
    for n_missing in (0, 1, len(data) // 10, len(data)):
        result = evaluate(with_unfinished(data, n_missing))
        assert result["variance"].interval.guaranteed
        assert "logging stopped at any time" in result["variance"].interval.assumptions[3]
        warned = [text for text in result.warnings if "before their end" in text]
        assert len(warned) == (n_missing > 0)
        widths.append(result["variance"].interval.width)
    assert widths == sorted(widths)
    # All of them are at the end, where the capital has about reached its maximum.
    assert widths[-1] < 1.02 * widths[0]
    assert "up to 50% of the episodes" in warned[0]
    paper = evaluate(with_unfinished(data, 1), method="paper")
    assert not paper["mean"].interval.guaranteed
    assert any("number of episodes was not fixed in advance" in text for text in paper.warnings)
    for changed in (
        replace(with_unfinished(data, 1), begins=None),
        with_unfinished(data, 1)[np.arange(len(data))[::-1]],
        ove.Trajectories.concat([data, with_unfinished(data, 1)]),
    ):
        result = evaluate(changed)
        assert not result["variance"].interval.guaranteed
        assert any("order in which episodes began is not known" in t for t in result.warnings)


class Endless(gym.Env[Any, Any]):
    """Pays 1 a step, and ends with probability 0.1."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, **options: Any) -> tuple[NDArray[np.float64], dict[str, Any]]:
        super().reset(**options)
        return np.zeros(1), {}

    def step(self, action: int) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        del action
        return np.zeros(1), 1.0, bool(self.np_random.random() < 0.1), False, {}


def test_a_loop_that_resets_episodes_counts_them_at_their_worst() -> None:
    """The returns of the remaining episodes are far too small."""
    policy = ove.UniformPolicy(Endless().action_space)
    env = ove.LogActionProbability(Endless(), policy)
    for episode in range(100):
        observation, _ = env.reset(seed=episode)
        for _ in range(10):
            action, _ = policy.predict(observation)
            observation, _, ended, _, _ = env.step(action)
            if ended:
                break
    result = ove.evaluate(env.trajectories(), policy, gamma=0.9, reward_range=(0, 1))
    truth = 1 / (1 - 0.9 * 0.9)
    assert result["mean"].approximate is not None
    assert truth not in result["mean"].approximate
    assert result["mean"].interval.guaranteed
    assert truth in result["mean"].interval
    assert any("reset before their end" in text for text in result.warnings)


def test_episodes_left_out_for_what_happened_in_them_are_noticed(
    data: ove.Trajectories, candidate: PPO
) -> None:
    with pytest.raises(ove.MeanWeightError, match="episodes were left out"):
        ove.evaluate(data[data.terminated], candidate, gamma=GAMMA)


def test_wrong_probabilities_prove_nothing() -> None:
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.5
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((2000, 1)),
        actions=right.astype(int),
        log_probs=np.full(2000, np.log(0.4)),  # wrong: it was 0.5
        rewards=right.astype(float),
        lengths=np.ones(2000, dtype=int),
    )
    with pytest.raises(ove.MeanWeightError, match=r"a mean of 1.25 .* significantly more than 1"):
        ove.evaluate(data, np.full(2000, np.log(0.5)), gamma=1.0, reward_range=(0, 1), horizon=1)


def test_limits_default_to_those_of_the_log(data: ove.Trajectories, candidate: PPO) -> None:
    bare = replace(data, metadata=Metadata())
    explicit = ove.evaluate(
        bare, candidate, gamma=GAMMA, reward_range=REWARD_RANGE, horizon=HORIZON
    )
    assert explicit.plan.assumptions.horizon == HORIZON
    known = ove.evaluate(data, candidate, gamma=GAMMA)
    assert intervals(explicit) == intervals(known)
    wider = ove.evaluate(data, candidate, gamma=GAMMA, reward_range=(-10, 20))
    assert wider["variance"].interval.width > known["variance"].interval.width
    tighter = ove.evaluate(data, candidate, gamma=GAMMA, return_range=(-6, 7))
    low, high = tighter["mean"].interval.a_priori
    assert low == pytest.approx(-sum(GAMMA**t for t in range(HORIZON)))
    assert high == 7


def test_the_seed_is_named_and_repeats_the_result(data: ove.Trajectories, candidate: PPO) -> None:
    for rng in (None, np.random.default_rng(1), 7):
        first = ove.evaluate(data, candidate, gamma=GAMMA, rng=rng)
        again = ove.evaluate(data, candidate, gamma=GAMMA, rng=first.plan.seed)
        assert intervals(again) == intervals(first)
        assert again.to_dict() == first.to_dict()
    assert again.plan.seed == 7


def test_how_many_episodes_halve_the_interval() -> None:
    behavior, candidate = make_model(0, 0.4), make_model(2, 0.4)
    options: dict[str, Any] = {"gamma": GAMMA, "quantities": ["variance"], "approximate": None}
    widths = []  # vary from log to log, so their median is tested
    for seed in range(9):
        small = ove.evaluate(simulate(choices(behavior), 1000, seed=seed), candidate, **options)
        assert small.episodes_to_halve is not None
        more = simulate(choices(behavior), small.episodes_to_halve, seed=100 + seed)
        large = ove.evaluate(more, candidate, **options)
        widths.append([result["variance"].interval.width for result in (small, large)])
    before, after = np.median(widths, axis=0)
    assert 0.3 < after / before < 0.7
    tiny = ove.evaluate(simulate(choices(behavior), 20, seed=0), candidate, gamma=GAMMA)
    assert tiny.episodes_to_halve is None


def test_few_episodes_are_answered_honestly(data: ove.Trajectories, candidate: PPO) -> None:
    result = ove.evaluate(data[:3], candidate, gamma=GAMMA)
    assert all(one.approximate is None for one in result.quantities.values())
    assert result.warnings


def test_a_log_without_support_warns(data: ove.Trajectories) -> None:
    with pytest.warns(ove.SupportWarning, match="importance weight 0"):
        result = ove.evaluate(data, np.full(data.n_steps, -np.inf), gamma=GAMMA)
    assert "no logged trajectory is possible under the candidate." in result.warnings
    assert not result["variance"].interval.informative
    assert not result["std"].interval.informative


def test_text_dict_and_frozen(result: ove.Evaluation) -> None:
    lines = str(result).splitlines()
    assert (
        lines[0]
        == "Estimated return of PPO from 600 episodes of Corridor-v0 logged by PPO (gamma 0.9)"
    )
    assert re.split(r" {2,}", lines[2].strip()) == [
        "estimate",
        "95% guaranteed",
        "95% bootstrap",
        "behavior",
    ]
    assert [line.split("  ")[0] for line in lines[3:10]] == [
        "mean",
        "variance",
        "standard deviation",
        "5% quantile",
        "median",
        "95% quantile",
        "CVaR 10%",
    ]
    assert lines[2:10] == result.table.lines()
    assert len({len(line) for line in lines[2:10]}) == 1, "aligned"
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(plain) == {
        "candidate",
        "behavior",
        "env_id",
        "n_trajectories",
        "n_steps",
        "quantities",
        "episodes_to_halve",
        "diagnostics",
        "warnings",
        "advice",
        "settings",
        "versions",
    }
    for name, one in result.quantities.items():
        assert set(plain["quantities"][name]) == {
            "estimate",
            "estimator",
            "interval",
            "approximate",
            "behavior",
        }
        assert plain["quantities"][name]["estimate"] == one.estimate
        assert plain["quantities"][name]["interval"]["upper"] == one.interval.upper
        assert one.approximate is not None
        assert plain["quantities"][name]["approximate"]["upper"] == one.approximate.upper
    assert plain["settings"]["seed"] == 0
    assert plain["versions"]["ove-sb3"] == ove.__version__
    with pytest.raises(FrozenInstanceError):
        result.n_steps = 0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        result.mean = 0.0  # type: ignore[misc]


def test_progress_is_shown_where_someone_is_watching(
    data: ove.Trajectories,
    candidate: PPO,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ove.evaluate(data, candidate, gamma=GAMMA)
    assert capsys.readouterr() == ("", "")
    ove.evaluate(data, candidate, gamma=GAMMA, progress=True)
    assert "100%" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("ove_sb3._progress._DELAY", 0.0)
    ove.evaluate(data, candidate, gamma=GAMMA)
    assert "100%" in capsys.readouterr().err
    ove.evaluate(data, candidate, gamma=GAMMA, progress=False)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ove.InvalidInputError, match="`progress` must be True, False or None"):
        ove.evaluate(data, candidate, gamma=GAMMA, progress="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", ".", "..", "/", "no/such/model.zip"])
def test_a_path_that_is_no_model_is_named(data: ove.Trajectories, path: str) -> None:
    with pytest.raises(ove.OveError, match="candidate"):
        ove.evaluate(data, path, gamma=GAMMA)
