"""causalrl: self-normalized importance sampling, and its confidence sequence for bounded values."""

from __future__ import annotations

import numpy as np
from causalrl import TrajectoryLog, confidence_sequence, stream_policy_value

from benchmarks.peers.methods.paper_formulas import padded, weights_and_returns
from benchmarks.peers.protocol import Answer, Log, Method


def columns(log: Log) -> TrajectoryLog:
    """The log in its form, one row for each weight and one for each return."""
    w, G = weights_and_returns(log)
    n = len(w)
    episode = np.repeat(np.arange(n), 2)
    return TrajectoryLog(
        {
            "entity_id": np.zeros(2 * n, dtype=int),
            "episode_id": episode,
            "t": np.zeros(2 * n, dtype=int),
            "kind": ["context", "reward"] * n,
            "name": ["weight", "reward"] * n,
            "value": np.stack([w, G], axis=1).ravel(),
            "regime": ["observed"] * (2 * n),
            "observed": np.ones(2 * n, dtype=bool),
        }
    )


def self_normalized(log: Log) -> Answer:
    """Its certificate of the value, all defaults: no answer where too few episodes matter."""
    certificate = stream_policy_value(columns(log))
    if certificate.value is None or certificate.ci is None:
        return Answer()
    return Answer(certificate.value, certificate.ci.lower, certificate.ci.upper)


def sequence(log: Log) -> Answer:
    """Confidence sequence of w G, clipped to the range of the return; it holds at every n."""
    w, G = weights_and_returns(log)
    low, high = np.array(log.reward_range) * np.sum(log.gamma ** np.arange(log.horizon))
    W = log.max_ratio**log.horizon
    value_range = (W * min(low, 0.0), W * max(high, 0.0))
    result = confidence_sequence(w * G, alpha=0.05, value_range=value_range)
    lower, upper = max(result.interval.lower, low), min(result.interval.upper, high)
    return Answer(result.mean, lower, upper)


METHODS = {
    ("mean", "self-normalized, normal limits"): Method(
        self_normalized, (padded, weights_and_returns, columns, self_normalized), imports=2
    ),
    ("mean", "confidence sequence, weight bound"): Method(
        sequence, (padded, weights_and_returns, sequence), imports=2
    ),
}
