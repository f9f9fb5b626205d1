"""Thousands of recommendations at once, and the law of a single one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .checks import check_count, check_discrete_actions, check_probabilities
from .episodes import Episodes, Policy
from .streams import FloatArray, IntArray, KeyArray, Rng, draw_keys, uniforms
from .tables import cumulative_table, log_table


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


def first_contexts(market: Market, keys: KeyArray) -> IntArray:
    """The context of each episode (its uniform number 0), (n,)."""
    if market.contexts.shape[0] == 1:
        return np.zeros(keys.shape[0], dtype=np.int64)
    edges = cumulative_table(market.contexts)
    return np.searchsorted(edges, uniforms(keys, 0), side="right").astype(np.int64)


def rewards_of(
    market: Market, keys: KeyArray, contexts: IntArray | int, items: IntArray | int
) -> FloatArray:
    """The reward of each recommendation (noise from uniform number 1, by inversion), (n,)."""
    noise = ndtri(uniforms(keys, 1))
    interest = market.means[contexts, items] + market.sds[contexts, items] * noise
    return np.asarray(np.clip(interest, market.low, market.high))


def item_table(market: Market, policy: ArrayLike) -> FloatArray:
    """`policy` as checked probabilities, (n_contexts, n_items)."""
    table = np.asarray(policy, dtype=np.float64)
    if table.ndim == 1 and table.shape == market.means.shape[1:]:
        table = np.broadcast_to(table, market.means.shape)
    return check_probabilities("policy", table, market.means.shape)


def simulate(market: Market, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
    """Run `n` episodes; see `RecommenderEnv.simulate`."""
    n = check_count("n", n)
    n_items = market.means.shape[1]
    generator = np.random.default_rng(rng)
    keys = draw_keys(generator, n)
    contexts = first_contexts(market, keys)
    if callable(policy):
        drawn, log_probs = policy(contexts, generator)
        items = check_discrete_actions(drawn, n_items, (n,))
        log_probs = np.asarray(log_probs, dtype=np.float64).reshape(n)
    elif np.asarray(policy).dtype.kind in "iu":
        items = check_discrete_actions(policy, n_items, (n,))
        log_probs = np.zeros(n)
    else:
        table = item_table(market, policy)
        items = _draw_items(table, contexts, generator.random(n))
        log_probs = log_table(table)[contexts, items]
    rewards = rewards_of(market, keys, contexts, items)
    return Episodes(contexts, items, log_probs, rewards, np.ones(n, dtype=np.int64))


def _draw_items(table: FloatArray, contexts: IntArray, u: FloatArray) -> IntArray:
    """Items drawn by inversion, (n,): all contexts in one search of the shifted tables."""
    edges = (cumulative_table(table) + np.arange(table.shape[0])[:, np.newaxis]).ravel()
    found = np.searchsorted(edges, u + contexts, side="right")
    return np.asarray(found - contexts * table.shape[1], dtype=np.int64)
