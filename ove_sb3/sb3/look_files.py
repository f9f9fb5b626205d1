"""What is kept of the looks of a run: evaluations.npz, the best model, a figure."""

from __future__ import annotations

import os
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.errors import StorageError

from .look import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = dict[str, list[Any]]


def row_of(look: Look, admissible: bool) -> dict[str, Any]:
    """The numbers of a look under the names they have in evaluations.npz."""
    return {
        "timesteps": look.timesteps,
        "look": look.number,
        "delta": look.delta,
        "mean": look.mean,
        "mean_lower": look.mean_interval.lower,
        "mean_upper": look.mean_interval.upper,
        "variance": look.variance,
        "variance_lower": look.variance_interval.lower,
        "variance_upper": look.variance_interval.upper,
        "ess": look.effective_sample_size,
        "n_trajectories": look.n_trajectories,
        "behavior_mean": look.behavior_mean,
        "behavior_variance": look.behavior_variance,
        "guaranteed": look.guaranteed,
        "admissible": admissible,
    }


_NAMES = [
    "timesteps",
    "look",
    "delta",
    "mean",
    "mean_lower",
    "mean_upper",
    "variance",
    "variance_lower",
    "variance_upper",
    "ess",
    "n_trajectories",
    "behavior_mean",
    "behavior_variance",
    "guaranteed",
    "admissible",
]


def empty_rows() -> Rows:
    """No looks yet."""
    return {name: [] for name in _NAMES}


def write_rows(rows: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Write evaluations.npz: whole, or not at all."""
    arrays: dict[str, NDArray[Any]] = {name: np.array(values) for name, values in rows.items()}
    write_whole(path, lambda temporary: np.savez(temporary, **arrays))  # type: ignore[arg-type]


def read_rows(path: Path) -> Rows:
    """Read evaluations.npz back."""
    try:
        with np.load(path) as file:
            return {name: file[name].tolist() for name in _NAMES}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise StorageError(
            f"`{path}` must be written by OffPolicyVarianceCallback for its count of looks to be "
            f"continued, but it cannot be read: {error}. Choose another `log_path`, or move the "
            "file away to start a new count."
        ) from error


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a file beside `path`, then rename it: `path` is never half-written."""
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex[:8]}{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def draw(rows: Rows, limits: Mapping[str, float | None], confidence: str) -> Figure:
    """Mean and variance with their bounds over the steps of training.

    Parameters
    ----------
    rows : dict of list
        The looks so far.
    limits : dict
        ``"mean"`` and ``"variance"``: limits to be kept, None if there is none.
    confidence : str
        What the bounds are, for the legend.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, name in zip(panels, ("mean", "variance"), strict=True):
        _panel(axes, rows, name, limits[name], confidence)
    entries = {label: handle for axes in panels for handle, label in _legend(axes)}
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
    return figure


def _legend(axes: Axes) -> Iterator[tuple[Any, str]]:
    return zip(*axes.get_legend_handles_labels(), strict=True)


def _panel(axes: Axes, rows: Rows, name: str, limit: float | None, confidence: str) -> None:
    steps = np.array(rows["timesteps"])
    value, lower, upper = (np.array(rows[name + end]) for end in ("", "_lower", "_upper"))
    axes.fill_between(steps, lower, upper, color="tab:blue", alpha=0.2, label=confidence)
    axes.vlines(steps, lower, upper, color="tab:blue", linewidth=1.0)
    axes.plot(steps, value, "o-", color="tab:blue", markersize=4, label="candidate, estimate")
    behavior = np.array(rows[f"behavior_{name}"])
    axes.plot(steps, behavior, "--", color="0.4", label="behavior, as logged")
    if limit is not None:
        axes.axhline(limit, color="tab:red", linewidth=1.2, label="the gate")
    if name == "variance":
        # Bounds may lie orders of magnitude apart; 0 stays visible.
        scale = max(float(np.nanmin(np.append(behavior, upper))), 1e-12)
        axes.set_yscale("symlog", linthresh=scale)
        axes.set_ylim(bottom=0.0)
    axes.set_xlabel("steps of training")
    axes.set_title(f"{name} of the return")
