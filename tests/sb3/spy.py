"""Writes down every law that the wrapper evaluates in `learn`, at the moment it does."""

from __future__ import annotations

import copy
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ove_sb3.sb3 import box_distributions, distributions, drawing, wrappers
from ove_sb3.sb3.distributions import ActionDistribution, Categorical, log_softmax

_FAMILIES = (
    distributions.Categorical,
    distributions.MultiCategorical,
    box_distributions.BoxDistribution,
)


class Seen(NamedTuple):
    """One step of all environments."""

    law: ActionDistribution
    actions: NDArray[Any]
    dones: list[bool]


class Spy:
    """The laws of all steps, as the wrapper's own objects, copied when they were evaluated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Seen] = []
        evaluated: list[ActionDistribution] = []
        steps = self.steps

        def spied(family: Any) -> Any:
            original = family.log_prob

            def log_prob(law: ActionDistribution, actions: Any) -> Any:
                evaluated.append(law)
                return original(law, actions)

            return log_prob

        for family in _FAMILIES:
            monkeypatch.setattr(family, "log_prob", spied(family))

        class Watched(drawing.Drawing):
            def log_prob(self, observations: Any, actions: NDArray[Any], masks: Any) -> Any:
                evaluated.clear()
                found = super().log_prob(observations, actions, masks)
                if evaluated:
                    law = _copied(evaluated[-1])
                else:  # the log-probabilities of all choices, to be picked by the recorder
                    law = Categorical(log_softmax(found), self.law.action_space)  # type: ignore[arg-type]
                steps.append(Seen(law, actions.copy(), []))
                return found

            def ended(self, dones: NDArray[np.bool_]) -> None:
                steps[-1].dones.extend(dones)
                super().ended(dones)

        monkeypatch.setattr(wrappers, "Drawing", Watched)

    def phases(self) -> list[tuple[ActionDistribution, NDArray[Any]]]:
        """Laws and actions of consecutive steps of the same family: (n_steps * n_envs) rows."""
        groups = groupby(self.steps, key=lambda step: type(step.law))
        return [
            (_stacked([s.law for s in part]), np.concatenate([s.actions for s in part]))
            for part in (list(group) for _, group in groups)
        ]

    def logged_order(self) -> NDArray[np.int64]:
        """Row of every logged step: episodes in the order of their ends, unfinished ones left."""
        dones = np.array([step.dones for step in self.steps])
        n_envs = dones.shape[1]
        begin = np.zeros(n_envs, dtype=np.int64)
        rows = []
        for t, i in np.argwhere(dones):
            rows.append(np.arange(begin[i], t + 1) * n_envs + i)
            begin[i] = t + 1
        return np.concatenate(rows)


def _copied(law: ActionDistribution) -> ActionDistribution:
    found = copy.copy(law)
    for name, value in vars(law).items():
        if isinstance(value, (np.ndarray, list)):
            setattr(found, name, copy.deepcopy(value))
    return found


def _stacked(laws: list[ActionDistribution]) -> ActionDistribution:
    """The rows of laws of one family as one law."""

    def rows(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        sizes = [(len(law), array.shape[-1]) for law, array in zip(laws, arrays, strict=True)]
        return np.concatenate(list(map(np.broadcast_to, arrays, sizes)))

    found = copy.copy(laws[0])
    for name, value in vars(laws[0]).items():
        each = [getattr(law, name) for law in laws]
        if name == "_n":
            found._n = sum(each)  # type: ignore[attr-defined]
        elif name == "parts":
            found.parts = [rows(list(part)) for part in zip(*each, strict=True)]  # type: ignore[attr-defined]
        elif isinstance(value, np.ndarray):
            setattr(found, name, rows(each))
    return found
