"""Logs that a model depends on, recorded on the model itself.

They are plain lists of identifiers, see `ove_sb3.data.log_ids`, which stable-baselines3 saves and
loads with the model, but not with its policy. ``set_parameters`` does not carry them either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ove_sb3.data.log_ids import is_content_id, may_share_episodes

TRAINED_ON = "ove_log_ids"
SELECTED_BY = "ove_selection_log_ids"
_ALGORITHM = "stable_baselines3.common.base_class.BaseAlgorithm"
_POLICY = "stable_baselines3.common.policies.BasePolicy"


class Provenance(NamedTuple):
    """Identifiers of the logs that a model was trained on, and of those it was selected by.

    They are not all `known` for a policy of stable-baselines3 without its model. A model that
    `can_learn` may also have learned from data that left no identifier on it.
    """

    trained_on: tuple[str, ...] = ()
    selected_by: tuple[str, ...] = ()
    known: bool = True
    can_learn: bool = False

    def was_trained_on(self, log_ids: Iterable[str]) -> bool:
        """Whether it may have learned from episodes of a log."""
        return may_share_episodes(self.trained_on, log_ids)

    def may_have_learned_from(self, log_ids: Iterable[str]) -> bool:
        """Whether nothing shows that it has not learned from the log of a training run.

        Data that were not logged by this package, such as a rollout buffer, leave no identifier.
        """
        unmarked = self.can_learn and any(map(is_content_id, log_ids))
        return self.was_trained_on(log_ids) or not self.known or unmarked

    def was_selected_by(self, log_ids: Iterable[str]) -> bool:
        """Whether it was selected by evaluations on episodes of a log."""
        return may_share_episodes(self.selected_by, log_ids)


def read_provenance(*models: Any) -> Provenance:
    """Provenance of a policy that is made of these models."""
    trained_on, selected_by = (
        tuple({one: None for model in models for one in getattr(model, name, ())})
        for name in (TRAINED_ON, SELECTED_BY)
    )
    owned = {id(model.policy) for model in models if _is_a(model, _ALGORITHM)}
    bare = any(_is_a(model, _POLICY) and id(model) not in owned for model in models)
    return Provenance(trained_on, selected_by, known=not bare, can_learn=bool(owned))


def models_within(model: Any) -> Iterator[Any]:
    """Models and policies among the attributes of an object, and in collections of these."""
    kinds = (_ALGORITHM,) if _is_a(model, _ALGORITHM) else (_ALGORITHM, _POLICY)  # its own
    for value in getattr(model, "__dict__", {}).values():
        entries = value.values() if isinstance(value, dict) else value
        for entry in entries if isinstance(value, (dict, list, tuple)) else (value,):
            marked = {TRAINED_ON, SELECTED_BY} & set(getattr(entry, "__dict__", ()))
            if marked or any(_is_a(entry, kind) for kind in kinds):
                yield entry
            yield from getattr(entry, "__dict__", {}).get("origins", ())  # of a built-in policy


def _is_a(model: Any, name: str) -> bool:
    """By name, because stable-baselines3 need not be loaded."""
    return any(f"{cls.__module__}.{cls.__qualname__}" == name for cls in type(model).__mro__)


def mark_trained(model: Any, log_ids: Iterable[str]) -> None:
    """Record on a model that it has learned from a log."""
    _mark(model, TRAINED_ON, log_ids)


@contextmanager
def marked_as_selected(model: Any, log_ids: Iterable[str]) -> Iterator[None]:
    """Record on a model that it was selected by a log; removed again on leaving."""
    before = [(part, getattr(part, SELECTED_BY, None)) for part in _parts(model)]
    _mark(model, SELECTED_BY, log_ids)
    try:
        yield
    finally:
        for part, log_ids_before in before:
            if log_ids_before is None:
                delattr(part, SELECTED_BY)
            else:
                setattr(part, SELECTED_BY, log_ids_before)


def mark_selected(model: Any, log_ids: Iterable[str]) -> None:
    """Record on a model that it was selected by a log."""
    _mark(model, SELECTED_BY, log_ids)


def _mark(model: Any, name: str, log_ids: Iterable[str]) -> None:
    parts = _parts(model)
    # A policy that was loaded with its model does not have the list yet.
    before = list(dict.fromkeys(one for part in parts for one in getattr(part, name, ())))
    added = set(log_ids) - set(before)
    for part in parts:
        if getattr(part, name, ()) != [*before, *sorted(added)]:
            setattr(part, name, [*before, *sorted(added)])


def _parts(model: Any) -> list[Any]:
    """The model, and its policy, which may be evaluated without it."""
    policy = getattr(model, "policy", None)
    return [model] if policy is None else [model, policy]
