"""Quantities that are evaluated by default."""

from __future__ import annotations

import inspect
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ove_sb3 as ove
from ove_sb3.core.interval import lower_text
from ove_sb3.core.quantities import MOMENTS
from ove_sb3.report.sentences import tail_sentence

RISK = ["quantile:0.05", "median", "quantile:0.95", "cvar:0.1"]
ALL = ["mean", "variance", "std", *RISK]
LEFT_OUT = "not shown: 5% quantile, median, 95% quantile and CVaR 10%, for which method='paper'"
OPTIONS: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 1), "horizon": 1, "max_ratio": 2.0}


@pytest.fixture(scope="module")
def log() -> tuple[ove.Trajectories, NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=300)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((300, 1)),
        actions=actions,
        log_probs=np.full(300, np.log(0.5)),
        rewards=np.where(actions == 1, 0.5, 0.25) + 0.5 * rng.random(300),
        lengths=np.ones(300, dtype=int),
    )
    return data, np.log(np.where(actions == 1, 0.8, 0.2))


def test_the_defaults(log: Any) -> None:
    result = ove.evaluate(*log, **OPTIONS)
    assert list(result.quantities) == [q.name for q in ove.DEFAULT_QUANTITIES] == ALL
    assert result.guaranteed
    assert all(one.approximate is not None for one in result.quantities.values())
    assert not result.warnings
    json.dumps(result.to_dict(), allow_nan=False)
    lower = result["quantile:0.05"].interval.lower
    sentence = f"With 95% confidence at least 95% of episodes return at least {lower_text(lower)}."
    assert sentence in str(result).splitlines()
    for function in (ove.compare, ove.OffPolicyVarianceCallback):  # where delta is split
        assert inspect.signature(function).parameters["quantities"].default is MOMENTS


def test_a_method_leaves_out_defaults_that_it_has_no_bounds_for(log: Any) -> None:
    result = ove.evaluate(*log, method="paper", simultaneous=True, delta=0.1, **OPTIONS)
    assert list(result.quantities) == ["mean", "variance", "std"]
    assert [text for text in result.warnings if text.startswith(LEFT_OUT)]
    assert result.interval_delta == 0.05
    further = [*ove.DEFAULT_QUANTITIES, ove.Variance()]
    assert list(ove.evaluate(*log, method="paper", quantities=further, **OPTIONS).quantities) == [
        "mean",
        "variance",
        "std",
    ]


@pytest.mark.parametrize("asked", [["mean", "cvar:0.1"], [*ove.DEFAULT_QUANTITIES, "cvar:0.1"]])
def test_what_is_asked_for_is_never_left_out(log: Any, asked: list[Any]) -> None:
    with pytest.raises(ove.InvalidInputError, match="bounds for the CVaR 10%, got 'paper'"):
        ove.evaluate(*log, method="paper", quantities=asked, **OPTIONS)


@pytest.mark.parametrize("method", [ove.Bootstrap, ove.Normal])
def test_an_estimator_that_some_defaults_lack(log: Any, method: Any) -> None:
    main = ove.evaluate(*log, method=method(estimator="is"), approximate=None, **OPTIONS)
    assert list(main.quantities) == ["mean", "variance", "std"]
    assert any("not shown" in text for text in main.warnings)
    beside = ove.evaluate(*log, approximate=method(estimator="is"), **OPTIONS)
    assert list(beside.quantities) == ALL
    assert [name for name in ALL if beside[name].approximate is None] == RISK
    for option in ("method", "approximate"):
        wrong: list[dict[str, Any]] = [
            {option: method(estimator="luck")},
            {option: method(estimator="is"), "quantities": ["mean", "median"]},
        ]
        for options in wrong:
            with pytest.raises(ove.InvalidInputError, match="`estimator` must be one of"):
                ove.evaluate(*log, **{**OPTIONS, **options})


@pytest.mark.parametrize(
    ("quantity", "lower", "upper", "expected"),
    [
        (ove.Quantile(0.05), 0.2, 1.0, "at least 95% of episodes return at least 0.2"),
        (ove.Quantile(0.05), 0.0, 0.9, None),
        (ove.Quantile(0.95), 0.2, 1.0, None),
        (ove.Quantile(0.95), 0.0, 0.9, "at least 95% of episodes return at most 0.9"),
        (ove.CVaR(0.1), 0.2, 1.0, "the lowest 10% of episodes return at least 0.2 on average"),
        (ove.CVaR(0.1), 0.0, 0.9, None),
        (ove.Mean(), 0.2, 0.9, None),
    ],
)
def test_a_bound_that_says_nothing_makes_no_sentence(
    quantity: ove.Quantity, lower: float, upper: float, expected: str | None
) -> None:
    interval = SimpleNamespace(
        lower=lower, upper=upper, a_priori=(0.0, 1.0), guaranteed=True, delta=0.05
    )
    one = SimpleNamespace(quantity=quantity, interval=interval)
    result: Any = SimpleNamespace(quantities={quantity.name: one}, subject="return")
    full = None if expected is None else f"With 95% confidence {expected}."
    assert tail_sentence(result) == full
    if full is not None:
        result.subject = "sum of cost"
        assert tail_sentence(result) == full.replace(" return ", " have a sum of cost of ")
        interval.guaranteed = False
        assert tail_sentence(result) is None
