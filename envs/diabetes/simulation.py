"""Batches of days."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3._validation import as_generator, check_integer

from ..common.episodes import Episodes
from ..common.policies import Policy, draw_actions
from ..common.streams import draw_keys
from ..common.types import Rng
from .actions import Dosing, check_actions
from .days import Days


def simulate(
    days: Days,
    dosing: Dosing,
    policy: ArrayLike | Policy,
    n: int,
    rng: Rng = None,
    *,
    clip_actions: bool,
    n_threads: int = 1,
) -> Episodes:
    """Run `n` days; see `DiabetesEnv.simulate`."""
    n = check_integer(n, "n", 1)
    n_threads = check_integer(n_threads, "n_threads", 1)
    generator = as_generator(rng)
    keys = draw_keys(generator, n)
    observations = np.ones((n, 1), dtype=np.float32)
    if callable(policy):
        drawn, log_probs = draw_actions(policy, observations, generator)
        executed = check_actions(drawn, n, clip=True)
    else:
        drawn = np.asarray(policy)
        drawn = np.broadcast_to(drawn, (n, 2)) if drawn.shape == (2,) else drawn
        executed = check_actions(drawn, n, clip_actions)
        log_probs = np.zeros(n)
    rewards = days.returns(keys, dosing.ratios(executed), n_threads)
    actions = np.array(drawn, dtype=np.float64)
    return Episodes(observations, actions, log_probs, rewards, np.ones(n, dtype=np.int64))
