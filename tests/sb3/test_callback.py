"""The callback in real training runs: reports, files, gates, children, repeated looks."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ove_sb3 as ove
from ove_sb3.sb3.look import delta_of_look
from ove_sb3.sb3.look_files import write_whole

from .tabular import GAMMA, HORIZON, REWARD_RANGE, UNIFORM, Tabular, simulate, small_ppo


def log(n: int = 2000, seed: int = 0) -> ove.Trajectories:
    return simulate(UNIFORM, n, np.random.default_rng(seed))


def watch(data: Any = None, **options: Any) -> ove.OffPolicyVarianceCallback:
    options = {"eval_freq": 32, "verbose": 0, **options}
    return ove.OffPolicyVarianceCallback(log() if data is None else data, **options)


class Spy(BaseCallback):
    """Keeps a copy of the weights at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[dict[str, torch.Tensor]] = []
        self.started = 0

    def _on_training_start(self) -> None:
        self.started += 1

    def _on_step(self) -> bool:
        self.weights.append(weights_of(self.model))
        return True


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


# --- what is computed


def test_a_look_is_what_the_core_says_about_the_model_at_that_moment() -> None:
    data = log()
    callback = watch(data, delta=0.1)
    model = small_ppo()
    model.learn(64, callback=callback)
    look = callback.last_look
    assert look is not None
    log_ratios = ove.log_prob(model, data) - data.log_probs
    stats = ove.trajectory_statistics(
        log_ratios, data.rewards, data.lengths, gamma=GAMMA, horizon=HORIZON
    )
    delta = 0.1 * 6 / (math.pi * 3) ** 2 / 2  # the third look, half of it for each quantity
    assert look.number == 3
    assert look.mean == ove.estimate_mean(stats, estimator="crossfit")
    assert look.variance == ove.estimate_variance(stats)
    for found, function in (
        (look.mean_interval, ove.mean_interval),
        (look.variance_interval, ove.variance_interval),
    ):
        expected = function(stats, reward_range=REWARD_RANGE, delta=delta)
        assert (found.lower, found.upper) == (expected.lower, expected.upper)
        assert found.delta == pytest.approx(delta)
    assert look.effective_sample_size == ove.diagnose(stats).effective_sample_size
    assert look.behavior_mean == pytest.approx(data.returns(GAMMA).mean())


def test_gamma_horizon_and_ranges_can_be_stated() -> None:
    data = log()
    callback = watch(
        data, gamma=1.0, horizon=7, reward_range=(-2, 2), return_range=(-4, 4), max_weight=16
    )
    small_ppo().learn(32, callback=callback)
    look = callback.last_look
    assert look is not None
    assert look.behavior_mean == pytest.approx(data.returns(1.0).mean())
    assert look.mean_interval.trivial == (-4.0, 4.0)
    stated = " ".join(look.variance_interval.assumptions)
    assert "at most 7 steps" in stated
    assert "weight exceeds 16" in stated
    assert "rewards lie in [-2, 2]" in stated


def test_a_deterministic_candidate_is_judged_as_such() -> None:
    data = log()
    callback = watch(data, deterministic=True)
    model = small_ppo()
    model.learn(32, callback=callback)
    chosen, _ = model.predict(np.arange(3), deterministic=True)
    returns, weights = data.returns(GAMMA), np.ones(len(data))
    agree = np.equal(np.asarray(data.actions), chosen[np.asarray(data.observations)])
    weights = np.multiply.reduceat(2.0 * agree, data.starts)
    assert callback.last_look is not None
    ess = weights.sum() ** 2 / (weights @ weights)
    assert callback.last_look.effective_sample_size == pytest.approx(ess)
    assert abs(callback.last_look.mean - (weights * returns).mean()) < 0.1


# --- repeated looks


def test_the_shares_of_all_looks_add_up_to_delta() -> None:
    shares = [delta_of_look(0.05, k) for k in range(1, 200_001)]
    assert shares[0] == pytest.approx(0.05 * 6 / math.pi**2)
    assert sum(shares) < 0.05
    assert sum(shares) == pytest.approx(0.05, rel=1e-4)


def test_spending_goes_on_over_several_calls_of_learn() -> None:
    callback = watch(delta=0.2)
    model = small_ppo()
    model.learn(64, callback=callback)
    assert callback.n_looks == 3
    model.learn(64, callback=callback, reset_num_timesteps=False)
    assert callback.evaluations["look"] == [1, 2, 3, 4, 5, 6]
    assert callback.evaluations_timesteps == [32, 64, 64, 96, 128, 128]
    expected = [delta_of_look(0.2, k) for k in range(1, 7)]
    assert callback.evaluations["delta"] == pytest.approx(expected)


def test_spending_goes_on_in_another_process_with_the_loaded_model(tmp_path: Path) -> None:
    first = watch(log_path=tmp_path / "log")
    model = small_ppo()
    model.learn(64, callback=first)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=DummyVecEnv([Tabular]), device="cpu")
    second = watch(log_path=tmp_path / "log")
    loaded.learn(32, callback=second, reset_num_timesteps=False)
    assert second.evaluations["look"] == [1, 2, 3, 4, 5]
    assert second.evaluations["mean_lower"][:3] == first.evaluations["mean_lower"]
    assert second.evaluations["delta"][3] == pytest.approx(delta_of_look(0.05, 4))
    assert second.best_mean_reward == max(second.evaluations["mean_lower"])
    fresh = watch(log_path=tmp_path / "log")
    small_ppo().learn(32, callback=fresh)  # a new run starts a new count
    assert fresh.evaluations["look"] == [1, 2]


def test_looks_by_themselves_have_the_whole_delta_and_say_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    callback = watch(looks="each", delta=0.1, verbose=1)
    small_ppo().learn(32, callback=callback)
    assert callback.evaluations["delta"] == [0.1, 0.1]
    assert "(90% guaranteed, each look by itself; ESS" in capsys.readouterr().out
    small_ppo().learn(32, callback=watch(verbose=1))
    assert "(95% guaranteed, all looks together; ESS" in capsys.readouterr().out


def test_the_end_of_training_is_looked_at_once() -> None:
    callback = watch(eval_freq=48)
    model = small_ppo()
    model.learn(64, callback=callback)
    assert callback.evaluations_timesteps == [48, 64]
    callback.on_training_end()
    assert callback.n_looks == 2  # nothing has changed since


# --- reports and files


def test_the_logger_is_told_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_ppo()
    model.set_logger(configure(str(tmp_path), ["stdout", "csv", "tensorboard"]))
    callback = watch(max_variance=1.0, min_mean=-0.5)
    model.learn(64, callback=callback)
    model.logger.close()
    names = set(callback.evaluations) - {"timesteps", "behavior_mean", "behavior_variance"}
    assert len(names) == 12
    with (tmp_path / "progress.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["ove/look"]]
    assert [int(row["time/total_timesteps"]) for row in rows] == [32, 64, 64]
    for name in names:
        values = [float(row[f"ove/{name}"]) for row in rows]
        assert values == pytest.approx([float(x) for x in callback.evaluations[name]]), name
    assert "variance_upper" in capsys.readouterr().out

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path), size_guidance={"images": 0})
    events.Reload()
    assert {f"ove/{name}" for name in names} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("ove/variance_upper")] == [32, 64, 64]
    assert [event.step for event in events.Images("ove/bounds")] == [32, 64, 64]
    assert events.Images("ove/bounds")[0].width > 400


def test_evaluations_are_written_at_every_look(tmp_path: Path) -> None:
    class Reader(BaseCallback):
        sizes: list[int] = []  # noqa: RUF012

        def _on_step(self) -> bool:
            with np.load(tmp_path / "evaluations.npz") as file:
                self.sizes.append(file["timesteps"].size)
            return True

    reader = Reader()
    callback = watch(log_path=tmp_path, callback_after_eval=reader)
    small_ppo().learn(64, callback=callback)
    assert reader.sizes == [1, 2, 3]
    with np.load(tmp_path / "evaluations.npz") as file:
        assert set(file) == set(callback.evaluations)
        for name, values in callback.evaluations.items():
            assert file[name].tolist() == values
    assert [path.name for path in tmp_path.iterdir()] == ["evaluations.npz"]


def test_a_file_is_whole_even_if_writing_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    path.write_text("old")

    def half(temporary: Path) -> None:
        temporary.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# --- the gate and the best model


def test_the_best_admissible_model_is_saved_as_it_was(tmp_path: Path) -> None:
    spy, every = Spy(), Spy()
    callback = watch(
        best_model_save_path=tmp_path,
        min_mean=-0.2,
        max_variance=1.2,
        callback_on_new_best=spy,
        callback_after_eval=every,
    )
    model = small_ppo()
    model.learn(256, callback=callback)
    rows = callback.evaluations
    admissible = (np.array(rows["mean_lower"]) >= -0.2) & (np.array(rows["variance_upper"]) <= 1.2)
    assert rows["admissible"] == admissible.tolist()
    assert 0 < admissible.sum() < admissible.size, "a gate that tests nothing"
    best = int(np.where(admissible, rows["mean_lower"], -np.inf).argmax())
    assert best < np.argmax(rows["mean_lower"]), "the best of all must not be admissible"
    assert callback.best_mean_reward == rows["mean_lower"][best]
    assert callback.last_mean_reward == rows["mean_lower"][-1]
    saved = PPO.load(tmp_path / "best_model", device="cpu")
    assert same(weights_of(saved), every.weights[best])
    assert same(spy.weights[-1], every.weights[best])
    assert (spy.started, every.started) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["best_model.zip"]


def test_no_model_is_saved_if_none_is_admissible(tmp_path: Path) -> None:
    callback = watch(best_model_save_path=tmp_path, max_variance=0.01)
    small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["admissible"])
    assert callback.best_mean_reward == -np.inf
    assert not list(tmp_path.iterdir())


def test_without_a_gate_the_best_is_the_highest_lower_bound(tmp_path: Path) -> None:
    every = Spy()
    callback = watch(best_model_save_path=tmp_path, callback_after_eval=every)
    small_ppo().learn(128, callback=callback)
    best = int(np.argmax(callback.evaluations["mean_lower"]))
    saved = PPO.load(tmp_path / "best_model", device="cpu")
    assert same(weights_of(saved), every.weights[best])


def test_normalised_observations_are_followed_and_saved(tmp_path: Path) -> None:
    # As a Box, since a Discrete observation is not normalised.
    venv = VecNormalize(DummyVecEnv([_Boxed]), gamma=GAMMA)
    model = small_ppo(venv=venv)
    data = ove.collect(ove.UniformPolicy(venv.action_space), _Boxed(), 500, seed=0)
    callback = watch(
        data, best_model_save_path=tmp_path, reward_range=REWARD_RANGE, horizon=HORIZON
    )
    model.learn(64, callback=callback)
    stats = ove.trajectory_statistics(
        ove.log_prob(model, data, vec_normalize=venv) - data.log_probs,
        data.rewards,
        data.lengths,
        gamma=GAMMA,
        horizon=HORIZON,
    )
    assert callback.last_look is not None
    assert callback.last_look.mean == ove.estimate_mean(stats, estimator="crossfit")
    restored = VecNormalize.load(
        str(tmp_path / "best_model_vecnormalize.pkl"), DummyVecEnv([_Boxed])
    )
    assert restored.obs_rms.count > 32  # type: ignore[attr-defined]


class _Boxed(Tabular):
    def __init__(self) -> None:
        super().__init__()
        import gymnasium as gym

        self.observation_space: Any = gym.spaces.Box(0.0, 2.0, (1,), np.float32)

    def reset(self, **options: Any) -> Any:
        observation, info = super().reset(**options)
        return np.array([observation], np.float32), info

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return np.array([observation], np.float32), *rest


# --- child callbacks


def test_sb3s_own_children_read_the_guaranteed_bounds() -> None:
    stop = StopTrainingOnRewardThreshold(reward_threshold=-0.1)
    callback = watch(callback_on_new_best=stop)
    model = small_ppo()
    model.learn(1000, callback=callback)
    lower = callback.evaluations["mean_lower"]
    assert lower[-1] >= -0.1 > max(lower[:-1])
    assert model.num_timesteps < 1000
    assert callback.evaluations_timesteps[-1] > callback.evaluations_timesteps[-2]  # no look twice

    patience = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1)
    callback = watch(min_mean=100.0, callback_after_eval=patience)
    model = small_ppo()
    model.learn(1000, callback=callback)
    assert model.num_timesteps < 1000


def test_training_stops_once_the_variance_is_safe(capsys: pytest.CaptureFixture[str]) -> None:
    stop = ove.StopTrainingOnSafeVariance(verbose=1)
    callback = watch(log(20_000), max_variance=0.9, min_mean=-0.2, callback_after_eval=stop)
    model = small_ppo()
    model.learn(1000, callback=callback)
    assert model.num_timesteps < 1000
    assert callback.evaluations["admissible"] == [False] * (callback.n_looks - 1) + [True]
    assert callback.n_looks > 1
    assert "Stopping training at num_timesteps=" in capsys.readouterr().out


def test_the_stop_may_have_a_gate_of_its_own() -> None:
    stop = ove.StopTrainingOnSafeVariance(max_variance=1.1)
    callback = watch(callback_after_eval=stop)
    model = small_ppo()
    model.learn(1000, callback=callback)
    assert callback.evaluations["variance_upper"][-1] <= 1.1
    assert model.num_timesteps == 32


def test_the_stop_refuses_what_it_cannot_work_with() -> None:
    with pytest.raises(ove.InvalidInputError, match="must be a child of OffPolicyVariance"):
        small_ppo().learn(32, callback=ove.StopTrainingOnSafeVariance(max_variance=1.0))
    callback = watch(callback_after_eval=ove.StopTrainingOnSafeVariance())
    with pytest.raises(ove.InvalidInputError, match="Without a gate"):
        small_ppo().learn(32, callback=callback)


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_it_works_in_a_list_and_under_a_progress_bar() -> None:
    spy, callback = Spy(), watch()
    small_ppo().learn(64, callback=CallbackList([spy, callback]), progress_bar=True)
    assert callback.n_looks == 3
    assert len(spy.weights) == 64


def test_several_environments_count_calls_as_eval_callback_does() -> None:
    callback = watch(eval_freq=16)
    small_ppo(venv=DummyVecEnv([Tabular] * 2), n_steps=16).learn(64, callback=callback)
    assert callback.evaluations_timesteps == [32, 64, 64]
