"""skdr-eval: doubly robust estimates for logged decisions of one step, with known propensities.

Its complete pipelines estimate the propensities, and derive the candidate from a regression model.
The functions below are those it exports for a candidate with known probabilities.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from skdr_eval import block_bootstrap_ci, dr_value_with_clip, fit_outcome_crossfit

from benchmarks.peers.protocol import Answer, Log, Method


def doubly_robust(log: Log, name: str, outcome: Any) -> Answer:
    """Estimate and block bootstrap interval, for a log with two actions.

    Only the ratio of the action taken matters: its probabilities are 1 / (1 + ratio) and
    ratio / (1 + ratio).
    """
    ratios, q = np.exp(log.log_ratios), outcome(log)
    behavior, candidate = 1 / (1 + ratios), ratios / (1 + ratios)
    result = dr_value_with_clip(
        propensities=np.stack([behavior, 1 - behavior], axis=1),
        policy_probs=np.stack([candidate, 1 - candidate], axis=1),
        Y=log.rewards,
        q_hat=q,
        A=np.zeros(len(ratios), dtype=int),
        elig=np.ones((len(ratios), 2)),
    )[name]
    weights = np.minimum(ratios, result.clip)
    total = weights.sum() if name == "SNDR" else len(weights)
    values = q + len(weights) / total * weights * (log.rewards - q)
    lower, upper = block_bootstrap_ci(values, None, q)
    return Answer(float(result.V_hat), lower, upper)


def cross_fitted(log: Log) -> Any:
    """Outcome model of its pipelines, which see the action taken; here the ratio tells it."""
    outcome, _ = fit_outcome_crossfit(np.exp(log.log_ratios)[:, None], log.rewards)
    return outcome


def constant(log: Log) -> Any:
    """Mean reward: the same for all actions, as its estimator assumes, and for all decisions."""
    return np.full(len(log.rewards), log.rewards.mean())


def _method(name: str, outcome: Any) -> Method:
    run = partial(doubly_robust, name=name, outcome=outcome)
    return Method(run, (doubly_robust, outcome), imports=2, one_step=True)


METHODS = {
    ("mean", "DR, its outcome model"): _method("DR", cross_fitted),
    ("mean", "SNDR, its outcome model"): _method("SNDR", cross_fitted),
    ("mean", "DR, constant outcome"): _method("DR", constant),
    ("mean", "SNDR, constant outcome"): _method("SNDR", constant),
}
