"""Quantities, estimators and methods are registered under names; plugins add their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core import registry
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.estimators import base as estimators
from ove_sb3.core.estimators import estimator_names, find_estimator
from ove_sb3.core.methods import as_method, method_names
from ove_sb3.core.methods import base as methods
from ove_sb3.core.quantities import as_quantities, as_quantity, quantity_names
from ove_sb3.core.quantities import base as quantities
from ove_sb3.core.registry import PLUGIN_GROUP, Registry, load_plugins

BAD_NAMES: list[Any] = ["", "two words", "a:b", "a<b", "a>b", "a=b", "a ", None, 3, ("a",)]


@dataclass(frozen=True)
class LargestReturn(ove.Quantity):
    """Largest possible return, at most a limit."""

    limit: float = np.inf

    kind = "largest"
    label = "largest return"

    def of_sample(self, returns: np.ndarray) -> float:
        return float(min(returns.max(), self.limit))

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        return limits.return_range


@dataclass(frozen=True)
class Whole(ove.Method):
    """The a priori range."""

    name = "whole"
    proven = True

    def bounds(self, quantity: ove.Quantity, inputs: ove.MethodInputs) -> tuple[float, float]:
        return -np.inf, np.inf


def largest(argument: str | None) -> ove.Quantity:
    return LargestReturn() if argument is None else LargestReturn(float(argument))


def largest_return(stats: ove.TrajectoryStatistics) -> float:
    return float(stats.returns.max())


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts without plugins and leaves the registries as they were."""
    monkeypatch.setattr(registry, "_loaded", set())
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    known: list[Registry[Any]] = [
        quantities._REGISTRY,
        methods._REGISTRY,
        *estimators._REGISTRIES.values(),
    ]
    kinds = list(estimators._REGISTRIES)
    before = [dict(entries._entries) for entries in known]
    yield
    for entries, original in zip(known, before, strict=True):
        entries._entries = original
    for kind in set(estimators._REGISTRIES) - set(kinds):
        del estimators._REGISTRIES[kind]


@pytest.fixture
def stats() -> ove.TrajectoryStatistics:
    return ove.trajectory_statistics(
        np.zeros(8), np.arange(8.0) / 8, np.ones(8, dtype=int), gamma=1.0, horizon=1
    )


# --- the registry itself


def test_entries_are_found_by_name_in_the_order_of_registration() -> None:
    entries: Registry[int] = Registry("number")
    assert entries.add("two", 2) == 2
    entries.add("one", 1)
    assert list(entries) == ["two", "one"]
    assert "one" in entries
    assert "three" not in entries
    assert entries.get("one", "number") == 1


def test_a_name_that_is_taken_is_refused_unless_replaced() -> None:
    entries: Registry[int] = Registry("number")
    entries.add("one", 1)
    entries.add("two", 2)
    with pytest.raises(ove.InvalidInputError, match=r"a number must be new, got 'one'.*replace"):
        entries.add("one", 11)
    assert entries.get("one", "number") == 1
    assert entries.add("one", 11, replace=True) == 11
    assert entries.get("one", "number") == 11
    assert list(entries) == ["one", "two"]
    entries.add("three", 3, replace=True)  # nothing to replace
    assert list(entries) == ["one", "two", "three"]


def test_a_removed_name_is_free_again() -> None:
    entries: Registry[int] = Registry("number")
    entries.add("one", 1)
    entries.remove("one")
    entries.remove("one")
    assert "one" not in entries
    entries.add("one", 11)
    assert entries.get("one", "number") == 11


def test_names_can_be_added_while_iterating() -> None:
    entries: Registry[int] = Registry("number")
    entries.add("one", 1)
    for name in entries:
        entries.add(f"{name}_more", 2)
    assert list(entries) == ["one", "one_more"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names_are_refused(name: Any) -> None:
    entries: Registry[int] = Registry("number")
    with pytest.raises(ove.InvalidInputError) as error:
        entries.add(name, 1)
    assert "the name of a number must be a non-empty string" in str(error.value)
    assert f"got {name!r}" in str(error.value)
    assert list(entries) == []


@pytest.mark.parametrize("name", ["three", "", None, 3, ["one"]])
def test_an_unknown_name_is_answered_with_the_known_ones(name: Any) -> None:
    entries: Registry[int] = Registry("number")
    entries.add("one", 1)
    entries.add("two", 2)
    with pytest.raises(ove.InvalidInputError) as error:
        entries.get(name, "count")
    assert str(error.value) == f"`count` must be one of 'one', 'two', got {name!r}."


# --- what is registered


def test_built_in_names() -> None:
    risks = {"quantile", "median", "cvar", "p_below"}
    assert set(quantity_names()) == {"mean", "variance", "std"} | risks
    assert method_names() == ("betting", "paper", "bootstrap", "normal")
    assert set(estimator_names("mean")) == {"crossfit", "regression", "pdis", "is", "wis"}
    assert set(estimator_names("variance")) == {
        *("crossfit", "pair_cdis", "pair", "cdis", "cdis_u", "is", "is_u"),
        *("naive_is", "naive_plugin", "wis", "regression"),
    }
    assert estimator_names("std") == ()  # those of the variance are used


@pytest.mark.parametrize(
    ("ask", "argument", "names"),
    [
        (lambda: as_quantity("mode"), "quantity", quantity_names),
        (lambda: as_quantity("mode:2"), "quantity", quantity_names),
        (lambda: as_method("magic"), "method", method_names),
        (
            lambda: find_estimator("variance", "best"),
            "estimator",
            lambda: estimator_names("variance"),
        ),
        (lambda: find_estimator("mean", None), "estimator", lambda: estimator_names("mean")),
    ],
)
def test_errors_about_unknown_names_list_all_known_ones(
    ask: Callable[[], object], argument: str, names: Callable[[], tuple[str, ...]]
) -> None:
    with pytest.raises(ove.InvalidInputError, match=f"^`{argument}` must be one of ") as error:
        ask()
    for name in names():
        assert repr(name) in str(error.value)


def test_an_estimator_of_an_unknown_quantity_is_refused() -> None:
    with pytest.raises(ove.InvalidInputError, match=r"must have a registered estimator, got 'x'"):
        find_estimator("x", "crossfit")
    assert estimator_names("x") == ()


def test_a_registered_quantity_is_used_by_name(stats: ove.TrajectoryStatistics) -> None:
    assert ove.register_quantity("largest", largest) is largest
    assert as_quantity("largest") == LargestReturn()
    assert as_quantity("largest:0.5") == LargestReturn(0.5)
    assert "largest" in quantity_names()
    with pytest.raises(ove.InvalidInputError, match="got 'largest', which is registered"):
        ove.register_quantity("largest", largest)
    with pytest.raises(ove.InvalidInputError, match="must have a registered estimator"):
        ove.estimate(stats, "largest")
    ove.register_estimator("crossfit", "largest", largest_return)
    assert ove.estimate(stats, "largest") == 7 / 8
    for method in ("betting", "paper"):
        message = f"bounds for the largest return, got '{method}', which has none"
        with pytest.raises(ove.InvalidInputError, match=message):
            ove.interval(stats, "largest", reward_range=(0, 1), method=method)


def test_quantities_are_named_once() -> None:
    both = as_quantities(["mean", ove.Variance(), "mean"])
    assert both == (ove.Mean(), ove.Variance())
    for bad in ("mean", ove.Mean(), 3):
        with pytest.raises(ove.InvalidInputError, match="`quantities` must be a sequence"):
            as_quantities(bad)
    with pytest.raises(ove.InvalidInputError, match="at least one quantity, got none"):
        as_quantities([])


def test_a_registered_estimator_is_used_by_name(stats: ove.TrajectoryStatistics) -> None:
    made = ove.register_estimator("largest", "mean", largest_return)
    assert isinstance(made, ove.Estimator)
    assert (made.name, made.quantity, made.unbiased, made.columns) == ("largest", "mean", False, ())
    assert ove.estimate_mean(stats, "largest") == 7 / 8
    assert estimator_names("mean")[-1] == "largest"
    assert "largest" not in estimator_names("variance")
    with pytest.raises(ove.InvalidInputError, match="must be new, got 'largest'"):
        ove.register_estimator("largest", "mean", largest_return)
    ove.register_estimator("largest", "mean", lambda stats: 1.0, replace=True)
    assert ove.estimate_mean(stats, "largest") == 1.0
    with pytest.raises(ove.InvalidInputError, match="'largest' has no influence function"):
        ove.mean_interval(stats, method=ove.Normal("largest"))


def test_built_in_estimators_can_be_replaced_on_request_only(
    stats: ove.TrajectoryStatistics,
) -> None:
    before = ove.estimate_mean(stats)
    with pytest.raises(ove.InvalidInputError, match="got 'crossfit', which is registered"):
        ove.register_estimator("crossfit", "mean", largest_return)
    assert ove.estimate_mean(stats) == before
    ove.register_estimator("crossfit", "mean", largest_return, replace=True)
    assert ove.estimate_mean(stats) == 7 / 8


def test_a_registered_method_is_used_by_name(stats: ove.TrajectoryStatistics) -> None:
    assert ove.register_method("whole", Whole) is Whole
    interval = ove.mean_interval(stats, reward_range=(0, 1), method="whole")
    assert (interval.lower, interval.upper) == (0.0, 1.0) == interval.a_priori
    assert interval.method == "whole"
    assert method_names()[-1] == "whole"
    with pytest.raises(ove.InvalidInputError, match="must be new, got 'whole'"):
        ove.register_method("whole", Whole)
    ove.register_method("whole", ove.Betting, replace=True)
    assert as_method("whole") == ove.Betting()


@pytest.mark.parametrize("name", BAD_NAMES)
def test_public_functions_refuse_bad_names(name: Any) -> None:
    for kind, register in (
        ("quantity", lambda: ove.register_quantity(name, largest)),
        ("estimator", lambda: ove.register_estimator(name, "mean", largest_return)),
        ("method", lambda: ove.register_method(name, Whole)),
    ):
        with pytest.raises(ove.InvalidInputError, match=f"^the name of an? {kind} must be a non-"):
            register()


# --- plugins


@dataclass
class Point:
    """An entry point, as importlib.metadata returns it."""

    name: str
    plugin: object
    value: str = "package.module:register"
    loaded: int = 0

    def load(self) -> object:
        self.loaded += 1
        if isinstance(self.plugin, Exception):
            raise self.plugin
        return self.plugin


def install(monkeypatch: pytest.MonkeyPatch, *points: Point) -> None:
    def entry_points(group: str) -> tuple[Point, ...]:
        return points if group == PLUGIN_GROUP else ()

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_the_group_of_plugins() -> None:
    assert PLUGIN_GROUP == "ove_sb3.plugins"


def test_a_plugin_is_loaded_when_its_name_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, stats: ove.TrajectoryStatistics
) -> None:
    calls: list[int] = []

    def register() -> None:
        calls.append(1)
        ove.register_quantity("largest", largest)
        ove.register_estimator("crossfit", "largest", largest_return)
        ove.register_estimator("largest", "mean", largest_return)
        ove.register_method("whole", Whole)

    point = Point("plugin", register)
    install(monkeypatch, point)
    assert ove.estimate_mean(stats, "pdis") == pytest.approx(3.5 / 8)
    assert calls == []  # a known name needs no plugins
    assert ove.estimate_mean(stats, "largest") == 7 / 8
    assert as_quantity("largest:2") == LargestReturn(2.0)
    assert as_method("whole") == Whole()
    assert ove.estimate(stats, "largest") == 7 / 8
    assert calls == [1]
    assert point.loaded == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: as_quantity("largest"),
        lambda: as_method("whole"),
        lambda: find_estimator("mean", "largest"),
        lambda: find_estimator("largest", "crossfit"),
    ],
)
def test_each_kind_of_name_loads_plugins(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object]
) -> None:
    def register() -> None:
        ove.register_quantity("largest", largest)
        ove.register_estimator("crossfit", "largest", largest_return)
        ove.register_estimator("largest", "mean", largest_return)
        ove.register_method("whole", Whole)

    with pytest.raises(ove.InvalidInputError):
        ask()
    install(monkeypatch, Point("plugin", register))
    assert ask() is not None


def test_plugins_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    first, second = (Point(name, lambda name=name: calls.append(name)) for name in ("b", "a"))
    install(monkeypatch, first, second)
    assert load_plugins() == load_plugins() == ("a", "b")
    assert calls == ["b", "a"]
    assert (first.loaded, second.loaded) == (1, 1)


def test_a_module_registers_when_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("module", np))  # a module cannot be called
    assert load_plugins() == ("module",)


@pytest.mark.parametrize("when", ["imported", "called"])
def test_a_broken_plugin_warns_and_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, stats: ove.TrajectoryStatistics, when: str
) -> None:
    error = ImportError("no module named 'missing'")

    def fails() -> None:
        raise error

    def works() -> None:
        ove.register_estimator("largest", "mean", largest_return)

    broken = Point("broken", error if when == "imported" else fails, "bad.module:register")
    install(monkeypatch, broken, Point("works", works))
    message = (
        r"the plugin 'broken' \(bad.module:register\) cannot be loaded: "
        r"ImportError: no module named 'missing'"
    )
    with pytest.warns(ove.OveWarning, match=message):
        assert ove.estimate_mean(stats, "largest") == 7 / 8  # of the plugin after it
    assert load_plugins() == ("broken", "works")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_plugins()  # no second warning
        with pytest.raises(ove.InvalidInputError, match=r"must be one of .*'largest', got 'best'"):
            ove.estimate_mean(stats, "best")


def test_a_plugin_whose_name_is_taken_leaves_the_built_in_alone(
    monkeypatch: pytest.MonkeyPatch, stats: ove.TrajectoryStatistics
) -> None:
    before = ove.estimate_mean(stats, "crossfit")
    install(
        monkeypatch,
        Point("greedy", lambda: ove.register_estimator("crossfit", "mean", largest_return)),
    )
    with pytest.warns(ove.OveWarning, match=r"'greedy' .* cannot be loaded: InvalidInputError"):
        load_plugins()
    assert ove.estimate_mean(stats, "crossfit") == before


def test_a_plugin_may_look_up_names_while_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def register() -> None:
        with pytest.raises(ove.InvalidInputError):
            as_method("unknown")  # asks for plugins again
        ove.register_method("whole", Whole)

    point = Point("plugin", register)
    install(monkeypatch, point)
    assert as_method("whole") == Whole()
    assert point.loaded == 1
