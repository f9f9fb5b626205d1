"""Candidates that kill or record the worker that scores them, in a module that workers import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ove_sb3 as ove
from ove_sb3.core.steps import StepScores
from ove_sb3.evaluation.candidates import PolicyCandidate


@dataclass(frozen=True)
class Deadly:
    """Kills the process that scores it from step `after` on: `times` times in all."""

    inner: PolicyCandidate
    folder: Path
    after: int
    times: int = 1
    label: str = "deadly"

    def score(self, chunk: ove.Trajectories, first_step: int) -> StepScores:
        if first_step >= self.after and self._next_turn():
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner.score(chunk, first_step)

    def _next_turn(self) -> bool:
        for turn in range(self.times):
            try:
                os.close(os.open(self.folder / f"killed-{turn}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


def square_and_grow(number: int, _shared: object) -> int:
    """Square a number, and make joblib believe that this process has a memory leak."""
    from joblib.externals.loky import process_executor

    process_executor._MEMORY_LEAK_CHECK_DELAY = -1.0
    process_executor._MAX_MEMORY_LEAK_SIZE = -(1 << 60)
    return number**2


class DeadlyPolicy(ove.UniformPolicy):
    """Kills the first process, other than its creator, that asks for its probabilities."""

    def __init__(self, space: Any, folder: Path) -> None:
        super().__init__(space)
        self.folder, self.home = folder, os.getpid()

    def distribution(self, *args: Any, **kwargs: Any) -> Any:
        if os.getpid() != self.home and not (self.folder / "killed").exists():
            (self.folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().distribution(*args, **kwargs)


@dataclass(frozen=True)
class Traveler:
    """Records in a folder which process unpickles it, and which asks it for scores."""

    inner: PolicyCandidate
    folder: Path
    label: str = "traveler"

    def __reduce__(self) -> Any:
        return arrive, (self.inner, self.folder)

    def score(self, chunk: ove.Trajectories, first_step: int) -> StepScores:
        self._record("scores")
        return self.inner.score(chunk, first_step)

    def _record(self, what: str) -> None:
        with (self.folder / what).open("a") as file:
            file.write(f"{os.getpid()}\n")


def arrive(inner: PolicyCandidate, folder: Path) -> Traveler:
    traveler = Traveler(inner, folder)
    traveler._record("arrivals")
    return traveler


def lines(file: Path) -> list[str]:
    return file.read_text().split()
