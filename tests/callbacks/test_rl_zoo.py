"""docs/rl-zoo.md with the real rl_zoo3, in an environment of its own: it needs an older pillow."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest
import yaml
from stable_baselines3 import PPO

import ove_sb3 as ove

PAGE = Path(__file__).parents[2] / "docs" / "rl-zoo.md"
RL_ZOO3 = "rl_zoo3==2.9.2"

pytestmark = pytest.mark.slow


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with rl_zoo3 and what is installed here."""
    folder = tmp_path_factory.mktemp("rl_zoo3")
    venv.create(folder, with_pip=True)
    interpreter = folder / "bin" / "python"
    purelib = sysconfig.get_path("purelib", vars={"base": str(folder)})
    here = sysconfig.get_path("purelib")
    Path(purelib, "beside.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    subprocess.run([interpreter, "-m", "pip", "install", "--quiet", RL_ZOO3], check=True)
    return interpreter


def run(command: str, python: Path, folder: Path) -> str:
    """Run a command of the page; `python` and `ove-sb3` are those of the environment."""
    program, *arguments = shlex.split(command)
    start = [python] if program == "python" else [python, "-m", "ove_sb3"]
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [*map(str, start), *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return done.stdout


def weights(folder: Path) -> list[np.ndarray]:
    model = PPO.load(folder / "CartPole-v1.zip", device="cpu")
    return [parameter.detach().numpy() for parameter in model.policy.parameters()]


def test_the_page_runs_as_printed(python: Path, tmp_path: Path) -> None:
    settings = blocks("yaml")
    commands = [line for block in blocks("sh") for line in block.strip().splitlines()]
    assert (len(settings), len(commands)) == (2, 4)
    for name, text in zip(("log.yml", "evaluate.yml"), settings, strict=True):
        (tmp_path / name).write_text(text)
    train, inspect, collect, evaluate = commands
    run(train, python, tmp_path)
    data = ove.Trajectories.load(tmp_path / "logs" / "training")
    shown = run(inspect, python, tmp_path)
    assert re.search(r"behavior +PPO", shown)
    assert re.search(r"environments +4", shown)
    assert data.metadata.adaptive
    assert data.metadata.reward_range == (0, 1)
    assert (data.rewards == 1).all()  # those of the environment, not of VecNormalize
    record = data.metadata.logging
    assert record is not None
    assert record.n_envs == 4
    # Nothing from the evaluation environment: the training steps, except unfinished episodes.
    (steps,) = [entry.n_steps for entry in record.records.values()]
    assert steps == 2048
    assert data.n_steps <= 2048

    # A second run has a directory of its own; without the wrapper the model is the same.
    plain = yaml.safe_load(settings[0])
    for key in ("vec_env_wrapper", "callback"):
        del plain["CartPole-v1"][key]
    (tmp_path / "plain.yml").write_text(yaml.safe_dump(plain))
    run(train, python, tmp_path)
    run(train.replace("log.yml", "plain.yml"), python, tmp_path)
    again = ove.Trajectories.load(tmp_path / "logs" / "training_2")
    np.testing.assert_array_equal(data.observations, again.observations)
    np.testing.assert_array_equal(data.log_probs, again.log_probs)
    runs = tmp_path / "logs" / "ppo"
    for logged, without in zip(
        weights(runs / "CartPole-v1_1"), weights(runs / "CartPole-v1_3"), strict=True
    ):
        np.testing.assert_array_equal(logged, without)

    # The bounds of the callback end training.
    run(collect, python, tmp_path)
    printed = run(evaluate, python, tmp_path)
    assert "Stopping training at num_timesteps=" in printed
    assert "variance <= 20: proven" in printed
    best = tmp_path / "logs" / "best"
    assert {path.name for path in best.iterdir()} == {
        "best_model.zip",
        "best_model_vecnormalize.pkl",
    }
    with np.load(tmp_path / "logs" / "evaluations" / "evaluations.npz") as file:
        assert file["guaranteed"].all()
        assert file["satisfied"][-1]
