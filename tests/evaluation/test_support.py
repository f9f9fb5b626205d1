"""Where the log supports no estimate there is none, and the result says why."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ove_sb3 as ove
from ove_sb3.core.diagnostics import is_impossible


def log(n: int, horizon: int) -> ove.Trajectories:
    """Episodes of fair coins, with the coin as the reward."""
    actions = np.random.default_rng(0).integers(2, size=n * horizon)
    return ove.Trajectories.from_arrays(
        observations=np.zeros((actions.size, 1)),
        actions=actions,
        log_probs=np.full(actions.size, np.log(0.5)),
        rewards=actions.astype(float),
        lengths=np.full(n, horizon),
        metadata={"horizon": horizon, "reward_range": (0.0, 1.0)},
    )


def takes(data: ove.Trajectories, probability: float) -> NDArray[np.float64]:
    """Log-probabilities of a candidate that takes action 1 with this probability."""
    with np.errstate(divide="ignore"):
        return np.log(np.where(data.actions == 1, probability, 1.0 - probability))


@pytest.mark.filterwarnings("ignore::ove_sb3.errors.SupportWarning")
@pytest.mark.parametrize(
    ("n", "horizon", "reason"),
    [
        (500, 8, "is worth [1-4] of 500 trajectories"),
        (500, 30, "no logged trajectory is possible under the candidate"),
    ],
)
def test_a_deterministic_candidate_far_from_the_behavior(
    n: int, horizon: int, reason: str, tmp_path: Path
) -> None:
    data = log(n, horizon)
    candidate = takes(data, 1.0)
    result = ove.evaluate(data, candidate, gamma=1.0)
    for name, value in (("mean", horizon), ("variance", 0.0), ("std", 0.0)):
        one = result[name]
        assert math.isnan(one.estimate)
        assert one.approximate is None
        assert value in one.interval
        assert one.to_dict()["estimate"] is None
    assert any("there are no estimates" in text for text in result.warnings)
    assert any(re.search(reason, text) for text in result.warnings)
    assert not any("lies outside" in text for text in result.warnings)
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert "nan" not in str(result)
    verdict = result.check("mean >= 1")
    assert verdict.episodes_needed is None
    result.save_html(tmp_path / "report.html")
    assert not re.search(r"\bnan\b", (tmp_path / "report.html").read_text(), re.IGNORECASE)
    comparison = ove.compare(data, {"a": candidate, "b": data.log_probs}, gamma=1.0)
    assert math.isnan(comparison["a"].mean)
    assert not math.isnan(comparison["b"].mean)
    assert "nan" not in str(comparison)


def test_a_behavior_that_never_does_most_of_what_the_candidate_does() -> None:
    """All weights are equal, so the effective sample size alone would not tell."""
    n = 400
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((n, 1)),
        actions=np.zeros(n, int),
        log_probs=np.zeros(n),
        rewards=np.random.default_rng(0).random(n),
        lengths=np.ones(n, int),
        metadata={"horizon": 1, "reward_range": (0.0, 1.0)},
    )
    for probability, supported in ((0.1, False), (0.4, False), (0.6, True)):
        result = ove.evaluate(data, np.full(n, np.log(probability)), gamma=1.0)
        assert math.isnan(result.mean) != supported
        said = f"about {100 * (1 - probability):.2g}% of the candidate's outcomes are not in"
        assert any(said in text for text in result.warnings) != supported


@pytest.mark.parametrize(("probability", "supported"), [(0.5, True), (0.8, True), (0.999, False)])
def test_estimates_return_with_the_support(probability: float, supported: bool) -> None:
    data = log(500, 8)
    result = ove.evaluate(data, takes(data, probability), gamma=1.0)
    assert math.isnan(result.variance) != supported
    assert (result["mean"].approximate is not None) == supported
    assert any("there are no estimates" in text for text in result.warnings) != supported


def test_few_trajectories_are_no_lack_of_support() -> None:
    """Two episodes of the behavior itself do give an estimate of it, with a warning."""
    data = log(2, 3)
    result = ove.evaluate(data, data.log_probs, gamma=1.0)
    assert result.mean == pytest.approx(data.returns().mean())


def test_a_negative_estimate_of_a_variance_is_left_out_and_explained(tmp_path: Path) -> None:
    """The candidate mostly takes action 1; only the first of six steps is rewarded."""
    n, horizon = 100, 6
    actions = np.random.default_rng(6).integers(0, 2, n * horizon)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((actions.size, 1)),
        actions=actions,
        log_probs=np.full(actions.size, np.log(0.5)),
        rewards=np.where(np.arange(actions.size) % horizon == 0, 10.0 * actions, 0.0),
        lengths=np.full(n, horizon),
        metadata={"horizon": horizon, "reward_range": (0.0, 10.0)},
    )
    result = ove.evaluate(data, takes(data, 0.9), gamma=1.0, quantities=["mean", "variance", "std"])
    assert result.stats is not None
    value = ove.estimate_variance(result.stats)
    assert value < -1.0
    assert math.isnan(result.variance)
    assert math.isnan(result.std)
    assert not math.isnan(result.mean)
    assert any("estimates may be far off: collect more" in text for text in result.warnings)
    (text,) = (text for text in result.warnings if "no estimate of" in text)
    assert f"no estimate of the variance: 'crossfit' gives {value:.4g}, but" in text
    assert "the stated ranges allow only values in [0, 900]" in text
    wide = ove.evaluate(data, takes(data, 0.9), gamma=1.0, return_range=(-1e6, 1e6))
    assert math.isnan(wide.variance)
    assert math.isnan(wide.std)
    assert "nan" not in str(result)
    result.save_html(tmp_path / "report.html")
    assert result.check("variance <= 1").episodes_needed is None


def test_an_estimate_may_leave_the_range_by_its_sampling_error() -> None:
    """Half of the returns are 0 and half 1, the largest variance possible: 1/4."""
    n = 40
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((n, 1)),
        actions=np.zeros(n, int),
        log_probs=np.full(n, np.log(0.5)),
        rewards=np.arange(n) // 2 % 2,
        lengths=np.ones(n, int),
        metadata={"horizon": 1, "reward_range": (0.0, 1.0)},
    )
    result = ove.evaluate(data, data.log_probs, gamma=1.0)
    assert 0.25 < result.variance == pytest.approx(0.25 * n / (n - 1), rel=0.05)
    assert result.stats is not None
    for value, impossible in ((-0.01, True), (-1e-12, False), (0.3, False), (0.35, True)):
        assert is_impossible(value, (0.0, 0.25), result.stats, positive=True) is impossible
    for value, impossible in ((-0.01, False), (1.3, False), (1.35, True), (-0.4, True)):
        assert is_impossible(value, (0.0, 1.0), result.stats, positive=False) is impossible


def test_an_estimate_without_support_warns() -> None:
    data = log(500, 12)
    stats = ove.trajectory_statistics(
        takes(data, 0.99) - data.log_probs, data.rewards, data.lengths, gamma=1.0, horizon=12
    )
    with pytest.warns(ove.errors.SupportWarning, match="unreliable: the log is worth"):
        ove.estimate_variance(stats)


def test_an_estimate_outside_its_interval_is_explained() -> None:
    """Selected episodes: the estimate is far above what the probabilities allow."""
    from dataclasses import replace

    from ove_sb3.evaluation.pipeline import _result_warnings

    data = log(500, 2)
    one = ove.evaluate(data, data.log_probs, gamma=1.0)["mean"]
    assert _result_warnings(one) == []
    (text,) = _result_warnings(replace(one, estimate=1.9))
    assert "the estimate of the mean, 1.9, lies outside its guaranteed interval, [" in text
    assert "a bound failed, for which the probability is at most 0.05" in text
    assert "trust" not in text
