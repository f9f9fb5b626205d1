"""The evaluations of a training run over time: evaluations.npz, and a figure."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._files import replacing
from ove_sb3.errors import StorageError

from .views import EvaluationView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
_FIRST = ("timesteps", "evaluation", "delta")
_LAST = ("ess", "n_trajectories", "guaranteed", "satisfied")


class History:
    """Rows of numbers, one per evaluation, with the same keys.

    Parameters
    ----------
    quantities : sequence of str
        Short names of the quantities.
    """

    def __init__(self, quantities: Sequence[str]) -> None:
        self.quantities = tuple(quantities)
        self.rows: dict[str, list[Any]] = {name: [] for name in self.keys}

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the columns."""
        columns = [key for name in self.quantities for key in quantity_keys(name)]
        return (*_FIRST, *columns, *_LAST)

    def __len__(self) -> int:
        return len(self.rows["evaluation"])

    def add(self, row: Row) -> None:
        """Append an evaluation."""
        for name in self.keys:
            self.rows[name].append(row[name])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Columns as arrays."""
        return {name: np.array(values) for name, values in self.rows.items()}

    def save(self, path: Path) -> None:
        """Write evaluations.npz atomically."""
        with replacing(path) as temporary:
            np.savez(temporary, **self.arrays())  # type: ignore[arg-type]

    def load(self, path: Path) -> None:
        """Read evaluations.npz back."""
        try:
            with np.load(path) as file:
                self.rows = {name: file[name].tolist() for name in self.keys}
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise StorageError(
                f"`{path}` must be written by OffPolicyVarianceCallback, with the same quantities, "
                f"for its count of evaluations to continue, but it cannot be read: {error}. Choose "
                "another `log_path`, or move the file away to start a new count."
            ) from error


def quantity_keys(name: str) -> tuple[str, str, str, str]:
    """Keys of estimate, bounds and behavior of a quantity."""
    return name, f"{name}_lower", f"{name}_upper", f"behavior_{name}"


def make_row(
    result: EvaluationView, *, number: int, timesteps: int, delta: float, satisfied: bool
) -> Row:
    """Numbers of an evaluation under the names they have in evaluations.npz."""
    row: Row = {"timesteps": timesteps, "evaluation": number, "delta": delta}
    for name, one in result.quantities.items():
        values = (one.estimate, one.interval.lower, one.interval.upper, one.behavior)
        row.update(zip(quantity_keys(name), values, strict=True))
    intervals = [one.interval for one in result.quantities.values()]
    row["ess"] = result.diagnostics.effective_sample_size
    row["n_trajectories"] = result.diagnostics.n_trajectories
    row["guaranteed"] = all(interval.guaranteed for interval in intervals)
    row["satisfied"] = satisfied
    return row


def history_figure(
    history: History, limits: Mapping[str, Sequence[float]], confidence: str
) -> Figure:
    """Every quantity with its bounds over the steps of training.

    Parameters
    ----------
    history : History
    limits : dict of str to sequence of float
        Required limits by quantity.
    confidence : str
        Label of the bounds.
    """
    from matplotlib.figure import Figure

    n = len(history.quantities)
    figure = Figure(figsize=(4.5 * n, 3.8), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, n))
    for axes, name in zip(panels, history.quantities, strict=True):
        _draw_panel(axes, history, name, limits.get(name, ()), confidence)
    entries = {label: handle for axes in panels for handle, label in _legend(axes)}
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
    return figure


def _legend(axes: Axes) -> Iterator[tuple[Any, str]]:
    return zip(*axes.get_legend_handles_labels(), strict=True)


def _draw_panel(
    axes: Axes, history: History, name: str, limits: Sequence[float], confidence: str
) -> None:
    rows = history.arrays()
    steps = rows["timesteps"]
    value, lower, upper, behavior = (rows[key] for key in quantity_keys(name))
    axes.fill_between(steps, lower, upper, color="tab:blue", alpha=0.2, label=confidence)
    axes.vlines(steps, lower, upper, color="tab:blue", linewidth=1.0)
    axes.plot(steps, value, "o-", color="tab:blue", markersize=4, label="candidate, estimate")
    axes.plot(steps, behavior, "--", color="0.4", label="behavior, as logged")
    for limit in limits:
        axes.axhline(limit, color="tab:red", linewidth=1.2, label="requirement")
    if name == "variance":
        # Bounds may lie orders of magnitude apart; 0 stays visible.
        scale = max(float(np.nanmin(np.append(behavior, upper))), 1e-12)
        axes.set_yscale("symlog", linthresh=scale)
        axes.set_ylim(bottom=0.0)
    axes.set_xlabel("steps of training")
    axes.set_title(f"{name} of the return")
