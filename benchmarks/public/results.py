"""Stored results: one JSON file per part, continued by the next run with the same settings."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import ove_sb3 as ove
from ove_sb3.experiments.storage import read_json, versions, write_json

Content = dict[str, Any]


def load(path: Path, settings: Mapping[str, Any]) -> Content:
    """Results so far; only the settings if there are none, or if their settings differ."""
    if path.exists():
        content: Content = read_json(path)
        if content["settings"] == settings:
            return content
    return {"settings": dict(settings)}


def save(path: Path, content: Content) -> None:
    """Store the results with the date, the machine and the versions."""
    content["measured"] = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "machine": machine(),
        "versions": versions(),
    }
    write_json(path, content)


def machine() -> str:
    """Processor, number of cores and operating system."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0].partition(":")[2].strip() if models else name
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def stamp(content: Content) -> str:
    """Date and machine of the measurement, for the page."""
    measured = content["measured"]
    python = measured["versions"].get("python", platform.python_version())
    return f"Measured on {measured['date']}, {measured['machine']}, Python {python}."


def evaluation_summary(result: ove.Evaluation) -> Content:
    """Estimates, bounds, effective sample size, warnings and advice of an evaluation."""
    quantities = {}
    for name, entry in result.quantities.items():
        interval = entry.interval
        quantities[name] = {
            "estimate": number(entry.estimate),
            "lower": interval.lower,
            "upper": interval.upper,
            "guaranteed": interval.guaranteed,
            "informative": interval.informative,
        }
    return {
        "n": result.n_trajectories,
        "ess": number(result.diagnostics.effective_sample_size),
        "quantities": quantities,
        "warnings": list(result.warnings),
        "advice": list(result.advice),
    }


def number(value: float) -> float | None:
    """A finite number for JSON, else None."""
    return float(value) if np.isfinite(value) else None
