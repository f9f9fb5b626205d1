"""Models that were trained on a log, or selected by it, are never evaluated on it with a guarantee.

The truth is exact: a tiny tabular environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove
from tests.policies.toys import CASES, Toy, make_model, toys
from tests.problems.three_states import (
    GAMMA,
    REWARD_RANGE,
    UNIFORM,
    ThreeStates,
    exact,
    probabilities,
    simulate,
    small_ppo,
)

ONE_ORDER = ove.Betting(n_shuffles=1)
OPTIONS: dict[str, Any] = {
    "gamma": GAMMA,
    "reward_range": REWARD_RANGE,
    "horizon": 4,
    "method": ONE_ORDER,
    "quantities": ("mean", "variance"),
}
TRAINED, SELECTED = "was trained on these trajectories", "was selected by its evaluations"
UNKNOWN = "nothing shows that the candidate did not learn from it"


def reasons(data: Any, candidate: Any, **options: Any) -> list[str]:
    """Why an evaluation is approximate; empty if it is guaranteed."""
    result = ove.evaluate(data, candidate, **{**OPTIONS, **options})
    texts = [
        text for text in (TRAINED, SELECTED, UNKNOWN) if any(text in w for w in result.warnings)
    ]
    assert bool(texts) != result.guaranteed
    return texts


def trained(seed: int = 0, n_steps: int = 256, path: Path | None = None) -> tuple[Any, Any]:
    venv = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), path=path)
    model = small_ppo(seed, venv)
    venv.set_model(model)
    model.learn(n_steps)
    return venv, model


def test_a_log_of_its_own_training(tmp_path: Path) -> None:
    venv, model = trained(path=tmp_path / "log")
    data = venv.trajectories()
    venv.close()
    assert reasons(data, model) == [TRAINED]
    assert reasons(data, model.policy) == [TRAINED]
    assert reasons(tmp_path / "log", model) == [TRAINED]
    assert reasons(data[:100], model) == [TRAINED]
    mixture = ove.MixturePolicy([model, ove.UniformPolicy(model.action_space)], [0.5, 0.5])
    assert reasons(data, mixture) == [TRAINED]
    assert reasons(data, ove.EpsilonGreedyPolicy(model, 0.5)) == [TRAINED]
    # Other logs, and models that had no part in this one.
    assert reasons(ove.collect(model, ThreeStates(), 200, seed=0), model) == []
    assert reasons(simulate(UNIFORM, 200, np.random.default_rng(0)), model) == []
    assert reasons(data, small_ppo(7)) == []
    model.save(tmp_path / "model")
    again = stable_baselines3.PPO.load(tmp_path / "model")
    assert reasons(data, again) == [TRAINED]
    assert reasons(data, str(tmp_path / "model"), model_class=stable_baselines3.PPO) == [TRAINED]
    comparison = ove.compare(data, {"own": again, "other": small_ppo(7)}, **OPTIONS)
    assert not comparison["own"].guaranteed
    assert comparison["other"].guaranteed
    # Not carried by these, as documented.
    other = small_ppo(3)
    other.set_parameters(model.get_parameters())
    assert reasons(data, other) == []


class Wrapping:
    """A policy of a user around another one, or several."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        first = inner[0] if isinstance(inner, list) else inner
        self.observation_space, self.action_space = first.observation_space, first.action_space


def test_a_policy_without_its_model(tmp_path: Path) -> None:
    venv, model = trained()
    data = venv.trajectories()
    model.save(tmp_path / "model")
    model.policy.save(tmp_path / "policy")
    loaded: Any = stable_baselines3.PPO.load(tmp_path / "model")
    alone = type(model.policy).load(tmp_path / "policy")
    uniform = ove.UniformPolicy(model.action_space)
    for policy in (loaded.policy, alone, small_ppo(7).policy):
        assert reasons(data, policy) == [UNKNOWN]
        assert reasons(data, ove.MixturePolicy([policy, uniform], [0.5, 0.5])) == [UNKNOWN]
        assert reasons(data, ove.EpsilonGreedyPolicy(policy, 0.5)) == [UNKNOWN]
    # Beside its model, which knows.
    both = ove.MixturePolicy([loaded.policy, loaded], [0.5, 0.5])
    assert reasons(data, both) == [TRAINED]
    assert reasons(data, ove.MixturePolicy([small_ppo(7), uniform], [0.5, 0.5])) == []
    # The behavior of these logs did not learn.
    fixed = ove.collect(model, ThreeStates(), 200, seed=0)
    assert reasons(fixed, loaded.policy) == reasons(fixed, alone) == []
    # Once it learns again, its policy remembers all logs.
    again = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]))
    loaded.set_env(again)
    again.set_model(loaded)
    loaded.learn(64)
    assert loaded.policy.ove_log_ids == loaded.ove_log_ids
    assert reasons(data, loaded.policy) == [TRAINED]


def test_the_rollout_buffer_of_a_model(tmp_path: Path) -> None:
    model = small_ppo(0, DummyVecEnv([ThreeStates])).learn(256)
    data = ove.from_rollout_buffer(model.rollout_buffer, horizon=4, reward_range=REWARD_RANGE)
    model.save(tmp_path / "model")
    loaded = stable_baselines3.PPO.load(tmp_path / "model")
    uniform = ove.UniformPolicy(model.action_space)
    mixture = ove.MixturePolicy([loaded, uniform], [0.5, 0.5])
    first, second = data.split(0.5)
    for part in (data, first, second, data[:5]):
        for candidate in (model, loaded, loaded.policy, mixture):
            assert reasons(part, candidate) == [UNKNOWN]
    assert reasons(data, uniform) == []


def test_models_within_a_registered_policy(tmp_path: Path) -> None:
    def function(model: Any, observations: Any, **_: Any) -> Any:
        inner = model.inner[0] if isinstance(model.inner, list) else model.inner
        return ove.action_distribution(inner, observations)

    ove.register_policy(Wrapping, function)
    venv, model = trained()
    data = venv.trajectories()
    model.save(tmp_path / "model")
    loaded = stable_baselines3.PPO.load(tmp_path / "model")
    uniform = ove.UniformPolicy(model.action_space, model.observation_space)
    mixture = ove.MixturePolicy([loaded, uniform], [0.5, 0.5])
    for inner in (model, loaded, model.policy, [loaded], mixture):
        assert reasons(data, Wrapping(inner)) == [TRAINED]
    assert reasons(data, Wrapping(loaded.policy)) == [UNKNOWN]
    assert reasons(data, Wrapping(small_ppo(7))) == []
    assert reasons(data, Wrapping(uniform)) == []


def test_collect_leaves_nothing() -> None:
    model = small_ppo()
    before = set(vars(model)) | set(vars(model.policy))
    data = ove.collect(model, ThreeStates(), 50, seed=0)
    logged = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), model)
    observations: Any = logged.reset()
    for _ in range(200):
        observations, _, _, _ = logged.step(model.predict(observations)[0])
    assert set(vars(model)) | set(vars(model.policy)) == before
    for log in (data, logged.trajectories()):
        assert reasons(log, model) == []


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.DependenceWarning")
@pytest.mark.parametrize(
    "case",
    [
        "PPO-discrete",
        "DQN-discrete",
        "SAC-box",
        "TD3-box",
        "QRDQN-discrete",
        "TQC-box",
        "CrossQ-box",
        "TRPO-discrete",
        "RecurrentPPO-discrete",
        "MaskablePPO-discrete",
    ],
)
def test_saving_and_loading_keep_it(case: str, tmp_path: Path) -> None:
    venv = ove.VecLogActionProbability(toys(1, actions=CASES[case][1]))
    model = make_model(case, venv=venv)
    venv.set_model(model)
    model.learn(40)
    log_ids = venv.trajectories().metadata.log_ids
    model.save(tmp_path / "model.zip")
    cls = getattr(stable_baselines3, CASES[case][0], None) or getattr(sb3_contrib, CASES[case][0])
    loaded = cls.load(tmp_path / "model.zip", env=DummyVecEnv([lambda: Toy(CASES[case][1])]))
    assert loaded.ove_log_ids == model.ove_log_ids == list(log_ids)
    other = ove.VecLogActionProbability(toys(1, actions=CASES[case][1]))
    loaded.set_env(other)
    other.set_model(loaded)
    loaded.learn(40)  # more logs
    assert set(loaded.ove_log_ids) == {*log_ids, *other.trajectories().metadata.log_ids}


def test_a_model_that_changes_in_a_loop_is_marked() -> None:
    model = small_ppo()
    logged = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), model)
    observations: Any = logged.reset()
    for step in range(200):
        if step == 100:
            model.learn(32)
        observations, _, _, _ = logged.step(model.predict(observations)[0])
    assert reasons(logged.trajectories(), model) == [TRAINED]


class Stop(BaseCallback):
    def _on_step(self) -> bool:
        return getattr(self.parent, "n_evaluations", 0) < 3


def test_selection_by_the_callback(tmp_path: Path) -> None:
    data = simulate(UNIFORM, 2000, np.random.default_rng(0))
    first, second = data.split(0.5)
    model = small_ppo()
    callback = ove.OffPolicyVarianceCallback(
        first, eval_freq=32, verbose=0, best_model_save_path=tmp_path, method=ONE_ORDER
    )
    model.learn(256, callback=callback)
    assert callback.last_evaluation is not None
    assert callback.last_evaluation.guaranteed
    best = stable_baselines3.PPO.load(tmp_path / "best_model")
    assert reasons(first, best) == reasons(data, best) == [SELECTED]
    assert reasons(second, best) == []
    assert reasons(data.split(0.5, rng=0)[1], best) == [SELECTED]
    assert reasons(first, model) == []  # not selected: it is the last model in any case
    stopped = small_ppo()
    stopping = ove.OffPolicyVarianceCallback(
        first, eval_freq=32, verbose=0, callback_after_eval=Stop(), method=ONE_ORDER
    )
    stopped.learn(256, callback=stopping)
    assert reasons(first, stopped) == [SELECTED]
    assert reasons(second, stopped) == []
    # Its own bounds account for all its evaluations, those of another callback do not.
    stopping.callback = None
    stopped.learn(64, callback=stopping, reset_num_timesteps=False)
    assert stopping.last_evaluation is not None
    assert stopping.last_evaluation.guaranteed
    fresh = ove.OffPolicyVarianceCallback(first, eval_freq=32, verbose=0, method=ONE_ORDER)
    stopped.learn(64, callback=fresh, reset_num_timesteps=False)
    assert fresh.last_evaluation is not None
    assert not fresh.last_evaluation.guaranteed


def test_the_callback_knows_the_log_that_a_model_was_trained_on() -> None:
    venv, model = trained()
    data = venv.trajectories()
    callback = ove.OffPolicyVarianceCallback(
        data, reward_range=REWARD_RANGE, horizon=4, eval_freq=64, verbose=0, independent=True
    )
    with pytest.warns(ove.DependenceWarning, match="its own training"):
        model.learn(64, callback=callback)
    assert callback.last_evaluation is not None
    assert not callback.last_evaluation.guaranteed


def best_of_many(seed: int) -> tuple[Any, ove.Trajectories]:
    """The model that looked best in 21 evaluations on a short log, and the log."""
    data = simulate(UNIFORM, 60, np.random.default_rng([seed, 5]))
    callback = ove.OffPolicyVarianceCallback(
        data,
        eval_freq=16,
        verbose=0,
        error_spending="each",
        callback_on_new_best=Keep(),
        method=ONE_ORDER,
    )
    model = small_ppo(seed, n_steps=16, batch_size=16, learning_rate=0.05)
    model.learn(320, callback=callback)
    return callback.callback_on_new_best.kept, data  # type: ignore[union-attr]


class Keep(BaseCallback):
    """Keep a copy of the best model."""

    kept: Any = None

    def _on_step(self) -> bool:
        import io

        file = io.BytesIO()
        self.model.save(file)
        file.seek(0)
        self.kept = stable_baselines3.PPO.load(file)
        return True


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_many_evaluations(seed: int) -> None:
    model, data = best_of_many(seed)
    assert reasons(data, model, approximate=None) == [SELECTED]
    fresh = simulate(UNIFORM, 60, np.random.default_rng([seed, 6]))
    result = ove.evaluate(fresh, model, **OPTIONS)
    assert result.guaranteed
    mean, variance = exact(probabilities(model))
    assert mean in result["mean"].interval
    assert variance in result["variance"].interval


def test_statistics_of_an_evaluation_keep_what_is_known() -> None:
    data = simulate(UNIFORM, 400, np.random.default_rng(0))
    model = small_ppo(0)
    known: dict[str, Any] = {"reward_range": REWARD_RANGE}
    picked = data[np.argsort(data.returns(GAMMA))[100:]]
    whole, part = (ove.evaluate(one, model, **OPTIONS).stats for one in (data, picked))
    assert whole is not None
    assert part is not None
    assert ove.interval(whole, "mean", **known).guaranteed
    joined = ove.TrajectoryStatistics.concatenate([whole, part])
    for stats in (part, part.select(np.arange(100)), joined):
        interval = ove.interval(stats, "mean", **known)
        sequence = ove.confidence_sequence(stats, "mean", **known)
        for one in (interval, sequence.interval):
            assert not one.guaranteed
            assert "picked one by one" in one.reasons[0]
