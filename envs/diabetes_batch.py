"""Thousands of days at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .checks import check_count
from .diabetes_actions import check_actions
from .episodes import Episodes, Policy
from .streams import Rng, draw_keys

if TYPE_CHECKING:
    from .diabetes import DiabetesEnv


def simulate(
    env: DiabetesEnv, policy: ArrayLike | Policy, n: int, rng: Rng = None, n_threads: int = 1
) -> Episodes:
    """Run `n` days; see `DiabetesEnv.simulate`."""
    n = check_count("n", n)
    n_threads = check_count("n_threads", n_threads)
    generator = np.random.default_rng(rng)
    keys = draw_keys(generator, n)
    observations = np.ones((n, 1), dtype=np.float32)
    if callable(policy):
        drawn, log_probs = policy(observations, generator)
        executed = check_actions(drawn, n, clip=True)
    else:
        drawn = np.asarray(policy)
        drawn = np.broadcast_to(drawn, (n, 2)) if drawn.shape == (2,) else drawn
        executed = check_actions(drawn, n, env.clip_actions)
        log_probs = np.zeros(n)
    rewards = env.days.returns(keys, env.dosing.ratios(executed), n_threads)
    return Episodes(
        observations,
        np.array(drawn, dtype=np.float64),
        np.asarray(log_probs, dtype=np.float64).reshape(n),
        rewards,
        np.ones(n, dtype=np.int64),
    )
