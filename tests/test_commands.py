"""Commands of the documentation: run, or listed here with the reason why they are not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import gymnasium as gym
import pytest
from stable_baselines3 import PPO
from typer.main import get_command
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3.cli.app import app
from tests.test_docs import PAGES, ROOT, RUN_IN_SHELL, blocks, commands

RUN_ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "rl-zoo.md": "tests/callbacks/test_rl_zoo.py",
    **dict.fromkeys(RUN_IN_SHELL, "tests/test_docs.py"),
}
NOT_RUN = {
    ("README.md", "pip install"): "needs a network; `make dist` installs the wheel",
    ("README.md", "make"): "builds an environment, and runs these tests",
    ("reproduction.md", "make"): "minutes to hours; tests/experiments runs small studies",
    ("benchmarks.md", "make"): "installs other libraries from a network",
    ("benchmarks.md", ".venv/bin/python -m benchmarks.peers"): "the same",
    ("public.md", "make"): "downloads data",
    ("public.md", ".venv/bin/python -m benchmarks public"): "the same",
    ("scaling.md", "dask"): "needs several machines; the next Python block starts a cluster on one",
    ("scaling.md", "MALLOC_MMAP_THRESHOLD_"): "the same",
    ("scaling.md", "ove-sb3"): "needs that cluster, or a bucket; see tests/data/test_remote.py",
    ("scaling.md", "aws"): "needs a bucket",
}
ALL = [
    (page.name, command)
    for page in PAGES
    for kind, text in blocks(page)
    if kind in ("sh", "bash", "console", "shell")
    for command in commands(text)
]
OWN = [(page, command) for page, command in ALL if command.startswith("ove-sb3 ")]


def reason(page: str, command: str) -> tuple[str, str] | None:
    """Entry of `NOT_RUN` about this command."""
    return next((key for key in NOT_RUN if key[0] == page and command.startswith(key[1])), None)


def test_every_command_is_run_or_listed() -> None:
    assert len(ALL) > 25
    used = {reason(page, command) for page, command in ALL}
    assert set(NOT_RUN) == used - {None}
    for page, command in ALL:
        if reason(page, command) is None:
            assert command.startswith(("ove-sb3 ", "python -m rl_zoo3.train ")), command
            assert page in RUN_ELSEWHERE or page == "evaluate.md", command
    for path in RUN_ELSEWHERE.values():
        assert (ROOT / path).exists()


@pytest.mark.parametrize(("page", "command"), OWN)
def test_the_options_exist(page: str, command: str) -> None:
    """Also those of commands that are not run."""
    _, name, *arguments = shlex.split(command)
    own = get_command(app).commands[name]  # type: ignore[attr-defined]
    context = own.make_context(name, arguments)  # an unknown option or a wrong value raises
    assert context.info_name == name


def test_the_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wanted = {shlex.split(command)[1] for _, command in ALL if command.startswith("make ")}
    assert len(wanted) > 3
    assert wanted <= targets


def serve(n_episodes: int) -> None:
    """A service that logs its episodes in logs/service."""
    policy = ove.UniformPolicy(gym.spaces.Discrete(2), rng=0)
    env = ove.LogActionProbability(
        gym.make("CartPole-v1"), policy, path="logs/service", reward_range=(0, 1)
    )
    for seed in range(n_episodes):
        observation, _ = env.reset(seed=seed)
        over = False
        while not over:
            observation, _, terminated, truncated, _ = env.step(policy.predict(observation)[0])
            over = terminated or truncated
    env.close()


@pytest.mark.slow
def test_the_commands_of_the_page_on_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All as printed, one after the other; a requirement need not be proven."""
    monkeypatch.chdir(tmp_path)
    Path("checkpoints").mkdir()
    for seed, name in enumerate(("old", "new", "other", "checkpoints/1", "checkpoints/2")):
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=seed % 2, device="cpu")
        model.save(name)
    serve(300)
    run = [command for page, command in OWN if page == "evaluate.md"]
    assert {shlex.split(command)[1] for command in run} == {
        "collect", "inspect", "evaluate", "compare", "watch", "compact",
    }  # fmt: skip
    for command in run:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        decides = "--require" in command
        assert result.exit_code in ((0, 1) if decides else (0,)), (command, result.output)
        if decides:
            assert re.search(r": (proven|refuted|undecided)\.", result.output), result.output
    assert len(ove.open_log("logs/old")) == 2000
    assert "Estimates and intervals" in Path("report.html").read_text()
