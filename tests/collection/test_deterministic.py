"""Actions of ``predict(..., deterministic=True)`` are detected; sampled ones are never reported."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from ove_sb3.collection.mode_test import ModeTest
from tests.policies.toys import CASES, make_model, nudge, toys
from tests.problems.three_states import (
    GAMMA,
    REWARD_RANGE,
    ThreeStates,
    exact,
    probabilities,
    small_ppo,
)

NOT_DRAWN = "must be drawn from the action distribution"
pytestmark = pytest.mark.filterwarnings(
    "ignore::ove_sb3.errors.DependenceWarning",
    "ignore:.*Monitor.*:UserWarning",
    "ignore:.*not of the same type.*",
)


def loop(logged: Any, model: Any, n_steps: int, *, deterministic: bool) -> None:
    observations = logged.reset()
    for _ in range(n_steps):
        options: dict[str, Any] = {}
        if "Maskable" in type(model).__name__:
            options["action_masks"] = np.stack(logged.env_method("action_masks"))
        actions, _ = model.predict(observations, deterministic=deterministic, **options)
        observations, _, _, _ = logged.step(actions)


def wrong_and_guaranteed(seed: int) -> bool:
    """A deterministic loop in a logged environment, evaluated against the exact variance."""
    model = nudge(small_ppo(seed), 0.5, seed)
    venv = DummyVecEnv([ThreeStates] * 8)
    venv.seed(seed)
    logged = ove.VecLogActionProbability(venv, model)
    with suppress(ove.InvalidInputError):  # evaluate what was logged until then
        loop(logged, model, 400, deterministic=True)
    _, truth = exact(probabilities(model))
    with suppress(ove.InvalidInputError):
        interval = ove.evaluate(
            logged.trajectories(), model, gamma=GAMMA, reward_range=REWARD_RANGE, horizon=4
        )["variance"].interval
        return interval.guaranteed and not interval.lower <= truth <= interval.upper
    return False  # refused, or nothing was logged


def test_no_wrong_number_is_called_guaranteed() -> None:
    n_seeds = 20
    wrong = sum(map(wrong_and_guaranteed, range(n_seeds)))
    assert binomtest(wrong, n_seeds, 0.05, alternative="greater").pvalue > 1e-3, f"{wrong} wrong"


@pytest.mark.parametrize("on_disk", [False, True])
def test_what_is_logged_already_is_marked(on_disk: bool, tmp_path: Path) -> None:
    model = nudge(small_ppo(), 0.2, 0)
    path = tmp_path if on_disk else None
    logged = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), model, path, flush_every=1)
    loop(logged, model, 50, deterministic=False)
    assert not logged.trajectories().metadata.deterministic_actions
    with pytest.raises(ove.InvalidInputError, match=NOT_DRAWN):
        loop(logged, model, 2000, deterministic=True)
    with pytest.raises(ove.InvalidInputError, match=NOT_DRAWN):  # the log stays marked
        loop(logged, model, 1, deterministic=False)
    data = logged.trajectories()
    assert data.metadata.deterministic_actions
    logged.close()
    if on_disk:
        assert ove.open_log(tmp_path).metadata.deterministic_actions
    result = ove.evaluate(data, model, gamma=GAMMA, reward_range=REWARD_RANGE, horizon=4)
    assert not result.guaranteed
    assert any("not drawn from the logged probabilities" in text for text in result.warnings)


@pytest.mark.parametrize(
    "case",
    [
        "PPO-discrete",
        "PPO-multidiscrete",
        "PPO-multibinary",
        "PPO-box",
        "MaskablePPO-discrete",
        "DQN-discrete",
        "SAC-box",
        "TD3-box",
    ],
)
def test_every_family(case: str) -> None:
    """Sampled actions pass and modes do not, even late in a long log."""
    model = make_model(case, n_envs=4)
    if case == "TD3-box":
        from stable_baselines3.common.noise import NormalActionNoise

        model.action_noise = NormalActionNoise(np.zeros(2), np.full(2, 0.5))
    _, actions, observations, _ = CASES[case]
    logged = ove.VecLogActionProbability(toys(4, actions=actions, observations=observations), model)
    if case != "TD3-box":  # its `predict` never samples
        loop(logged, model, 300, deterministic=False)
    refused = "must carry the model's action noise" if case == "TD3-box" else NOT_DRAWN
    with pytest.raises(ove.InvalidInputError, match=refused):
        loop(logged, model, 300, deterministic=True)


def saturated(case: str) -> Any:
    model = make_model(case, n_envs=16)
    with torch.no_grad():
        if case == "DQN-discrete":
            model.exploration_rate = 0.05
        elif case == "SAC-box":
            model.policy.actor.mu.bias += torch.tensor([9.0, -9.0])
        elif case == "PPO-box":
            model.policy.action_net.bias += torch.tensor([3.0, -4.0])
        else:
            model.policy.action_net.bias += torch.tensor([7.0, 0.0, 0.0, 0.0])
    return model


@pytest.mark.parametrize("case", ["PPO-discrete", "PPO-box", "SAC-box", "DQN-discrete"])
def test_no_alarm_at_saturated_policies(case: str) -> None:
    """They nearly always take their mode; DQN does so in all environments together."""
    model = saturated(case)
    venv = toys(16, actions=CASES[case][1])
    venv.seed(0)
    logged = ove.VecLogActionProbability(venv, model)
    loop(logged, model, 600, deterministic=False)
    hits, log_p = logged._logger.source.mode  # type: ignore[union-attr, misc]
    assert np.exp(log_p).mean() > (0.3 if "box" in case else 0.9), "a test without power"
    assert hits.any()
    assert not logged.trajectories().metadata.deterministic_actions


@pytest.mark.parametrize("dependent", [False, True])
def test_the_capital_is_a_martingale(dependent: bool) -> None:
    """The expected capital is 1 if actions are sampled, for all p and with several environments."""
    rng = np.random.default_rng(0)
    finals = []
    for _ in range(4000):
        test = ModeTest()
        for _ in range(4):
            p = rng.uniform(0.6, 0.9, size=2)
            coin = np.full(2, rng.random()) if dependent else rng.random(2)
            test.add(coin < p, np.log(p), dependent=dependent)
        finals.append(test._capital.mean() + 1.0 / np.log2(2.0 + 4))
    error = np.std(finals) / np.sqrt(len(finals))
    assert error < 0.05
    assert abs(np.mean(finals) - 1.0) < 4 * error


def test_the_probability_of_the_mode_is_that_of_being_counted() -> None:
    """Frequency of the mode among draws of the distribution, near and far from the bounds."""
    from gymnasium import spaces

    from ove_sb3.policies.bounds import BoxBounds
    from ove_sb3.policies.box import ClippedNormal, SquashedNormal

    n = 20_000
    for low, high in ((-1.0, 1.0), (0.0, 0.2), (100.0, 103.0)):
        bounds = BoxBounds(spaces.Box(low, high, (1,), np.float32))
        for mean in (0.0, 3.0, 6.0, 7.5, 9.0):
            for std in (0.05, 0.5, 2.0):
                squashed = SquashedNormal(bounds, np.full((n, 1), mean), np.full((n, 1), std))
                shift = low + (high - low) * (0.5 + mean / 9.0)
                clipped = ClippedNormal(bounds, np.full((n, 1), shift), np.full((n, 1), std))
                for distribution in (squashed, clipped):
                    hits, log_p = distribution.mode_probability(  # type: ignore[misc]
                        distribution.sample(np.random.default_rng(1))
                    )
                    # A probability below the truth would cause false alarms.
                    count = int(hits.sum())
                    p_value = binomtest(count, n, min(np.exp(log_p[0]), 1.0), alternative="greater")
                    assert p_value.pvalue > 1e-4, (low, mean, std)


def test_evaluation_callbacks_on_a_logged_environment() -> None:
    model = small_ppo()
    logged = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), model)
    callback = EvalCallback(logged, n_eval_episodes=3, eval_freq=32, verbose=0)
    with pytest.raises(ove.InvalidInputError, match="without this wrapper"):
        model.learn(64, callback=callback)
    with pytest.raises(ove.InvalidInputError, match="evaluate_policy runs with deterministic"):
        evaluate_policy(model, logged, 2)
    with pytest.raises(ove.InvalidInputError, match="got none so far"):
        logged.trajectories()  # nothing was logged, so nothing is marked
    drawn = EvalCallback(logged, n_eval_episodes=5, eval_freq=32, verbose=0, deterministic=False)
    model.learn(128, callback=drawn)
    data = logged.trajectories()
    assert len(data) >= 5
    assert not data.metadata.deterministic_actions
