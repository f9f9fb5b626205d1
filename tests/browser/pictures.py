"""Pictures of report, site and command line, to look at: ``make pictures``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.text import Text

from tests.report.vision import DEFICIENCIES, seen

from .chromium import chromium, screenshot
from .pages import Leaning, collect, write_pages
from .site import ROOT, build_site

SIZES = {"phone": (390, 9500), "tablet": (820, 7000), "desktop": (1280, 6500)}
SITE_SIZES = {"phone": (390, 1400), "desktop": (1280, 1100)}
DARK = "--blink-settings=preferredColorScheme=0"
COMMANDS = {
    "help": ["--help"],
    "evaluate": ["evaluate", "log", "new.npy", "--gamma", "1", "--require", "mean >= 35",
                 "--require", "variance <= 60"],
    "error": ["evaluate", "log", "new.npy", "--gamma", "1", "--reward-range", "0", "0.5"],
}  # fmt: skip


def main(folder: Path) -> None:
    """Write all pictures to `folder`, and print their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        report_pictures(folder, work)
        site_pictures(folder, work)
        command_pictures(folder, work)
    for picture in sorted(folder.iterdir()):
        print(picture)


def report_pictures(folder: Path, work: Path) -> None:
    """Both reports at three widths, dark, printed, and with simulated color vision deficiencies."""
    write_pages(work)
    for page in ("report", "comparison"):
        for device, size in SIZES.items():
            picture = folder / f"{page}-{device}.png"
            screenshot(work / f"{page}.html", picture, work, size)
            crop(picture)
        options = (
            f"--print-to-pdf={(folder / f'{page}.pdf').absolute()}",
            "--no-pdf-header-footer",
        )
        chromium(work / f"{page}.html", work, *options)
    screenshot(work / "report.html", folder / "report-dark.png", work, SIZES["desktop"], DARK)
    crop(folder / "report-dark.png")
    screenshot(work / "report.html", ROOT / "docs" / "images" / "report.png", work, (1000, 1800))
    pixels = np.asarray(Image.open(folder / "report-desktop.png").convert("RGB")) / 255
    for deficiency in set(DEFICIENCIES) - {"none"}:
        changed = Image.fromarray((255 * seen(pixels, deficiency)).round().astype(np.uint8))
        changed.save(folder / f"report-{deficiency.replace(' ', '-')}.png")


def site_pictures(folder: Path, work: Path) -> None:
    """Pages of the documentation, and its search."""
    site = build_site(work / "site")
    for page in ("index", "tutorial", "conventions", "api"):
        for device, size in SITE_SIZES.items():
            screenshot(site / f"{page}.html", folder / f"site-{page}-{device}.png", work, size)
    slowly, size = "--virtual-time-budget=10000", SITE_SIZES["desktop"]
    found = folder / "site-search.png"
    screenshot(site / "index.html", found, work, size, slowly, query="q=canary")


def command_pictures(folder: Path, work: Path) -> None:
    """Commands in a terminal of 100 columns."""
    data = collect(Leaning(3.0), 1500, horizon=40, seed=0)
    data.save(work / "log")
    np.save(work / "new.npy", Leaning(3.6).log_probs(data))
    for name, arguments in COMMANDS.items():
        shown = subprocess.run(
            [sys.executable, "-m", "ove_sb3", *arguments],
            cwd=work,
            env={**os.environ, "COLUMNS": "100", "FORCE_COLOR": "1", "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout
        with open(os.devnull, "w") as nowhere:
            console = Console(record=True, width=100, file=nowhere, force_terminal=True)
            console.print(Text.from_ansi(shown))
        svg = console.export_svg(title=f"ove-sb3 {arguments[0]}")
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # web fonts would be fetched
        (folder / f"command-{name}.svg").write_text(svg)
        page = work / f"{name}.html"
        page.write_text(f"<!doctype html><body style='margin: 0'>{svg}")
        screenshot(page, folder / f"command-{name}.png", work, (1260, 1600))
        crop(folder / f"command-{name}.png")


def crop(picture: Path) -> None:
    """Crop the empty part at the bottom."""
    image = Image.open(picture).convert("RGB")
    pixels = np.asarray(image)
    filled = np.flatnonzero((pixels != pixels[-1, 0]).any(axis=(1, 2)))
    assert filled[-1] < image.height - 1, f"{picture.name}: the page is longer than the window"
    image.crop((0, 0, image.width, min(int(filled[-1]) + 20, image.height))).save(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
