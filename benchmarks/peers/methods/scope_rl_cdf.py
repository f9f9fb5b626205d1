"""SCOPE-RL's variance from the estimated cumulative distribution of the return."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

with contextlib.redirect_stderr(io.StringIO()):  # gym prints a notice at every import
    from scope_rl.ope import CumulativeDistributionOPE
    from scope_rl.ope.discrete import (
        CumulativeDistributionSNTIS,
        CumulativeDistributionTDR,
        CumulativeDistributionTIS,
    )

from benchmarks.peers.methods.paper_formulas import padded
from benchmarks.peers.protocol import Answer, Log, Method

N_BINS = 2000


def inputs(
    log: Log, ratios: Any, rewards: Any, gamma: float, value: float = 0.0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Input of SCOPE-RL as two dictionaries.

    Only the ratio of the action taken matters, so the log is given two actions: the one taken, with
    probabilities 1 / (1 + ratio) and ratio / (1 + ratio), and another. `value` is the value of the
    initial state, for the doubly robust estimator.
    """
    n, horizon = ratios.shape
    steps = ratios.size
    taken = (ratios / (1 + ratios)).ravel()
    done = np.arange(1, horizon + 1) >= log.lengths[:, None]
    logged = {
        "size": steps,
        "n_trajectories": n,
        "step_per_trajectory": horizon,
        "action_type": "discrete",
        "n_actions": 2,
        "action_dim": 2,
        "state_dim": 1,
        "state": np.zeros((steps, 1)),
        "action": np.zeros(steps, dtype=int),
        "reward": rewards.ravel(),
        "pscore": 1 / (1 + ratios.ravel()),
        "done": done.ravel().astype(int),
        "terminal": done.ravel().astype(int),
    }
    evaluation = {
        "evaluation_policy_action": None,
        "evaluation_policy_action_dist": np.stack([taken, 1 - taken], axis=1),
        "state_action_value_prediction": np.full((steps, 2), value),
        "initial_state_value_prediction": None,
        "on_policy_policy_value": None,
        "gamma": gamma,
    }
    return logged, {"candidate": evaluation}


def shipped_tis(log: Log) -> Answer:
    """Importance sampling, all defaults."""
    logged, evaluation = inputs(log, *padded(log), log.gamma)
    ope = CumulativeDistributionOPE(logged, ope_estimators=[CumulativeDistributionTIS()])
    return Answer(float(ope.estimate_variance(evaluation)["candidate"]["cdf_tis"]))


def shipped_sntis(log: Log) -> Answer:
    """Self-normalized importance sampling, all defaults."""
    logged, evaluation = inputs(log, *padded(log), log.gamma)
    ope = CumulativeDistributionOPE(logged, ope_estimators=[CumulativeDistributionSNTIS()])
    return Answer(float(ope.estimate_variance(evaluation)["candidate"]["cdf_sntis"]))


def at_best(log: Log, estimator: Any, margin: float, value: float = 0.0) -> Answer:
    """All rewards kept and discounted in advance, a fine scale over the logged returns."""
    ratios, rewards = padded(log)
    discount = log.gamma ** np.arange(log.horizon)
    logged, evaluation = inputs(log, ratios, rewards * discount, 1.0, value)
    returns = rewards @ discount
    ope = CumulativeDistributionOPE(
        logged,
        ope_estimators=[estimator],
        disable_reward_after_done=False,
        use_custom_reward_scale=True,
        scale_min=float(returns.min()) - margin,
        scale_max=float(returns.max()) + margin,
        n_partition=N_BINS,
    )
    return Answer(float(ope.estimate_variance(evaluation)["candidate"][estimator.estimator_name]))


def best_tis(log: Log) -> Answer:
    """Importance sampling. The first weight goes to the lower end of the scale: no margin."""
    return at_best(log, CumulativeDistributionTIS(), margin=0.0)


def best_sntis(log: Log) -> Answer:
    """Self-normalized importance sampling, with the same scale."""
    return at_best(log, CumulativeDistributionSNTIS(), margin=0.0)


def best_tdr(log: Log) -> Answer:
    """Doubly robust, given the exact value of the initial state.

    Mass at the lower end of the scale is lost, hence a margin.
    """
    return at_best(log, CumulativeDistributionTDR(), margin=0.1, value=log.mean)


# SCOPE-RL has no interval for the variance.
METHODS = {
    "TIS, as shipped": Method(shipped_tis, (padded, inputs, shipped_tis), 3, interval=False),
    "SNTIS, as shipped": Method(shipped_sntis, (padded, inputs, shipped_sntis), 3, interval=False),
    "TIS, at its best": Method(best_tis, (padded, inputs, at_best, best_tis), 3, interval=False),
    "SNTIS, at its best": Method(
        best_sntis, (padded, inputs, at_best, best_sntis), 3, interval=False
    ),
    "TDR, given the exact value": Method(
        best_tdr, (padded, inputs, at_best, best_tdr), 3, interval=False
    ),
}
