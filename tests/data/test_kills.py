"""SIGKILL while a log is compacted, overwritten or repaired: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.store.verify import repair, verify

from .test_storage import same, some

TASKS = {
    "compact": "from ove_sb3.data.writer import compact; compact(path)",
    "overwrite": "data.save(path, overwrite=True)",
    "repair": "from ove_sb3.store.verify import repair; repair(path)",
}
PROGRAM = """
import sys
from pathlib import Path
import pyarrow.parquet
import ove_sb3 as ove
from tests.data.test_storage import some
path, data = Path(sys.argv[1]), some(60, seed=9)
import ove_sb3.store.verify
import ove_sb3.data.writer
print("ready", flush=True)
{task}
print("done", flush=True)
"""


def prepare(path: Path) -> ove.Trajectories:
    data = some(60, seed=3)
    for part, every in ((data[:20], 50), (data[20:], 4)):
        writer = EpisodeWriter(path, part.metadata, flush_every=every)
        for one in part:
            writer.add(one)
        writer.close(compact=every == 50)
    return ove.Trajectories.load(path)


def damage_payload(path: Path, data: ove.Trajectories) -> None:
    index = path / "log.sqlite"
    content = bytearray(index.read_bytes())
    at = bytes(content).find(data[20:24].rewards.tobytes())
    assert at > 0
    content[at] ^= 1
    index.write_bytes(content)


def kill_during(task: str, path: Path, delay: float) -> None:
    command = [sys.executable, "-c", PROGRAM.format(task=TASKS[task]), str(path)]
    root = Path(__file__).parent.parent.parent
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def check_kill(task: str, path: Path, delay: float) -> None:
    data = prepare(path)
    kept = ove.Trajectories.concat([data[:20], data[24:]])
    if task == "repair":
        damage_payload(path, data)
    kill_during(task, path, delay)
    if task == "repair":
        if verify(path).problems:
            assert repair(path).lost_episodes == 4
        same(ove.Trajectories.load(path), kept)
        return
    after = ove.Trajectories.load(path)
    if task == "overwrite" and after.rewards[0] != data.rewards[0]:
        same(after, some(60, seed=9))
    else:
        same(after, data)
    compact(path)
    again = ove.Trajectories.load(path)
    same(again, after)
    listed = len(list(path.glob("part-*.parquet")))
    assert listed == ove.open_log(path).n_shards


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_kill(tmp_path: Path, task: str) -> None:
    for k, delay in enumerate((0.002, 0.02)):
        check_kill(task, tmp_path / str(k), delay)


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(TASKS))
def test_many_kills(tmp_path: Path, task: str) -> None:
    rng = np.random.default_rng(0)
    for k in range(100):
        check_kill(task, tmp_path / str(k), float(rng.uniform(0.0, 0.06)))


def run_beside(path: Path, rounds: int) -> None:
    """Overwrite and compact while a writer and readers are running."""
    first, second = some(6, seed=1), some(9, seed=2)
    first.save(path)
    tail = some(2, seed=5)
    for k in range(rounds):
        replacement = second if k % 2 == 0 else first
        log = ove.open_log(path)
        writer = EpisodeWriter(path, tail.metadata, flush_every=1, durability="normal")
        writer.add(tail)
        replacement.save(path, overwrite=True)
        writer.add(tail)  # acknowledged after the overwriting
        compact(path)
        same(ove.Trajectories.load(path), ove.Trajectories.concat([replacement, tail]))
        with pytest.raises(ove.StorageError, match=r"[oO]pen the log again"):
            log.load()


def test_overwriting_and_compacting_beside_others(tmp_path: Path) -> None:
    run_beside(tmp_path, 5)


@pytest.mark.slow
def test_overwriting_and_compacting_beside_others_for_long(tmp_path: Path) -> None:
    run_beside(tmp_path, 1000)
