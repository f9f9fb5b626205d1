"""SCOPE-RL's variance, quantile and CVaR, from the estimated distribution of the return."""

from __future__ import annotations

import contextlib
import io
from functools import partial
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
from benchmarks.peers.protocol import FRACTION, Answer, Log, Method

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


def variance(ope: Any, evaluation: Any, name: str) -> float:
    """Variance of the return."""
    return float(ope.estimate_variance(evaluation)["candidate"][name])


def quantile(ope: Any, evaluation: Any, name: str) -> float:
    """Lower end of its range between two quantiles."""
    result = ope.estimate_interquartile_range(evaluation, alpha=FRACTION)["candidate"][name]
    return float(result[f"{100 * (1.0 - FRACTION)}% quartile (lower)"])


def cvar(ope: Any, evaluation: Any, name: str) -> float:
    """CVaR of the lower tail."""
    alphas = np.array([FRACTION])
    result = ope.estimate_conditional_value_at_risk(evaluation, alphas=alphas)
    return float(result["candidate"][name][0])


def as_shipped(log: Log, estimator: Any, read: Any) -> Answer:
    """All defaults."""
    logged, evaluation = inputs(log, *padded(log), log.gamma)
    ope = CumulativeDistributionOPE(logged, ope_estimators=[estimator])
    return Answer(read(ope, evaluation, estimator.estimator_name))


def at_best(log: Log, estimator: Any, read: Any, margin: float = 0.0, value: float = 0.0) -> Answer:
    """All rewards kept and discounted in advance, a fine scale over the logged returns.

    The first weight goes to the lower end of the scale: no margin for importance sampling. The
    doubly robust estimator loses mass at that end, hence a margin.
    """
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
    return Answer(read(ope, evaluation, estimator.estimator_name))


def doubly_robust(log: Log, read: Any) -> Answer:
    """Doubly robust, given the exact value of the initial state."""
    return at_best(log, CumulativeDistributionTDR(), read, margin=0.1, value=log.mean)


def _shipped(estimator: Any, read: Any) -> Method:
    run = partial(as_shipped, estimator=estimator, read=read)
    return Method(run, (padded, inputs, read, as_shipped), imports=3, interval=False)


def _best(estimator: Any, read: Any) -> Method:
    run = partial(at_best, estimator=estimator, read=read)
    return Method(run, (padded, inputs, read, at_best), imports=3, interval=False)


def _doubly_robust(read: Any) -> Method:
    run = partial(doubly_robust, read=read)
    return Method(run, (padded, inputs, read, at_best, doubly_robust), imports=3, interval=False)


TIS, SNTIS = CumulativeDistributionTIS(), CumulativeDistributionSNTIS()
# SCOPE-RL has no interval for these quantities.
METHODS = {
    ("variance", "TIS, as shipped"): _shipped(TIS, variance),
    ("variance", "SNTIS, as shipped"): _shipped(SNTIS, variance),
    ("variance", "TIS, at its best"): _best(TIS, variance),
    ("variance", "SNTIS, at its best"): _best(SNTIS, variance),
    ("variance", "TDR, given the exact value"): _doubly_robust(variance),
    ("quantile", "TIS, as shipped"): _shipped(TIS, quantile),
    ("quantile", "SNTIS, as shipped"): _shipped(SNTIS, quantile),
    ("quantile", "TIS, at its best"): _best(TIS, quantile),
    ("quantile", "SNTIS, at its best"): _best(SNTIS, quantile),
    ("quantile", "TDR, given the exact value"): _doubly_robust(quantile),
    ("cvar", "TIS, as shipped"): _shipped(TIS, cvar),
    ("cvar", "SNTIS, as shipped"): _shipped(SNTIS, cvar),
    ("cvar", "TIS, at its best"): _best(TIS, cvar),
    ("cvar", "SNTIS, at its best"): _best(SNTIS, cvar),
    ("cvar", "TDR, given the exact value"): _doubly_robust(cvar),
}
