"""Results are bit-identical wherever a log is, however it is divided, in whichever process."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO

import ove_sb3 as ove
from ove_sb3 import _parallel as parallel
from ove_sb3._validation import episode_and_step
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores
from ove_sb3.data.log import MemoryLog
from ove_sb3.evaluation.candidates import as_candidate
from ove_sb3.evaluation.reduction import Total, reduce_log
from tests.problems.corridor import GAMMA, HORIZON, choices, make_model, simulate

from .same import same_result, same_statistics
from .workers import Deadly, Traveler, lines, square_and_grow

BLOCK = 300  # steps; large enough for a forward pass to depend on the other rows

# One order: what is compared does not depend on their number.
SETTINGS: dict[str, Any] = {"gamma": GAMMA, "method": ove.Betting(n_shuffles=1)}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ove_sb3.data.log._MOST_STEPS", BLOCK)
    monkeypatch.setattr("ove_sb3.data.log._FEWEST_STEPS", BLOCK)


@pytest.fixture
def folder(data: ove.Trajectories, tmp_path: Path) -> Path:
    """The log in two shards and a file that is still being written."""
    path = tmp_path / "log"
    for part in (data[:130], data[130:400]):
        writer = ove.EpisodeWriter(path, part.metadata, flush_every=40)
        for first in range(0, len(part), 20):
            writer.add(part[first : first + 20])
        writer.close()
    still_open = ove.EpisodeWriter(path, data.metadata, flush_every=40)
    for first in range(400, 600, 20):
        still_open.add(data[first : first + 20])
    return path


def as_policy_candidate(candidate: PPO, data: ove.Trajectories) -> Any:
    return as_candidate(
        candidate,
        metadata=data.metadata,
        n_steps=data.n_steps,
        model_class=None,
        vec_normalize=None,
        deterministic=False,
    )


@pytest.mark.parametrize("chunk_steps", [None, 1, 301, 1000, 10**6])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_no_bit_depends_on_chunks_processes_or_the_disk(
    data: ove.Trajectories, folder: Path, candidate: PPO, chunk_steps: int | None, n_jobs: int
) -> None:
    here = ove.evaluate(data, candidate, **SETTINGS)
    log = ove.open_log(folder, chunk_steps=chunk_steps)
    same_result(ove.evaluate(log, candidate, **SETTINGS, n_jobs=n_jobs), here)
    same_result(ove.evaluate(log.load(), candidate, **SETTINGS, n_jobs=n_jobs), here)


def test_blocks_of_the_usual_size(
    candidate: PPO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    data = simulate(choices(make_model(0)), 120_000, seed=1)
    assert data.n_steps > 2 * MemoryLog(data).block_steps
    data.save(tmp_path)
    log = ove.open_log(tmp_path, chunk_steps=1)
    here = ove.evaluate(data, candidate, **SETTINGS)
    same_result(ove.evaluate(log, candidate, **SETTINGS), here)
    same_result(ove.evaluate(log, candidate, **SETTINGS, n_jobs=2), here)


@pytest.mark.parametrize("some", [slice(0, 600), slice(20, 25), slice(0, 0)])
def test_episodes_that_ran_together(
    data: ove.Trajectories, candidate: PPO, tmp_path: Path, some: slice
) -> None:
    overlaps = np.zeros(len(data), dtype=np.int64)
    overlaps[some] = 3  # elsewhere, blocks without any
    learned = replace(data, overlaps=overlaps, metadata=replace(data.metadata, adaptive=True))
    learned.save(tmp_path)
    here = ove.evaluate(learned, candidate, **SETTINGS)
    log = ove.open_log(tmp_path, chunk_steps=1)
    for there in (log, log.load()):
        result = ove.evaluate(there, candidate, **SETTINGS, n_jobs=2)
        assert result.to_dict() == here.to_dict()


@pytest.mark.parametrize("block", [1, 2, 5, HORIZON, 40])
def test_blocks_of_one_episode_or_none(
    data: ove.Trajectories,
    folder: Path,
    candidate: PPO,
    monkeypatch: pytest.MonkeyPatch,
    block: int,
) -> None:
    monkeypatch.setattr("ove_sb3.data.log._MOST_STEPS", block)
    monkeypatch.setattr("ove_sb3.data.log._FEWEST_STEPS", block)
    here = ove.evaluate(data, candidate, **SETTINGS)
    there = ove.evaluate(ove.open_log(folder, chunk_steps=100), candidate, **SETTINGS, n_jobs=2)
    same_result(there, here)
    assert here.n_trajectories == len(data)


def test_blocks_are_added_from_left_to_right(data: ove.Trajectories) -> None:
    blocks = [
        shard_statistics(
            StepScores(np.log(np.linspace(0.5, 1.5, block.n_steps))),
            block.rewards,
            block.lengths,
            gamma=0.9,
        )
        for _, block in MemoryLog(data).part(0, data.n_steps).windows(20)
    ]
    total = Total()
    for block in blocks:
        total.add(block)
        assert len(total.parts) < len(blocks)  # joined on the way
    same_statistics(total.join(), ove.TrajectoryStatistics.concatenate(blocks))


def test_known_log_probabilities_and_several_candidates(
    data: ove.Trajectories, folder: Path, candidate: PPO
) -> None:
    candidates = {"model": candidate, "array": ove.log_prob(make_model(1), data)}
    here = ove.compare(data, candidates, **SETTINGS)
    for chunk_steps, n_jobs in ((None, 1), (1, 2), (700, 2)):
        log = ove.open_log(folder, chunk_steps=chunk_steps)
        there = ove.compare(log, candidates, **SETTINGS, n_jobs=n_jobs)
        for name in candidates:
            same_result(there[name], here[name])


def test_the_scoring_thread_is_one_and_the_setting_is_restored(
    data: ove.Trajectories, candidate: PPO, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    seen = []
    log_prob = ove.log_prob

    def spy(*args: Any, **kwargs: Any) -> Any:
        seen.append(torch.get_num_threads())
        return log_prob(*args, **kwargs)

    monkeypatch.setattr("ove_sb3.policies.log_prob.log_prob", spy)
    torch.set_num_threads(2)
    try:
        ove.evaluate(data, candidate, **SETTINGS)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert set(seen) == {1}
    assert len(seen) == -(-data.n_steps // BLOCK)


def test_the_tasks_of_a_killed_process_are_redone(
    data: ove.Trajectories, folder: Path, candidate: PPO, tmp_path: Path
) -> None:
    policy = as_policy_candidate(candidate, data)
    options: dict[str, Any] = {"gamma": GAMMA, "horizon": HORIZON}
    (here,) = reduce_log(MemoryLog(data), [policy], **options)
    deadly = Deadly(policy, tmp_path, after=4 * BLOCK)
    log = ove.open_log(folder, chunk_steps=1)
    (there,) = reduce_log(log, [deadly], n_jobs=2, **options)
    same_statistics(there, here)
    assert (tmp_path / "killed-0").exists()


def test_processes_that_joblib_replaces() -> None:
    """Its warning, an error in all tests, must not end the thread that manages the processes."""
    results: list[int] = []
    squares = parallel.run(square_and_grow, range(8), n_jobs=2)
    thread = threading.Thread(target=lambda: results.extend(squares), daemon=True)
    thread.start()
    thread.join(timeout=300)  # it would never end
    assert results == [k**2 for k in range(8)]


def test_processes_that_keep_dying_are_an_error(
    data: ove.Trajectories,
    folder: Path,
    candidate: PPO,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "MOST_FAILURES", 1)
    deadly = Deadly(as_policy_candidate(candidate, data), tmp_path, after=4 * BLOCK, times=100)
    with pytest.raises(ove.WorkerError, match=r"2 times, .* of 11 tasks done.*n_jobs"):
        reduce_log(
            ove.open_log(folder, chunk_steps=1), [deadly], gamma=GAMMA, horizon=HORIZON, n_jobs=2
        )


def test_the_candidate_travels_once_per_process(
    data: ove.Trajectories, folder: Path, candidate: PPO, tmp_path: Path
) -> None:
    traveler = Traveler(as_policy_candidate(candidate, data), tmp_path)
    log = ove.open_log(folder, chunk_steps=1)
    reduce_log(log, [traveler], gamma=GAMMA, horizon=HORIZON, n_jobs=2)
    arrivals, scores = lines(tmp_path / "arrivals"), lines(tmp_path / "scores")
    assert len(scores) == 11
    assert sorted(set(scores)) == sorted(arrivals)


def test_one_candidate_after_another_in_the_same_processes(
    data: ove.Trajectories, candidate: PPO
) -> None:
    for model in (candidate, make_model(3), candidate):
        there = ove.evaluate(data, model, **SETTINGS, n_jobs=2)
        same_result(there, ove.evaluate(data, model, **SETTINGS))


def test_a_candidate_that_cannot_travel(
    data: ove.Trajectories, candidate: PPO, tmp_path: Path
) -> None:
    with (tmp_path / "x").open("w") as file:
        stuck = Traveler(file, tmp_path)  # type: ignore[arg-type]
        with pytest.raises(ove.InvalidInputError, match="`n_jobs` must be 1"):
            reduce_log(MemoryLog(data), [stuck], gamma=GAMMA, horizon=HORIZON, n_jobs=2)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_name_the_episode_of_the_whole_log(
    folder: Path, data: ove.Trajectories, candidate: PPO, tmp_path: Path, n_jobs: int
) -> None:
    whole = ove.Trajectories.load(folder)
    ends = whole.terminated.copy()
    bad = [int(k) for k in np.flatnonzero(whole.lengths < HORIZON) if k > 420][:2]
    ends[bad] = False
    cut = ove.Trajectories.from_arrays(
        observations=whole.observations,
        actions=whole.actions,
        log_probs=whole.log_probs,
        rewards=whole.rewards,
        lengths=whole.lengths,
        terminated=ends,
        metadata=whole.metadata,
    )
    cut.save(tmp_path / "cut")
    (file,) = (tmp_path / "cut").glob("*.parquet")
    with pytest.raises(ove.InvalidInputError, match=rf"episode {bad[0]} was cut off") as caught:
        ove.evaluate(cut, candidate, **SETTINGS, n_jobs=n_jobs)
    assert "parquet" not in str(caught.value)
    log = ove.open_log(tmp_path / "cut", chunk_steps=1)
    with pytest.raises(ove.InvalidInputError, match=rf"episode {bad[0]} of .*{file.name} was cut"):
        ove.evaluate(log, candidate, **SETTINGS, n_jobs=n_jobs)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_name_the_step_of_the_whole_log(
    data: ove.Trajectories, candidate: PPO, tmp_path: Path, n_jobs: int
) -> None:
    actions = data.actions.copy()
    actions[2500] = 7
    position = "episode {}, step {}".format(*episode_and_step(2500, data.lengths))
    wrong = replace(data, actions=actions)
    wrong.save(tmp_path)
    (file,) = tmp_path.glob("*.parquet")
    for log, place in ((wrong, ""), (ove.open_log(tmp_path, chunk_steps=1), f".*{file.name}")):
        with pytest.raises(ove.InvalidInputError, match=rf"got 7 at {position} .*{place}"):
            ove.evaluate(log, candidate, **SETTINGS, n_jobs=n_jobs)
    with pytest.raises(ove.InvalidInputError, match=f"got 7 at {position} "):
        ove.log_prob(candidate, wrong, batch_size=100)


def test_a_candidate_that_the_log_never_shows_is_warned_of_once(candidate: PPO) -> None:
    data = simulate(np.ones(5), 600, seed=0)  # the behavior never steps back
    for n_jobs in (1, 2):
        with pytest.warns(ove.SupportWarning) as caught:
            ove.evaluate(data, candidate, **SETTINGS, n_jobs=n_jobs)
        (warning,) = [w for w in caught if "never seen" in str(w.message)]
        assert f"{data.n_steps} logged steps" in str(warning.message)
        assert warning.filename == __file__
