"""Detection of trajectories that are in a log more than once.

Copies are not independent: a log joined to itself has intervals that are too narrow by sqrt(2).
Equal trajectories are common where few outcomes are possible, so equality alone proves nothing.
Two facts do, each of probability below `CHANCE` for independent trajectories:

- A run of k trajectories occurs again elsewhere. For trajectories drawn independently from any one
  distribution p, a run with counts c_1, c_2, ... of different outcomes is repeated at a given place
  with probability prod p_j^c_j <= prod (c_j / k)^c_j, and there are fewer than n^2 / 2 places.
- Most outcomes occur a multiple of m >= 2 times. For a Poisson number of trajectories, the counts
  of the D outcomes that occur are independent, and a Poisson variable that is not 0 is a multiple
  of m with probability below 1/2. So at most k of them are not with probability at most that of at
  most k heads in D tosses of a coin. That there are n trajectories has probability at least
  1 / (e sqrt(n)), by which this is divided. Every m has its share 1 / (m (m - 1)) of `CHANCE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from ove_sb3._validation import FloatArray, IntArray

CHANCE = 1e-9
_MOST_COPIES = 64
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_BASE = 0x2545F4914F6CDD1D  # of the polynomial that identifies a run


def n_repeated(*columns: FloatArray) -> int:
    """Number of trajectories that repeat others beyond chance, from their columns, (n,) each."""
    outcomes, counts = _outcomes(columns)
    return max(_multiples(counts), _repeated_runs(outcomes, counts))


def _outcomes(columns: Sequence[FloatArray]) -> tuple[IntArray, IntArray]:
    """Number of every trajectory's outcome, (n,), and how often each occurs."""
    key = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        bits = (column + 0.0).view(np.uint64)  # -0 becomes 0
        key = _mixed(key * np.uint64(_MULTIPLIERS[0]) + bits)
    _, outcomes, counts = np.unique(key, return_inverse=True, return_counts=True)
    return outcomes.astype(np.int64), counts.astype(np.int64)


def _mixed(key: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One-to-one map whose output bits depend on all input bits (splitmix64)."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(_MULTIPLIERS[1])
    key = (key ^ (key >> np.uint64(27))) * np.uint64(_MULTIPLIERS[2])
    return key ^ (key >> np.uint64(31))


def _multiples(counts: IntArray) -> int:
    """Number of copies in a log in which most outcomes occur m times, in any order."""
    n_outcomes, n = counts.size, int(counts.sum())
    if 2 * np.count_nonzero(counts == 1) > n_outcomes:  # by far the most common case
        return 0
    repetitions, frequencies = np.unique(counts, return_counts=True)
    for m in (int(np.gcd.reduce(repetitions)), *range(_MOST_COPIES, 1, -1)):
        if m < 2:
            continue
        others = int(frequencies[repetitions % m > 0].sum())
        allowed = CHANCE / (m * (m - 1)) / (math.e * math.sqrt(n))
        if bdtr(others, n_outcomes, 0.5) < allowed:
            return n - int(frequencies @ -(-repetitions // m))
    return 0


def _repeated_runs(outcomes: IntArray, counts: IntArray) -> int:
    """Trajectories in runs that occurred before, in the same order."""
    n = outcomes.size
    needed = math.log(n * n / 2 / CHANCE)
    n_doublings = _run_doublings(counts / n, needed, n // 2)
    if n_doublings is None:
        return 0
    k = 2**n_doublings
    keys = _run_keys(outcomes, n_doublings)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    earlier = first[inverse]
    surprises: dict[int, float] = {}  # by the first occurrence
    total = end = 0
    for start in np.flatnonzero(np.arange(keys.size) - earlier >= k).tolist():
        if start >= end:
            source = int(earlier[start])
            if source not in surprises:
                surprises[source] = surprise(outcomes[source : source + k])
            if surprises[source] < needed:
                continue
        total += start + k - max(start, end)
        end = start + k
    return total


def _run_doublings(frequencies: NDArray[np.float64], needed: float, longest: int) -> int | None:
    """log2 of the length of runs that are surprising enough if repeated; None beyond `longest`."""
    entropy = float(-np.sum(frequencies * np.log(frequencies)))
    n_doublings = 1
    while 1.5 * needed > 2**n_doublings * min(entropy, n_doublings * math.log(2.0)):
        n_doublings += 1
        if 2**n_doublings > longest:
            return None
    return n_doublings


def _run_keys(outcomes: IntArray, n_doublings: int) -> NDArray[np.uint64]:
    """Key of every run of 2^n_doublings consecutive outcomes: a polynomial modulo 2^64."""
    keys = _mixed(outcomes.astype(np.uint64) + np.uint64(1))
    power = _BASE
    for k in range(n_doublings):
        keys = keys[: -(2**k)] * np.uint64(power) + keys[2**k :]
        power = power * power % 2**64
    return keys


def surprise(run: IntArray) -> float:
    """Least -log probability of the run under any distribution of independent trajectories."""
    counts = np.unique(run, return_counts=True)[1]
    return float(run.size * math.log(run.size) - np.sum(counts * np.log(counts)))
