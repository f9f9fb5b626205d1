"""OBP: inverse propensity weighting for a bandit, with its bootstrap interval."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from obp.ope import InverseProbabilityWeighting, SelfNormalizedInverseProbabilityWeighting

from benchmarks.peers.protocol import Answer, Log, Method


def weighting(log: Log, estimator: Any) -> Answer:
    """All defaults, for a log with two actions.

    Only the ratio of the action taken matters: its probabilities are 1 / (1 + ratio) and
    ratio / (1 + ratio).
    """
    ratios = np.exp(log.log_ratios)
    taken = ratios / (1 + ratios)
    feedback = {
        "reward": log.rewards,
        "action": np.zeros(len(ratios), dtype=int),
        "pscore": 1 / (1 + ratios),
        "action_dist": np.stack([taken, 1 - taken], axis=1)[:, :, None],
    }
    result = estimator.estimate_interval(**feedback, random_state=0)
    estimate = float(estimator.estimate_policy_value(**feedback))
    return Answer(estimate, result["95.0% CI (lower)"], result["95.0% CI (upper)"])


IPW, SNIPW = InverseProbabilityWeighting(), SelfNormalizedInverseProbabilityWeighting()
METHODS = {
    ("mean", "IPW"): Method(
        partial(weighting, estimator=IPW), (weighting,), imports=2, one_step=True
    ),
    ("mean", "SNIPW"): Method(
        partial(weighting, estimator=SNIPW), (weighting,), imports=2, one_step=True
    ),
}
