"""Steps from a table: a file or a data frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._progress import tracked
from ove_sb3._validation import IntArray, check_progress
from ove_sb3.errors import PLACE, InvalidInputError

from .metadata import Metadata
from .table_source import TableSource, placed


def read_steps(
    table: Any,
    *,
    episode: str | None,
    step: str | None,
    propensity: str,
    reward: str,
    action: str | Sequence[str] | None,
    observations: str | Sequence[str],
    density: bool,
    keep: Sequence[str],
    terminated: str | None,
    truncated: str | None,
    metadata: Any,
    progress: bool | None,
) -> dict[str, Any]:
    """Arguments of `Trajectories.from_arrays`, from a table with one row per step."""
    progress = check_progress(progress)
    actions = [action] if isinstance(action, str) else list(_names(action or (), "action"))
    kept = list(_names(keep, "keep"))
    single = isinstance(observations, str)
    observed = (
        [observations]
        if isinstance(observations, str)
        else list(_names(observations, "observations"))
    )
    number = None if episode is None else step
    wanted = [*(name for name in (episode, number) if name is not None), propensity, reward]
    optional = [terminated, truncated, *([step] if episode is None else [])]
    there = [name for name in optional if name is not None]
    source = TableSource.of(table, [*wanted, *actions, *observed, *kept], there, progress)
    if episode is None and source.origin is None:
        source.check_single_steps(step)
    if episode is not None and source.origin is None and _learned(metadata):
        source.check_numbered(episode)
    places, lengths = _places(source, episode, number)
    origin = source.origin
    used = [reward, *actions, *observed, *kept, *([] if origin is None else origin.columns)]
    columns = {
        name: source.arranged(name, places)
        for name in tracked(dict.fromkeys(used), progress, total=len(set(used)), unit="column")
    }
    written: dict[str, Any] = {"metadata": metadata}
    if origin is not None:
        if episode is None:
            raise InvalidInputError(
                "`episode` must name the column of the episodes in a table that `to_table` wrote, "
                "got None.",
                path=source.path,
            )
        written = origin.fields(
            columns.__getitem__, source.columns.column(episode).to_numpy(), lengths
        )
        written["metadata"] = origin.stated(metadata, reward)
    n_steps = len(source)
    propensities = source.propensities(propensity, density)
    if actions:
        components = [columns[name] for name in actions]
        taken = components[0] if isinstance(action, str) else np.stack(components, axis=1)
        if density:
            taken = taken.astype(np.float64)
    else:
        taken = np.zeros(n_steps, np.float32 if density else np.int8)
    seen = [columns[name] for name in observed] or [np.zeros((n_steps, 0), np.float32)]
    return {
        "observations": np.stack(seen, axis=1) if observed and not single else seen[0],
        "actions": taken,
        "log_probs": placed(np.log(propensities, dtype=np.float64), places),
        "rewards": columns[reward].astype(np.float64, copy=False),
        "lengths": lengths,
        "terminated": source.ends(terminated, places, lengths),
        "truncated": source.ends(truncated, places, lengths),
        "columns": {name: columns[name] for name in kept},
        **written,
    }


def _places(
    source: TableSource, episode: str | None, step: str | None
) -> tuple[IntArray | None, IntArray]:
    """Places of the rows by episode and step, None if they are in order; and the lengths."""
    if episode is None:
        return None, np.ones(len(source), dtype=np.int64)
    source.prepare_names(episode)
    if (lengths := source.lengths_in_order(episode, step)) is not None:
        return None, lengths
    number, name_of = source.episodes(episode)
    if step is None:
        return _adjacent(source, number, episode, name_of)
    return _sorted(source, number, source.integers(step), step, name_of)


def _sorted(
    source: TableSource, number: IntArray, steps: IntArray, name: str, name_of: NDArray[Any]
) -> tuple[IntArray | None, IntArray]:
    """Places of the rows by episode and step, None if they are in order; and the lengths."""
    n = number.size
    lengths = np.bincount(number)
    begins = np.cumsum(lengths) - lengths
    lowest = int(steps.min())
    first = 1 if lowest == 1 else 0
    places = (begins - first)[number]
    places += steps
    # No step lies before its episode. If all places are taken, none lies behind it either: those
    # of the last episode are taken by its own steps, then those of the last but one, and so on.
    taken = np.zeros(n, np.bool_)
    if lowest >= first and steps.max() <= n and places.max() < n:
        taken[places] = True
    if not taken.all():
        raise _bad_steps(source, number, steps, first, name, name_of)
    in_order = places[0] == 0 and bool((np.diff(places) == 1).all())
    return None if in_order else places, lengths


def _bad_steps(
    source: TableSource,
    number: IntArray,
    steps: IntArray,
    first: int,
    name: str,
    name_of: NDArray[Any],
) -> InvalidInputError:
    """Error about the first step, in order, that is missing or duplicated."""
    order = np.lexsort((steps, number))
    number, steps = number[order], steps[order]
    begins = np.flatnonzero(np.concatenate([[True], np.diff(number) != 0]))
    lengths = np.diff(np.append(begins, number.size))
    expected = np.arange(number.size) - np.repeat(begins, lengths) + first
    at = int(np.flatnonzero(steps != expected)[0])
    here = int(steps[at])
    if at > 0 and number[at] == number[at - 1] and here == steps[at - 1]:
        problem = f"step {here} is there twice"
    else:
        problem = f"step {int(expected[at])} is missing before step {here}"
    return source.error(
        f"column {name!r} must number the steps of an episode {first}, {first + 1}, "
        f"{first + 2}, ..., but in episode {_plain(name_of[number[at]])!r} {problem}, at "
        f"{PLACE}. Every episode must be complete and have a name of its own.",
        int(order[at]),
    )


def _adjacent(
    source: TableSource, number: IntArray, name: str, name_of: NDArray[Any]
) -> tuple[IntArray | None, IntArray]:
    """Places of the rows of episodes that follow one another, and the lengths."""
    begins = np.flatnonzero(np.concatenate([[True], np.diff(number) != 0]))
    lengths = np.diff(np.append(begins, number.size))
    run = number[begins]
    order = np.argsort(run, kind="stable")
    if (again := np.flatnonzero(np.diff(run[order]) == 0)).size:
        at = int(begins[order[again[0] + 1]])
        raise source.error(
            f"column {name!r} must keep the rows of an episode together where there is no column "
            f"`step`, but episode {_plain(name_of[number[at]])!r} begins again at {PLACE}. Name a "
            "column that numbers the steps, or give every episode a name of its own.",
            at,
        )
    if (np.diff(run) > 0).all():
        return None, lengths
    sizes = lengths[order]
    shift = np.empty_like(begins)
    shift[order] = np.cumsum(sizes) - sizes - begins[order]
    return np.arange(number.size) + np.repeat(shift, lengths), sizes


def _learned(metadata: object) -> bool:
    """Whether the caller states that the behavior depended on earlier episodes."""
    if isinstance(metadata, Mapping):
        return bool(metadata.get("adaptive", False))
    return isinstance(metadata, Metadata) and metadata.adaptive


def _names(names: object, argument: str) -> Sequence[str]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInputError(f"`{argument}` must be a sequence of column names, got {names!r}.")
    return names


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
