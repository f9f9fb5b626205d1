"""Records every distribution that the wrapper evaluates in `learn`."""

from __future__ import annotations

import copy
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ove_sb3.collection import step_logger
from ove_sb3.collection.action_source import ActionSource
from ove_sb3.policies.box import BoxDistribution
from ove_sb3.policies.discrete import Categorical, MultiCategorical, log_softmax
from ove_sb3.policies.distribution import ActionDistribution

_FAMILIES = (Categorical, MultiCategorical, BoxDistribution)


class Seen(NamedTuple):
    """One step of all environments."""

    distribution: ActionDistribution
    actions: NDArray[Any]
    dones: list[bool]


class Spy:
    """Copies of the distributions of all steps, taken when the wrapper evaluates them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Seen] = []
        evaluated: list[ActionDistribution] = []
        steps = self.steps

        def spied(family: Any) -> Any:
            original = family.log_prob

            def log_prob(distribution: ActionDistribution, actions: Any) -> Any:
                evaluated.append(distribution)
                return original(distribution, actions)

            return log_prob

        for family in _FAMILIES:
            monkeypatch.setattr(family, "log_prob", spied(family))

        class Watched(ActionSource):
            def log_prob(self, observations: Any, actions: NDArray[Any], masks: Any) -> Any:
                evaluated.clear()
                log_probs = super().log_prob(observations, actions, masks)
                if evaluated:
                    distribution = _copied(evaluated[-1])
                else:  # the log-probabilities of all choices, for the recorder to pick from
                    space: Any = self.policy.action_space
                    distribution = Categorical(log_softmax(log_probs), space)
                steps.append(Seen(distribution, actions.copy(), []))
                return log_probs

            def end_step(self, dones: NDArray[np.bool_]) -> None:
                steps[-1].dones.extend(dones)
                super().end_step(dones)

        monkeypatch.setattr(step_logger, "ActionSource", Watched)

    def phases(self) -> list[tuple[ActionDistribution, NDArray[Any]]]:
        """Distributions and actions of consecutive steps of one family, (n_steps * n_envs) rows."""
        groups = groupby(self.steps, key=lambda step: type(step.distribution))
        return [
            (_stacked([s.distribution for s in part]), np.concatenate([s.actions for s in part]))
            for part in (list(group) for _, group in groups)
        ]

    def logged_order(self) -> NDArray[np.int64]:
        """Row of every logged step: finished episodes in the order of their ends."""
        dones = np.array([step.dones for step in self.steps])
        n_envs = dones.shape[1]
        begin = np.zeros(n_envs, dtype=np.int64)
        rows = []
        for t, i in np.argwhere(dones):
            rows.append(np.arange(begin[i], t + 1) * n_envs + i)
            begin[i] = t + 1
        return np.concatenate(rows)


def _copied(distribution: ActionDistribution) -> ActionDistribution:
    copied = copy.copy(distribution)
    for name, value in vars(distribution).items():
        if isinstance(value, (np.ndarray, list)):
            setattr(copied, name, copy.deepcopy(value))
    return copied


def _stacked(distributions: list[ActionDistribution]) -> ActionDistribution:
    """Distributions of one family as one distribution of all their rows."""

    def rows(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        sizes = [(len(d), array.shape[-1]) for d, array in zip(distributions, arrays, strict=True)]
        return np.concatenate(list(map(np.broadcast_to, arrays, sizes)))

    stacked = copy.copy(distributions[0])
    for name, value in vars(distributions[0]).items():
        values = [getattr(distribution, name) for distribution in distributions]
        if name == "_n":
            stacked._n = sum(values)  # type: ignore[attr-defined]
        elif name == "parts":
            stacked.parts = [rows(list(part)) for part in zip(*values, strict=True)]  # type: ignore[attr-defined]
        elif isinstance(value, np.ndarray):
            setattr(stacked, name, rows(values))
    return stacked
