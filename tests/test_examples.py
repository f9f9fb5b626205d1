"""Every example runs to its end, and what it shows is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from .sb3.tabular import GAMMA, UNIFORM, Tabular, simulate, small_ppo

EXAMPLES = Path(__file__).parent.parent / "examples"
NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
INTERVAL = re.compile(rf"^(mean|variance) .*guaranteed \[{NUMBER}, {NUMBER}\]", re.MULTILINE)
TRUTH = re.compile(rf"in truth: mean {NUMBER}, variance {NUMBER}$", re.MULTILINE)
SHOWN = {
    "callback_in_training.py": "Stopping training at num_timesteps=",
    "continuous_control.py": "by construction at most 2",
    "deployment_gate.py": "",
    "masked_policy.py": "choices a day",
    "own_data.py": "frameworks loaded: []",
    "quickstart.py": "effective sample size",
    "recurrent_policy.py": "1000 episodes",
}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # One thread: the networks are tiny, and tests run side by side.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_every_example_is_known_here() -> None:
    assert set(SHOWN) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", sorted(set(SHOWN) - {"deployment_gate.py"}))
def test_examples_run_and_their_bounds_cover_the_truth(name: str) -> None:
    found = run(name)
    assert found.returncode == 0, found.stderr
    assert "Warning" not in found.stderr
    assert SHOWN[name] in found.stdout
    truth = TRUTH.search(found.stdout)
    assert truth is not None, found.stdout
    values = {"mean": float(truth[1]), "variance": float(truth[2])}
    bounds = INTERVAL.findall(found.stdout)
    if name == "callback_in_training.py":
        *_, lower, upper = re.findall(rf"mean >= {NUMBER}, variance <= {NUMBER}", found.stdout)[-1]
        bounds = [("mean", lower, "inf"), ("variance", "0", upper)]
    assert bounds
    for quantity, lower, upper in bounds:
        # The truth is itself an average of some hundred episodes.
        slack = 0.05 * abs(values[quantity])
        assert float(lower) - slack <= values[quantity] <= float(upper) + slack


@pytest.fixture(scope="module")
def candidate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Arguments of the gate: a log of the uniform policy, and a PPO that has learned a little."""
    folder = tmp_path_factory.mktemp("gate")
    simulate(UNIFORM, 20_000, np.random.default_rng(0)).save(folder / "log")
    model: PPO = small_ppo(venv=DummyVecEnv([Tabular])).learn(64)
    model.save(folder / "model")
    paths = ("--log", str(folder / "log"), "--model", str(folder / "model.zip"))
    return (*paths, "--algorithm", "PPO", "--reward-range", "-1", "1")


@pytest.mark.parametrize(
    ("min_mean", "max_variance", "code", "words"),
    [
        ("0", "1.2", 0, ["passed", "passed"]),
        ("0", "0.8", 1, ["passed", "FAILED"]),
        ("0.24", "1.2", 1, ["FAILED", "passed"]),  # the estimate passes, the bound does not
    ],
)
def test_the_gate_lets_only_guaranteed_candidates_pass(
    candidate: tuple[str, ...], min_mean: str, max_variance: str, code: int, words: list[str]
) -> None:
    found = run(
        "deployment_gate.py", *candidate, "--min-mean", min_mean, "--max-variance", max_variance
    )
    assert found.returncode == code, found.stdout + found.stderr
    assert re.findall("passed|FAILED", found.stdout) == words
    assert "probability 0.95" in found.stdout


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--log", "/nowhere"), "must be a directory of logged episodes"),
        (("--model", "/nowhere.zip"), "No such file"),
        (("--algorithm", "XYZ"), "XYZ"),
        (("--reward-range", "0", "1"), "`reward_range` must contain all logged rewards"),
    ],
)
def test_the_gate_says_when_it_cannot_answer(
    candidate: tuple[str, ...], changed: tuple[str, ...], message: str
) -> None:
    gate = ("--min-mean", "0", "--max-variance", "1")
    found = run("deployment_gate.py", *candidate, *gate, *changed)
    assert found.returncode == 2
    assert message in found.stderr


def test_gamma_of_the_gate_is_the_models() -> None:
    assert small_ppo().gamma == GAMMA
