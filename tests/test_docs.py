"""The code in the documentation runs, and prints the output shown there."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ove_sb3.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NUMBER = re.compile(r"-?\d+\.?\d*")
BLOCK = re.compile(r"^```(\w+(?: trained)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_IN_SHELL = (
    "tutorial.md",
    "gate.md",
    "watch.md",
)  # their blocks need what the Python blocks wrote
CORE = sorted(path.stem for path in (ROOT / "ove_sb3" / "core").glob("[!_]*.py"))


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``python`` block is run; a ``text`` block right after it is its output.

    Words must agree to the letter. Numbers may differ a little: training a network is not the
    same to the last digit on every machine. After thousands of steps of training it is hardly the
    same at all: of ``text trained`` only the first words of lines with an interval are compared.
    """
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    found = blocks(page)
    for (kind, code), (next_kind, shown) in zip(found, [*found[1:], ("", "")], strict=False):
        if kind == "sh" and page.name in RUN_IN_SHELL:
            run_commands(code)
        if kind != "python":
            continue
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, str(page), "exec"), namespace)
        printed = output.getvalue()
        if next_kind == "text trained":
            assert words(printed) == words(shown), printed
        if next_kind == "text":
            assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
            for found, wanted in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
                assert float(found) == pytest.approx(float(wanted), rel=0.15, abs=0.02)


def commands(code: str) -> list[str]:
    """Commands of a ``sh`` block, without comments and the times of a crontab."""
    lines = code.replace("\\\n", " ").splitlines()
    found = [re.sub(r"^(?:[\d*]+ ){5}", "", line).partition(" #")[0].rstrip() for line in lines]
    return [line.replace("$USER", "me") for line in found if line]


def run_commands(code: str) -> None:
    """Commands of a ``sh`` block, each of which must succeed."""
    for line in commands(code):
        program, *arguments = shlex.split(line)
        assert program == "ove-sb3"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output


def words(text: str) -> list[str]:
    """First words of the lines with an interval."""
    lines = [line for line in text.splitlines() if "[" in line and not line.startswith("advice")]
    return [re.split(r"\s{2,}|\s\[", line.strip())[0] for line in lines]


def test_pages_can_be_followed_in_one_folder() -> None:
    """Logs that a page refuses to overwrite, or adds to, are those of that page alone."""
    written: dict[str, set[str]] = {}
    for page in PAGES:
        code = "\n".join(text for kind, text in blocks(page) if kind == "python")
        for line in code.splitlines():
            found = re.search(
                r"(?:path=|save\(|EpisodeWriter\()\"(logs/\w+)\"(?!, overwrite)", line
            )
            if found:
                written.setdefault(found[1], set()).add(page.name)
    assert len(written) > 3
    assert all(len(pages) == 1 for pages in written.values()), written


def test_yaml_blocks_are_yaml() -> None:
    found = [text for page in PAGES for kind, text in blocks(page) if kind == "yaml"]
    own = [text for text in found if not text.startswith("--8<--")]  # those from other files
    assert len(own) >= 3
    assert all(isinstance(yaml.safe_load(text), dict) for text in own)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_shows_an_example_on_its_first_screen() -> None:
    before, _, _ = (ROOT / "README.md").read_text().partition("```python")
    assert len(before.splitlines()) < 30
    assert any(kind == "python" for kind, _ in blocks(ROOT / "README.md"))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("name", CORE)
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(f"ove_sb3.core.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_summary_of_widths_is_that_of_the_page() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text()
    summary = (ROOT / "docs" / "width.md").read_text()
    for study, row, column in (
        ("gridworld", "gridworld", 8),
        ("gridworld_goal", "gridworld with goal", 8),
        ("recommender", "recommender", 8),
        ("recommender", "recommender, ratio <= 2 known", 10),
        ("diabetes", "diabetes", 8),
        ("diabetes_half_range", "diabetes, behavior farther away", 8),
    ):
        table = page.partition(f"<!-- table {study} -->")[2].partition("<!-- end -->")[0]
        rows = [line.split("|") for line in table.splitlines() if "[" in line]
        widths = [cells[column].strip() for cells in rows]
        assert len(widths) == 6
        assert f"| {row} | {' | '.join(widths)} |\n" in summary
