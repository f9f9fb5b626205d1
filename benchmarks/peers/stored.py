"""Results of finished methods, kept until the data, the code or the versions change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .environments import Environment

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "ove_sb3"


def fingerprint(
    environment: Environment,
    module: str,
    quantity: str,
    method: str,
    data: Sequence[Path],
) -> str:
    """Digest of the data, the versions and the code that a result depends on.

    The code is that of the methods and of the worker, and for our own methods the whole package.
    """
    digest = hashlib.sha256()
    facts = (module, quantity, method, environment.pins)
    digest.update(repr(facts).encode())
    for path in (*data, *_sources(environment)):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def _sources(environment: Environment) -> Iterable[Path]:
    # The modules of a peer share functions, and most import some from `paper_formulas`.
    for name in dict.fromkeys((*environment.modules, "paper_formulas")):
        yield HERE / "methods" / f"{name}.py"
    yield HERE / "protocol.py"
    yield HERE / "worker.py"
    if environment.own:
        yield from sorted(PACKAGE.rglob("*.py"))


def load(path: Path, cpu_seconds: float) -> dict[str, Any] | None:
    """A stored result, or None if there is no usable one.

    A result is usable if it saw all data sets, or had at least this much CPU time per problem.
    """
    try:
        result = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    complete = all(cell["complete"] for cell in result["cells"].values())
    return result if complete or result["cpu_seconds"] >= cpu_seconds else None
