"""The page on logging is run as it stands, and its output is the real one."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "logging.md"


def test_the_page_on_logging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "text"] * 2
    names: dict[str, object] = {}
    for (_, code), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        numbers = re.compile(r"-?\d+\.?\d*")
        found, wanted = printed.getvalue().strip(), expected.strip()
        assert numbers.sub("#", found) == numbers.sub("#", wanted)
        for a, b in zip(numbers.findall(found), numbers.findall(wanted), strict=True):
            # Training differs in the last digits between machines.
            assert float(a) == pytest.approx(float(b), rel=0.15, abs=0.02)
