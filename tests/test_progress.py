"""Progress bars: shown where someone is watching, or when asked for, and never with False."""

from __future__ import annotations

import inspect
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
WITHOUT = {
    "a few steps at a time": ("action_distribution", "Log.chunks", "EpisodeWriter.add",
        "EpisodeWriter.update", "EpisodeWriter.tick", "EpisodeWriter.flush",
        "EpisodeWriter.close", "EpisodeWriter.seconds_left"),
    "copies of arrays in memory": ("from_rollout_buffer", "Trajectories.concat",
        "Trajectories.from_arrays", "Trajectories.from_contents", "Trajectories.returns",
        "Trajectories.signal", "Trajectories.split", "Trajectories.to_batch"),
    "the core takes arrays and shows nothing; `evaluate` has the bar": ("confidence_sequence",
        "diagnose", "estimate", "estimate_mean", "estimate_variance", "interval", "mean_interval",
        "trajectory_statistics", "variance_interval"),
    "reads an index, or one model": ("open_log", "Log.part", "Log.episode_end",
        "Log.episodes_before", "Log.file_of", "as_mixture", "safe_load_model"),
    "stores a name": ("register_estimator", "register_method", "register_policy",
        "register_quantity"),
    "renders what has been computed": ("Evaluation.check", "Evaluation.check_all",
        "Evaluation.plot", "Evaluation.satisfies", "Evaluation.save_html", "Evaluation.settings",
        "Evaluation.to_dict", "Comparison.plot", "Comparison.satisfying", "Comparison.save_html",
        "Comparison.to_dict", "ConfidenceSequence.plot", "Decision.from_dict", "Decision.to_dict"),
}  # fmt: skip


def works(folder: Path) -> dict[str, Work]:
    """Operations that show a progress bar, by name."""
    data = ove.collect(ove.UniformPolicy(ThreeStates().action_space), ThreeStates(), 20, seed=0)
    data.save(folder / "saved")
    table = data.to_table()
    table.to_csv(folder / "steps.csv", index=False)
    table.to_parquet(folder / "steps.parquet", row_group_size=7)
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
        "to_table": lambda progress: data.to_table(progress=progress),
        "to_pandas": lambda progress: data.to_pandas(progress=progress),
        "save": lambda progress: data.save(folder / "copy", overwrite=True, progress=progress),
        "load": lambda progress: ove.Trajectories.load(folder / "saved", progress=progress),
        "Log.load": lambda progress: ove.open_log(folder / "saved").load(progress=progress),
        "from_table": lambda progress: ove.Trajectories.from_table(table, progress=progress),
        "from_table, CSV": lambda progress: ove.Trajectories.from_table(
            folder / "steps.csv", progress=progress
        ),
        "from_table, Parquet": lambda progress: ove.Trajectories.from_table(
            folder / "steps.parquet", progress=progress
        ),
    }


NAMES = (
    "log_prob", "inspect", "verify", "compact", "to_minari", "from_minari", "from_imitation",
    "to_table", "to_pandas", "save", "load", "Log.load", "from_table", "from_table, CSV",
    "from_table, Parquet",
)  # fmt: skip


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


def public_calls() -> dict[str, Callable[..., object]]:
    """Functions of the package, and methods of the classes with data or results."""
    found = {name: getattr(ove, name) for name in ove.__all__}
    calls: dict[str, Callable[..., object]] = {
        name: value for name, value in found.items() if inspect.isfunction(value)
    }
    for owner in (
        ove.Trajectories, ove.Log, ove.EpisodeWriter, ove.Evaluation, ove.Comparison,
        ove.ConfidenceSequence, ove.Decision,
    ):  # fmt: skip
        for name, value in inspect.getmembers(owner):
            if not name.startswith("_") and (inspect.isfunction(value) or inspect.ismethod(value)):
                calls[f"{owner.__name__}.{name}"] = value
    return calls


def test_every_public_call_has_a_bar_or_a_reason_for_none() -> None:
    calls = public_calls()
    without = {
        name for name, call in calls.items() if "progress" not in inspect.signature(call).parameters
    }
    assert without == {name for names in WITHOUT.values() for name in names}
    for name in set(calls) - without:
        assert inspect.signature(calls[name]).parameters["progress"].default is None, name


def test_reading_a_csv_file_counts_its_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("episode_id,step,p_old,reward\n0,0,0.5,1\n0,1,0.25,0\n")
    data = ove.Trajectories.from_table(path, progress=True)
    assert data.log_probs.tolist() == np.log([0.5, 0.25]).tolist()
    size = path.stat().st_size
    assert f"{size:.1f}/{size:.1f}" in capsys.readouterr().err


def test_a_bar_ends_with_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar also ends if the work is interrupted."""
    items = tracked(range(10), True, total=10, unit="step")
    assert [next(items), next(items)] == [0, 1]
    items.close()  # type: ignore[attr-defined]
    assert capsys.readouterr().err.endswith("\n")


def test_items_count_by_their_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tracked([3, 4], True, total=7, unit="step", size=lambda item: item)) == [3, 4]
    assert "7/7" in capsys.readouterr().err
