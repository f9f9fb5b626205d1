"""Where the callback's data come from: growing logs, the model's own log, broken input."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import ove_sb3 as ove

from .tabular import HORIZON, REWARD_RANGE, UNIFORM, Tabular, simulate, small_ppo
from .test_callback import log, watch

KNOWN: dict[str, Any] = {"reward_range": REWARD_RANGE, "horizon": HORIZON}


# --- growing logs


class Grow(BaseCallback):
    """Plays another process that adds to a log."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def _on_step(self) -> bool:
        if self.n_calls % 32 == 16:
            writer = ove.EpisodeWriter(self.path, log(2).metadata)
            writer.add(log(100, seed=self.n_calls))
            writer.close()
        return True


def test_a_directory_is_read_again_at_every_look(tmp_path: Path) -> None:
    log(50).save(tmp_path)
    callback = watch(tmp_path)
    small_ppo().learn(64, callback=[Grow(tmp_path), callback])
    assert callback.evaluations["n_trajectories"] == [150, 250, 250]
    assert all(callback.evaluations["guaranteed"])


def test_a_directory_may_be_empty_at_first(tmp_path: Path) -> None:
    writer = ove.EpisodeWriter(tmp_path, log(2).metadata)
    callback = watch(str(tmp_path), eval_freq=8)
    with pytest.warns(ove.OveWarning, match="got 0 at 8 timesteps: this look is left out"):
        small_ppo().learn(32, callback=[Grow(tmp_path), callback])
    assert callback.evaluations_timesteps == [16, 24, 32, 32]
    assert callback.evaluations["look"] == [1, 2, 3, 4]  # a look left out costs nothing
    writer.close()


def test_a_function_is_asked_at_every_look() -> None:
    sizes = iter([10, 20, 30])
    callback = watch(lambda: log(next(sizes)))
    small_ppo().learn(64, callback=callback)
    assert callback.evaluations["n_trajectories"] == [10, 20, 30]


def test_a_log_of_the_model_itself_drawn_anew_is_a_fair_judge() -> None:
    model = small_ppo()
    callback = watch(lambda: ove.collect(model, Tabular(), 50, seed=model.num_timesteps), **KNOWN)
    model.learn(32, callback=callback)
    assert all(callback.evaluations["guaranteed"])
    assert callback.evaluations["ess"] == pytest.approx([50.0, 50.0])


# --- the model's own log


def logged_training(path: Path | None = None) -> tuple[Any, ove.VecLogActionProbability]:
    venv = ove.VecLogActionProbability(DummyVecEnv([Tabular]), path=path)
    model = small_ppo(venv=venv)
    venv.set_model(model)
    return model, venv


def test_the_directory_of_the_training_log_voids_the_guarantee(tmp_path: Path) -> None:
    model, _ = logged_training(tmp_path / "log")
    callback = watch(
        tmp_path / "log", max_variance=100.0, best_model_save_path=tmp_path / "best", **KNOWN
    )
    with pytest.warns(ove.DependenceWarning, match=r"guarantee is void.*no model satisfies"):
        model.learn(64, callback=callback)
    assert callback.n_looks == 3
    assert not any(callback.evaluations["guaranteed"])
    assert not any(callback.evaluations["admissible"])
    assert not list((tmp_path / "best").iterdir())
    look = callback.last_look
    assert look is not None
    assert "approximate" in str(look.variance_interval)
    assert "trained on these very trajectories" in look.mean_interval.assumptions[-1]
    # Flushed for every look, whatever `flush_every` is; and in the order of logging.
    assert look.n_trajectories > 10
    assert "order of logging" in look.mean_interval.assumptions[0]


def test_the_training_log_in_memory_voids_the_guarantee() -> None:
    model, venv = logged_training()
    callback = watch(venv.trajectories, **KNOWN)
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model.learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])
    later = watch(venv.trajectories(), **KNOWN)
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model.learn(32, callback=later)
    assert not any(later.evaluations["guaranteed"])


def test_the_log_of_a_wrapped_single_environment_voids_the_guarantee(tmp_path: Path) -> None:
    env = ove.LogActionProbability(Tabular(), path=tmp_path)
    model = small_ppo(venv=DummyVecEnv([lambda: env]))
    env.set_model(model)
    callback = watch(tmp_path, **KNOWN)
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model.learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])


def adaptive(behavior: str | None) -> ove.Trajectories:
    data = log()
    return replace(data, metadata=replace(data.metadata, adaptive=True, behavior=behavior))


@pytest.mark.parametrize("behavior", ["PPO", None])
def test_a_log_of_learning_by_the_same_class_may_be_its_own(behavior: str | None) -> None:
    callback = watch(adaptive(behavior))
    with pytest.warns(ove.DependenceWarning, match="pass independent=True if"):
        small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])


def test_a_log_of_learning_by_others_is_adaptive_but_fair() -> None:
    for data, options in ((adaptive("DQN"), {}), (adaptive("PPO"), {"independent": True})):
        callback = watch(data, **options)
        small_ppo().learn(32, callback=callback)
        assert all(callback.evaluations["guaranteed"])
        assert callback.last_look is not None
        assert "order of logging" in callback.last_look.mean_interval.assumptions[0]


def test_episodes_that_ran_together_while_others_learned_are_heeded() -> None:
    data = adaptive("DQN")
    callback = watch(replace(data, overlaps=np.ones(len(data), dtype=int)))
    small_ppo().learn(32, callback=callback)
    assert all(callback.evaluations["guaranteed"])
    assert callback.last_look is not None
    assert "under way" in callback.last_look.variance_interval.assumptions[0]


def test_the_caller_may_know_that_the_model_depends_on_the_log() -> None:
    callback = watch(independent=False)
    with pytest.warns(ove.DependenceWarning):
        small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])


def test_the_warning_comes_once() -> None:
    callback = watch(independent=False)
    model = small_ppo()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(64, callback=callback)
        model.learn(64, callback=callback, reset_num_timesteps=False)
    assert [each.category for each in caught] == [ove.DependenceWarning]


def test_a_logged_training_judged_by_other_data_is_not_suspected(tmp_path: Path) -> None:
    model, _ = logged_training(tmp_path)
    callback = watch()
    model.learn(32, callback=callback)
    assert all(callback.evaluations["guaranteed"])


# --- what cannot be judged, and bad input


def test_weights_that_overflow_leave_the_trivial_bounds() -> None:
    n_steps = 600
    data = ove.Trajectories.from_arrays(
        observations=np.zeros(2 * n_steps, dtype=int),
        actions=np.arange(2 * n_steps) % 2,
        log_probs=np.full(2 * n_steps, -20.0),
        rewards=np.ones(2 * n_steps),
        lengths=[n_steps, n_steps],
    )
    callback = watch(data, reward_range=(0, 1), gamma=1.0, horizon=1000)
    with pytest.warns(ove.SupportWarning, match="overflow"):
        small_ppo().learn(32, callback=callback)
    look = callback.last_look
    assert look is not None
    assert (look.mean_interval.lower, look.mean_interval.upper) == (0.0, 1000.0)
    assert (look.variance_interval.lower, look.variance_interval.upper) == (0.0, 250_000.0)
    assert np.isnan([look.mean, look.variance, look.effective_sample_size]).all()
    assert look.guaranteed
    assert not look.mean_interval.informative


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": 3}, "`data` must be Trajectories, a function"),
        ({"data": log(5)[:1]}, "`data` must hold at least 2 episodes, got 1"),
        ({"eval_freq": 0}, "`eval_freq` must be an integer of at least 1, got 0"),
        ({"eval_freq": 10.5}, "`eval_freq` must be an integer"),
        ({"delta": 0.0}, "`delta` must lie in"),
        ({"delta": 1.0}, "`delta` must lie in"),
        ({"gamma": 1.5}, "`gamma` must lie in"),
        ({"horizon": 0}, "`horizon` must be an integer of at least 1"),
        ({"looks": "all"}, "`looks` must be one of 'spend', 'each', got 'all'"),
        ({"max_variance": -1.0}, "`max_variance` must lie in"),
        ({"min_mean": float("nan")}, "`min_mean` must lie in"),
        ({"min_mean": 0.0, "reward_range": "from_data"}, "must be stated for a gate"),
        ({"independent": "yes"}, "`independent` must be True, False or None, got 'yes'"),
    ],
)
def test_bad_arguments_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    options = {"data": log(5), **options}
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.OffPolicyVarianceCallback(**options)


def other_actions() -> ove.Trajectories:
    data = log()
    space = {"type": "Discrete", "n": 3, "start": 0}
    return replace(data, metadata=replace(data.metadata, action_space=space))


def no_range() -> ove.Trajectories:
    data = log()
    return replace(data, metadata=replace(data.metadata, reward_range=None))


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (other_actions(), {}, ove.InvalidInputError, "must have the action space of the log"),
        (no_range(), {}, ove.InvalidInputError, "`reward_range` .* must be given"),
        (log(), {"reward_range": (0, 1)}, ove.AssumptionError, "`reward_range` must"),
        (log(), {"horizon": 2}, ove.InvalidInputError, "`horizon` must be at least the longest"),
        (log(), {"max_ratio": 0.5}, ove.InvalidInputError, "`max_ratio` must"),
        ("/nowhere/at/all", {}, ove.StorageError, "must be a directory of logged episodes"),
    ],
)
def test_bad_data_are_refused_before_training(
    data: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = small_ppo()
    with pytest.raises(error, match=message):
        model.learn(64, callback=watch(data, eval_freq=1000, **options))
    assert model.num_timesteps == 0


def test_the_check_before_training_does_not_blame_two_short_episodes() -> None:
    data = log()
    short = np.flatnonzero((data.lengths == 1) & (np.asarray(data.actions)[data.starts] == 0))
    order = np.concatenate([short[:2], np.delete(np.arange(len(data)), short[:2])])
    callback = watch(data[order])  # the first two show only one action; a warning would raise
    small_ppo().learn(32, callback=callback)
    assert callback.n_looks == 2


def test_a_function_must_return_trajectories() -> None:
    with pytest.raises(
        ove.InvalidInputError, match="must return Trajectories when called, got int"
    ):
        small_ppo().learn(32, callback=watch(lambda: 3))


def test_a_ratio_above_the_stated_bound_is_an_error() -> None:
    with pytest.raises(ove.AssumptionError, match="`max_ratio` must be at least every logged"):
        small_ppo().learn(64, callback=watch(max_ratio=1.0001))


def test_a_file_of_other_origin_is_not_continued(tmp_path: Path) -> None:
    np.savez(tmp_path / "evaluations.npz", timesteps=[1], results=[[2.0]])
    model = small_ppo().learn(32)
    with pytest.raises(ove.StorageError, match="Choose another `log_path`"):
        model.learn(32, callback=watch(log_path=tmp_path), reset_num_timesteps=False)


def test_the_uniform_policy_is_the_behavior() -> None:
    # The log used throughout: exact probabilities, and more than one length of episodes.
    data = simulate(UNIFORM, 100, np.random.default_rng(0))
    assert np.allclose(data.log_probs, np.log(0.5))
    assert set(data.lengths) == {1, 2, 3, 4}
