"""Logs that a model depends on, recorded on the model itself.

They are plain lists of identifiers, see `ove_sb3.data.log_ids`, which stable-baselines3 saves and
loads with the model. ``policy.save`` and ``set_parameters`` do not carry them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ove_sb3.data.log_ids import may_share_episodes

TRAINED_ON = "ove_log_ids"
SELECTED_BY = "ove_selection_log_ids"


class Provenance(NamedTuple):
    """Identifiers of the logs that a model was trained on, and of those it was selected by."""

    trained_on: tuple[str, ...] = ()
    selected_by: tuple[str, ...] = ()

    def was_trained_on(self, log_ids: Iterable[str]) -> bool:
        """Whether it may have learned from episodes of a log."""
        return may_share_episodes(self.trained_on, log_ids)

    def was_selected_by(self, log_ids: Iterable[str]) -> bool:
        """Whether it was selected by evaluations on episodes of a log."""
        return may_share_episodes(self.selected_by, log_ids)


def read_provenance(*models: Any) -> Provenance:
    """Provenance of a policy that is made of these models."""
    return Provenance(
        *(
            tuple({one: None for model in models for one in getattr(model, name, ())})
            for name in (TRAINED_ON, SELECTED_BY)
        )
    )


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
    added = set(log_ids)
    for part in _parts(model):
        before = list(getattr(part, name, ()))
        if not added <= set(before):
            setattr(part, name, [*before, *sorted(added - set(before))])


def _parts(model: Any) -> list[Any]:
    """The model, and its policy, which may be evaluated without it."""
    policy = getattr(model, "policy", None)
    return [model] if policy is None else [model, policy]
