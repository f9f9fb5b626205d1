"""Resampling of a smooth statistic of two columns: the work behind the bootstrap intervals.

The statistic is ``mean(p) - (mean of q)^2`` with the square of the mean estimated without bias,
either from the two halves of the data or from all pairs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.step_reduction import n_threads

_RESAMPLES_PER_TASK = 32
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW_BITS = np.uint64(0xFFFFFFFF)


def resampled_sums(table: FloatArray, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Sums over resamples with replacement, (n_resamples, 5): p, q, p^2, p q, q^2.

    Parameters
    ----------
    table : ndarray, (n, 2)
        Columns p and q.
    """
    seeds = rng.integers(0, np.iinfo(np.uint64).max, n_resamples, dtype=np.uint64, endpoint=True)
    sums = np.empty((n_resamples, 5))
    cuts = range(0, n_resamples, _RESAMPLES_PER_TASK)

    def run(first: int) -> None:
        part = slice(first, first + _RESAMPLES_PER_TASK)
        _gather(table, seeds[part], sums[part])

    with ThreadPoolExecutor(n_threads()) as pool:
        list(pool.map(run, cuts))
    return sums


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "contract", "reassoc"})
def _gather(table: FloatArray, seeds: np.ndarray, sums: FloatArray) -> None:
    """One resample per seed; indices from SplitMix64, two from every 64 bits."""
    n = np.uint64(table.shape[0])
    shift = np.uint64(32)
    for b in range(seeds.shape[0]):
        state = seeds[b]
        P = Q = PP = PQ = QQ = 0.0
        for i in range(0, table.shape[0], 2):
            state += _GOLDEN
            z = state
            z = (z ^ (z >> np.uint64(30))) * _MIX_1
            z = (z ^ (z >> np.uint64(27))) * _MIX_2
            z = z ^ (z >> np.uint64(31))
            k = ((z >> shift) * n) >> shift
            p, q = table[k, 0], table[k, 1]
            P += p
            Q += q
            PP += p * p
            PQ += p * q
            QQ += q * q
            if i + 1 < table.shape[0]:
                k = ((z & _LOW_BITS) * n) >> shift
                p, q = table[k, 0], table[k, 1]
                P += p
                Q += q
                PP += p * p
                PQ += p * q
                QQ += q * q
        sums[b, 0] = P
        sums[b, 1] = Q
        sums[b, 2] = PP
        sums[b, 3] = PQ
        sums[b, 4] = QQ
