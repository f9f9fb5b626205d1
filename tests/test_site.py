"""The documentation site: complete, strict, and readable without a network."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ove_sb3 as ove
from ove_sb3 import errors

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?(https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        loaded = [found[0] for found in LOADED.finditer(text) if "canonical" not in found[0]]
        assert not loaded, page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:", style.read_text()), style


def test_examples_and_docstrings_are_on_their_pages(site: Path) -> None:
    assert "MixturePolicy" in (site / "index.html").read_text()
    reference = (site / "api.html").read_text()
    assert "Trajectories from a table with one row per step." in reference
    assert "Added" in (site / "changelog.html").read_text()


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    shown = set(re.findall(r"^::: ove_sb3\.(\w+)$", page, re.MULTILINE))
    assert shown == set(ove.__all__) - {"DEFAULT_QUANTITIES", "__version__"}


def test_no_convention_of_other_libraries_is_left_without_an_answer() -> None:
    page = (ROOT / "docs" / "conventions.md").read_text()
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    header, *conventions = ([cell.strip() for cell in row] for row in rows)
    assert header[1:] == ["here", "SB3", "Gymnasium", "Minari", "OBP", "SCOPE-RL", "d3rlpy"]
    assert len(conventions) > 25
    for row in conventions:
        assert len(row) == len(header), row
        assert row[1] not in ("", "-"), row
        assert not row[1].startswith("none") or row[1].startswith("none: "), row


def test_every_how_to_page_is_in_the_navigation() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in settings, page.name


def test_every_error_and_warning_is_explained() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", page, re.MULTILINE)
    classes = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, (errors.OveError, errors.OveWarning)) and value is not errors.OveError
    }
    assert {name for name, _, _ in rows} == classes
    assert len(rows) == len(classes)
    assert all(len(cause) > 20 and len(remedy) > 10 for _, cause, remedy in rows)


def test_no_other_module_defines_an_error_for_users() -> None:
    """Except ChunkError, which users never see: its cause is raised in its place."""
    known = {name for name, value in vars(errors).items() if isinstance(value, type)}
    found = set()
    for folder in ("ove_sb3", "envs", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and path.name != "errors.py":
                    bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                    found |= {node.name} if bases & known else set()
    assert found == {"ChunkError"}
