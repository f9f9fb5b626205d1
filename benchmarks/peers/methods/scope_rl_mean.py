"""SCOPE-RL's mean by per-decision importance sampling, with its intervals."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

with contextlib.redirect_stderr(io.StringIO()):  # gym prints a notice at every import
    from scope_rl.ope import OffPolicyEvaluation
    from scope_rl.ope.discrete import PerDecisionImportanceSampling, SelfNormalizedPDIS

from benchmarks.peers.methods.paper_formulas import padded
from benchmarks.peers.methods.scope_rl_cdf import inputs
from benchmarks.peers.protocol import Answer, Log, Method


def interval(ope: Any, evaluation: Any, name: str, **options: Any) -> Answer:
    """Estimate and 95% interval of one estimator."""
    estimate = ope.estimate_policy_value(evaluation)["candidate"][name]
    result = ope.estimate_intervals(evaluation, random_state=0, **options)["candidate"][name]
    return Answer(float(estimate), result["95.0% CI (lower)"], result["95.0% CI (upper)"])


def as_shipped(log: Log, estimator: Any) -> Answer:
    """All defaults: bootstrap with 100 resamples."""
    logged, evaluation = inputs(log, *padded(log), log.gamma)
    ope = OffPolicyEvaluation(logged, ope_estimators=[estimator])
    return interval(ope, evaluation, estimator.estimator_name)


def rewards_kept(log: Log, estimator: Any, **options: Any) -> Answer:
    """With the last reward, and the options of the interval."""
    logged, evaluation = inputs(log, *padded(log), log.gamma)
    ope = OffPolicyEvaluation(logged, ope_estimators=[estimator], disable_reward_after_done=False)
    return interval(ope, evaluation, estimator.estimator_name, **options)


def _best(estimator: Any, **options: Any) -> Method:
    run = partial(rewards_kept, estimator=estimator, **options)
    return Method(run, (padded, inputs, interval, rewards_kept), imports=3)


PDIS, SNPDIS = PerDecisionImportanceSampling(), SelfNormalizedPDIS()
METHODS = {
    ("mean", "SNPDIS, as shipped"): Method(
        partial(as_shipped, estimator=SNPDIS), (padded, inputs, interval, as_shipped), imports=3
    ),
    ("mean", "SNPDIS, bootstrap, at its best"): _best(SNPDIS, n_bootstrap_samples=2000),
    ("mean", "PDIS, bootstrap, at its best"): _best(PDIS, n_bootstrap_samples=2000),
    ("mean", "PDIS, t-test, rewards kept"): _best(PDIS, ci="ttest"),
    ("mean", "PDIS, Bernstein, rewards kept"): _best(PDIS, ci="bernstein"),
}
