"""Results on disk, written atomically, separate for different settings and sources."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ove_sb3
import ove_sb3.core
import ove_sb3.envs
from ove_sb3._versions import library_versions


def write_json(path: Path, content: Any) -> None:
    """Write `content` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path) -> Any:
    """Read a file written by `write_json`."""
    return json.loads(path.read_text(encoding="utf-8"))


def fingerprint(content: Mapping[str, Any], sources: tuple[str, ...]) -> str:
    """Short digest of the settings and of the code that computes the results.

    Parameters
    ----------
    content
        The settings, ready for JSON.
    sources
        Folders (``"core"``, ``"envs"``) and modules of this package that the results depend on.
    """
    code = {name: _digest(name) for name in sources}
    text = json.dumps({"settings": content, "code": code}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _digest(source: str) -> str:
    """Digest of the source files of a folder and its subfolders, or of a module."""
    folders = {
        "core": Path(ove_sb3.core.__file__).parent,
        "envs": Path(ove_sb3.envs.__file__).parent,
    }
    folder = folders.get(source, Path(__file__).parent)
    if source in folders:
        paths = sorted(path for path in folder.rglob("*.py") if "render" not in path.name)
    else:
        paths = [folder / f"{source}.py"]
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that the results depend on."""
    return library_versions("simglucose")


def measurement(day: str | None = None) -> dict[str, Any]:
    """Day (today, unless given), machine and versions of a measurement."""
    return {"date": day or _day(), "machine": machine(), "versions": versions()}


def stamp(measured: Mapping[str, Any]) -> str:
    """Sentence on when and where something was measured, see `measurement`."""
    python = measured["versions"].get("python", platform.python_version())
    return f"Measured on {measured['date']}, {measured['machine']}, Python {python}."


def machine() -> str:
    """Processor, number of cores and operating system."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def last_day(folder: Path) -> str:
    """Day on which the newest result in `folder` was written; today if there is none."""
    times = [path.stat().st_mtime for path in folder.glob("*.json")]
    return _day(max(times)) if times else _day()


def _day(time: float | None = None) -> str:
    utc = datetime.timezone.utc
    now = datetime.datetime.now(utc) if time is None else datetime.datetime.fromtimestamp(time, utc)
    return now.date().isoformat()
