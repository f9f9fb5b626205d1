"""Stored results: one JSON file per part, continued by the next run with the same settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import ove_sb3 as ove
from ove_sb3.experiments.storage import measurement, read_json, write_json

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
    content["measured"] = measurement()
    write_json(path, content)


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
