"""Every example runs, and its intervals contain the truth."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from tests.problems.three_states import GAMMA, UNIFORM, ThreeStates, simulate, small_ppo

EXAMPLES = Path(__file__).parent.parent / "examples"
NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
INTERVAL = re.compile(rf"^(mean|variance) .*guaranteed \[{NUMBER}, {NUMBER}\]", re.MULTILINE)
ROW = re.compile(rf"^(mean|variance) +{NUMBER} +\[{NUMBER}, {NUMBER}\]", re.MULTILINE)
TRUTH = re.compile(rf"^on-policy: mean {NUMBER}, variance {NUMBER}$", re.MULTILINE)
SHOWN = {
    "callback_in_training.py": "Stopping training at num_timesteps=",
    "canary.py": "mean >= behavior:0: proven.",
    "choose_ranges.py": "known: and ratios",
    "continuous_control.py": "by construction at most 2",
    "deployment_check.py": "",
    "deterministic_policy.py": "importance weight exceeds 2",
    "large_log.py": "the same as in memory: True",
    "masked_policy.py": "choices a day",
    "own_data.py": "frameworks loaded: []",
    "quickstart.py": "effective sample size",
    "recurrent_policy.py": "1000 episodes",
    "risk.py": "cvar:0.1 >= behavior: proven.",
    "watch_a_log.py": "  variance <= 5: proven.",
}
SLOW = {"canary.py", "deterministic_policy.py", "large_log.py", "watch_a_log.py"}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # One thread: the networks are tiny, and tests run in parallel.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_every_example_is_tested() -> None:
    assert set(SHOWN) == {path.name for path in EXAMPLES.glob("*.py")}


def test_every_how_to_page_has_an_example() -> None:
    root = EXAMPLES.parent
    (how_to,) = (
        section["How to"]
        for section in yaml.safe_load(site_settings(root))["nav"]
        if "How to" in section
    )
    pages = [page for entry in how_to for page in entry.values()]
    assert len(pages) == 13
    for page in pages:
        named = re.findall(r"\]\(\.\./examples/([\w.]+)\)", (root / "docs" / page).read_text())
        assert named, page
        assert all((EXAMPLES / name).is_file() for name in named), page


def site_settings(root: Path) -> str:
    return (root / "mkdocs.yml").read_text()


def test_the_settings_for_rl_zoo_are_those_of_its_page() -> None:
    page = (EXAMPLES.parent / "docs" / "rl-zoo.md").read_text()
    shown = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    files = ("rl_zoo_log.yml", "rl_zoo_evaluate.yml")
    assert shown == [(EXAMPLES / name).read_text() for name in files]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in sorted(set(SHOWN) - {"deployment_check.py"})
    ],
)
def test_examples_run_and_their_intervals_contain_the_truth(name: str) -> None:
    done = run(name)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert SHOWN[name] in done.stdout
    truth = TRUTH.search(done.stdout)
    assert truth is not None, done.stdout
    values = {"mean": float(truth[1]), "variance": float(truth[2])}
    bounds = INTERVAL.findall(done.stdout)
    if re.search("[0-9]% guaranteed   ", done.stdout):
        bounds += [(row[0], row[2], row[3]) for row in ROW.findall(done.stdout)]
    if name == "callback_in_training.py":
        *_, lower, upper = re.findall(rf"mean >= {NUMBER}, variance <= {NUMBER}", done.stdout)[-1]
        bounds = [("mean", lower, "inf"), ("variance", "0", upper)]
    if name == "watch_a_log.py":
        bounds = [("mean", bound_of("mean >=", done.stdout), "inf")]
        bounds += [("variance", "0", bound_of("variance <=", done.stdout))]
    assert {quantity for quantity, _, _ in bounds} == {"mean", "variance"}
    for quantity, lower, upper in bounds:
        # The truth is itself estimated from some hundred episodes.
        slack = 0.05 * abs(values[quantity])
        assert float(lower) - slack <= values[quantity] <= float(upper) + slack


def bound_of(requirement: str, printed: str) -> str:
    """The last bound printed for a requirement."""
    pattern = rf"{requirement} [\d.]+: \w+\. The 95% \w+ bound is {NUMBER}\.$"
    found: list[str] = re.findall(pattern, printed, re.MULTILINE)
    return found[-1]


@pytest.fixture(scope="module")
def candidate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Arguments of the check: a log of the uniform policy, and a PPO that was trained a little."""
    folder = tmp_path_factory.mktemp("check")
    simulate(UNIFORM, 8_000, np.random.default_rng(0)).save(folder / "log")
    model: PPO = small_ppo(venv=DummyVecEnv([ThreeStates])).learn(64)
    model.save(folder / "model")
    paths = ("--log", str(folder / "log"), "--model", str(folder / "model.zip"))
    return (*paths, "--algorithm", "PPO", "--reward-range", "-1", "1")


@pytest.mark.parametrize(
    ("mean", "variance", "code", "statuses"),
    [
        ("0", "1.2", 0, ["proven", "proven"]),
        ("0", "0.7", 1, ["proven", "refuted"]),
        ("0.24", "1.2", 1, ["undecided", "proven"]),  # the estimate would pass, the bound does not
    ],
)
def test_the_check_succeeds_only_if_all_requirements_are_proven(
    candidate: tuple[str, ...], mean: str, variance: str, code: int, statuses: list[str]
) -> None:
    required = ("--require", f"mean >= {mean}", "--require", f"variance <= {variance}")
    done = run("deployment_check.py", *candidate, *required)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.findall(": (proven|undecided|refuted)\\.", done.stdout) == statuses
    assert "The 95% lower bound is" in done.stdout


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (("--log", "/nowhere"), "must be a directory of logged episodes"),
        (("--model", "/nowhere.zip"), "No such file"),
        (("--algorithm", "XYZ"), "XYZ"),
        (("--reward-range", "0", "1"), "`reward_range` must contain that of the log"),
        (("--require", "variance of 3"), "a requirement must be a quantity"),
    ],
)
def test_the_check_reports_why_it_failed(
    candidate: tuple[str, ...],
    changed: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main = runpy.run_path(str(EXAMPLES / "deployment_check.py"))["main"]
    assert main([*candidate, "--require", "variance <= 1", *changed]) == 3
    assert message in capsys.readouterr().err


def test_gamma_of_the_check_is_that_of_the_model(candidate: tuple[str, ...]) -> None:
    assert small_ppo().gamma == GAMMA
    done = run("deployment_check.py", *candidate, "--require", "variance <= 1.2")
    assert f"(gamma {GAMMA})" in done.stdout
