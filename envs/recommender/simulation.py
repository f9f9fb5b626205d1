"""Batches of recommendations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3._validation import as_generator, check_integer

from ..common.checks import check_discrete_actions
from ..common.episodes import Episodes
from ..common.policies import Policy, draw_actions
from ..common.streams import draw_keys
from ..common.tables import cumulative_table, log_table
from ..common.types import FloatArray, IntArray, Rng
from .model import Market, draw_contexts, draw_rewards, policy_table


def simulate(market: Market, policy: ArrayLike | Policy, n: int, rng: Rng = None) -> Episodes:
    """Run `n` episodes; see `RecommenderEnv.simulate`."""
    n = check_integer(n, "n", 1)
    n_items = market.means.shape[1]
    generator = as_generator(rng)
    keys = draw_keys(generator, n)
    contexts = draw_contexts(market, keys)
    if callable(policy):
        drawn, log_probs = draw_actions(policy, contexts, generator)
        items = check_discrete_actions(drawn, n_items, (n,))
    elif np.asarray(policy).dtype.kind in "iu":
        items = check_discrete_actions(policy, n_items, (n,))
        log_probs = np.zeros(n)
    else:
        table = policy_table(market, policy)
        items = _draw_items(table, contexts, generator.random(n))
        log_probs = log_table(table)[contexts, items]
    rewards = draw_rewards(market, keys, contexts, items)
    return Episodes(contexts, items, log_probs, rewards, np.ones(n, dtype=np.int64))


def _draw_items(table: FloatArray, contexts: IntArray, u: FloatArray) -> IntArray:
    """Items drawn by inversion of `u`, (n,).

    The cumulative tables of the contexts are shifted by 0, 1, 2, ... and concatenated, so that one
    search serves all contexts.
    """
    edges = (cumulative_table(table) + np.arange(table.shape[0])[:, np.newaxis]).ravel()
    positions = np.searchsorted(edges, u + contexts, side="right")
    return np.asarray(positions - contexts * table.shape[1], dtype=np.int64)
