"""Overwriting and compacting while other processes write and read."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact

from .writer_process import episode

N_WRITERS, N_READERS, SIZE = 2, 1, 6
FIRST = 1000  # replacements count from here


class Numbers:
    """One number per process, in shared memory."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (N_WRITERS + N_READERS))

    def __getitem__(self, k: int) -> int:
        return int(struct.unpack_from("q", self._memory, 8 * k)[0])

    def __setitem__(self, k: int, value: int) -> None:
        struct.pack_into("q", self._memory, 8 * k, value)


def write(path: Path, number: int, counts: Numbers) -> None:
    """Write episodes, and count those that are acknowledged."""
    writer = EpisodeWriter(path, ove.Metadata(), flush_every=1, durability="normal")
    while True:
        writer.add(episode(number, counts[number], ove.Metadata()))
        counts[number] += 1
        time.sleep(0.005)


def read(path: Path, number: int, counts: Numbers) -> None:
    """Check the log: one complete replacement, then some episodes of every writer."""
    while True:
        contents(path)
        counts[number] += 1
        time.sleep(0.01)


def contents(path: Path) -> dict[int, range]:
    """Numbers of the episodes of every writer, checked to be without gaps."""
    data = ove.Trajectories.load(path)
    assert data.final_observations is not None
    writers, numbers = np.asarray(data.final_observations)[:, :2].astype(int).T
    replacements = sorted(set(writers[writers >= FIRST]))
    assert len(replacements) == 1, replacements
    assert list(numbers[writers >= FIRST]) == list(range(SIZE))
    found = {}
    for writer in range(N_WRITERS):
        own = numbers[writers == writer]
        if own.size:
            assert list(own) == list(range(own[0], own[0] + own.size))
        found[writer] = range(own[0], own[-1] + 1) if own.size else range(0)
    for i in range(len(data)):
        assert (data[i].rewards == numbers[i]).all()
    return found


def replacement(k: int) -> ove.Trajectories:
    return ove.Trajectories.concat([episode(FIRST + k, n, ove.Metadata()) for n in range(SIZE)])


@contextmanager
def running(tasks: list[Callable[[], None]]) -> Iterator[None]:
    """Run tasks in forks of this process, which must not end by themselves."""
    children = []
    for task in tasks:
        child = os.fork()
        if child == 0:
            try:
                task()
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        ends = [os.waitpid(child, 0)[1] for child in children]
    assert ends == [signal.SIGKILL] * len(children)


def run_beside(path: Path, rounds: int) -> None:
    counts = Numbers()
    replacement(0).save(path)
    tasks: list[Callable[[], None]] = [lambda k=k: write(path, k, counts) for k in range(N_WRITERS)]  # type: ignore[misc]
    tasks += [lambda: read(path, N_WRITERS, counts)]
    with running(tasks):
        for k in range(1, rounds + 1):
            replacement(k).save(path, overwrite=True)
            before = [counts[writer] for writer in range(N_WRITERS)]
            compact(path)
            after = [counts[writer] for writer in range(N_WRITERS)]
            found = contents(path)
            for writer, numbers in found.items():
                # Acknowledged after the overwriting, and before the reading.
                assert set(range(before[writer] + 1, after[writer])) <= set(numbers)
        while not counts[N_WRITERS]:
            time.sleep(0.01)
    assert all(counts[writer] > rounds / 10 for writer in range(N_WRITERS))
    found = contents(path)
    for writer, numbers in found.items():
        assert not numbers or numbers[-1] >= counts[writer] - 1


def test_overwriting_and_compacting_beside_processes(tmp_path: Path) -> None:
    run_beside(tmp_path, 8)


@pytest.mark.slow
def test_a_thousand_rounds_beside_processes(tmp_path: Path) -> None:
    run_beside(tmp_path, 1000)
