"""Assumptions are checked once, where they are stated, and limits follow from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._validation import check_integer, check_range, check_real
from ove_sb3.core import assumptions as assumptions_module
from ove_sb3.core.assumptions import FROM_DATA, Assumptions, Limits
from ove_sb3.core.label import Evidence
from tests.problems.bandits import recommender
from tests.problems.chain import chain

NAN, INF = float("nan"), float("inf")
GOOD: dict[str, Any] = {
    "gamma": 0.9,
    "horizon": 5,
    "reward_range": (-1.0, 1.0),
    "return_range": (-4.0, 4.0),
    "max_ratio": 2.0,
    "max_weight": 8.0,
    "delta": 0.1,
}
REFUSED: dict[str, list[tuple[Any, str]]] = {
    "gamma": [
        (1.1, "`gamma` must lie in [0, 1], got 1.1."),
        (-0.1, "`gamma` must lie in [0, 1], got -0.1."),
        (NAN, "`gamma` must lie in [0, 1], got nan."),
        ("0.9", "`gamma` must be a real number in [0, 1], got '0.9'."),
        (True, "`gamma` must be a real number in [0, 1], got True."),
        (None, "`gamma` must be a real number in [0, 1], got None."),
    ],
    "horizon": [
        (0, "`horizon` must be an integer of at least 1, got 0."),
        (2.5, "`horizon` must be an integer of at least 1, got 2.5."),
        (True, "`horizon` must be an integer of at least 1, got True."),
        ("5", "`horizon` must be an integer of at least 1, got '5'."),
    ],
    "reward_range": [
        ((1, -1), "`reward_range` must be finite with low <= high, got (1, -1)."),
        ((-1, INF), "`reward_range` must be finite with low <= high, got (-1, inf)."),
        ((-1, NAN), "`reward_range` must be finite with low <= high, got (-1, nan)."),
        ((-1, 0, 1), "`reward_range` must be a pair of numbers, got 3 entries."),
        (1.0, "`reward_range` must be a pair of numbers, got 1.0."),
        (("a", 1), "`reward_range` must be a pair of numbers, got 'a'."),
        ("guess", "`reward_range` must be a pair of numbers or 'from_data', got 'guess'."),
    ],
    "return_range": [
        ((1, -1), "`return_range` must be finite with low <= high, got (1, -1)."),
        ((-INF, 1), "`return_range` must be finite with low <= high, got (-inf, 1)."),
        ((), "`return_range` must be a pair of numbers, got 0 entries."),
        (3, "`return_range` must be a pair of numbers, got 3."),
        ("from_data", "`return_range` must be a pair of numbers, got 'from_data'."),
    ],
    "max_ratio": [
        (0.5, "`max_ratio` must lie in [1, inf], got 0.5."),
        (NAN, "`max_ratio` must lie in [1, inf], got nan."),
        ("2", "`max_ratio` must be a real number in [1, inf], got '2'."),
    ],
    "max_weight": [
        (0.999, "`max_weight` must lie in [1, inf], got 0.999."),
        (-1, "`max_weight` must lie in [1, inf], got -1."),
        ((2, 3), "`max_weight` must be a real number in [1, inf], got (2, 3)."),
    ],
    "delta": [
        (0.0, "`delta` must lie in (0, 1), got 0.0."),
        (1.0, "`delta` must lie in (0, 1), got 1.0."),
        (NAN, "`delta` must lie in (0, 1), got nan."),
        ("small", "`delta` must be a real number in (0, 1), got 'small'."),
    ],
}


def test_every_field_is_covered() -> None:
    names = [field.name for field in fields(Assumptions) if field.name != "max_ratio_reason"]
    assert sorted(names) == sorted([*REFUSED, "evidence"]) == sorted([*GOOD, "evidence"])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(name, value, text) for name, cases in REFUSED.items() for value, text in cases],
)
def test_messages_name_argument_rule_and_value(name: str, value: Any, message: str) -> None:
    with pytest.raises(ove.InvalidInputError) as error:
        Assumptions(**{**GOOD, name: value})
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("name", ["max_ratio", "max_weight", "reward_range", "return_range"])
def test_messages_end_with_a_remedy(name: str) -> None:
    remedy = "at least 1." if name.startswith("max") else "known before the data were seen."
    with pytest.raises(ove.InvalidInputError) as error:
        Assumptions(**{**GOOD, name: 0.5})
    assert str(error.value).endswith(remedy)


@pytest.mark.parametrize("function", [ove.mean_interval, ove.variance_interval])
def test_each_assumption_is_checked_once(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = chain(3).statistics(50, np.random.default_rng(0))
    checked: Counter[str] = Counter()

    def counted(check: Callable[..., Any], value: object, name: str, *args: Any, **kw: Any) -> Any:
        checked[name] += 1
        return check(value, name, *args, **kw)

    for check in (check_real, check_integer, check_range):
        monkeypatch.setattr(assumptions_module, check.__name__, partial(counted, check))
    options = {name: value for name, value in GOOD.items() if name not in ("gamma", "horizon")}
    function(stats, **options)
    assert checked == Counter(GOOD.keys())


def test_values_become_plain_numbers() -> None:
    stated = Assumptions(
        gamma=1,
        horizon=np.int64(4),  # type: ignore[arg-type]
        reward_range=[np.float32(0.5), 1],  # type: ignore[arg-type]
        return_range=np.array([0, 4]),  # type: ignore[arg-type]
        max_ratio=np.float64(3),
        max_weight=7,
        delta=np.float32(0.5),  # type: ignore[arg-type]
    )
    assert stated == Assumptions(1.0, 4, (0.5, 1.0), (0.0, 4.0), 3.0, 7.0, 0.5)
    for name in ("gamma", "max_ratio", "max_weight", "delta"):
        assert type(getattr(stated, name)) is float
    assert type(stated.horizon) is int
    for pair in (stated.reward_range, stated.return_range):
        assert isinstance(pair, tuple)
        assert [type(end) for end in pair] == [float, float]


def test_what_is_not_stated_is_unknown() -> None:
    stated = Assumptions(gamma=0.9)
    assert stated.delta == 0.05
    assert stated.evidence == Evidence(adaptive=False, candidate_depends_on_log=False)
    assert not stated.range_from_data
    for name in ("horizon", "reward_range", "return_range", "max_ratio", "max_weight"):
        assert getattr(stated, name) is None
    limits = stated.limits(chain(5).statistics(20, np.random.default_rng(0)))
    assert limits == Limits((-INF, INF), None, INF, INF, INF, ())
    assert limits.max_variance == INF


def test_assumptions_cannot_be_changed() -> None:
    stated = Assumptions(**GOOD)
    with pytest.raises(FrozenInstanceError):
        stated.delta = 0.5  # type: ignore[misc]


# --- bounded returns


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.9}, r"`reward_range` \(or `return_range`\) must be given .* got None"),
        ({"gamma": 1.0, "horizon": 3}, r"`reward_range` \(or `return_range`\) must be given"),
        ({"gamma": 1.0, "reward_range": (0, 1)}, r"`horizon` must be given .* got None"),
        ({"gamma": 1.0, "reward_range": FROM_DATA}, r"`horizon` must be given .* got None"),
    ],
)
def test_returns_without_a_bound_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        Assumptions(**options).check_bounded()


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 0.9, "reward_range": (0, 1)},
        {"gamma": 1.0, "horizon": 3, "reward_range": (0, 1)},
        {"gamma": 1.0, "return_range": (0, 1)},
        {"gamma": 0.9, "reward_range": FROM_DATA},
    ],
)
def test_bounded_returns_are_accepted(options: dict[str, Any]) -> None:
    Assumptions(**options).check_bounded()


# --- limits


def statistics(
    rewards: list[float], *, gamma: float = 1.0, horizon: int | None = 2
) -> ove.TrajectoryStatistics:
    """Episodes of two steps, with ratios 2 and 1/2 in turn."""
    ratios = np.log([2.0, 0.5] * (len(rewards) // 2))
    lengths = np.full(len(rewards) // 2, 2)
    return ove.trajectory_statistics(ratios, rewards, lengths, gamma=gamma, horizon=horizon)


def limits_of(stats: ove.TrajectoryStatistics, **options: Any) -> Limits:
    return Assumptions(gamma=stats.gamma, horizon=stats.horizon, **options).limits(stats)


def test_limits_by_hand() -> None:
    stats = statistics([1.0, 2.0, 1.5, 1.0], gamma=0.5)  # effective horizon 1.5
    limits = limits_of(stats, reward_range=(1.0, 2.0), max_ratio=2.0)
    # Padding with rewards of 0 widens the range.
    assert limits.scaled_reward_range == limits.return_range == (0.0, 3.0)
    assert limits.max_variance == 9 / 4
    assert limits.max_weight == pytest.approx(4.0)
    # A <= 2 * 1 + 4 * 0.5 = 4, and B <= 2 * 1 + 4 * (1.5^2 - 1) = 7.
    assert limits.max_pdis_weight == pytest.approx(4 / 1.5)
    assert limits.max_cdis_weight == pytest.approx(7 / 1.5**2)
    assert limits.stated == (
        "rewards lie in [1, 2]",
        "episodes have at most 2 steps",
        "no step's importance ratio exceeds 2",
    )


def test_one_step_needs_no_padding() -> None:
    stats = recommender().statistics(20, np.random.default_rng(0))
    limits = limits_of(stats, reward_range=(0.0, 10.0), max_weight=2.0)
    assert limits.return_range == (0.0, 10.0)
    low = float(stats.reward_min)
    assert limits_of(stats, reward_range=(low, 10.0)).return_range == (low, 10.0)
    assert (limits.max_weight, limits.max_pdis_weight, limits.max_cdis_weight) == (2.0, 2.0, 2.0)
    assert limits.stated[1:] == (
        "episodes have at most 1 step",
        "no trajectory's importance weight exceeds 2",
    )


def test_without_a_horizon_the_discount_bounds_the_return() -> None:
    stats = statistics([1.0, 0.0, 1.0, 1.0], gamma=0.75, horizon=None)
    limits = limits_of(stats, reward_range=(0.0, 1.0))
    assert limits.return_range == (0.0, 4.0)
    assert limits.stated == ("rewards lie in [0, 1]", "the discount factor is 0.75")
    undiscounted = statistics([1.0, 0.0, 1.0, 1.0], horizon=None)
    limits = limits_of(undiscounted, reward_range=(0.0, 1.0))
    assert limits.return_range == (-INF, INF)
    assert limits.scaled_reward_range is None


@pytest.mark.parametrize("horizon", [1, 2, 7])
@pytest.mark.parametrize("gamma", [0.5, 1.0])
@pytest.mark.parametrize("ratio", [1.0, 1.3, 4.0])
def test_bounds_on_per_decision_weights_are_attained(
    horizon: int, gamma: float, ratio: float
) -> None:
    # An episode of full length whose ratios are all the largest possible.
    stats = ove.trajectory_statistics(
        np.full(2 * horizon, math.log(ratio)),
        np.ones(2 * horizon),
        [horizon, horizon],
        gamma=gamma,
        horizon=horizon,
    )
    limits = limits_of(stats, reward_range=(0.0, 1.0), max_ratio=ratio)
    c = stats.effective_horizon
    assert limits.max_weight == pytest.approx(stats.weights.max(), rel=1e-9)
    assert limits.max_pdis_weight == pytest.approx(stats.pdis_ones.max() / c, rel=1e-9)
    assert limits.max_cdis_weight == pytest.approx(stats.cdis_ones.max() / c**2, rel=1e-9)


def test_a_range_of_returns_narrows_that_of_the_rewards() -> None:
    stats = statistics([0.5, 0.5, 1.0, 0.5])
    limits = limits_of(stats, reward_range=(0.0, 1.0), return_range=(0.9, 5.0))
    assert limits.return_range == (0.9, 2.0)
    assert limits.scaled_reward_range == (0.0, 2.0)
    assert limits.stated[-1] == "returns lie in [0.9, 5]"


def test_the_range_of_the_data_is_said_to_be_that() -> None:
    stated = Assumptions(gamma=1.0, horizon=2, reward_range=FROM_DATA)
    assert stated.range_from_data
    limits = stated.limits(statistics([0.5, -0.25, 1.0, 0.5]))
    assert limits.scaled_reward_range == (-0.5, 2.0)
    assert limits.stated[0] == "rewards lie in [-0.25, 1] (as seen in the data)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reward_range": (0.0, 0.75)},
            r"`reward_range` must contain all logged rewards, got \(0, 0.75\) but they span "
            r"\[0.5, 1\]",
        ),
        (
            {"return_range": (1.25, 2.0)},
            r"`return_range` must contain all logged returns, got \(1.25, 2\) but they span "
            r"\[1, 1.5\]",
        ),
        ({"max_ratio": 1.5}, r"`max_ratio` must be at least every ratio .*, got 1.5 .* is 2"),
    ],
)
def test_data_that_contradict_an_assumption_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ove.AssumptionError, match=message):
        limits_of(statistics([0.5, 0.5, 1.0, 0.5]), **options)


def test_a_logged_weight_above_its_bound_is_refused() -> None:
    stats = ove.trajectory_statistics(np.log([3.0, 0.5]), [0.0, 0.0], [1, 1], gamma=1.0, horizon=1)
    message = r"`max_weight` must be at least every product .*, got 2 but the largest is 3"
    with pytest.raises(ove.AssumptionError, match=message):
        limits_of(stats, max_weight=2.0)
    assert limits_of(stats, max_weight=3.0).max_weight == 3.0


def test_a_partial_product_above_the_bound_on_weights_is_refused() -> None:
    # The weights are 1 and 0.5, but the first trajectory reached 4 on the way.
    ratios = np.log([4.0, 0.25, 1.0, 0.5])
    stats = ove.trajectory_statistics(ratios, np.zeros(4), [2, 2], gamma=1.0, horizon=2)
    joined = type(stats).concatenate([stats.select(np.array([1])), stats])
    for part in (stats, joined):
        assert part.weights.max() == 1.0
        with pytest.raises(ove.AssumptionError, match="got 2 but the largest is 4"):
            limits_of(part, max_weight=2.0)
        assert limits_of(part, max_weight=4.0).max_weight == 4.0


@pytest.mark.parametrize("gamma", [0.5, 0.99, 1 - 2.0**-40, 1 - 2.0**-52])
@pytest.mark.parametrize("room", [0.0, 0.25, 0.75])
def test_bounds_without_a_horizon_are_the_exact_series(gamma: float, room: float) -> None:
    g, r = Fraction(gamma), 1 + Fraction(room) * (1 - Fraction(gamma))
    ratio = float(r)
    r = Fraction(ratio)
    stats = ove.trajectory_statistics(np.zeros(2), np.zeros(2), [1, 1], gamma=gamma)
    limits = limits_of(stats, reward_range=(0.0, 1.0), max_ratio=ratio)
    # Sums over t of r^(t+1) g^t and of r^(t+1) (2 C_t g^t + g^2t), C_t = (1 - g^t) / (1 - g).
    first = r / (1 - r * g)
    second = 2 / (1 - g) * (first - r / (1 - r * g**2)) + r / (1 - r * g**2)
    assert limits.max_pdis_weight == pytest.approx(float(first * (1 - g)), rel=1e-14)
    assert limits.max_cdis_weight == pytest.approx(float(second * (1 - g) ** 2), rel=1e-14)
