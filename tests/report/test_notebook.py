"""Results and logs in a notebook: short text, and HTML that shows names as they are."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove

STEPS = 300


def log(env_id: str = "Dice-v0") -> ove.Trajectories:
    rng = np.random.default_rng(0)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((STEPS, 1), np.float32),
        actions=rng.integers(0, 2, STEPS),
        log_probs=np.full(STEPS, np.log(0.5)),
        rewards=rng.random(STEPS),
        lengths=np.ones(STEPS, np.int64),
    )
    return replace(data, metadata=replace(data.metadata, env_id=env_id))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every kind of object that a notebook shows."""
    data = log()
    log_probs = np.log(np.where(data.actions == 1, 0.6, 0.4))
    settings: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 1), "horizon": 1}
    result = ove.evaluate(data, log_probs, **settings)
    assert result.stats is not None
    path: Path = tmp_path_factory.mktemp("logs") / "log"
    data.save(path)
    return {
        "data": data,
        "log": ove.open_log(path),
        "result": result,
        "row": result["variance"],
        "interval": result["variance"].interval,
        "comparison": ove.compare(data, {"new": log_probs}, **settings),
        "sequence": ove.confidence_sequence(result.stats, "mean", reward_range=(0, 1)),
    }


class Checker(HTMLParser):
    """Checks that tags match, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_text_is_short(shown: dict[str, Any]) -> None:
    for name, value in shown.items():
        assert len(repr(value)) < 250, name
    assert repr(shown["interval"]).startswith("<Interval: variance 95% guaranteed [")


def test_html_is_well_formed_and_shows_the_numbers(shown: dict[str, Any]) -> None:
    for name, value in shown.items():
        if name == "row":
            continue
        page = Checker()
        page.feed(value._repr_html_())
        assert not page.open, name
        assert str(STEPS) in page.text, name
    result = shown["result"]
    for line in result.table.rows:
        for cell in line:
            assert cell in result._repr_html_()


def test_names_are_escaped() -> None:
    html = log("<script>\u202e")._repr_html_()
    assert "&lt;script&gt;\\u202e" in html
    assert "<script>" not in html
