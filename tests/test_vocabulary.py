"""Names that were replaced do not come back."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("ove_sb3", "envs", "experiments", "benchmarks", "examples", "docs", "tests")
# Identifiers only: English words in comments and prose are free.
OLD_NAMES = (
    "DiskLog",
    "EpsilonGreedy",
    "StopTrainingOnSafeVariance",
    "Wager",
    "admissible",
    "annuity",
    "beds",
    "bootstrap_kind",
    "by_law",
    "incomplete_share",
    "last_look",
    "law_of",
    "mean_bound",
    "mean_intervals",
    "n_looks",
    "std_intervals",
    "tail_index",
    "unfinished_share",
    "wager",
)
OLD_KEYWORDS = ("looks", "max_variance", "mean_square", "min_mean")
PATTERN = re.compile(
    rf"\b(?:{'|'.join(OLD_NAMES)})\b|\b(?:{'|'.join(OLD_KEYWORDS)})=|\bove\.Look\b|\bclass Look\b"
)


def texts() -> list[Path]:
    """Python and Markdown files, except this one."""
    paths = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")]
    for folder in FOLDERS:
        for pattern in ("*.py", "*.pyi", "*.md"):
            paths += (ROOT / folder).rglob(pattern)
    return [path for path in paths if path != Path(__file__)]


def test_old_names_are_gone() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in texts()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in PATTERN.finditer(line)
    ]
    assert not found, "\n".join(found)
