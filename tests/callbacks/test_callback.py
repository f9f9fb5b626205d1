"""The callback in real training runs: reports, files, requirements, children, error spending."""

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
from ove_sb3._files import replacing
from ove_sb3.evaluation.error_budget import ErrorBudget
from tests.problems.three_states import (
    GAMMA,
    HORIZON,
    REWARD_RANGE,
    UNIFORM,
    ThreeStates,
    simulate,
    small_ppo,
)


def log(n: int = 2000, seed: int = 0) -> ove.Trajectories:
    return simulate(UNIFORM, n, np.random.default_rng(seed))


def make_callback(data: Any = None, **options: Any) -> ove.OffPolicyVarianceCallback:
    options = {"eval_freq": 32, "verbose": 0, **options}
    return ove.OffPolicyVarianceCallback(log() if data is None else data, **options)


def share(delta: float, k: int) -> float:
    """The delta of evaluation `k`."""
    return ErrorBudget(delta, evaluation=k).evaluation_delta


def statistics(model: Any, data: ove.Trajectories, **options: Any) -> ove.TrajectoryStatistics:
    log_ratios = ove.log_prob(model, data, **options) - data.log_probs
    return ove.trajectory_statistics(
        log_ratios, data.rewards, data.lengths, gamma=GAMMA, horizon=HORIZON
    )


class Spy(BaseCallback):
    """Keep a copy of the weights at every call."""

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


# --- evaluations


def test_an_evaluation_is_that_of_the_core_for_the_current_model() -> None:
    data = log()
    callback = make_callback(data, delta=0.1)
    model = small_ppo()
    model.learn(64, callback=callback)
    result = callback.last_evaluation
    assert result is not None
    stats = statistics(model, data)
    delta = 0.1 * 6 / (math.pi * 3) ** 2 / 2  # third evaluation; half each for mean and variance
    assert callback.evaluations["evaluation"][-1] == 3
    assert result.mean == ove.estimate_mean(stats)
    assert result.variance == ove.estimate_variance(stats)
    for name in ("mean", "variance", "std"):
        expected = ove.interval(stats, name, reward_range=REWARD_RANGE, delta=delta)
        interval = result[name].interval
        assert (interval.lower, interval.upper) == (expected.lower, expected.upper)
        assert interval.delta == pytest.approx(delta)
    assert result.diagnostics.effective_sample_size == ove.diagnose(stats).effective_sample_size
    assert result["mean"].behavior == pytest.approx(data.returns(GAMMA).mean())
    assert result["variance"].behavior == pytest.approx(data.returns(GAMMA).var(ddof=1))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_ratio": 16.0, "return_range": (-3.0, 3.0)},
        {"method": "paper", "approximate": "bootstrap"},
        {"quantities": ["mean", "variance"], "estimators": {"variance": "pair"}},
    ],
    ids=["defaults", "assumptions", "methods", "quantities"],
)
def test_an_evaluation_is_that_of_evaluate(options: dict[str, Any]) -> None:
    data, model = log(), small_ppo()
    callback = make_callback(data, error_spending="each", delta=0.1, **options)
    model.learn(32, callback=callback)
    options = {"approximate": None, "quantities": ["mean", "variance", "std"], **options}
    expected = ove.evaluate(data, model, gamma=GAMMA, delta=0.1, simultaneous=True, **options)
    assert callback.last_evaluation is not None
    assert callback.last_evaluation.to_dict() == expected.to_dict()
    assert str(callback.last_evaluation) == str(expected)


def test_gamma_horizon_and_ranges_can_be_stated() -> None:
    data = log()
    callback = make_callback(
        data, gamma=1.0, horizon=7, reward_range=(-2, 2), return_range=(-4, 4), max_weight=16
    )
    small_ppo().learn(32, callback=callback)
    result = callback.last_evaluation
    assert result is not None
    assert result["mean"].behavior == pytest.approx(data.returns(1.0).mean())
    assert result["mean"].interval.a_priori == (-4.0, 4.0)
    stated = " ".join(result["variance"].interval.assumptions)
    assert "at most 7 steps" in stated
    assert "weight exceeds 16" in stated
    assert "rewards lie in [-2, 2]" in stated


def test_the_reward_range_of_the_log_holds_beside_a_stated_return_range() -> None:
    callback = make_callback(return_range=(-4, 4))
    small_ppo().learn(32, callback=callback)
    assert callback.last_evaluation is not None
    stated = callback.last_evaluation["mean"].interval.assumptions
    assert "rewards lie in [-1, 1]" in stated
    assert "returns lie in [-4, 4]" in stated


def test_quantities_are_those_asked_for_the_mean_and_those_of_requirements() -> None:
    callback = make_callback(quantities=["std"], requirements=["variance <= 3"])
    small_ppo().learn(32, callback=callback)
    assert callback.last_evaluation is not None
    assert list(callback.last_evaluation.quantities) == ["std", "mean", "variance"]
    rows = callback.evaluations
    assert rows["std_upper"] == pytest.approx(np.sqrt(rows["variance_upper"]))
    assert callback.best_mean_reward == rows["mean_lower"].max()
    only = make_callback(quantities=["mean"])
    small_ppo().learn(32, callback=only)
    assert "variance" not in only.evaluations
    # The mean alone has all of delta.
    assert only.last_evaluation is not None
    assert only.last_evaluation["mean"].interval.delta == pytest.approx(share(0.05, 2))


def test_a_deterministic_candidate_is_evaluated_as_such() -> None:
    data = log()
    callback = make_callback(data, deterministic=True)
    model = small_ppo()
    model.learn(32, callback=callback)
    chosen, _ = model.predict(np.arange(3), deterministic=True)
    returns, weights = data.returns(GAMMA), np.ones(len(data))
    agree = np.equal(np.asarray(data.actions), chosen[np.asarray(data.observations)])
    weights = np.multiply.reduceat(2.0 * agree, data.starts)
    result = callback.last_evaluation
    assert result is not None
    ess = weights.sum() ** 2 / (weights @ weights)
    assert result.diagnostics.effective_sample_size == pytest.approx(ess)
    assert abs(result.mean - (weights * returns).mean()) < 0.1


# --- error spending


def test_the_shares_of_all_evaluations_add_up_to_delta() -> None:
    shares = [share(0.05, k) for k in range(1, 200_001)]
    assert shares[0] == pytest.approx(0.05 * 6 / math.pi**2)
    assert sum(shares) < 0.05
    assert sum(shares) == pytest.approx(0.05, rel=1e-4)


def test_spending_continues_over_several_calls_of_learn() -> None:
    callback = make_callback(delta=0.2)
    model = small_ppo()
    model.learn(64, callback=callback)
    assert callback.n_evaluations == 3
    model.learn(64, callback=callback, reset_num_timesteps=False)
    assert callback.evaluations["evaluation"].tolist() == [1, 2, 3, 4, 5, 6]
    assert callback.evaluations_timesteps == [32, 64, 64, 96, 128, 128]
    expected = [share(0.2, k) for k in range(1, 7)]
    assert callback.evaluations["delta"] == pytest.approx(expected)


def test_spending_continues_in_another_process_with_the_loaded_model(tmp_path: Path) -> None:
    first = make_callback(log_path=tmp_path / "log")
    model = small_ppo()
    model.learn(64, callback=first)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model", env=DummyVecEnv([ThreeStates]), device="cpu")
    second = make_callback(log_path=tmp_path / "log")
    loaded.learn(32, callback=second, reset_num_timesteps=False)
    assert second.evaluations["evaluation"].tolist() == [1, 2, 3, 4, 5]
    assert (second.evaluations["mean_lower"][:3] == first.evaluations["mean_lower"]).all()
    assert second.evaluations["delta"][3] == pytest.approx(share(0.05, 4))
    assert second.best_mean_reward == max(second.evaluations["mean_lower"])
    fresh = make_callback(log_path=tmp_path / "log")
    small_ppo().learn(32, callback=fresh)  # a new run starts a new count
    assert fresh.evaluations["evaluation"].tolist() == [1, 2]


def test_the_scope_of_the_bounds_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    callback = make_callback(error_spending="each", delta=0.1, verbose=1)
    small_ppo().learn(32, callback=callback)
    assert callback.evaluations["delta"].tolist() == [0.1, 0.1]
    assert "(90% guaranteed, each evaluation; ESS" in capsys.readouterr().out
    small_ppo().learn(32, callback=make_callback(verbose=1))
    assert "(95% guaranteed, all evaluations; ESS" in capsys.readouterr().out


def test_the_final_model_is_evaluated_once() -> None:
    callback = make_callback(eval_freq=48)
    model = small_ppo()
    model.learn(64, callback=callback)
    assert callback.evaluations_timesteps == [48, 64]
    callback.on_training_end()
    assert callback.n_evaluations == 2  # nothing has changed since


# --- reports and files


def test_the_logger_records_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small_ppo()
    model.set_logger(configure(str(tmp_path), ["stdout", "csv", "tensorboard"]))
    callback = make_callback(requirements=["variance <= 1", "mean >= -0.5"])
    model.learn(64, callback=callback)
    model.logger.close()
    hidden = {"timesteps", "behavior_mean", "behavior_variance", "behavior_std"}
    names = set(callback.evaluations) - hidden
    assert len(names) == 15
    with (tmp_path / "progress.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["ove/evaluation"]]
    assert [int(row["time/total_timesteps"]) for row in rows] == [32, 64, 64]
    for name in names:
        values = [float(row[f"ove/{name}"]) for row in rows]
        assert values == pytest.approx([float(x) for x in callback.evaluations[name]]), name
    assert "variance_upper" in capsys.readouterr().out

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path), size_guidance={"images": 0})
    events.Reload()
    assert {f"ove/{name}" for name in names} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("ove/variance_upper")] == [32, 64]
    assert [event.step for event in events.Images("ove/bounds")] == [32, 64, 64]
    assert events.Images("ove/bounds")[0].width > 400
    assert [event.step for event in events.Images("ove/distribution")] == [32, 64, 64]


def test_evaluations_are_written_every_time(tmp_path: Path) -> None:
    class Reader(BaseCallback):
        sizes: list[int] = []  # noqa: RUF012

        def _on_step(self) -> bool:
            with np.load(tmp_path / "evaluations.npz") as file:
                self.sizes.append(file["timesteps"].size)
            return True

    reader = Reader()
    callback = make_callback(log_path=tmp_path, callback_after_eval=reader)
    small_ppo().learn(64, callback=callback)
    assert reader.sizes == [1, 2, 3]
    with np.load(tmp_path / "evaluations.npz") as file:
        assert set(file) == set(callback.evaluations)
        for name, values in callback.evaluations.items():
            assert file[name].tolist() == values.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["evaluations.npz"]


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "evaluations.npz"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# --- requirements and the best model


def test_requirements_are_decided_by_one_sided_bounds_with_the_whole_share() -> None:
    data, model = log(), small_ppo()
    # A limit that the one-sided bound proves and the two-sided interval does not.
    callback = make_callback(data, delta=0.1)
    model.learn(32, callback=callback)
    stats, known = statistics(model, data), {"reward_range": REWARD_RANGE, "delta": share(0.1, 2)}
    upper = ove.variance_interval(stats, side="upper", **known).upper  # type: ignore[arg-type]
    lower = ove.mean_interval(stats, side="lower", **known).lower  # type: ignore[arg-type]
    rows = callback.evaluations
    assert upper < rows["variance_upper"][-1] - 1e-3
    assert lower > rows["mean_lower"][-1] + 1e-3
    requirements = [f"variance <= {upper + 1e-6:.6f}", f"mean >= {lower - 1e-6:.6f}"]
    decided = make_callback(data, delta=0.1, requirements=requirements)
    small_ppo().learn(32, callback=decided)
    assert [verdict.status for verdict in decided.last_verdicts] == ["proven", "proven"]
    assert decided.satisfied
    assert decided.last_evaluation is not None
    assert decided.last_evaluation.satisfies(*requirements)
    stricter = [f"variance <= {upper - 1e-5:.6f}", f"mean >= {lower - 1e-6:.6f}"]
    missed = make_callback(data, delta=0.1, requirements=stricter)
    small_ppo().learn(32, callback=missed)
    assert [verdict.status for verdict in missed.last_verdicts] == ["undecided", "proven"]
    assert not missed.satisfied


def test_the_best_model_that_satisfies_the_requirements_is_saved(tmp_path: Path) -> None:
    spy, every, verdicts = Spy(), Spy(), Verdicts()
    callback = make_callback(
        best_model_save_path=tmp_path,
        requirements=["mean >= -0.2", "variance <= 1.2"],
        callback_on_new_best=spy,
        callback_after_eval=CallbackList([every, verdicts]),
    )
    verdicts.callback = callback
    model = small_ppo()
    model.learn(256, callback=callback)
    rows = callback.evaluations
    satisfied = np.array([all(verdict.proven for verdict in both) for both in verdicts.seen])
    assert rows["satisfied"].tolist() == satisfied.tolist()
    two_sided = (rows["mean_lower"] >= -0.2) & (rows["variance_upper"] <= 1.2)
    assert not (two_sided & ~satisfied).any(), "narrower one-sided bounds prove at least as much"
    assert 0 < satisfied.sum() < satisfied.size, "a test without power"
    best = int(np.where(satisfied, rows["mean_lower"], -np.inf).argmax())
    assert best < np.argmax(rows["mean_lower"]), "the best model must not satisfy them"
    assert callback.best_mean_reward == rows["mean_lower"][best]
    assert callback.last_mean_reward == rows["mean_lower"][-1]
    saved = PPO.load(tmp_path / "best_model", device="cpu")
    assert same(weights_of(saved), every.weights[best])
    assert same(spy.weights[-1], every.weights[best])
    assert (spy.started, every.started) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["best_model.zip"]


class Verdicts(BaseCallback):
    """Keep the verdicts of every evaluation."""

    callback: ove.OffPolicyVarianceCallback

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[ove.Verdict, ...]] = []

    def _on_step(self) -> bool:
        self.seen.append(self.callback.last_verdicts)
        return True


def test_no_model_is_saved_if_none_satisfies_the_requirements(tmp_path: Path) -> None:
    callback = make_callback(best_model_save_path=tmp_path, requirements=["variance <= 0.01"])
    small_ppo().learn(32, callback=callback)
    assert not any(callback.evaluations["satisfied"])
    assert [verdict.status for verdict in callback.last_verdicts] == ["refuted"]
    assert callback.best_mean_reward == -np.inf
    assert not list(tmp_path.iterdir())


def test_without_requirements_the_best_has_the_highest_lower_bound(tmp_path: Path) -> None:
    every = Spy()
    callback = make_callback(best_model_save_path=tmp_path, callback_after_eval=every)
    assert not callback.satisfied  # nothing is evaluated yet
    small_ppo().learn(128, callback=callback)
    assert callback.satisfied
    best = int(np.argmax(callback.evaluations["mean_lower"]))
    saved = PPO.load(tmp_path / "best_model", device="cpu")
    assert same(weights_of(saved), every.weights[best])


def test_normalized_observations_are_used_and_saved(tmp_path: Path) -> None:
    # As a Box: a Discrete observation is not normalized.
    venv = VecNormalize(DummyVecEnv([_Boxed]), gamma=GAMMA)
    model = small_ppo(venv=venv)
    data = ove.collect(ove.UniformPolicy(venv.action_space), _Boxed(), 500, seed=0)
    callback = make_callback(
        data, best_model_save_path=tmp_path, reward_range=REWARD_RANGE, horizon=HORIZON
    )
    model.learn(64, callback=callback)
    stats = statistics(model, data, vec_normalize=venv)
    assert callback.last_evaluation is not None
    assert callback.last_evaluation.mean == ove.estimate_mean(stats, estimator="crossfit")
    restored = VecNormalize.load(
        str(tmp_path / "best_model_vecnormalize.pkl"), DummyVecEnv([_Boxed])
    )
    assert restored.obs_rms.count > 32  # type: ignore[attr-defined]


class _Boxed(ThreeStates):
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


def test_child_callbacks_of_sb3_read_the_guaranteed_bounds() -> None:
    stop = StopTrainingOnRewardThreshold(reward_threshold=-0.1)
    callback = make_callback(callback_on_new_best=stop)
    model = small_ppo()
    model.learn(1000, callback=callback)
    lower = callback.evaluations["mean_lower"]
    assert lower[-1] >= -0.1 > max(lower[:-1])
    assert model.num_timesteps < 1000
    steps = callback.evaluations_timesteps
    assert steps[-1] > steps[-2]  # no model is evaluated twice

    patience = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1)
    callback = make_callback(requirements=["mean >= 100"], callback_after_eval=patience)
    model = small_ppo()
    model.learn(1000, callback=callback)
    assert model.num_timesteps < 1000


def test_training_stops_once_the_requirements_are_proven(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop = ove.StopTrainingOnRequirements(verbose=1)
    requirements = ["variance <= 0.9", "mean >= -0.2"]
    callback = make_callback(log(20_000), requirements=requirements, callback_after_eval=stop)
    model = small_ppo()
    model.learn(1000, callback=callback)
    assert model.num_timesteps < 1000
    expected = [False] * (callback.n_evaluations - 1) + [True]
    assert callback.evaluations["satisfied"].tolist() == expected
    assert callback.n_evaluations > 1
    printed = capsys.readouterr().out
    assert f"Stopping training at num_timesteps={model.num_timesteps}. " in printed
    assert "variance <= 0.9: proven. The " in printed


def test_the_stop_may_have_requirements_of_its_own() -> None:
    stop = ove.StopTrainingOnRequirements(["variance <= 1.1"])
    callback = make_callback(callback_after_eval=stop)
    model = small_ppo()
    model.learn(1000, callback=callback)
    assert callback.last_evaluation is not None
    assert callback.last_evaluation.satisfies("variance <= 1.1")
    assert model.num_timesteps == 32


def test_the_stop_refuses_a_wrong_parent_and_missing_requirements() -> None:
    with pytest.raises(ove.InvalidInputError, match="must be a child of OffPolicyVariance"):
        small_ppo().learn(32, callback=ove.StopTrainingOnRequirements(["variance <= 1"]))
    callback = make_callback(callback_after_eval=ove.StopTrainingOnRequirements())
    with pytest.raises(ove.InvalidInputError, match="Without them training would stop"):
        small_ppo().learn(32, callback=callback)


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_it_works_in_a_list_and_under_a_progress_bar() -> None:
    spy, callback = Spy(), make_callback()
    small_ppo().learn(64, callback=CallbackList([spy, callback]), progress_bar=True)
    assert callback.n_evaluations == 3
    assert len(spy.weights) == 64


def test_several_environments_count_calls_as_eval_callback_does() -> None:
    callback = make_callback(eval_freq=16)
    small_ppo(venv=DummyVecEnv([ThreeStates] * 2), n_steps=16).learn(64, callback=callback)
    assert callback.evaluations_timesteps == [32, 64, 64]
