"""`watch`: a growing log is followed until a decision, which no timing and no restart changes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3.cli.app import app
from tests.problems.corridor import GAMMA, choices, exact_moments, make_env, make_model
from tests.problems.queue import Queue
from tests.problems.visits import Visit, Visits, behavior, candidate

ALONE = Queue(1, 0, (3, 1), (1.0, 0.0))
SEVERAL = replace(ALONE, n_envs=8, lengths=(10, 2))
MANY = replace(ALONE, n_envs=64, lengths=(60, 1), candidate=0.5)  # long episodes return more
TRUTH = ALONE.truth["mean"]  # 0.66
STATED: dict[str, Any] = {"gamma": 1.0, "reward_range": (0, 1), "return_range": (0, 1)}


def watch(path: Path, queue: Queue, *requirements: str, **options: Any) -> ove.Decision:
    """Watch the log as it is, without waiting for more."""
    more = {"max_weight": queue.max_ratio, "timeout": 0.0, "poll_seconds": 0.0, **options}
    return ove.watch(path, candidate(queue), requirements, **{**STATED, **more})


def state_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.watch.json")


@pytest.mark.parametrize("queue", [ALONE, SEVERAL], ids=["alone", "several"])
def test_restarts_and_timing_do_not_change_the_decision(queue: Queue, tmp_path: Path) -> None:
    path, requirements = tmp_path / "log", ("mean >= 0.57", "variance <= 0.249")
    numbers = []
    decision = ove.Decision("undecided", (), 0)
    for k in range(12):
        if k in (0, 3):  # the process that logs is killed: what it had under way is lost
            writer = Visits(queue, path, seed=k)
        writer.run(150 if queue is ALONE else 80)
        decision = watch(path, queue, *requirements, progress=lambda d: numbers.append(d.n))
        if decision.status != "undecided":
            break
    assert decision.proven
    assert decision.n == numbers[-1]
    assert numbers == sorted(numbers)
    assert "writers of the log followed one another" in decision.assumptions[-1]
    # The decision is final, and an evaluation of the whole log agrees with it.
    writer.run(100)
    writer.venv.close()
    assert watch(path, queue, *requirements) == decision
    state_of(path).unlink()
    offline = watch(path, queue, *requirements)
    assert offline.status == decision.status
    assert offline.n <= decision.n


def test_what_was_found_is_kept_and_only_new_episodes_are_evaluated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    seen: list[ove.Decision] = []
    writer = Visits(ALONE, path, seed=0)
    writer.run(300)
    first = watch(path, ALONE, "mean >= 0.65", progress=seen.append)
    bounds = json.loads(state_of(path).read_text())["bounds"]
    assert first.status == "undecided"
    assert len(seen) > 5
    assert len(bounds) == 2  # one that would prove it, one that would refute it
    seen.clear()
    writer.run(60)
    second = watch(path, ALONE, "mean >= 0.65", progress=seen.append)
    assert [decision.n for decision in seen] == sorted({d.n for d in seen} - {first.n})
    assert min(decision.n for decision in seen) > first.n
    later = json.loads(state_of(path).read_text())["bounds"]
    for key, bound in bounds.items():
        assert later[key] >= bound if " lower " in key else later[key] <= bound
    # A bound that was better earlier still counts.
    state = json.loads(state_of(path).read_text())
    (key,) = (name for name in state["bounds"] if " lower " in name)
    state["bounds"][key] = 0.651
    state_of(path).write_text(json.dumps(state))
    writer.run(60)
    assert watch(path, ALONE, "mean >= 0.65").proven
    assert second.n < watch(path, ALONE, "mean >= 0.65").n


def test_delta_is_shared_as_for_one_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Visits(ALONE, path, seed=0, flush_every=1).run(200)
    watch(path, ALONE, "mean >= 0.6", "variance <= 0.2", "mean <= behavior + 0.5", delta=0.08)
    bounds = json.loads(state_of(path).read_text())["bounds"]
    third = 0.08 / 3
    assert set(bounds) == {
        "candidate mean lower 0.08",
        f"candidate mean upper {third!r}",
        "candidate variance upper 0.08",
        f"candidate variance lower {third!r}",
        # The bounds of candidate and behavior have half of it each.
        "candidate mean upper 0.04",
        f"candidate mean lower {third / 2!r}",
        "behavior mean lower 0.04",
        f"behavior mean upper {third / 2!r}",
    }


def test_a_false_requirement_is_refuted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Visits(SEVERAL, path, seed=0).run(300)
    decision = watch(path, SEVERAL, "mean >= 0.2", "mean >= 0.9")
    assert [verdict.status for verdict in decision.verdicts] == ["proven", "refuted"]
    assert decision.status == "refuted"
    assert str(decision).startswith(f"refuted after {decision.n} episodes\n  mean >= 0.2: proven")
    assert ove.Decision.from_dict(json.loads(json.dumps(decision.to_dict()))) == decision


def test_episodes_under_way_count(tmp_path: Path) -> None:
    # While 64 long episodes are under way, hundreds of short ones end, which return 0.
    path = tmp_path / "log"
    writer = Visits(MANY, path, seed=0)
    for _ in range(4):
        writer.run(14)
        decision = watch(path, MANY, "mean <= 0.3")
        assert decision.status == "undecided"  # the mean is 0.5
        assert decision.n_unfinished >= 64 - 8  # flushed every 8 episodes
    ended = ove.Trajectories.load(path)
    assert len(ended) > 60
    assert ended.rewards.sum() < 0.1 * len(ended)
    assert "unfinished): mean <= 0.3: undecided." in decision.progress


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"delta": 0.1}, "delta 0.05, not 0.1"),
        ({"requirements": ("mean >= 0.4",)}, "requirements"),
        ({"max_weight": 2.0}, "max_weight 1.4, not 2.0"),
        ({"target_n": 500}, "target_n None, not 500"),
        ({"return_range": (0, 2)}, "return_range"),
        ({"queue": replace(ALONE, candidate=0.71)}, "candidate '"),
    ],
)
def test_the_state_of_another_question_is_refused(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    Visits(ALONE, path, seed=0).run(100)
    asked: dict[str, Any] = {"queue": ALONE, "requirements": ("mean >= 0.5",), "max_weight": 1.4}
    watch(path, asked.pop("queue"), *asked.pop("requirements"), **asked)
    asked = {"queue": ALONE, "requirements": ("mean >= 0.5",), "max_weight": 1.4, **change}
    with pytest.raises(ove.InvalidInputError, match="must be that of the same evaluation") as error:
        watch(path, asked.pop("queue"), *asked.pop("requirements"), **asked)
    assert named in str(error.value)
    assert error.value.path == state_of(path)


def test_a_state_that_does_not_belong_to_the_log_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "log", tmp_path / "other"
    writer = Visits(ALONE, path, seed=0)
    writer.run(100)
    watch(path, ALONE, "mean >= 0.5")
    Visits(ALONE, other, seed=1).run(100)
    shutil.copy(state_of(path), state_of(other))
    with pytest.raises(ove.InvalidInputError, match="which was overwritten or lost episodes"):
        watch(other, ALONE, "mean >= 0.5")
    state = json.loads(state_of(path).read_text())
    state["sums"][0] += 1.0  # other weights: another candidate
    state_of(path).write_text(json.dumps(state))
    with pytest.raises(ove.InvalidInputError, match="the weights of the first"):
        watch(path, ALONE, "mean >= 0.5")
    for text in ("{", '{"version": 2}', "[]"):
        state_of(path).write_text(text)
        with pytest.raises(ove.StorageError, match="must be a file written by watch"):
            watch(path, ALONE, "mean >= 0.5")


def test_writers_at_the_same_time_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first, second = Visits(ALONE, path, seed=0), Visits(ALONE, path, seed=1)
    first.run(100)
    second.run(100)
    watch(path, ALONE, "mean >= 0.65")
    first.run(100)
    with pytest.raises(ove.InvalidInputError, match="whose writers followed one another"):
        watch(path, ALONE, "mean >= 0.65")


def test_logs_that_give_no_guarantee_are_refused(tmp_path: Path) -> None:
    fixed = ove.collect(make_model(0), make_env(), 100, seed=0)
    fixed.save(tmp_path / "fixed")
    options: dict[str, Any] = {"gamma": GAMMA, "reward_range": (-1, 2), "timeout": 0}
    with pytest.raises(ove.InvalidInputError, match="records every episode when it begins"):
        ove.watch(tmp_path / "fixed", make_model(2), ["mean >= 0"], **options)
    with pytest.raises(ove.InvalidInputError, match="the log-probabilities of steps to come"):
        ove.watch(tmp_path / "fixed", np.zeros(10), ["mean >= 0"], **options)
    path = tmp_path / "log"
    Visits(ALONE, path, seed=0).run(100)
    with pytest.raises(ove.InvalidInputError, match="`reward_range` must be stated"):
        watch(path, ALONE, "mean >= 0", reward_range="from_data")
    with pytest.raises(ove.InvalidInputError, match="`requirements` must hold at least one"):
        watch(path, ALONE)
    with pytest.raises(ove.StorageError, match="must be a directory of logged episodes"):
        watch(tmp_path / "nothing", ALONE, "mean >= 0")
    several = Visits(replace(ALONE, n_envs=8), path, seed=1)
    several.run(50)
    with pytest.raises(ove.InvalidInputError, match="`n_envs` must be 1 for all writers"):
        watch(path, ALONE, "mean >= 0.65")


def test_an_empty_log_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = Visits(ALONE, path, seed=0)
    assert watch(path, ALONE, "mean >= 0.5") == ove.Decision("undecided", (), 0)
    writer.run(150)
    decision = watch(path, ALONE, "mean >= 0.01", max_episodes=70, timeout=None)
    assert decision.proven
    assert decision.n == 60
    limited = watch(path, ALONE, "mean >= 0.6", max_episodes=63, timeout=None, state=tmp_path / "s")
    assert (limited.status, limited.n) == ("undecided", 63)


def test_the_command(tmp_path: Path) -> None:
    old, new, path = make_model(0), make_model(2), tmp_path / "log"
    new.save(tmp_path / "new.zip")
    env = ove.LogActionProbability(make_env(), old, path=path, reward_range=(-1, 2))
    for episode in range(150):
        observation, _ = env.reset(seed=episode)
        over = False
        while not over:
            action, _ = old.predict(observation)
            observation, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
    env.close()
    mean, _ = exact_moments(choices(new))
    arguments = ["watch", path, tmp_path / "new.zip", "--model-class", "PPO", "--gamma", GAMMA]
    arguments += ["--timeout", 0, "--state", tmp_path / "state.json"]

    def run(*more: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in (*arguments, *more)])

    proven = run("--require", "mean >= -0.9")
    assert proven.exit_code == 0, proven.output
    lines = proven.stdout.splitlines()
    assert lines[0].startswith("60 episodes: mean >= -0.9: ")
    assert lines[-1].startswith("mean >= -0.9: proven.")
    (tmp_path / "state.json").unlink()
    open_ = run("--require", f"mean >= {mean:.3f}", "--json", "--safe-load")
    assert open_.exit_code == 1, open_.output
    assert json.loads(open_.stdout)["n"] == 150
    other = run("--require", "mean >= 0")
    assert other.exit_code == 3
    assert "must be that of the same evaluation" in other.stderr
    assert run("--require", "mean >").exit_code == 2
    assert run().exit_code == 2
    assert "Follow a log" in CliRunner().invoke(app, ["watch", "--help"]).stdout


def test_the_behavior_itself_is_a_candidate(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Visits(ALONE, path, seed=0).run(400)
    decision = ove.watch(
        path, behavior(), ["mean <= behavior + 0.4"], timeout=0, max_weight=1.0, **STATED
    )
    assert decision.proven


@pytest.mark.parametrize("reference", ["behavior", "behavior:0"])
def test_policies_of_a_mixture_are_not_compared_with(reference: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    mixture = ove.MixturePolicy([behavior(), candidate(ALONE)], [0.5, 0.5], per="episode", rng=0)
    venv = ove.VecLogActionProbability(
        DummyVecEnv([lambda: gym.wrappers.TimeLimit(Visit(ALONE), 4)]),
        mixture,
        path=path,
        reward_range=(0, 1),
    )
    venv.seed(0)
    observations, state, starts = venv.reset(), None, np.ones(1, np.bool_)
    for _ in range(300):
        actions, state = mixture.predict(observations, state, starts)
        observations, _, starts, _ = venv.step(actions)
    venv.close()
    with pytest.raises(ove.InvalidInputError, match=f'with "{reference}" while a log is watched'):
        ove.watch(path, candidate(ALONE), [f"mean >= {reference}"], timeout=0, **STATED)
    assert ove.watch(path, candidate(ALONE), ["mean >= 0"], timeout=0, **STATED).proven
