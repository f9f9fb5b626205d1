"""Truncated importance weights of a known behavior, with a charge for the mass cut off.

If both policies are known, a trajectory can be weighted without ever exceeding a cap W. Follow it
with a weight ``rho = 1`` and a charge ``k = 0``. Before every action some actions are chosen to be
cut, those of the largest ratios; K is the candidate's probability of them. Then ``k += rho K``,
and ``rho`` is multiplied by the ratio of the logged action, or set to 0 if that action is cut. At
the end ``w' = rho`` and ``M = w' + k``.

- ``E[M] = 1``: given the past, the behavior's mean of the next rho is rho (1 - K).
- ``0 <= M <= W``: an action with ratio r is kept only if rho r <= c, and c is chosen so that
  k + rho K + c <= W.
- For 0 <= f <= b, E[w' f(G) + b k] is at least the candidate's mean of f(G), and E[w' f(G)] is at
  most that: k is, on average, the candidate's probability of taking an action that is cut.

Where K is exact, c is the largest number with k + rho K(c) + c <= W. Where K is estimated from
draws of the candidate, c = W - k - rho does not depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from ove_sb3._validation import FloatArray, IntArray

CAPS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
MAX_RATIOS = "max_ratios"


@dataclass(frozen=True)
class ActionRatios:
    """Importance ratios of the actions that the candidate could have taken at every step.

    Attributes
    ----------
    logged : ndarray of float64, (n_steps,)
        Ratio of the logged action, the same number as its entry in `ratios`, if it has one.
    ratios : ndarray of float64, (n_steps, m)
        Ratio of each of m actions; infinite if the behavior never takes it.
    masses : ndarray of float64, (n_steps, m)
        The candidate's probability of each; 1/m for draws.
    exact : bool
        Whether the m actions are all there are; False for independent draws of the candidate.
    """

    logged: FloatArray
    ratios: FloatArray
    masses: FloatArray
    exact: bool


def column_names(cap: float) -> tuple[str, str]:
    """Names of the columns of truncated weights and of charges."""
    return f"truncated_weights_{cap:g}", f"charges_{cap:g}"


def truncated_columns(actions: ActionRatios, lengths: IntArray) -> dict[str, FloatArray]:
    """Truncated weights w' and charges k of every trajectory, for every cap of the ladder.

    Parameters
    ----------
    actions : ActionRatios
    lengths : ndarray of int64, (n,)
        Length of every episode.

    Returns
    -------
    dict of str to ndarray, (n,)
        By `column_names`, and the largest ratio of any action at the states of a trajectory under
        ``"max_ratios"``.
    """
    starts = np.cumsum(lengths) - lengths
    largest = np.maximum(
        np.where(actions.masses > 0.0, actions.ratios, 0.0).max(axis=1), actions.logged
    )
    caps = np.asarray(CAPS)
    table = np.empty((2, caps.size, lengths.size))
    _truncate(
        actions.logged,
        np.ascontiguousarray(actions.ratios),
        np.ascontiguousarray(actions.masses),
        largest,
        starts,
        lengths,
        caps,
        actions.exact,
        table,
    )
    columns = {MAX_RATIOS: np.maximum.reduceat(largest, starts)}
    for j, cap in enumerate(CAPS):
        columns.update(zip(column_names(cap), table[:, j], strict=True))
    return columns


@numba.njit(cache=True, nogil=True)
def _tail(ratios: FloatArray, masses: FloatArray, rho: float, c: float) -> float:
    """K(c): the candidate's probability of actions with rho r > c."""
    total = 0.0
    for j in range(ratios.shape[0]):
        if rho * ratios[j] > c:
            total += masses[j]
    return min(total, 1.0)


@numba.njit(cache=True, nogil=True)
def _truncate(
    logged: FloatArray,
    ratios: FloatArray,
    masses: FloatArray,
    largest: FloatArray,
    starts: IntArray,
    lengths: IntArray,
    caps: FloatArray,
    exact: bool,
    table: FloatArray,
) -> None:
    for cap in range(caps.shape[0]):
        W = caps[cap]
        for i in range(lengths.shape[0]):
            rho, k = 1.0, 0.0
            for t in range(starts[i], starts[i] + lengths[i]):
                if rho == 0.0:
                    break
                c = W - k if exact else W - k - rho
                if c <= 0.0:
                    k += rho
                    rho = 0.0
                    break
                if rho * largest[t] > c:
                    K = _tail(ratios[t], masses[t], rho, c)
                    if exact:
                        # Lower c until k + rho K(c) + c <= W: the first that holds is the largest.
                        while c > W - k - rho * K:
                            c = W - k - rho * K
                            K = _tail(ratios[t], masses[t], rho, c)
                    k += rho * K
                rho = 0.0 if rho * logged[t] > c else rho * logged[t]
            table[0, cap, i] = rho
            table[1, cap, i] = k
