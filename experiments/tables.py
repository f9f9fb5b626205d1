"""Tables of the results: computed, printed and saved."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from scipy.stats import binomtest

from ove_sb3.core.quantities import as_quantity

from .runner import StudyResult
from .settings import BOUNDS, ESTIMATORS, RISK, bounds_of, risk_bounds_of
from .storage import write_json

Row = dict[str, Any]


def estimate_rows(result: StudyResult) -> list[Row]:
    """One row per n and estimator: mean, standard deviation, bias and error over the trials.

    ``bias_z`` is the bias in standard errors, ``error_percent`` the root mean square error in % of
    the true variance.
    """
    rows = []
    truth = result.truth.variance
    for n in result.sizes.n_grid:
        cells = [cell for cell in result.cells if cell["n"] == n]
        for name, label in ESTIMATORS.items():
            values = np.array([cell["estimates"][name] for cell in cells])
            sd = _sd(values)
            bias = float(values.mean()) - truth
            error = np.hypot(sd / np.sqrt(values.size), result.truth.standard_error)
            rows.append(
                {
                    "study": result.study.name,
                    "n": n,
                    "estimator": name,
                    "label": label,
                    "trials": values.size,
                    "truth": truth,
                    "mean": float(values.mean()),
                    "sd": sd,
                    "bias": bias,
                    "bias_z": bias / float(error) if error > 0.0 else 0.0,
                    "error_percent": 100.0 * float(np.sqrt(np.mean((values - truth) ** 2))) / truth,
                }
            )
    return rows


def bound_rows(result: StudyResult) -> list[Row]:
    """One row per n and pair of bounds: means, misses, widths.

    ``misses_lower`` counts lower bounds above the truth, ``misses_upper`` upper bounds below it.
    ``p_lower`` and ``p_upper`` are p-values of the binomial test of a miss probability of at most
    ``delta``. ``times_narrower`` is the mean width of the paper's guaranteed interval divided by
    that of this one.
    """
    rows = []
    truth, delta = result.truth.variance, result.study.delta
    for n in result.sizes.n_grid:
        cells = [cell for cell in result.cells if cell["n"] == n]
        paper = _mean_width(cells, "paper")
        for name, kind in bounds_of(result.study).items():
            lower, upper = np.array([cell["bounds"][name] for cell in cells]).T
            width = _mean_width(cells, name)
            below, above = int((lower > truth).sum()), int((upper < truth).sum())
            trials = lower.size
            rows.append(
                {
                    "study": result.study.name,
                    "n": n,
                    "bounds": name,
                    "label": kind.label,
                    "guaranteed": kind.guaranteed,
                    "delta": delta,
                    "trials": trials,
                    "truth": truth,
                    "lower": float(lower.mean()),
                    "lower_se": _sd(lower) / np.sqrt(trials),
                    "upper": float(upper.mean()),
                    "upper_se": _sd(upper) / np.sqrt(trials),
                    "misses_lower": below,
                    "misses_upper": above,
                    "p_lower": binomtest(below, trials, delta, alternative="greater").pvalue,
                    "p_upper": binomtest(above, trials, delta, alternative="greater").pvalue,
                    "width": width,
                    "times_narrower": paper / width if width > 0.0 else np.inf,
                }
            )
    return rows


def risk_rows(result: StudyResult) -> list[Row]:
    """One row per risk quantity, n and pair of bounds: means and misses, as in `bound_rows`."""
    rows = []
    delta = result.study.delta
    for quantity, n in itertools.product(RISK, result.sizes.n_grid):
        cells = [cell["risk"][quantity] for cell in result.cells if cell["n"] == n]
        truth = result.truth.risk.get(quantity, math.nan)
        rounding = 1e-9 * max(1.0, abs(truth))
        for name, kind in risk_bounds_of(result.study).items():
            lower, upper = np.array([cell["bounds"][name] for cell in cells]).T
            trials = lower.size
            rows.append(
                {
                    "study": result.study.name,
                    "quantity": quantity,
                    "n": n,
                    "bounds": name,
                    "label": kind.label,
                    "guaranteed": kind.guaranteed,
                    "delta": delta,
                    "trials": trials,
                    "truth": truth,
                    "estimate": float(np.mean([cell["estimate"] for cell in cells])),
                    "lower": float(lower.mean()),
                    "upper": float(upper.mean()),
                    "misses_lower": int((lower > truth + rounding).sum()),
                    "misses_upper": int((upper < truth - rounding).sum()),
                }
            )
    return rows


def trial_rows(result: StudyResult) -> list[Row]:
    """Raw results: one row per trial, n, and estimator or pair of bounds."""
    rows: list[Row] = []
    for cell in result.cells:
        key = {"study": result.study.name, "trial": cell["trial"], "n": cell["n"]}
        for name, value in cell["estimates"].items():
            rows.append({**key, "name": name, "estimate": value, "lower": None, "upper": None})
        for name, (lower, upper) in cell["bounds"].items():
            rows.append({**key, "name": name, "estimate": None, "lower": lower, "upper": upper})
    return rows


def save(result: StudyResult, folder: Path) -> None:
    """Write the tables as CSV, ``trials.parquet`` and ``settings.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (
        ("bounds", bound_rows(result)),
        ("estimates", estimate_rows(result)),
        ("risk", risk_rows(result)),
    ):
        pyarrow.csv.write_csv(pa.Table.from_pylist(rows), folder / f"{name}.csv")
    pq.write_table(pa.Table.from_pylist(trial_rows(result)), folder / "trials.parquet")
    write_json(folder / "settings.json", result.settings())


def as_text(result: StudyResult) -> str:
    """The tables of a study as text."""
    study, truth = result.study, result.truth
    source = (
        f"± {truth.standard_error:.2g} from {truth.episodes:,} on-policy episodes"
        if truth.episodes
        else "exact"
    )
    trials = result.sizes.n_trials
    lines = [
        f"\n{study.title}",
        f"true variance {truth.variance:.4g} {study.unit} ({source}), mean return "
        f"{truth.mean:.4g}; {trials} trials, each bound at level {study.delta:g}\n",
    ]
    lines += _aligned(
        ["n", "bounds", "lower", "upper", "misses − / +", "width", "width vs paper"],
        [
            [
                f"{row['n']:,}",
                row["label"],
                f"{row['lower']:.4g}",
                f"{row['upper']:.4g}",
                f"{row['misses_lower']} / {row['misses_upper']}",
                f"{row['width']:.4g}",
                f"1/{row['times_narrower']:.3g}",
            ]
            for row in bound_rows(result)
        ],
    )
    lines.append("\nmean ± standard deviation of the estimators over the trials\n")
    rows = estimate_rows(result)
    lines += _aligned(
        ["n", *ESTIMATORS.values()],
        [
            [f"{n:,}", *(f"{r['mean']:.3g} ± {r['sd']:.2g}" for r in rows if r["n"] == n)]
            for n in result.sizes.n_grid
        ],
    )
    lines.append("\nrisk: mean bounds by betting, and misses − / +\n")
    risk = [row for row in risk_rows(result) if row["bounds"] == "betting"]
    lines += _aligned(
        ["n", *(as_quantity(name).label for name in RISK)],
        [
            [f"{n:,}", *(_risk_cell(row) for row in risk if row["n"] == n)]
            for n in result.sizes.n_grid
        ],
    )
    lines.append(", ".join(f"{k} {v:.4g}" for k, v in truth.risk.items()) + " (on-policy)")
    return "\n".join(lines) + "\n"


def _risk_cell(row: Row) -> str:
    bounds = f"[{row['lower']:.3g}, {row['upper']:.3g}]"
    return f"{bounds} {row['misses_lower']} / {row['misses_upper']}"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown table with aligned columns."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    texts = {bounds.label for bounds in BOUNDS.values()}

    def line(cells: Iterable[str]) -> str:
        padded = (
            cell.ljust(width) if cell in texts or cell == "bounds" else cell.rjust(width)
            for cell, width in zip(cells, widths, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rules = ("-" * (width + 1) + ":" for width in widths)
    return [line(header), "|" + "|".join(rules) + "|", *map(line, rows)]


def _mean_width(cells: Sequence[dict[str, Any]], name: str) -> float:
    return float(np.mean([cell["bounds"][name][1] - cell["bounds"][name][0] for cell in cells]))


def _sd(values: Any) -> float:
    return float(np.std(values, ddof=1)) if np.size(values) > 1 else 0.0
