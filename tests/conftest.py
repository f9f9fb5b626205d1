"""One thread for torch; logs and models on a problem with known truth, made once."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.entropy import seed_everything

if TYPE_CHECKING:
    from stable_baselines3 import PPO

    import ove_sb3 as ove


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Every test draws the same numbers in every run, alone or among others."""
    seed_everything(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> None:
    """Every fixture draws the same numbers, whichever test asks for it first."""
    seed_everything(f"{request.node.nodeid} {fixturedef.argname}")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Networks are tiny, and tests run in several processes."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def temporary_folder() -> Iterator[None]:
    """One folder for all temporary files, those of programs that tests start included."""
    folder = tempfile.mkdtemp(prefix="ove-")
    Path(folder).chmod(0o755)  # some tests run as another user
    # After multiprocessing has removed its own folder in it, which has priority -100.
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=-200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Programs that a test starts can be interrupted, also if the tests run in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def behavior() -> PPO:
    """Model that logs in the corridor."""
    from tests.problems.corridor import make_model

    return make_model(0)


@pytest.fixture(scope="session")
def candidate() -> PPO:
    """Model to be evaluated."""
    from tests.problems.corridor import make_model

    return make_model(2)


@pytest.fixture(scope="session")
def data(behavior: PPO) -> ove.Trajectories:
    """Log of 600 episodes of `behavior`."""
    import ove_sb3 as ove
    from tests.problems.corridor import REWARD_RANGE, make_env

    return ove.collect(behavior, make_env(), 600, seed=0, reward_range=REWARD_RANGE)
