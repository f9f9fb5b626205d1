"""``ove-sb3 compare`` on models and folders of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ove_sb3 as ove
from ove_sb3.cli.models import named_paths
from tests.problems.corridor import GAMMA, make_env

from .running import as_json, run


def test_compare(folder: Path) -> None:
    models = [f"{name}={folder / name}.zip" for name in ("new", "other")]
    options = ("--gamma", GAMMA, "--rank-by", "mean")
    printed = run("compare", folder / "log", *models, *options, "--model-class", "PPO")
    assert printed.exit_code == 0, printed.output
    assert "all intervals in this table hold simultaneously with 95%" in printed.stdout
    each = ("--model-class", "new=PPO", "--model-class", "other=stable_baselines3:PPO")
    values = as_json(run("compare", folder / "log", *models, *options, *each, "--json"))
    expected = ove.compare(
        folder / "log",
        {name: folder / f"{name}.zip" for name in ("new", "other")},
        gamma=GAMMA,
        rank_by="mean",
        model_class=PPO,
    )
    assert values.pop("requirements") == {}
    assert set(values.pop("origins")) == {"new", "other"}
    assert values == json.loads(json.dumps(expected.to_dict()))


def test_compare_succeeds_if_one_candidate_satisfies_all_requirements(folder: Path) -> None:
    names = ("new", "other")
    models = [f"{name}={folder / name}.zip" for name in names]
    common = ("compare", folder / "log", *models, "--gamma", GAMMA, "--model-class", "PPO")
    expected = ove.compare(
        folder / "log",
        {name: folder / f"{name}.zip" for name in names},
        gamma=GAMMA,
        model_class=PPO,
    )
    best, second = (expected[name] for name in expected.evaluations)
    limits = [result["variance"].interval.upper for result in (best, second)]
    assert limits[0] < limits[1]
    requirement = f"variance <= {limits[0]!r}"
    assert expected.satisfying(requirement) == [next(iter(expected.evaluations))]
    assert expected.satisfying(requirement, "mean >= 100") == []
    one = run(*common, "--require", requirement)
    assert one.exit_code == 0
    for name in names:
        assert f"{name}: {expected[name].check(requirement)}" in one.stdout
    none = run(*common, "--require", requirement, "--require", "mean >= 100")
    assert none.exit_code == 1
    decided = as_json(run(*common, "--require", requirement, "--json"))["requirements"]
    for name in names:
        assert decided[name] == [expected[name].check(requirement).to_dict()]


def save_checkpoints(folder: Path, *, normalize: bool) -> dict[str, Any]:
    """Checkpoints as SB3 writes them, and the same models in memory."""
    venv: Any = DummyVecEnv([make_env])
    if normalize:
        venv = VecNormalize(venv, norm_reward=False)
    model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, seed=0, device="cpu")
    model.learn(
        192,
        callback=CheckpointCallback(64, str(folder), "rl_model", save_vecnormalize=normalize),
    )
    return {path.stem: path for path in folder.glob("*.zip")}


def test_compare_takes_a_folder_of_checkpoints(folder: Path, tmp_path: Path) -> None:
    names = ["rl_model_64_steps", "rl_model_128_steps", "rl_model_192_steps"]
    common = ("--gamma", GAMMA, "--model-class", "ppo", "--quantity", "variance", "--json")
    for normalize in (False, True):
        place = tmp_path / str(normalize)
        saved = save_checkpoints(place, normalize=normalize)
        result = as_json(run("compare", folder / "log", place, *common))
        assert sorted(result["evaluations"]) == sorted(names)
        files = {key: place / f"{key.replace('model', 'model_vecnormalize')}.pkl" for key in names}
        assert all(file.exists() == normalize for file in files.values())
        expected = ove.compare(
            folder / "log",
            {key: saved[key] for key in names},
            gamma=GAMMA,
            model_class=PPO,
            vec_normalize=files if normalize else None,
            quantities=["variance"],
        )
        for name in names:
            found = result["evaluations"][name]["quantities"]["variance"]["estimate"]
            assert found == expected.evaluations[name]["variance"].estimate
    # One file of statistics for all of them.
    for path in place.glob("*vecnormalize*"):
        path.rename(place / "vecnormalize.pkl")
    shown = run("compare", folder / "log", place, *common[:-1])
    assert shown.exit_code == 0, shown.output
    assert f"normalized by {place / 'vecnormalize.pkl'}" in shown.stdout
    # Statistics that cannot be assigned are not guessed.
    (place / "vecnormalize.pkl").rename(place / "some_vecnormalize.pkl")
    refused = run("compare", folder / "log", place, *common)
    assert refused.exit_code == 3
    assert "`--vec-normalize` must be given" in refused.stderr
    declined = as_json(run("compare", folder / "log", place, *common, "--vec-normalize", "none"))
    assert sorted(declined["evaluations"]) == sorted(names)
    twice = run("compare", folder / "log", place, place / f"{names[0]}.zip", *common)
    assert twice.exit_code == 2
    assert f"got '{names[0]}' twice" in " ".join(twice.stderr.replace("│", " ").split())
    named = as_json(run("compare", folder / "log", f"a={tmp_path / 'False'}", *common))
    assert "a/rl_model_64_steps" in named["evaluations"]
    empty = run("compare", folder / "log", tmp_path, *common)
    assert empty.exit_code == 2
    assert "none in" in " ".join(empty.stderr.replace("│", " ").split())


def test_checkpoints_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (1000, 200, 30_000):
        (tmp_path / f"rl_model_{number}_steps.zip").touch()
    paths = named_paths([str(tmp_path)])
    assert list(paths) == [f"rl_model_{number}_steps" for number in (200, 1000, 30_000)]
