"""For any input arrays, the public functions return a valid result or raise our own error."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ove_sb3 as ove
from ove_sb3.core.estimators import estimator_names

numbers = st.one_of(
    st.floats(-5, 5),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, float("-inf"), 1e308, -1e308, 5e-324, 700.0, -800.0]),
)
tame = st.one_of(st.floats(-3, 3), st.sampled_from([0.0, float("-inf"), -50.0]))
options = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@st.composite
def logs(draw: st.DrawFn, ratios: Any = numbers, rewards: Any = numbers) -> dict[str, Any]:
    lengths = draw(st.lists(st.integers(1, 5), min_size=2, max_size=12))
    steps = sum(lengths)
    horizon = draw(st.one_of(st.none(), st.integers(max(lengths), 8)))
    return {
        "log_ratios": draw(st.lists(ratios, min_size=steps, max_size=steps)),
        "rewards": draw(st.lists(rewards, min_size=steps, max_size=steps)),
        "lengths": lengths,
        "gamma": draw(st.sampled_from([0.0, 0.5, 0.99, 1.0])),
        "horizon": horizon,
    }


def quiet(function: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ove.SupportWarning)
        return function(*args, **kwargs)


def check_everything(stats: ove.TrajectoryStatistics, reward_range: tuple[float, float]) -> None:
    for estimator in estimator_names("variance"):
        assert np.isfinite(quiet(ove.estimate_variance, stats, estimator=estimator))
    for estimator in estimator_names("mean"):
        assert np.isfinite(quiet(ove.estimate_mean, stats, estimator=estimator))
    for method in (ove.Betting(n_shuffles=1), "paper", "bootstrap", "normal"):
        for function in (ove.variance_interval, ove.mean_interval):
            for limits in ({"reward_range": reward_range}, {"return_range": (-50.0, 50.0)}):
                try:
                    interval = quiet(function, stats, method=method, **limits)
                except ove.OveError:
                    continue
                assert (interval.lower <= interval.upper) == interval.consistent
                assert interval.consistent or not interval.guaranteed
                assert interval.consistent or interval.method in ("betting", "paper")
                assert not np.isnan([interval.lower, interval.upper]).any()
                assert interval.a_priori[0] <= interval.lower <= interval.a_priori[1]
                assert interval.a_priori[0] <= interval.upper <= interval.a_priori[1]
                str(interval)
                interval.to_dict()
    diagnostics = quiet(ove.diagnose, stats)
    assert 0.0 <= diagnostics.effective_sample_size <= len(stats) * (1 + 1e-9)
    str(diagnostics)


@options
@given(logs())
def test_anything_at_all(log: dict[str, Any]) -> None:
    try:
        stats = quiet(ove.trajectory_statistics, **log)
    except ove.OveError:
        return
    for name in ("weights", "returns", "pdis", "cdis"):
        assert np.isfinite(getattr(stats, name)).all()
    try:
        check_everything(stats, (-5.0, 5.0))
    except ove.OveError:
        return


@options
@given(logs(ratios=tame, rewards=st.floats(-2, 2)))
def test_sane_logs_always_get_results(log: dict[str, Any]) -> None:
    stats = quiet(ove.trajectory_statistics, **log)
    check_everything(stats, (-2.0, 2.0))
    if log["horizon"] is not None:
        for method in ("betting", "paper"):
            interval = quiet(ove.variance_interval, stats, reward_range=(-2, 2), method=method)
            assert interval.guaranteed == interval.consistent


@options
@given(logs(ratios=tame, rewards=st.floats(-2, 2)), st.randoms(use_true_random=False))
def test_the_order_of_trajectories_matters_to_no_symmetric_estimate(
    log: dict[str, Any], random: Any
) -> None:
    cuts = np.cumsum(log["lengths"])[:-1]
    parts = list(
        zip(
            np.split(log["log_ratios"], cuts),
            np.split(log["rewards"], cuts),
            log["lengths"],
            strict=True,
        )
    )
    random.shuffle(parts)
    shuffled = {
        **log,
        "log_ratios": np.concatenate([part[0] for part in parts]),
        "rewards": np.concatenate([part[1] for part in parts]),
        "lengths": [part[2] for part in parts],
    }
    first, second = (quiet(ove.trajectory_statistics, **logged) for logged in (log, shuffled))
    scale = 1e-9 * (1.0 + np.abs(first.cdis).max() + np.abs(first.pdis).max() ** 2)
    scale *= 1.0 + first.weights.max()
    for estimator in ("pair", "pair_cdis", "naive_is", "naive_plugin", "wis", "regression"):
        values = [quiet(ove.estimate_variance, s, estimator=estimator) for s in (first, second)]
        assert values[0] == pytest.approx(values[1], rel=1e-7, abs=max(scale, 1e-9))


@options
@given(logs(ratios=tame, rewards=st.floats(-2, 2)))
def test_pair_is_a_variance(log: dict[str, Any]) -> None:
    stats = quiet(ove.trajectory_statistics, **log)
    value = quiet(ove.estimate_variance, stats, estimator="pair")
    assert value >= 0.0
    w, G = stats.weights, stats.returns
    n = len(stats)
    pairs = sum(
        w[i] * w[j] * (G[i] - G[j]) ** 2 / 2 for i in range(n) for j in range(n) if i != j
    ) / (n * (n - 1))
    assert value == pytest.approx(pairs, rel=1e-6, abs=1e-9 * (1 + w.max() ** 2))
