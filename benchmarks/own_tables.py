"""Time to read a table of a million steps, relative to its parts that others do.

pyarrow reads the same file, and SHA-256 is computed of two of its columns: a digest identifies a
log of unknown origin. How long that takes depends on whether the processor supports it.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet

import ove_sb3 as ove

from .promises import record
from .tables import cpu_times, median_ratio, print_table

HEADER = ("rows", "pyarrow (CPU ms)", "SHA-256 (CPU ms)", "from_table (CPU ms)", "ratio to both")


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
    digested = steps[["p_old", "reward"]].to_numpy().tobytes()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.parquet"
        for name, table in tables.items():
            table.to_parquet(path, index=False)
            calls = [
                lambda: pyarrow.parquet.read_table(path),
                lambda: hashlib.sha256(digested),
                lambda: ove.Trajectories.from_table(path, keep=["p_new"]),
            ]
            times = cpu_times(calls, 15)
            parts = times[:, :2].sum(axis=1)
            ratio = median_ratio(np.stack([parts, times[:, 2]], axis=1))
            if name == "in order":
                record("table", ratio)
            rows.append((name, *(1e3 * np.median(times, axis=0)), ratio))
    print_table(f"Reading {n_steps:,} steps from a Parquet file", HEADER, rows, name="own_tables")


if __name__ == "__main__":
    main()
