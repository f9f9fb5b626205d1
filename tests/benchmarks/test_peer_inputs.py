"""Logs as the peers receive them: stand-ins with the peers' signatures recompute the weights."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.harness import _draw
from benchmarks.peers.methods.paper_formulas import weights_and_returns
from benchmarks.peers.protocol import Log
from tests.problems.bandits import recommender
from tests.problems.chain import chain


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of methods with stand-ins for the peer's modules."""
    loaded = []

    def load(module: str, **parts: dict[str, Any]) -> Any:
        for name, content in parts.items():
            fake = ModuleType(name.replace("__", "."))
            vars(fake).update(content)
            monkeypatch.setitem(sys.modules, fake.__name__, fake)
        loaded.append(f"benchmarks.peers.methods.{module}")
        return importlib.import_module(loaded[-1])

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def one_step() -> Log:
    return _draw(recommender(), 60, np.random.default_rng(0))


def test_obp_receives_the_ratios_of_the_actions_taken(stand_in: Any) -> None:
    class Weighting:
        def weighted(self, reward: Any, action: Any, pscore: Any, action_dist: Any) -> Any:
            np.testing.assert_allclose(action_dist.sum(axis=1), 1.0)
            return reward * action_dist[np.arange(len(action)), action, 0] / pscore

        def estimate_policy_value(self, **feedback: Any) -> float:
            return float(self.weighted(**feedback).mean())

        def estimate_interval(self, random_state: int, **feedback: Any) -> dict[str, float]:
            values = self.weighted(**feedback)
            return {"95.0% CI (lower)": values.min(), "95.0% CI (upper)": values.max()}

    names = ("InverseProbabilityWeighting", "SelfNormalizedInverseProbabilityWeighting")
    module = stand_in("obp_mean", obp={}, obp__ope=dict.fromkeys(names, Weighting))
    log = one_step()
    answer = module.METHODS["mean", "IPW"].run(log)
    expected = np.exp(log.log_ratios) * log.rewards
    assert answer.estimate == pytest.approx(expected.mean())
    assert (answer.lower, answer.upper) == pytest.approx((expected.min(), expected.max()))


def test_skdr_eval_receives_the_ratios_and_its_interval_is_about_its_estimate(
    stand_in: Any,
) -> None:
    def dr_value_with_clip(
        propensities: Any, policy_probs: Any, Y: Any, q_hat: Any, A: Any, elig: Any
    ) -> Any:
        rows = np.arange(len(Y))
        w = policy_probs[rows, A] / propensities[rows, A]
        residual = w * (Y - q_hat)
        values = {"DR": q_hat.mean() + residual.mean()}
        values["SNDR"] = q_hat.mean() + residual.sum() / w.sum()
        return {name: SimpleNamespace(V_hat=v, clip=np.inf) for name, v in values.items()}

    def block_bootstrap_ci(values: Any, den: Any, base: Any) -> tuple[float, float]:
        return float(values.mean()), float(values.mean())

    content = {
        "dr_value_with_clip": dr_value_with_clip,
        "block_bootstrap_ci": block_bootstrap_ci,
        "fit_outcome_crossfit": lambda X, Y: (np.zeros(len(Y)), []),
    }
    module = stand_in("skdr_mean", skdr_eval=content)
    log = one_step()
    ratios = np.exp(log.log_ratios)
    for (_, name), method in module.METHODS.items():
        answer = method.run(log)
        assert method.one_step
        assert (answer.lower, answer.upper) == pytest.approx((answer.estimate,) * 2), name
    plain = module.METHODS["mean", "DR, its outcome model"].run(log)
    assert plain.estimate == pytest.approx(float((ratios * log.rewards).mean()))


def test_causalrl_receives_a_weight_and_a_return_of_every_episode(stand_in: Any) -> None:
    def stream_policy_value(columns: dict[str, Any]) -> Any:
        names, values = np.array(columns["name"]), columns["value"]
        w, G = values[names == "weight"], values[names == "reward"]
        assert len(set(columns["episode_id"])) == len(w)
        value = float(w @ G / w.sum())
        return SimpleNamespace(value=value, ci=SimpleNamespace(lower=value - 1, upper=value + 1))

    def confidence_sequence(values: Any, alpha: float, value_range: tuple[float, float]) -> Any:
        assert alpha == 0.05
        assert value_range[0] <= values.min() <= values.max() <= value_range[1]
        interval = SimpleNamespace(lower=-100.0, upper=100.0)
        return SimpleNamespace(mean=float(values.mean()), interval=interval)

    content = {
        "TrajectoryLog": dict,
        "stream_policy_value": stream_policy_value,
        "confidence_sequence": confidence_sequence,
    }
    module = stand_in("causalrl_mean", causalrl=content)
    log = _draw(chain(8), 60, np.random.default_rng(1))
    w, G = weights_and_returns(log)
    answer = module.METHODS["mean", "self-normalized, normal limits"].run(log)
    assert answer.estimate == pytest.approx(float(w @ G / w.sum()))
    assert answer.upper - answer.lower == pytest.approx(2.0)
    answer = module.METHODS["mean", "confidence sequence, weight bound"].run(log)
    assert answer.estimate == pytest.approx(float((w * G).mean()))
    effective = sum(0.95**t for t in range(8))  # rewards are within [-1, 1]
    assert (answer.lower, answer.upper) == pytest.approx((-effective, effective))


def test_vw_estimators_receives_weights_returns_and_their_ranges(stand_in: Any) -> None:
    class Sums:
        def __init__(self, **options: float) -> None:
            self.options = options
            self.rows: list[tuple[float, float]] = []

        def add_example(self, p_log: float, r: float, p_pred: float) -> None:
            self.rows.append((p_pred / p_log, r))

        def get(self, alpha: float | None = None) -> Any:
            w, r = np.array(self.rows).T
            if alpha is None:
                return float(w @ r / w.sum())
            return [self.options.get("rmin"), self.options.get("wmax")]

    class BySlot:
        def __init__(self, **options: float) -> None:
            self.rows: list[Any] = []

        def add_example(self, p_logs: Any, rs: Any, p_preds: Any) -> None:
            self.rows.append(np.cumprod(np.array(p_preds) / p_logs) * rs)

        def get(self) -> Any:
            return np.mean(self.rows, axis=0)

    both = SimpleNamespace(Estimator=Sums, Interval=Sums)
    names = ("clopper_pearson", "cressieread", "cs", "gaussian", "ips", "mle")
    module = stand_in(
        "vw_mean",
        estimators={},
        estimators__bandits=dict.fromkeys(names, both),
        estimators__ccb={"pdis_cressieread": SimpleNamespace(Estimator=BySlot)},
    )
    log = _draw(chain(8), 60, np.random.default_rng(2))
    w, G = weights_and_returns(log)
    for (_, name), method in module.METHODS.items():
        if "by step" not in name:
            assert method.run(log).estimate == pytest.approx(float(w @ G / w.sum())), name
    effective = sum(0.95**t for t in range(8))
    answer = module.METHODS["mean", "Cressie-Read, weight bound"].run(log)
    assert (answer.lower, answer.upper) == pytest.approx((-effective, 2.0**8))
    by_step = module.METHODS["mean", "Cressie-Read by step, ratio bound"].run(log)
    discounted = 0.95 ** np.arange(8) * log.rewards.reshape(60, 8)
    rho = np.cumprod(np.exp(log.log_ratios).reshape(60, 8), axis=1)
    assert by_step.estimate == pytest.approx(float((rho * discounted).sum(axis=1).mean()))
