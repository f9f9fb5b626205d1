"""Splitting a log in which every episode that was begun has a number."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import IntArray
from ove_sb3.core.stopping import UNKNOWN_BEGIN, LoggingRecord, begin_key, number_of, writer_of


@dataclass(frozen=True)
class BegunPart:
    """Some of the begun episodes of a log, renumbered.

    Attributes
    ----------
    episodes : ndarray of int64
        Indices of those that were logged.
    begins : ndarray of int64 or None
        Their new numbers, with their writers.
    begun : dict of str to LoggingRecord
    """

    episodes: IntArray
    begins: IntArray | None
    begun: Mapping[str, LoggingRecord]


def counts_missing(begins: IntArray | None, begun: Mapping[str, LoggingRecord]) -> bool:
    """Whether it is known which of the episodes that were begun are missing from a log."""
    return begins is not None and len(begun) > 0 and bool((begins != UNKNOWN_BEGIN).all())


def split_begun(
    begins: IntArray,
    begun: Mapping[str, LoggingRecord],
    fraction: float,
    *,
    in_order: bool,
    rng: np.random.Generator,
) -> tuple[BegunPart, BegunPart]:
    """Split the begun episodes into two parts.

    An independent coin toss assigns each of them, unfinished ones included, whatever was logged.
    If `in_order`, the first ones go to the first part instead. The place of the cut then depends on
    how many were begun, so the parts are marked as cut.
    """
    first = second = BegunPart(np.empty(0, np.int64), np.empty(0, np.int64), {})
    for writer, record in begun.items():
        if in_order:
            chosen = np.arange(record.begun) < round(fraction * record.begun)
        else:
            chosen = rng.random(record.begun) < fraction
        first = _extended(first, begins, int(writer), record, chosen, fraction, cut=in_order)
        second = _extended(second, begins, int(writer), record, ~chosen, 1 - fraction, cut=in_order)
    return first, second


def _extended(
    part: BegunPart,
    begins: IntArray,
    writer: int,
    record: LoggingRecord,
    chosen: NDArray[np.bool_],
    fraction: float,
    *,
    cut: bool,
) -> BegunPart:
    """The part together with the chosen episodes of one more writer."""
    own = np.flatnonzero(writer_of(begins) == writer)
    own = own[chosen[number_of(begins[own])]]
    new_numbers = (np.cumsum(chosen) - 1)[number_of(begins[own])]
    # Another name for every part, so that parts can be joined again.
    new_writer = zlib.crc32(f"{writer} {chosen.tobytes().hex()}".encode()) >> 1
    planned = record.planned_steps if record.stopped_by_steps else None
    planned = None if planned is None else max(round(fraction * planned), 1)
    new_record = LoggingRecord(
        begun=int(chosen.sum()),
        ended=own.size,
        n_envs=record.n_envs,
        n_steps=round(fraction * record.n_steps) if planned is None else planned,
        planned_steps=planned,
        cut=record.cut or cut,
    )
    keys = begin_key(new_writer, 0) + new_numbers
    known = np.empty(0, np.int64) if part.begins is None else part.begins
    order = np.argsort(np.concatenate([part.episodes, own]), kind="stable")
    return BegunPart(
        np.concatenate([part.episodes, own])[order],
        np.concatenate([known, keys])[order],
        {**part.begun, str(new_writer): new_record},
    )
