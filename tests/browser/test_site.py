"""The documentation in a real browser, opened from the file system."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .chromium import chromium, requests
from .site import build_site

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def test_no_request_leaves_the_file_system(site: Path, tmp_path: Path) -> None:
    for name in ("index.html", "api.html", "tutorial.html", "404.html"):
        asked = requests(site / name, tmp_path)
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == [], name


def test_the_search_works_without_a_server(site: Path, tmp_path: Path) -> None:
    slowly = "--virtual-time-budget=10000"
    dom = chromium(site / "index.html", tmp_path, slowly, "--dump-dom", query="q=canary")
    found = re.search(r"(\d+) matching documents", dom)
    assert found is not None
    assert int(found[1]) >= 5
    assert 'href="file://' in dom or "canary.html" in dom
    nothing = chromium(site / "index.html", tmp_path, slowly, "--dump-dom", query="q=xyzzyplugh")
    assert "No matching documents" in nothing
