"""The callback and `evaluate` give the same answer: intervals, labels, warnings, refusals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3.core.quantities import MOMENTS
from tests.problems.corridor import GAMMA, REWARD_RANGE, make_env, with_unfinished

from .same import same_fields

Answer = dict[str, Any] | tuple[type[Exception], str]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def trained(callback: ove.OffPolicyVarianceCallback) -> PPO:
    """PPO after one update, evaluated once, at the end."""
    model = PPO(
        "MlpPolicy",
        make_env(),
        seed=3,
        gamma=GAMMA,
        n_steps=64,
        batch_size=64,
        device="cpu",
        policy_kwargs={"net_arch": [8]},
    )
    return model.learn(64, callback=callback)


def answer_of(result: ove.Evaluation) -> dict[str, Any]:
    return {
        "estimates": {name: one.estimate for name, one in result.quantities.items()},
        "intervals": {name: one.interval for name, one in result.quantities.items()},
        "warnings": result.warnings,
        "halve": result.episodes_to_halve,
        "diagnostics": result.diagnostics,
        "verdicts": result.check_all("variance <= 1.5", "mean >= -1"),
    }


def through_callback(data: Any, **options: Any) -> tuple[Answer, PPO | None]:
    options = {"error_spending": "each", "eval_freq": 10_000, "verbose": 0, **options}
    callback = ove.OffPolicyVarianceCallback(data, **options)
    try:
        model = trained(callback)
    except ove.OveError as error:
        return (type(error), str(error)), None
    assert callback.last_evaluation is not None
    assert callback.n_evaluations == 1
    return answer_of(callback.last_evaluation), model


def through_evaluate(data: Any, model: PPO, **options: Any) -> Answer:
    options = {"quantities": MOMENTS, "simultaneous": True, "gamma": GAMMA, **options}
    options = {"approximate": None, **options}
    try:
        return answer_of(ove.evaluate(data, model, **options))
    except ove.OveError as error:
        return type(error), str(error)


def with_metadata(data: ove.Trajectories, **changes: Any) -> ove.Trajectories:
    return replace(data, metadata=replace(data.metadata, **changes))


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "delta": {"delta": 0.3},
    "stated reward range": {"reward_range": (-1.5, 2.5)},
    "narrow reward range": {"reward_range": (-0.5, 2.0)},
    "range from the data": {"reward_range": "from_data"},
    "return range beside the log's reward range": {"return_range": (-4.0, 4.5)},
    "return range that is too narrow": {"return_range": (0.0, 0.1)},
    "horizon": {"horizon": 9},
    "horizon below the longest episode": {"horizon": 3},
    "gamma": {"gamma": 1.0},
    "max_ratio": {"max_ratio": 8.0},
    "max_ratio below a logged ratio": {"max_ratio": 1.001},
    "max_weight": {"max_weight": 300.0},
    "max_weight below 1": {"max_weight": 0.5},
    "paper": {"method": "paper"},
    "normal": {"method": "normal"},
    "bootstrap beside": {"approximate": "bootstrap"},
    "quantities": {"quantities": ["std", "mean"]},
    "estimators": {"estimators": {"variance": "pair", "mean": "pdis"}},
    "unknown estimator": {"estimators": {"variance": "pdis"}},
    "deterministic": {"deterministic": True},
}


def check(answer: Answer, expected: Answer) -> None:
    if isinstance(expected, tuple):
        assert answer == expected
        return
    assert isinstance(answer, dict)
    for key, value in expected.items():
        if key == "estimates":
            np.testing.assert_equal(answer[key], value)  # NaN equals NaN
        elif key == "diagnostics":
            same_fields(answer[key], value)
        else:
            assert answer[key] == value, key


@pytest.mark.parametrize("name", OPTIONS)
def test_options(data: ove.Trajectories, name: str) -> None:
    options = OPTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ove.SupportWarning)
        try:
            answer, model = through_callback(data, **options)
        except ove.InvalidInputError as error:  # refused on construction
            answer, model = (type(error), str(error)), None
        expected = through_evaluate(data, model or reference(data), **options)
    check(answer, expected)


def reference(data: ove.Trajectories) -> PPO:
    """The model that a callback without options evaluates."""
    return trained(
        ove.OffPolicyVarianceCallback(data, error_spending="each", eval_freq=10_000, verbose=0)
    )


def logs(data: ove.Trajectories) -> dict[str, ove.Trajectories]:
    cut = replace(data, terminated=np.zeros(len(data), bool), truncated=np.ones(len(data), bool))
    return {
        "few": data[:12],
        "incomplete below 1%": with_unfinished(data, 2),
        "incomplete 10%": with_unfinished(data, 67),
        "incomplete 60%": with_unfinished(data, 900),
        "order of beginning unknown": replace(with_unfinished(data, 2), begins=None),
        "adaptive, by another class": with_metadata(data, adaptive=True, behavior="DQN"),
        "no reward range": with_metadata(data, reward_range=None),
        "no horizon": with_metadata(data, horizon=None),
        "cut off": with_metadata(cut, horizon=50),
        "another action space": with_metadata(
            data, action_space={"type": "Discrete", "n": 3, "start": 0}
        ),
        "wrong probabilities": replace(data, log_probs=data.log_probs - 1.0),
    }


LOGS = [
    "few",
    "incomplete below 1%",
    "incomplete 10%",
    "incomplete 60%",
    "order of beginning unknown",
    "adaptive, by another class",
    "no reward range",
    "no horizon",
    "cut off",
    "another action space",
]


@pytest.mark.parametrize("name", LOGS)
def test_logs(data: ove.Trajectories, name: str) -> None:
    log = logs(data)[name]
    answer, model = through_callback(log)
    check(answer, through_evaluate(log, model or reference(data)))


def test_a_log_on_disk_is_streamed_to_the_same_answer(
    data: ove.Trajectories, tmp_path: Path
) -> None:
    data.save(tmp_path)
    in_memory, model = through_callback(data)
    assert model is not None
    for log in (str(tmp_path), ove.open_log(tmp_path, chunk_steps=100)):
        answer, _ = through_callback(log)
        check(answer, in_memory)
        check(through_evaluate(log, model), in_memory)


def test_the_callback_never_loads_a_log_on_disk(
    data: ove.Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.save(tmp_path)

    def refuse(*_: object) -> None:
        raise AssertionError("the log was loaded")

    monkeypatch.setattr(ove.Log, "load", refuse)
    monkeypatch.setattr(ove.Trajectories, "load", refuse)
    answer, _ = through_callback(str(tmp_path))
    assert isinstance(answer, dict)


def test_where_evaluate_refuses_the_weights_training_goes_on_with_the_a_priori_range(
    data: ove.Trajectories,
) -> None:
    log = logs(data)["wrong probabilities"]
    with pytest.raises(ove.MeanWeightError) as refusal:
        ove.evaluate(log, reference(data), gamma=GAMMA)
    callback = ove.OffPolicyVarianceCallback(
        log, error_spending="each", eval_freq=10_000, verbose=0, requirements=["mean >= -100"]
    )
    with pytest.warns(ove.SupportWarning, match="no tighter than the a priori bound"):
        trained(callback)
    result = callback.last_evaluation
    assert result is not None
    assert result.warnings == (str(refusal.value),)
    assert math.isnan(result.mean)
    assert not result["mean"].interval.informative
    assert not callback.satisfied


def test_a_log_of_its_own_training_is_approximate_and_proves_nothing(
    data: ove.Trajectories,
) -> None:
    callback = ove.OffPolicyVarianceCallback(
        data,
        error_spending="each",
        eval_freq=10_000,
        verbose=0,
        independent=False,
        requirements=["mean >= -1000"],
    )
    with pytest.warns(ove.DependenceWarning, match="own training"):
        model = trained(callback)
    result = callback.last_evaluation
    assert result is not None
    assert not result.guaranteed
    assert any("trained on these trajectories" in text for text in result.warnings)
    assert [verdict.status for verdict in callback.last_verdicts] == ["undecided"]
    independent = ove.evaluate(
        data, model, gamma=GAMMA, quantities=MOMENTS, simultaneous=True, approximate=None
    )
    for name, one in result.quantities.items():
        assert one.interval.lower == independent[name].interval.lower
        assert one.interval.upper == independent[name].interval.upper


def test_spending_is_that_of_the_error_budget(data: ove.Trajectories) -> None:
    callback = ove.OffPolicyVarianceCallback(data, eval_freq=32, verbose=0, delta=0.2)
    trained(callback)
    assert callback.n_evaluations == 3
    k = np.arange(1, 4)
    np.testing.assert_allclose(callback.evaluations["delta"], 0.2 * 6 / (math.pi * k) ** 2)
    assert callback.last_evaluation is not None
    interval = callback.last_evaluation["mean"].interval
    assert interval.delta == pytest.approx(0.2 * 6 / (math.pi * 3) ** 2 / 2)
    assert interval.a_priori[0] == pytest.approx(REWARD_RANGE[0] * (1 - GAMMA**6) / (1 - GAMMA))
