"""Data exchanged between the harness and a peer's environment: a log in, an answer out.

Needs only numpy, in any version, because it is imported in every environment.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FRACTION = 0.25
"""Of the quantile and of the CVaR: the lower quartile, the mean of the worst quarter."""
QUANTITIES = ("mean", "variance", "quantile", "cvar")
"""Quantities of the return, in the order of the tables; fields of `Log` hold the true values."""


@dataclass(frozen=True)
class Log:
    """One logged data set, with its known limits and the truth.

    Parameters
    ----------
    log_ratios, rewards : (n_steps,) float64
        All steps of all episodes, concatenated.
    lengths : (n,) int64
        Number of steps of each episode.
    gamma, horizon : float, int
        Discount, and the largest possible length.
    reward_range : (float, float)
        Smallest and largest reward, including the 0 of an episode that has ended.
    max_ratio : float
        Known bound on the ratio of one step.
    mean, variance, quantile, cvar : float
        True values for the candidate's return, for oracles only.
    """

    log_ratios: Any
    rewards: Any
    lengths: Any
    gamma: float
    horizon: int
    reward_range: tuple[float, float]
    max_ratio: float
    mean: float
    variance: float
    quantile: float
    cvar: float


@dataclass(frozen=True)
class Answer:
    """An estimate of a quantity and an interval, each None where there is none."""

    estimate: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Method:
    """One way to use one peer.

    Parameters
    ----------
    run : callable
        From a log to an answer.
    code : tuple of functions
        Code that a user has to write, `run` included.
    imports : int
        Number of import lines that this code needs.
    interval : bool
        Whether it gives an interval.
    one_step : bool
        Whether it answers for episodes of one step only.
    """

    run: Callable[[Log], Answer]
    code: tuple[Callable[..., object], ...]
    imports: int
    interval: bool = True
    one_step: bool = False

    @property
    def lines(self) -> int:
        """Number of lines that a user writes, without blank lines, comments and docstrings."""
        return self.imports + sum(code_lines(inspect.getsource(part)) for part in self.code)


def code_lines(source: str) -> int:
    """Number of lines of a function with code: no blanks, comments or docstrings."""
    source = textwrap.dedent(source)
    rows = source.splitlines()
    silent: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            doc = node.body[0]
            silent.update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    return sum(
        number not in silent and bool(row.strip()) and not row.strip().startswith("#")
        for number, row in enumerate(rows, start=1)
    )


def write_logs(path: Path, logs: list[Log]) -> None:
    """Store trials of one problem, all with the same number of episodes."""
    first = logs[0]
    np.savez(
        path,
        log_ratios=np.concatenate([log.log_ratios for log in logs]),
        rewards=np.concatenate([log.rewards for log in logs]),
        lengths=np.stack([log.lengths for log in logs]),
        gamma=first.gamma,
        horizon=first.horizon,
        reward_range=np.array(first.reward_range),
        max_ratio=first.max_ratio,
        **{quantity: getattr(first, quantity) for quantity in QUANTITIES},
    )


def read_logs(path: Path) -> Iterator[Log]:
    """Read the trials one by one."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    low, high = arrays["reward_range"]
    start = 0
    for lengths in arrays["lengths"]:
        steps = slice(start, start + int(lengths.sum()))
        start = steps.stop
        yield Log(
            log_ratios=arrays["log_ratios"][steps],
            rewards=arrays["rewards"][steps],
            lengths=lengths,
            gamma=float(arrays["gamma"]),
            horizon=int(arrays["horizon"]),
            reward_range=(float(low), float(high)),
            max_ratio=float(arrays["max_ratio"]),
            **{quantity: float(arrays[quantity]) for quantity in QUANTITIES},
        )


def finite_or_none(value: float | None) -> float | None:
    """Return a finite value, and None for any other, as JSON has no NaN."""
    return float(value) if value is not None and math.isfinite(value) else None
