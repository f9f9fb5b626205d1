"""`behavior=`: the log is checked against it, and intervals are narrower and still valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.core.truncation import CAPS, column_names, truncated_columns
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.known_behavior import score_known_behavior
from ove_sb3.policies.ratio_bounds import ratio_bound
from tests.problems.corridor import GAMMA, choices, exact_moments, make_env, make_model

from .same import same_result

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Line(gym.Env[Any, Any]):
    """Two steps; the reward is the mean of the action, the observation the last action."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = BOX

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        ended = self.time == 2
        return np.asarray(action, np.float32), float(np.mean(action)), ended, False, {}


def gaussian(seed: int, log_std: float = -0.5) -> PPO:
    return PPO(
        "MlpPolicy",
        Line(),
        seed=seed,
        device="cpu",
        policy_kwargs={"net_arch": [4], "log_std_init": log_std},
    )


@pytest.fixture(scope="module")
def box_data() -> ove.Trajectories:
    return ove.collect(gaussian(0), Line(), 2_000, seed=1, reward_range=(-1, 1))


def test_the_interval_holds_and_estimates_stay_as_they_were(
    data: ove.Trajectories, behavior: PPO, candidate: PPO
) -> None:
    without = ove.evaluate(data, candidate, gamma=GAMMA)
    known = ove.evaluate(data, candidate, gamma=GAMMA, behavior=behavior)
    for name, truth in zip(("mean", "variance"), exact_moments(choices(candidate)), strict=True):
        assert truth in known[name].interval
        assert known[name].interval.guaranteed
        assert known[name].estimate == without[name].estimate
        assert known[name].interval.width <= 1.1 * without[name].interval.width
        assert "the behavior is the given policy" in " ".join(known[name].interval.assumptions)
    assert known.stats is not None
    for cap in CAPS:
        w, k = (known.stats[name] for name in column_names(cap))
        assert (w + k).max() <= cap * (1 + 1e-12)
        error = (w + k).std() / len(w) ** 0.5
        assert abs((w + k).mean() - 1.0) < 5 * error + 1e-9
        kept = w > 0.0
        np.testing.assert_allclose(w[kept], known.stats.weights[kept], rtol=1e-4)


def test_draws_of_the_candidate_have_a_mean_of_one(box_data: ove.Trajectories) -> None:
    # Wide enough for clipping: the bounds have atoms, where draws and logged actions tie.
    for log_std in (-0.5, 0.7):
        policies = as_policy(gaussian(3, log_std)), as_policy(gaussian(0))
        scores = score_known_behavior(*policies, box_data)
        assert not scores.actions.exact
        columns = truncated_columns(scores.actions, box_data.lengths)
        for cap in CAPS:
            w, k = (columns[name] for name in column_names(cap))
            M = w + k
            assert M.max() <= cap * (1 + 1e-12)
            assert abs(M.mean() - 1.0) < 4 * M.std() / len(M) ** 0.5, cap
    assert columns[column_names(2.0)[1]].mean() > 0.1


def test_no_bit_of_the_draws_depends_on_processes_or_the_disk(
    box_data: ove.Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MOST_STEPS", "_FEWEST_STEPS"):
        monkeypatch.setattr(f"ove_sb3.data.log.{name}", 300)
    data = box_data[:500]
    data.save(tmp_path / "log")
    options: dict[str, Any] = {
        "gamma": 1.0,
        "horizon": 2,
        "behavior": gaussian(0),
        "approximate": None,
    }
    here = ove.evaluate(data, gaussian(3), **options)
    log = ove.open_log(tmp_path / "log", chunk_steps=301)
    for n_jobs in (1, 2):
        same_result(ove.evaluate(log, gaussian(3), n_jobs=n_jobs, **options), here)


def test_another_behavior_is_refused_with_its_place(
    data: ove.Trajectories, behavior: PPO, candidate: PPO
) -> None:
    with pytest.raises(ove.errors.BehaviorError, match="`behavior` must be the policy") as caught:
        ove.evaluate(data, candidate, gamma=GAMMA, behavior=make_model(1))
    assert (caught.value.episode, caught.value.step) == (0, 0)
    wrong = data.log_probs.copy()
    wrong[data.lengths[:500].sum() + 1] += 0.01
    with pytest.raises(ove.errors.BehaviorError, match="episode 500, step 1") as caught:
        ove.evaluate(with_log_probs(data, wrong), candidate, gamma=GAMMA, behavior=behavior)


def test_small_differences_add_up_over_an_episode(candidate: PPO) -> None:
    n = 500
    uniform = ove.UniformPolicy(spaces.Discrete(2))
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((4 * n, 5), np.float32),
        actions=np.zeros(4 * n, dtype=int),
        log_probs=np.log(0.5) + np.repeat([0.0, 0.0, 5e-5, 0.0], n),
        rewards=np.zeros(4 * n),
        lengths=[n] * 4,
    )
    options: dict[str, Any] = {"gamma": 0.9, "reward_range": (0, 1), "behavior": uniform}
    with pytest.raises(ove.errors.BehaviorError, match=r"by -0\.025 in all at episode 2"):
        ove.evaluate(data, candidate, **options)


def test_refusals(data: ove.Trajectories, behavior: PPO, candidate: PPO) -> None:
    adaptive = replace(data, metadata=replace(data.metadata, adaptive=True))
    with pytest.raises(ove.errors.InvalidInputError, match="`behavior` must be None for a log"):
        ove.evaluate(adaptive, candidate, gamma=GAMMA, behavior=behavior)
    with pytest.raises(ove.errors.InvalidInputError, match="`behavior` must be None if"):
        ove.evaluate(data, data.log_probs, gamma=GAMMA, behavior=behavior)
    with pytest.raises(ove.errors.InvalidInputError, match="`behavior` must be a model"):
        ove.evaluate(data, candidate, gamma=GAMMA, behavior=data.log_probs)
    canary = ove.MixturePolicy([behavior, candidate], [0.5, 0.5], per="episode")
    assert ratio_bound(as_policy(candidate), canary) is None
    for policy, other in ((candidate, canary), (canary, behavior)):
        with pytest.raises(ove.errors.InvalidInputError, match="must not be a mixture that is"):
            ove.evaluate(data, policy, gamma=GAMMA, behavior=other)
    with pytest.raises(ove.errors.BehaviorError, match="`behavior` does not fit the log"):
        ove.evaluate(data, candidate, gamma=GAMMA, behavior=ove.UniformPolicy(spaces.Discrete(3)))


def test_a_comparison_takes_it_too(data: ove.Trajectories, behavior: PPO, candidate: PPO) -> None:
    result = ove.compare(data, {"a": candidate, "b": make_model(5)}, gamma=GAMMA, behavior=behavior)
    for evaluation in result.evaluations.values():
        assert evaluation.stats is not None
        assert column_names(2.0)[0] in evaluation.stats.columns


TABLE = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
OTHER = np.array([[0.6, 0.3, 0.1], [0.25, 0.25, 0.5]])
GREEDY = ove.TabularPolicy(np.eye(3)[[0, 2]])
UNIFORM = ove.UniformPolicy(spaces.Discrete(3), spaces.Discrete(2))
CANDIDATE = ove.TabularPolicy(TABLE)


@pytest.mark.parametrize(
    ("candidate", "policy", "bound"),
    [
        (CANDIDATE, UNIFORM, 2.7),
        (CANDIDATE, ove.TabularPolicy(OTHER), 1.5),
        (CANDIDATE, ove.TabularPolicy(TABLE), 1.0),
        (ove.TabularPolicy(OTHER), CANDIDATE, None),
        (CANDIDATE, ove.MixturePolicy([GREEDY, CANDIDATE], [0.8, 0.2]), 5.0),
        (CANDIDATE, ove.MixturePolicy([UNIFORM, CANDIDATE], [0.5, 0.5]), 1 / (0.5 / 2.7 + 0.5)),
        (CANDIDATE, ove.EpsilonGreedyPolicy(CANDIDATE, 0.3), 9.0),
        (ove.EpsilonGreedyPolicy(GREEDY, 0.1), ove.EpsilonGreedyPolicy(GREEDY, 0.3), 0.93333 / 0.8),
        (ove.EpsilonGreedyPolicy(GREEDY, 0.3), ove.EpsilonGreedyPolicy(GREEDY, 0.1), 3.0),
        (ove.EpsilonGreedyPolicy(GREEDY, 0.3), ove.EpsilonGreedyPolicy(CANDIDATE, 0.1), 24.0),
        (UNIFORM, ove.EpsilonGreedyPolicy(CANDIDATE, 0.0), None),
    ],
)
def test_bounds_follow_from_the_policies(candidate: Any, policy: Any, bound: float | None) -> None:
    found = ratio_bound(candidate, policy)
    if bound is None:
        assert found is None
        return
    assert found is not None
    assert found.value == pytest.approx(bound, rel=1e-4)
    states = np.arange(2)
    own, other = candidate.distribution(states), policy.distribution(states)
    with np.errstate(invalid="ignore"):
        ratios = [np.exp(own.log_prob([a, a]) - other.log_prob([a, a])) for a in range(3)]
    assert found.value >= np.nanmax(ratios) * (1 - 1e-12)


def test_a_bound_that_is_found_is_used_and_named(candidate: PPO) -> None:
    mixture = ove.MixturePolicy([make_model(0), candidate], [0.5, 0.5], rng=0)
    data = ove.collect(mixture, make_env(), 400, seed=0, reward_range=(-1.0, 2.0))
    known = ove.evaluate(data, candidate, gamma=GAMMA, behavior=mixture)
    stated = ove.evaluate(data, candidate, gamma=GAMMA, max_ratio=2.0)
    assert known.plan.assumptions.max_ratio == pytest.approx(2.0)
    words = " ".join(known["variance"].interval.assumptions)
    assert "ratio exceeds 2, as the behavior is a mixture that covers it" in words
    assert known["variance"].interval.width <= 1.1 * stated["variance"].interval.width


def with_log_probs(data: ove.Trajectories, log_probs: Any) -> ove.Trajectories:
    return replace(data, log_probs=log_probs)
