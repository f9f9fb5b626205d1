"""Models and logs for the command line, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ove_sb3 as ove
from tests.problems.corridor import make_model

from .running import ENV, run


@pytest.fixture(scope="module", autouse=True)
def any_width() -> Iterator[None]:
    """Output of any width, as in a file; pytest-xdist sets a number of columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A behavior, two candidates, and a log collected from the command line."""
    path = tmp_path_factory.mktemp("cli")
    for name, seed in (("behavior", 0), ("new", 2), ("other", 3)):
        make_model(seed).save(path / name)
    result = run(
        "collect", path / "behavior.zip", ENV, path / "log", "--model-class", "PPO",
        "--episodes", 500, "--seed", 1, "--reward-range", -1, 2,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Trajectories: 500 episodes of" in result.stdout
    assert "in 8 environments" in " ".join(result.stdout.split())
    return path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of one-step episodes, and log-probabilities of a candidate and of a wrong one."""
    path = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=400)
    ove.Trajectories.from_arrays(
        observations=np.zeros((400, 1)),
        actions=actions,
        log_probs=np.full(400, np.log(0.5)),
        rewards=actions.astype(float),
        lengths=np.ones(400, dtype=int),
        metadata={"horizon": 1, "reward_range": (0.0, 1.0)},
    ).save(path / "log")
    np.save(path / "new.npy", np.log(np.where(actions == 1, 0.6, 0.4)))
    np.save(path / "wrong.npy", np.full(400, np.log(0.9)))
    return path
