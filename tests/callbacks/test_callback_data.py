"""Data of the callback: growing logs, logs of the model's own training, invalid input."""

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
from ove_sb3.data.log import DiskPart
from tests.problems.corridor import with_unfinished
from tests.problems.three_states import (
    HORIZON,
    REWARD_RANGE,
    UNIFORM,
    ThreeStates,
    simulate,
    small_ppo,
)

from .test_callback import log, make_callback

KNOWN: dict[str, Any] = {"reward_range": REWARD_RANGE, "horizon": HORIZON}


# --- growing logs


class Grow(BaseCallback):
    """Add to a log as another process would."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def _on_step(self) -> bool:
        if self.n_calls % 32 == 16:
            writer = ove.EpisodeWriter(self.path, log(2).metadata)
            writer.add(log(100, seed=self.n_calls))
            writer.close()
        return True


def test_a_directory_is_read_at_every_evaluation(tmp_path: Path) -> None:
    log(50).save(tmp_path)
    callback = make_callback(tmp_path)
    small_ppo().learn(64, callback=[Grow(tmp_path), callback])
    assert callback.evaluations["n_trajectories"].tolist() == [150, 250, 250]
    assert all(callback.evaluations["guaranteed"])


def test_a_directory_may_be_empty_at_first(tmp_path: Path) -> None:
    writer = ove.EpisodeWriter(tmp_path, log(2).metadata)
    callback = make_callback(str(tmp_path), eval_freq=8)
    with pytest.warns(ove.OveWarning, match="got 0 at 8 timesteps: this evaluation is left"):
        small_ppo().learn(32, callback=[Grow(tmp_path), callback])
    assert callback.evaluations_timesteps == [16, 24, 32, 32]
    # A skipped evaluation spends no error probability.
    assert callback.evaluations["evaluation"].tolist() == [1, 2, 3, 4]
    writer.close()


def test_a_function_is_called_at_every_evaluation() -> None:
    sizes = iter([10, 20, 30])
    callback = make_callback(lambda: log(next(sizes)))
    small_ppo().learn(64, callback=callback)
    assert callback.evaluations["n_trajectories"].tolist() == [10, 20, 30]


def test_a_log_on_disk_is_streamed_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = log(500)
    data.save(tmp_path)

    def refuse(*_: Any) -> ove.Trajectories:
        raise AssertionError("the whole log was loaded")

    results = []
    for source in (data, tmp_path, ove.open_log(tmp_path)):
        with monkeypatch.context() as patched:
            patched.setattr(ove.Log, "load", refuse)
            patched.setattr(ove.Trajectories, "load", refuse)
            callback = make_callback(source)
            small_ppo().learn(32, callback=callback)
        assert callback.last_evaluation is not None
        results.append(callback.last_evaluation.to_dict())
    assert results[0] == results[1] == results[2]


def test_an_opened_log_does_not_grow(tmp_path: Path) -> None:
    log(50).save(tmp_path)
    callback = make_callback(ove.open_log(tmp_path))
    small_ppo().learn(64, callback=[Grow(tmp_path), callback])
    assert callback.evaluations["n_trajectories"].tolist() == [50, 50, 50]


def test_a_log_on_disk_is_opened_again_if_a_file_was_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(50).save(tmp_path)
    open_files, failures = DiskPart.windows, iter([True, False, True, False, False])

    def fail_at_first(self: DiskPart, width: int) -> Any:
        if next(failures, False):
            raise FileNotFoundError("renamed by its writer")
        return open_files(self, width)

    monkeypatch.setattr(DiskPart, "windows", fail_at_first)
    callback = make_callback(tmp_path)
    small_ppo().learn(32, callback=callback)
    assert callback.evaluations["n_trajectories"].tolist() == [50, 50]


def test_a_file_that_is_never_found_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(50).save(tmp_path)

    def fail(self: DiskPart, width: int) -> Any:
        raise FileNotFoundError("gone")

    monkeypatch.setattr(DiskPart, "windows", fail)
    with pytest.raises(FileNotFoundError, match="gone"):
        small_ppo().learn(32, callback=make_callback(tmp_path))


def test_a_fresh_log_of_the_model_itself_keeps_the_guarantee() -> None:
    model = small_ppo()
    callback = make_callback(
        lambda: ove.collect(model, ThreeStates(), 50, seed=model.num_timesteps), **KNOWN
    )
    model.learn(32, callback=callback)
    assert all(callback.evaluations["guaranteed"])
    assert callback.evaluations["ess"] == pytest.approx([50.0, 50.0])


# --- the model's own log


def logged_training(path: Path | None = None) -> tuple[Any, ove.VecLogActionProbability]:
    venv = ove.VecLogActionProbability(DummyVecEnv([ThreeStates]), path=path)
    model = small_ppo(venv=venv)
    venv.set_model(model)
    return model, venv


def test_the_directory_of_the_training_log_voids_the_guarantee(tmp_path: Path) -> None:
    model, _ = logged_training(tmp_path / "log")
    callback = make_callback(
        tmp_path / "log",
        requirements=["variance <= 100"],
        best_model_save_path=tmp_path / "best",
        **KNOWN,
    )
    with pytest.warns(ove.DependenceWarning, match=r"labeled approximate and prove no require"):
        model.learn(64, callback=callback)
    assert callback.n_evaluations == 3
    assert not any(callback.evaluations["guaranteed"])
    assert not any(callback.evaluations["satisfied"])
    assert not list((tmp_path / "best").iterdir())
    result = callback.last_evaluation
    assert result is not None
    assert "approximate" in str(result["variance"].interval)
    assert "trained on these trajectories" in result["mean"].interval.assumptions[-1]
    assert "trained on these trajectories" in callback.last_verdicts[0].reason
    # Flushed for every evaluation, whatever `flush_every` is; and in the order of logging.
    assert result.n_trajectories > 10
    assert "order of logging" in result["mean"].interval.assumptions[0]


def test_the_training_log_in_memory_voids_the_guarantee() -> None:
    model, venv = logged_training()
    callback = make_callback(venv.trajectories, **KNOWN)
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model.learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])
    later = make_callback(venv.trajectories(), **KNOWN)
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model.learn(32, callback=later)
    assert not any(later.evaluations["guaranteed"])


def test_the_log_of_a_wrapped_single_environment_voids_the_guarantee(tmp_path: Path) -> None:
    env = ove.LogActionProbability(ThreeStates(), path=tmp_path)
    model = small_ppo(venv=DummyVecEnv([lambda: env]))
    env.set_model(model)
    callback = make_callback(tmp_path, **KNOWN)
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model.learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])


def adaptive(behavior: str | None, log_ids: tuple[str, ...] = ("a run",)) -> ove.Trajectories:
    data = log()
    metadata = replace(data.metadata, adaptive=True, behavior=behavior, log_ids=log_ids)
    return replace(data, metadata=metadata)


@pytest.mark.parametrize("behavior", ["PPO", None])
def test_a_log_of_learning_by_the_same_class_may_be_its_own(behavior: str | None) -> None:
    callback = make_callback(adaptive(behavior))
    with pytest.warns(ove.DependenceWarning, match="pass independent=True if"):
        small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])


def test_data_of_learning_that_were_not_logged_by_this_package() -> None:
    data = adaptive("DQN", log().metadata.log_ids)
    assert data.metadata.log_ids[0].startswith("data-")
    callback = make_callback(data)
    small_ppo().learn(32, callback=callback)
    assert callback.last_evaluation is not None
    assert "did not learn from it" in callback.last_evaluation["mean"].interval.reasons[0]


def test_a_log_of_learning_by_others_keeps_the_guarantee() -> None:
    unmarked = adaptive("PPO", log().metadata.log_ids)
    stated = {"independent": True}
    for data, options in ((adaptive("DQN"), {}), (adaptive("PPO"), stated), (unmarked, stated)):
        callback = make_callback(data, **options)
        small_ppo().learn(32, callback=callback)
        assert all(callback.evaluations["guaranteed"])
        assert callback.last_evaluation is not None
        assumptions = callback.last_evaluation["mean"].interval.assumptions
        assert "order of logging" in assumptions[0]


def test_episodes_that_overlap_while_others_learn_keep_the_guarantee() -> None:
    data = adaptive("DQN")
    callback = make_callback(replace(data, overlaps=np.ones(len(data), dtype=int)))
    small_ppo().learn(32, callback=callback)
    assert all(callback.evaluations["guaranteed"])
    assert callback.last_evaluation is not None
    assumptions = callback.last_evaluation["variance"].interval.assumptions
    assert "ended while another was running" in assumptions[0]


def test_the_caller_may_state_that_the_model_depends_on_the_log() -> None:
    callback = make_callback(independent=False)
    with pytest.warns(ove.DependenceWarning):
        small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])


def test_the_warning_comes_once() -> None:
    callback = make_callback(independent=False)
    model = small_ppo()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(64, callback=callback)
        model.learn(64, callback=callback, reset_num_timesteps=False)
    assert [entry.category for entry in caught] == [ove.DependenceWarning]


def test_a_logged_training_may_be_evaluated_from_other_data(tmp_path: Path) -> None:
    model, _ = logged_training(tmp_path)
    callback = make_callback()
    model.learn(32, callback=callback)
    assert all(callback.evaluations["guaranteed"])


# --- logs without information, and invalid input


def test_weights_that_overflow_leave_the_a_priori_range() -> None:
    n_steps = 600
    data = ove.Trajectories.from_arrays(
        observations=np.zeros(2 * n_steps, dtype=int),
        actions=np.arange(2 * n_steps) % 2,
        log_probs=np.full(2 * n_steps, -20.0),
        rewards=np.ones(2 * n_steps),
        lengths=[n_steps, n_steps],
    )
    requirements = ["variance <= 1000"]
    callback = make_callback(
        data, reward_range=(0, 1), gamma=1.0, horizon=1000, requirements=requirements
    )
    with pytest.warns(ove.SupportWarning, match="no tighter than the a priori bound.*overflow"):
        small_ppo().learn(32, callback=callback)
    result = callback.last_evaluation
    assert result is not None
    mean, variance = result["mean"].interval, result["variance"].interval
    assert (mean.lower, mean.upper) == (0.0, 1000.0)
    assert (variance.lower, variance.upper) == (0.0, 250_000.0)
    ess = result.diagnostics.effective_sample_size
    assert np.isnan([result.mean, result.variance, ess]).all()
    assert result.guaranteed
    assert not mean.informative
    assert [verdict.status for verdict in callback.last_verdicts] == ["undecided"]
    assert not callback.satisfied


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": 3}, "`data` must be Trajectories, a log opened by open_log, a function"),
        ({"data": log(5)[:1]}, "`data` must hold at least 2 episodes, got 1"),
        ({"eval_freq": 0}, "`eval_freq` must be an integer of at least 1, got 0"),
        ({"eval_freq": 10.5}, "`eval_freq` must be an integer"),
        ({"delta": 0.0}, "`delta` must lie in"),
        ({"delta": 1.0}, "`delta` must lie in"),
        ({"gamma": 1.5}, "`gamma` must lie in"),
        ({"horizon": 0}, "`horizon` must be an integer of at least 1"),
        (
            {"error_spending": "all"},
            "`error_spending` must be one of 'spend', 'each', 'anytime', got 'all'",
        ),
        ({"requirements": "variance <= 1"}, "`requirements` must be a sequence of expressions"),
        ({"requirements": ["variance 1"]}, "must be a quantity, one of <=, >=, < and >, and a"),
        ({"requirements": ["mean >= nan"]}, "must end in a finite number, got 'nan'"),
        ({"requirements": ["spread <= 1"]}, "`quantity` must be one of .*, got 'spread'"),
        (
            {"requirements": ["mean >= 0"], "reward_range": "from_data"},
            "must be stated for requirements",
        ),
        ({"quantities": "mean"}, "`quantities` must be a sequence"),
        ({"method": "magic"}, "`method` must be one of"),
        ({"approximate": 3}, "`method` must be a method"),
        ({"independent": "yes"}, "`independent` must be True, False or None, got 'yes'"),
    ],
)
def test_bad_arguments_are_refused_on_construction(options: dict[str, Any], message: str) -> None:
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
        (log(), {"horizon": 2}, ove.InvalidInputError, "`horizon` must be at least"),
        (log(), {"max_ratio": 0.5}, ove.InvalidInputError, "`max_ratio` must"),
        ("/nowhere/at/all", {}, ove.StorageError, "must be a directory of logged episodes"),
    ],
)
def test_bad_data_are_refused_before_training(
    data: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = small_ppo()
    with pytest.raises(error, match=message):
        model.learn(64, callback=make_callback(data, eval_freq=1000, **options))
    assert model.num_timesteps == 0


def test_the_check_before_training_accepts_two_short_episodes() -> None:
    data = log()
    short = np.flatnonzero((data.lengths == 1) & (np.asarray(data.actions)[data.starts] == 0))
    order = np.concatenate([short[:2], np.delete(np.arange(len(data)), short[:2])])
    # The first two episodes show only one action; a warning would raise.
    callback = make_callback(data[order])
    small_ppo().learn(32, callback=callback)
    assert callback.n_evaluations == 2


def test_a_function_must_return_trajectories() -> None:
    with pytest.raises(
        ove.InvalidInputError, match="must return Trajectories when called, got int"
    ):
        small_ppo().learn(32, callback=make_callback(lambda: 3))


def test_a_ratio_above_the_stated_bound_is_an_error() -> None:
    with pytest.raises(ove.AssumptionError, match="`max_ratio` must be at least every ratio"):
        small_ppo().learn(64, callback=make_callback(max_ratio=1.0001))


def test_a_file_of_other_origin_is_not_continued(tmp_path: Path) -> None:
    np.savez(tmp_path / "evaluations.npz", timesteps=[1], results=[[2.0]])
    model = small_ppo().learn(32)
    with pytest.raises(ove.StorageError, match="Choose another `log_path`"):
        model.learn(32, callback=make_callback(log_path=tmp_path), reset_num_timesteps=False)


def test_the_uniform_policy_is_the_behavior() -> None:
    # The log used in this file: exact probabilities, and episodes of different lengths.
    data = simulate(UNIFORM, 100, np.random.default_rng(0))
    assert np.allclose(data.log_probs, np.log(0.5))
    assert set(data.lengths) == {1, 2, 3, 4}


def test_episodes_that_were_cut_off_are_refused() -> None:
    data = log()
    cut = replace(
        data,
        terminated=np.zeros(len(data), bool),
        truncated=np.ones(len(data), bool),
        metadata=replace(data.metadata, horizon=None),
    )
    with pytest.raises(ove.InvalidInputError, match="complete episodes"):
        small_ppo().learn(32, callback=make_callback(cut))


def test_wrong_probabilities_leave_the_a_priori_range() -> None:
    data = log()
    wrong = replace(data, log_probs=data.log_probs - 0.5)
    callback = make_callback(wrong)
    with pytest.warns(ove.SupportWarning, match="must be 1 on average"):
        small_ppo().learn(32, callback=callback)
    assert callback.last_evaluation is not None
    interval = callback.last_evaluation["variance"].interval
    assert (interval.lower, interval.upper) == interval.a_priori


def test_episodes_that_never_ended_widen_the_bounds() -> None:
    data = log()
    lacking = with_unfinished(data, len(data))
    assert lacking.metadata.incomplete_fraction == 0.5
    widths = []
    for one in (data, lacking):
        callback = make_callback(one)
        small_ppo().learn(32, callback=callback)
        assert callback.last_evaluation is not None
        interval = callback.last_evaluation["mean"].interval
        assert interval.guaranteed
        widths.append(interval.width)
    assert widths[1] > widths[0]


def test_a_range_from_the_data_makes_the_bounds_approximate() -> None:
    callback = make_callback(reward_range="from_data")
    small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["guaranteed"])
    assert callback.last_evaluation is not None
    reasons = callback.last_evaluation["mean"].interval.reasons
    assert "the range of rewards was taken from the data" in reasons[0]
