"""Any input gives an error of this package or a correct result."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ove_sb3.errors import OveError

from .entry_points import ENTRY_POINTS, EntryPoint
from .junk import KINDS, changed

FEW = 25
MANY = 20_000 // len(ENTRY_POINTS) + 1
OPTIONS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
parametrize = pytest.mark.parametrize("entry", ENTRY_POINTS, ids=lambda entry: entry.name)


def attempt(entry: EntryPoint, arguments: dict[str, Any]) -> None:
    """Call, and check the result."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = dict(arguments)
        if "folder" in inspect.signature(entry.call).parameters:
            options["folder"] = Path(folder)
        try:
            result = entry.call(**options)
        except OveError:
            return
        except IndexError:
            assert entry.name == "index"  # as sequences do
            return
        entry.check(result, arguments)


def attempt_some(entry: EntryPoint, choices: st.DataObject) -> None:
    """Change up to three arguments, call, and check the result."""
    names = st.lists(st.sampled_from(sorted(entry.arguments)), max_size=3, unique=True)
    arguments = dict(entry.arguments)
    for name in choices.draw(names, label="changed"):
        arguments[name] = choices.draw(changed(arguments[name]), label=name)
    attempt(entry, arguments)


@parametrize
def test_every_argument_of_every_kind(entry: EntryPoint) -> None:
    for name in entry.arguments:
        for kind in KINDS:
            try:
                attempt(entry, {**entry.arguments, name: kind})
            except Exception as error:
                raise AssertionError(f"{name} = {kind!r}") from error


@parametrize
def test_a_few_cases(entry: EntryPoint) -> None:
    @settings(max_examples=FEW, derandomize=True, **OPTIONS)
    @given(st.data())
    def run(choices: st.DataObject) -> None:
        attempt_some(entry, choices)

    run()


@pytest.mark.slow
@parametrize
def test_many_cases(entry: EntryPoint) -> None:
    @settings(max_examples=MANY, **OPTIONS)
    @given(st.data())
    def run(choices: st.DataObject) -> None:
        attempt_some(entry, choices)

    run()


@parametrize
def test_right_arguments_give_a_right_result(entry: EntryPoint, tmp_path: Path) -> None:
    options = dict(entry.arguments)
    if "folder" in inspect.signature(entry.call).parameters:
        options["folder"] = tmp_path
    entry.check(entry.call(**options), entry.arguments)
