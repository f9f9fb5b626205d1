from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ove_sb3.core
import ove_sb3.envs
from ove_sb3.experiments import storage
from ove_sb3.experiments.runner import run_study, run_tasks
from ove_sb3.experiments.settings import Sizes
from ove_sb3.experiments.storage import _digest, fingerprint

from .small import BANDIT, SIZES

EXPERIMENTS = Path(storage.__file__).parent
MANY = Sizes(n_trials=200, n_grid=(200,), truth_episodes=0)
# The command itself, with one study that needs no training.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also if the tests run in the background
from ove_sb3.experiments import settings
from ove_sb3.experiments.__main__ import main
from tests.experiments.small import BANDIT
settings.STUDIES.clear()
settings.STUDIES["bandit"] = BANDIT
sys.exit(main(sys.argv[1:]))
"""


def run(sizes: Sizes, out: Path, **options: Any) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = run_study(BANDIT, sizes, out=out, progress=False, **options).cells
    return cells


def test_the_number_of_jobs_changes_nothing(tmp_path: Path) -> None:
    assert run(SIZES, tmp_path / "1", jobs=1) == run(SIZES, tmp_path / "2", jobs=2)


def test_the_number_of_jobs_changes_no_digit_of_large_logs(tmp_path: Path) -> None:
    # Large enough for numpy's linear algebra to use all threads of a process.
    sizes = Sizes(n_trials=1, n_grid=(40_000,), truth_episodes=0)
    assert run(sizes, tmp_path / "1", jobs=1) == run(sizes, tmp_path / "2", jobs=2)


def test_trials_added_later_equal_those_of_one_long_run(tmp_path: Path) -> None:
    few = dataclasses.replace(SIZES, n_trials=2)
    begun = run(few, tmp_path / "parts")
    whole = run(SIZES, tmp_path / "parts")
    assert whole[: len(begun)] == begun
    assert whole == run(SIZES, tmp_path / "whole")


def test_trials_differ_and_so_do_seeds(tmp_path: Path) -> None:
    cells = run(SIZES, tmp_path)
    values = {cell["estimates"]["crossfit"] for cell in cells}
    assert len(values) == len(cells) == SIZES.n_trials * len(SIZES.n_grid)
    # In the same folder: results of different settings are kept apart.
    other = run(SIZES, tmp_path, seed=1)
    assert not values & {cell["estimates"]["crossfit"] for cell in other}
    assert run(SIZES, tmp_path) == cells


def test_results_depend_on_all_sources_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes, seen = Path.read_bytes, []

    def record(path: Path) -> bytes:
        seen.append(path)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", record)
    _digest.cache_clear()
    before = fingerprint({}, ("core", "envs", "trials"))
    folders = {Path(folder) for folder in (*ove_sb3.core.__path__, *ove_sb3.envs.__path__)}
    sources = {path for folder in folders for path in folder.rglob("*.py")}
    sources = {path for path in sources if "render" not in path.name}
    assert len({path.parent for path in sources}) > len(folders), "no file of a subfolder"
    assert {path for path in seen if path.parent != EXPERIMENTS} == sources
    for changed in sorted(sources, key=str)[::7]:
        monkeypatch.setattr(
            Path,
            "read_bytes",
            lambda path: read_bytes(path) + b"#" * (path == changed),  # noqa: B023
        )
        _digest.cache_clear()
        assert fingerprint({}, ("core", "envs", "trials")) != before, changed
    monkeypatch.undo()
    _digest.cache_clear()


def test_finished_tasks_are_not_computed_again(tmp_path: Path) -> None:
    calls = []

    def square(x: int) -> int:
        calls.append(x)
        return x * x

    def tasks(count: int) -> list[Any]:
        arguments = [(x,) for x in range(count)]
        return list(run_tasks(square, arguments, folder=tmp_path, label="", progress=False))

    assert tasks(3) == [0, 1, 4]
    assert tasks(5) == [0, 1, 4, 9, 16]
    assert calls == [0, 1, 2, 3, 4]


def test_the_settings_are_saved_with_versions(tmp_path: Path) -> None:
    saved = run_study(BANDIT, SIZES, out=tmp_path, seed=3, progress=False).settings()
    plain = json.loads(json.dumps(saved))
    assert plain["seed"] == 3
    assert plain["sizes"]["n_grid"] == [40, 120]
    assert plain["study"]["delta"] == 0.05
    assert plain["study"]["candidate"][1] == 0.99102
    assert plain["truth"]["variance"] == pytest.approx(0.1372, abs=1e-4)
    assert plain["bounds"]["bootstrap"] == {
        "method": "bootstrap",
        "variant": "basic",
        "n_resamples": 1000,
        "estimator": "cdis",
        "uses_ratio": False,
        "log": "behavior",
    }
    betting = {"method": "betting", "n_shuffles": 10, "uses_ratio": True, "log": "behavior"}
    assert plain["bounds"]["betting_ratio"] == betting
    assert plain["estimators"][-1] == "crossfit"
    assert set(plain["measured"]["versions"]) >= {
        "python",
        "numpy",
        "ove-sb3",
        "torch",
        "stable-baselines3",
    }


@pytest.mark.parametrize(
    ("how", "jobs"),
    [
        (signal.SIGINT, 1),
        (signal.SIGKILL, 2),
        pytest.param(signal.SIGINT, 2, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, 1, marks=pytest.mark.slow),
    ],
)
def test_finished_trials_survive(how: signal.Signals, jobs: int, tmp_path: Path) -> None:
    size = ["--trials", str(MANY.n_trials), "--n", *map(str, MANY.n_grid)]
    command = [sys.executable, "-c", COMMAND, "all", *size, "--jobs", str(jobs)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the signal goes to all processes, as from a terminal
    )
    while len(list(tmp_path.glob("runs/*/[0-9]*.json"))) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, errors = process.communicate()
    finished = {path: path.read_bytes() for path in tmp_path.glob("runs/*/[0-9]*.json")}
    written = {path: path.stat().st_mtime_ns for path in finished}
    assert 3 <= len(finished) < MANY.n_trials
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "Finished trials are kept" in errors
    else:
        assert process.returncode == -signal.SIGKILL

    few = dataclasses.replace(MANY, n_trials=max(int(path.stem) for path in finished) + 2)
    resumed = run(few, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in finished} == written
    assert resumed == run(few, tmp_path / "undisturbed")
