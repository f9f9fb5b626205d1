"""Users, items and rewards of a recommender."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ..common.checks import check_probabilities
from ..common.streams import uniforms
from ..common.tables import cumulative_table
from ..common.types import FloatArray, IntArray, KeyArray


class Market(NamedTuple):
    """Users and items.

    Attributes
    ----------
    means, sds
        Mean and standard deviation of the interest before clipping, (n_contexts, n_items).
    contexts
        Probabilities of the contexts, (n_contexts,).
    low, high
        Limits of the reward.
    """

    means: FloatArray
    sds: FloatArray
    contexts: FloatArray
    low: float
    high: float


def draw_contexts(market: Market, keys: KeyArray) -> IntArray:
    """Context of each episode, from uniform number 0, (n,)."""
    if market.contexts.shape[0] == 1:
        return np.zeros(keys.shape[0], dtype=np.int64)
    edges = cumulative_table(market.contexts)
    return np.searchsorted(edges, uniforms(keys, 0), side="right").astype(np.int64)


def draw_rewards(
    market: Market, keys: KeyArray, contexts: IntArray | int, items: IntArray | int
) -> FloatArray:
    """Reward of each recommendation, with noise from uniform number 1 by inversion, (n,)."""
    noise = ndtri(uniforms(keys, 1))
    interest = market.means[contexts, items] + market.sds[contexts, items] * noise
    return np.asarray(np.clip(interest, market.low, market.high))


def policy_table(market: Market, policy: ArrayLike) -> FloatArray:
    """Return `policy` as checked item probabilities, (n_contexts, n_items)."""
    table = np.asarray(policy, dtype=np.float64)
    if table.ndim == 1 and table.shape == market.means.shape[1:]:
        table = np.broadcast_to(table, market.means.shape)
    return check_probabilities(table, "policy", market.means.shape)
