"""Progress bars: shown where someone is watching, or when asked for, and never with False."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3._progress import tracked
from ove_sb3.cli.logs import describe
from ove_sb3.data.imitation import from_imitation
from ove_sb3.data.writer import compact
from ove_sb3.store.verify import verify
from tests.problems.three_states import ThreeStates, small_ppo

Work = Callable[[bool | None], object]


def works(folder: Path) -> dict[str, Work]:
    """Operations that show a progress bar, by name."""
    data = ove.collect(ove.UniformPolicy(ThreeStates().action_space), ThreeStates(), 20, seed=0)
    data.save(folder / "saved")
    ids = itertools.count()
    model = small_ppo()
    trajectory = SimpleNamespace(
        obs=np.zeros((3, 1)),
        acts=np.zeros(2, dtype=int),
        rews=np.ones(2),
        infos=[{"log_prob": 0.0}] * 2,
        terminal=True,
    )

    def compacted(progress: bool | None) -> object:
        path = folder / f"log-{len(list(folder.iterdir()))}"
        env = ove.LogActionProbability(
            ThreeStates(), policy := ove.UniformPolicy(ThreeStates().action_space), path=path
        )
        observation, _ = env.reset(seed=0)
        over = False
        while not over:
            observation, _, ended, cut, _ = env.step(policy.predict(observation)[0])
            over = ended or cut
        env.flush()
        return compact(path, progress=progress)

    return {
        "log_prob": lambda progress: ove.log_prob(model, data, progress=progress),
        "inspect": lambda progress: describe(folder / "saved", progress=progress),
        "verify": lambda progress: verify(folder / "saved", progress=progress),
        "compact": compacted,
        "to_minari": lambda progress: ove.to_minari(
            data, f"test/progress{next(ids)}-v0", progress=progress
        ),
        "from_minari": lambda progress: ove.from_minari(
            ove.to_minari(data, f"test/progress{next(ids)}-v0", progress=False), progress=progress
        ),
        "from_imitation": lambda progress: from_imitation([trajectory] * 3, progress=progress),
    }


NAMES = ("log_prob", "inspect", "verify", "compact", "to_minari", "from_minari", "from_imitation")


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("name", NAMES)
def test_bars(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    work = works(tmp_path)[name]
    capsys.readouterr()
    work(None)
    assert capsys.readouterr() == ("", "")
    work(True)
    assert "100%" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    work(None)  # over before two seconds
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("ove_sb3._progress._DELAY", 0.0)
    work(None)
    assert "100%" in capsys.readouterr().err
    work(False)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ove.InvalidInputError, match="`progress` must be True, False or None"):
        work("yes")  # type: ignore[arg-type]


def test_a_bar_ends_with_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar also ends if the work is interrupted."""
    items = tracked(range(10), True, total=10, unit="step")
    assert [next(items), next(items)] == [0, 1]
    items.close()  # type: ignore[attr-defined]
    assert capsys.readouterr().err.endswith("\n")


def test_items_count_by_their_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tracked([3, 4], True, total=7, unit="step", size=lambda item: item)) == [3, 4]
    assert "7/7" in capsys.readouterr().err
