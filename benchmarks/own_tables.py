"""Time to read a table of a million steps, relative to pyarrow reading the same file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet

import ove_sb3 as ove

from .promises import record
from .tables import cpu_times, median_ratio, print_table

HEADER = ("rows", "pyarrow (CPU ms)", "from_table (CPU ms)", "ratio")


def make_steps(n_steps: int, length: int) -> pd.DataFrame:
    """Table of episodes of equal length, with two propensities."""
    rng = np.random.default_rng(0)
    n = n_steps // length
    return pd.DataFrame(
        {
            "episode_id": np.repeat(np.arange(n), length),
            "step": np.tile(np.arange(length), n),
            "p_old": rng.uniform(0.1, 1.0, n * length),
            "p_new": rng.uniform(0.0, 1.0, n * length),
            "reward": rng.random(n * length),
        }
    )


def main(n_steps: int = 1_000_000, length: int = 20) -> None:
    steps = make_steps(n_steps, length)
    tables = {
        "in order": steps,
        "in order, episode ids are strings": steps.assign(
            episode_id=steps["episode_id"].map("user {:07d}".format)
        ),
        "shuffled": steps.sample(frac=1.0, random_state=0),
    }
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.parquet"
        for name, table in tables.items():
            table.to_parquet(path, index=False)
            calls = [
                lambda: pyarrow.parquet.read_table(path),
                lambda: ove.Trajectories.from_table(path, keep=["p_new"]),
            ]
            times = cpu_times(calls, 15)
            (theirs, ours), ratio = np.median(times, axis=0), median_ratio(times)
            if name == "in order":
                record("table", ratio)
            rows.append((name, 1e3 * theirs, 1e3 * ours, ratio))
    print_table(f"Reading {n_steps:,} steps from a Parquet file", HEADER, rows, name="own_tables")


if __name__ == "__main__":
    main()
