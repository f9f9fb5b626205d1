"""vw-estimators: intervals for the mean reward of a contextual bandit.

An episode is given as one decision: its weight as the ratio of the probabilities, and its return
as the reward. `pdis_cressieread` takes the steps of an episode as slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from estimators.bandits import clopper_pearson, cressieread, cs, gaussian, ips, mle
from estimators.ccb import pdis_cressieread

from benchmarks.peers.methods.paper_formulas import padded, weights_and_returns
from benchmarks.peers.protocol import Answer, Log, Method


def return_range(log: Log) -> dict[str, float]:
    """The smallest and the largest return, as options."""
    low, high = np.array(log.reward_range) * np.sum(log.gamma ** np.arange(log.horizon))
    return {"rmin": float(low), "rmax": float(high)}


def weight_range(log: Log) -> dict[str, float]:
    """The smallest and the largest weight, as options."""
    return {"wmin": 0.0, "wmax": log.max_ratio**log.horizon}


def add_all(log: Log, *accumulators: Any) -> None:
    """Add every episode to an estimator and to an interval."""
    for w, G in zip(*weights_and_returns(log), strict=True):
        for accumulator in accumulators:
            accumulator.add_example(1.0, float(G), float(w))


def with_gaussian(log: Log) -> Answer:
    """Importance sampling and normal limits."""
    estimator, interval = ips.Estimator(), gaussian.Interval()
    add_all(log, estimator, interval)
    return Answer(estimator.get(), *interval.get(alpha=0.05))


def with_clopper_pearson(log: Log) -> Answer:
    """Importance sampling, and binomial limits with the largest weight in the data."""
    estimator, interval = ips.Estimator(), clopper_pearson.Interval(**return_range(log))
    add_all(log, estimator, interval)
    return Answer(estimator.get(), *interval.get(alpha=0.05))


def with_sequence(log: Log) -> Answer:
    """Importance sampling and a confidence sequence, which holds at every n."""
    estimator, interval = ips.Estimator(), cs.Interval(**return_range(log))
    add_all(log, estimator, interval)
    return Answer(estimator.get(), *interval.get(alpha=0.05))


def with_cressie_read(log: Log) -> Answer:
    """Cressie-Read likelihood; by default weights are not bounded."""
    estimator, interval = cressieread.Estimator(), cressieread.Interval(**return_range(log))
    add_all(log, estimator, interval)
    return Answer(estimator.get(), *interval.get(alpha=0.05))


def with_bounded_weights(log: Log) -> Answer:
    """Cressie-Read likelihood, given the bound on the weight."""
    weights = weight_range(log)
    estimator = cressieread.Estimator(**weights)
    interval = cressieread.Interval(**weights, **return_range(log))
    add_all(log, estimator, interval)
    return Answer(estimator.get(), *interval.get(alpha=0.05))


def empirical_likelihood(log: Log) -> Answer:
    """Empirical likelihood, given the bound on the weight; it has no interval."""
    estimator = mle.Estimator(**weight_range(log))
    add_all(log, estimator)
    return Answer(estimator.get())


def by_step(log: Log) -> Answer:
    """Cressie-Read step by step, and the discounted sum; the sum has no interval."""
    estimator = pdis_cressieread.Estimator(wmin=0.0, wmax=log.max_ratio)
    for ratios, rewards in zip(*padded(log), strict=True):
        estimator.add_example([1.0] * log.horizon, rewards.tolist(), ratios.tolist())
    return Answer(float(np.dot(log.gamma ** np.arange(log.horizon), estimator.get())))


_COMMON = (padded, weights_and_returns, add_all)
METHODS = {
    ("mean", "IPS, Gaussian"): Method(with_gaussian, (*_COMMON, with_gaussian), imports=3),
    ("mean", "IPS, Clopper-Pearson"): Method(
        with_clopper_pearson, (*_COMMON, return_range, with_clopper_pearson), imports=3
    ),
    ("mean", "IPS, confidence sequence"): Method(
        with_sequence, (*_COMMON, return_range, with_sequence), imports=3
    ),
    ("mean", "Cressie-Read"): Method(
        with_cressie_read, (*_COMMON, return_range, with_cressie_read), imports=2
    ),
    ("mean", "Cressie-Read, weight bound"): Method(
        with_bounded_weights,
        (*_COMMON, return_range, weight_range, with_bounded_weights),
        imports=2,
    ),
    ("mean", "empirical likelihood, weight bound"): Method(
        empirical_likelihood,
        (*_COMMON, weight_range, empirical_likelihood),
        imports=2,
        interval=False,
    ),
    ("mean", "Cressie-Read by step, ratio bound"): Method(
        by_step, (padded, by_step), imports=2, interval=False
    ),
}
