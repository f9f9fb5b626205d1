"""The report in a real browser; run by `make test-browser`, which needs Debian's chromium."""

from __future__ import annotations

import re
import struct
import zlib
from html import unescape
from pathlib import Path

import pytest

import ove_sb3 as ove
from ove_sb3.report.numbers import bounds, number

from .chromium import chromium, requests, screenshot
from .pages import write_pages

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ove.Evaluation, ove.Comparison]:
    folder = tmp_path_factory.mktemp("pages")
    result, comparison = write_pages(folder)
    return folder, result, comparison


def visible_text(dom: str) -> str:
    body = dom.partition("<body>")[2]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_the_text_of_the_rendered_pages(
    pages: tuple[Path, ove.Evaluation, ove.Comparison], tmp_path: Path
) -> None:
    folder, result, comparison = pages
    text = visible_text(chromium(folder / "report.html", tmp_path, "--dump-dom"))
    assert "All requirements are proven with 95% confidence." in text
    for verdict in result.check_all("variance <= 80", "mean >= 35"):
        assert str(verdict) in text
    for one in result.quantities.values():
        assert number(one.estimate) in text
        for interval in one.intervals:
            assert bounds(interval) in text
    assert f"seed {result.plan.seed}" in text
    text = visible_text(chromium(folder / "comparison.html", tmp_path, "--dump-dom"))
    assert comparison.answer in text
    for name, evaluation in comparison.evaluations.items():
        assert name in text
        for one in evaluation.quantities.values():
            assert bounds(one.interval) in text


def test_no_request_leaves_the_page(
    pages: tuple[Path, ove.Evaluation, ove.Comparison], tmp_path: Path
) -> None:
    for name in ("report.html", "comparison.html"):
        asked = requests(pages[0] / name, tmp_path)
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_the_check_for_requests_would_notice_one(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><img src="http://127.0.0.1:9/picture.png">')
    assert "http://127.0.0.1:9/picture.png" in requests(page, tmp_path)


# Counts pairs of texts in charts that cover each other, and elements that are wider than the page.
MEASURE = """
onload = () => {
  const d = document.getElementById('f').contentDocument, root = d.documentElement;
  const seen = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0; };
  let covering = 0, texts = 0;
  for (const svg of [...d.querySelectorAll('figure svg')].filter(seen)) {
    const boxes = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
    texts += boxes.length;
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => {
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 1 && y > 3) covering += 1;
    }));
  }
  const small = [...d.querySelectorAll('figure svg text')].filter(seen).map(
    t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a);
  const wide = [...d.querySelectorAll('body *')].filter(seen).filter(
    e => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest('.scroll, svg'));
  document.title = [root.scrollWidth, texts, covering, wide.length, Math.min(...small)].join(' ');
}
"""


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("name", ["report.html", "comparison.html", "nothing.html"])
def test_text_fits_and_nothing_overlaps(
    pages: tuple[Path, ove.Evaluation, ove.Comparison], tmp_path: Path, name: str, width: int
) -> None:
    # The script that measures is added here, as the report itself has none and forbids them.
    page = re.sub(r"<meta http-equiv[^>]*>", "", (pages[0] / name).read_text())
    frame = tmp_path / "frame.html"
    inner = page.replace("&", "&amp;").replace('"', "&quot;")
    frame.write_text(
        f'<!doctype html><iframe srcdoc="{inner}" width="{width}" height="800" id="f"></iframe>'
        f"<script>{MEASURE}</script>"
    )
    dom = chromium(frame, tmp_path, f"--window-size={width + 100},900", "--dump-dom")
    found = re.search(r"<title>(\d+) (\d+) (\d+) (\d+) ([\d.]+)</title>", dom)
    assert found is not None
    across, texts, covering, wide = map(int, found.groups()[:4])
    assert across <= width
    assert texts > 20
    assert covering == 0
    assert wide == 0
    assert float(found[5]) >= 9.0, "pixels"


def test_pictures(pages: tuple[Path, ove.Evaluation, ove.Comparison], tmp_path: Path) -> None:
    report = pages[0] / "report.html"
    folder = tmp_path
    screenshot(report, folder / "report.png", tmp_path, (1000, 1500))
    screenshot(report, tmp_path / "phone.png", tmp_path, (390, 2600))
    dark = "--blink-settings=preferredColorScheme=0"
    screenshot(report, tmp_path / "dark.png", tmp_path, (1000, 1080), dark)
    for picture in (folder / "report.png", tmp_path / "phone.png", tmp_path / "dark.png"):
        assert len(set(pixels(picture))) > 50, "not a blank page"
    assert pixels(folder / "report.png")[0] == 255
    assert pixels(tmp_path / "dark.png")[0] < 60


def pixels(picture: Path) -> bytes:
    """First color channel of the top left pixel, then raw data: enough to tell pages apart."""
    raw = picture.read_bytes()
    assert raw.startswith(b"\x89PNG")
    at, data = 8, b""
    while at < len(raw):
        (size,) = struct.unpack(">I", raw[at : at + 4])
        if raw[at + 4 : at + 8] == b"IDAT":
            data += raw[at + 8 : at + 8 + size]
        at += size + 12
    return zlib.decompress(data)[1:]
