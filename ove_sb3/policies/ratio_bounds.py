"""Bounds on importance ratios that follow from how two policies are built, for every state.

They are never taken from logged ratios, which do not bound the ratios in states not visited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from .builtin import SoftmaxPolicy, TabularPolicy
from .known_code import has_known_code
from .mixtures import EpsilonGreedyPolicy, MixturePolicy
from .policy import Policy, probability_range
from .uniform import n_actions


@dataclass(frozen=True)
class RatioBound:
    """Bound on the ratio of a step, and why it holds.

    Attributes
    ----------
    value : float
    reason : str
        Continues "no step's importance ratio exceeds 2, ...".
    """

    value: float
    reason: str


def ratio_bound(
    candidate: Policy, behavior: Policy, *, deterministic: bool = False
) -> RatioBound | None:
    """Smallest bound on candidate / behavior that their structure implies; None if there is none.

    Parameters
    ----------
    candidate, behavior : Policy
    deterministic : bool
        Whether the candidate acts deterministically.
    """
    bounds = [
        bound
        for bound in (
            _same(candidate, behavior, deterministic),
            _mixed_in(candidate, behavior, deterministic),
            _greedy(candidate, behavior, deterministic),
            _floor(candidate, behavior, deterministic),
            _tables(candidate, behavior, deterministic),
        )
        if bound is not None and math.isfinite(bound.value)
    ]
    return min(bounds, key=lambda bound: bound.value, default=None)


def _same(candidate: Policy, behavior: Policy, deterministic: bool) -> RatioBound | None:
    if deterministic or not _alike(candidate, behavior):
        return None
    return RatioBound(1.0, "as the candidate is the behavior")


def _mixed_in(candidate: Policy, behavior: Policy, deterministic: bool) -> RatioBound | None:
    """A mixture is at least the sum of its weights over the bounds of its components.

    Not if it is drawn per episode: then a step's ratio has no such bound.
    """
    if not isinstance(behavior, MixturePolicy) or behavior.per != "step":
        return None
    if not has_known_code(behavior):
        return None
    share = 0.0
    for weight, component in zip(behavior.weights, behavior.components, strict=True):
        bound = ratio_bound(candidate, component, deterministic=deterministic)
        share += 0.0 if bound is None else float(weight) / bound.value
    if share == 0.0:
        return None
    return RatioBound(max(1.0 / share, 1.0), "as the behavior is a mixture that covers it")


def _greedy(candidate: Policy, behavior: Policy, deterministic: bool) -> RatioBound | None:
    """Two epsilon-greedy policies, or a deterministic one, with the same greedy action."""
    if not (isinstance(behavior, EpsilonGreedyPolicy) and has_known_code(behavior)):
        return None
    base, epsilon = candidate, 0.0
    explores = not deterministic and has_known_code(candidate)
    if isinstance(candidate, EpsilonGreedyPolicy) and explores:
        base, epsilon = candidate.base, candidate.epsilon
    elif not deterministic:
        return None
    if not _alike(base, behavior.base):
        return None
    k = n_actions(behavior.action_space)
    best = (1.0 - epsilon + epsilon / k) / (1.0 - behavior.epsilon + behavior.epsilon / k)
    other = 0.0 if epsilon == 0.0 else _over(epsilon, behavior.epsilon)
    return RatioBound(max(best, other, 1.0), "as both prefer the same action in every state")


def _floor(candidate: Policy, behavior: Policy, deterministic: bool) -> RatioBound | None:
    """The candidate's largest probability over the behavior's smallest."""
    least = probability_range(behavior)[0]
    if least <= 0.0:
        return None
    most = 1.0 if deterministic else probability_range(candidate)[1]
    reason = f"as the behavior takes every action with probability {least:.4g} or more"
    return RatioBound(max(most / least, 1.0), reason)


def _tables(candidate: Policy, behavior: Policy, deterministic: bool) -> RatioBound | None:
    """All states of two tables."""
    if not (_is_table(candidate) and _is_table(behavior)):
        return None
    states = behavior.observation_space
    if not isinstance(states, spaces.Discrete) or states != candidate.observation_space:
        return None
    every = np.arange(int(states.start), int(states.start) + int(states.n))
    own, other = candidate.distribution(every), behavior.distribution(every)
    own = own.deterministic() if deterministic else own
    any_action = own.sample(0)
    p, b = own.choices(any_action), other.choices(any_action)
    if p is None or b is None:
        return None
    taken = p[0] > -np.inf
    largest = float(np.exp(np.max(p[0][taken] - b[0][taken])))
    return RatioBound(max(largest, 1.0), "as their tables of probabilities show for every state")


def _is_table(policy: Policy) -> bool:
    if not has_known_code(policy):
        return False
    if isinstance(policy, SoftmaxPolicy):
        return not policy.has_model
    return isinstance(policy, TabularPolicy)


def _alike(first: Policy, second: Policy) -> bool:
    """Whether two policies are known to act alike."""
    if first is second:
        return True
    own = first.fingerprint()
    return own is not None and own == second.fingerprint()


def _over(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator > 0.0 else math.inf
