"""The command line on real models and files: output, exit codes, and whole files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from typer.testing import CliRunner, Result

import ove_sb3 as ove
from ove_sb3.cli.app import app

from .evaluation.corridor import GAMMA, choices, exact_moments, make_env, make_model

ENV = "tests.evaluation.corridor:Corridor-v0"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A behavior, two candidates, and a log collected from the command line."""
    path = tmp_path_factory.mktemp("cli")
    for name, seed in (("behavior", 0), ("new", 2), ("other", 3)):
        make_model(seed).save(path / name)
    found = run(
        "collect", path / "behavior.zip", ENV, path / "log", "--model-class", "PPO",
        "--episodes", 500, "--seed", 1, "--reward-range", -1, 2,
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "Trajectories: 500 episodes of" in found.stdout
    return path


def evaluate(folder: Path, *more: object, candidate: str = "new.zip") -> Result:
    common = ("--model-class", "PPO") if candidate.endswith(".zip") else ()
    return run("evaluate", folder / "log", folder / candidate, "--gamma", GAMMA, *common, *more)


def as_json(found: Result) -> dict[str, Any]:
    assert found.exit_code in (0, 1), found.output
    values: dict[str, Any] = json.loads(found.stdout)
    return values


def test_collect_is_collect(folder: Path) -> None:
    again = ove.collect(make_model(0), make_env(), 500, seed=1)
    logged = ove.Trajectories.load(folder / "log")
    np.testing.assert_array_equal(logged.rewards, again.rewards)
    assert logged.metadata.reward_range == (-1, 2)


def test_evaluate_json_is_the_result(folder: Path) -> None:
    values = as_json(evaluate(folder, "--json"))
    result = ove.evaluate(folder / "log", folder / "new.zip", gamma=GAMMA, model_class=PPO)
    assert values.pop("gate") is None
    assert values == json.loads(json.dumps(result.to_dict()))
    mean, variance = exact_moments(choices(make_model(2)))
    assert values["mean_intervals"]["guaranteed"]["lower"] <= mean
    assert values["intervals"]["guaranteed"]["upper"] >= variance


def test_evaluate_prints_the_table(folder: Path) -> None:
    found = evaluate(folder)
    assert found.exit_code == 0
    result = ove.evaluate(folder / "log", folder / "new.zip", gamma=GAMMA, model_class=PPO)
    for line in str(result).splitlines()[2:]:
        assert " ".join(line.split()) in " ".join(found.stdout.split())


def test_the_gate_is_decided_by_the_guaranteed_bounds(folder: Path) -> None:
    values = as_json(evaluate(folder, "--json"))
    upper = values["intervals"]["guaranteed"]["upper"]
    lower = values["mean_intervals"]["guaranteed"]["lower"]
    between = (values["variance"] + upper) / 2  # the estimate would pass, the bound does not
    assert values["variance"] < between < upper
    for options, code in (
        (("--max-variance", upper), 0),
        (("--max-variance", between), 1),
        (("--min-mean", lower), 0),
        (("--min-mean", lower + 0.01), 1),
        (("--max-variance", upper, "--min-mean", lower), 0),
        (("--max-variance", upper, "--min-mean", lower + 0.01), 1),
        (("--max-variance", between, "--min-mean", lower), 1),
    ):
        found = evaluate(folder, *options)
        assert found.exit_code == code, options
        assert ("gate passed" if code == 0 else "gate not proven") in found.stdout
        plain = evaluate(folder, *options, "--json")
        assert plain.exit_code == code
        assert as_json(plain)["gate"]["passed"] is (code == 0)


def test_files_are_written(folder: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "figure.png"
    found = evaluate(folder, "--html", page, "--plot", picture, "--min-mean", -100)
    assert found.exit_code == 0, found.output
    assert "the requirements are met" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    both = tmp_path / "both.html"
    run("compare", folder / "log", folder / "new.zip", "--gamma", 0.9, "--model-class", "PPO",
        "--html", both)  # fmt: skip
    assert "best bound" in both.read_text()


def test_compare(folder: Path) -> None:
    models = [f"{name}={folder / name}.zip" for name in ("new", "other")]
    options = ("--gamma", GAMMA, "--rank-by", "mean")
    found = run("compare", folder / "log", *models, *options, "--model-class", "PPO")
    assert found.exit_code == 0, found.output
    assert "all bounds in this table hold together with 95%" in found.stdout
    each = ("--model-class", "new=PPO", "--model-class", "other=stable_baselines3:PPO")
    values = as_json(run("compare", folder / "log", *models, *options, *each, "--json"))
    expected = ove.compare(
        folder / "log",
        {name: folder / f"{name}.zip" for name in ("new", "other")},
        gamma=GAMMA,
        rank_by="mean",
        model_class=PPO,
    )
    assert values == json.loads(json.dumps(expected.to_dict()))


def test_log_probabilities_from_a_file(folder: Path) -> None:
    data = ove.Trajectories.load(folder / "log")
    np.save(folder / "new.npy", ove.log_prob(make_model(2), data))
    known = as_json(evaluate(folder, "--json", candidate="new.npy"))
    model = as_json(evaluate(folder, "--json"))
    assert known["variance"] == pytest.approx(model["variance"], rel=1e-6)


def test_normalised_observations(folder: Path, tmp_path: Path) -> None:
    venv = VecNormalize(DummyVecEnv([make_env]))
    venv.obs_rms.mean += 0.3  # type: ignore[attr-defined]
    model = PPO("MlpPolicy", venv, device="cpu", seed=0)
    model.save(tmp_path / "model.zip")
    venv.save(str(tmp_path / "statistics.pkl"))
    inside = ove.evaluate(folder / "log", model, gamma=GAMMA)
    common = ("evaluate", folder / "log", tmp_path / "model.zip", "--gamma", GAMMA, "--json",
              "--model-class", "PPO")  # fmt: skip
    given = as_json(run(*common, "--vec-normalize", tmp_path / "statistics.pkl"))
    lost = as_json(run(*common))
    assert given["mean"] == pytest.approx(inside.mean, rel=1e-6)
    assert lost["mean"] != pytest.approx(inside.mean, rel=1e-6)
    for bad in (tmp_path / "nothing.pkl", tmp_path / "model.zip"):
        found = run(*common, "--vec-normalize", bad)
        assert found.exit_code == 2
        assert "VecNormalize.save" in found.stderr


def test_inspect_and_compact(folder: Path, tmp_path: Path) -> None:
    data = ove.Trajectories.load(folder / "log")
    writer = ove.EpisodeWriter(tmp_path, data.metadata)
    writer.add(data[:40])
    writer.close(compact=False)
    facts = as_json(run("inspect", tmp_path, "--json"))
    assert facts["episodes"] == 40
    assert facts["mean_return"] == pytest.approx(data[:40].returns().mean())
    assert facts["terminated"] + facts["truncated"] >= 40
    assert facts["reward_range"] == [-1, 2]
    assert "Corridor-v0" in run("inspect", tmp_path).stdout
    assert list(tmp_path.glob("*.segments"))
    assert as_json(run("compact", tmp_path, "--json"))["n_compacted"] == 1
    assert not list(tmp_path.glob("*.segments"))
    assert "0 files compacted" in run("compact", tmp_path).stdout
    after = ove.Trajectories.load(tmp_path)
    np.testing.assert_array_equal(after.rewards, data[:40].rewards)


def test_bad_input_gives_a_message_and_code_2(folder: Path, tmp_path: Path) -> None:
    log, model = folder / "log", folder / "new.zip"
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    ppo = ("--model-class", "PPO")
    for arguments, message in (
        (("evaluate", log, tmp_path / "no.zip", "--gamma", 0.9, *ppo), "is not there"),
        (("evaluate", log, model, "--gamma", 0.9), "executes pickled code"),
        (("evaluate", log, model, "--gamma", 0.9, "--model-class", "PPPO"), "--model-class"),
        (("evaluate", log, model, "--gamma", 0.9, "--model-class", "no.where:X"), "imported"),
        (("evaluate", log, model, "--gamma", 1.9, *ppo), "`gamma` must lie in"),
        (("evaluate", log, tmp_path / "bad.npy", "--gamma", 0.9), "numpy.save"),
        (("evaluate", tmp_path, model, "--gamma", 0.9, *ppo), "directory of logged episodes"),
        (("evaluate", log, model, "--gamma", 0.9, *ppo, "--reward-range", 0, 1), "reward_range"),
        (("evaluate", log, model, "--gamma", 0.9, *ppo, "--max-variance", -1), "max_variance"),
        (("evaluate", log, model, *ppo), "--gamma"),
        (("evaluate", log, model, "--gamma", 0.9, *ppo, "--html", tmp_path / "a" / "b"), "path"),
        (("compare", log, model, model, "--gamma", 0.9, *ppo), "different names"),
        (("compare", log, model, "--gamma", 0.9, *ppo, *ppo), "NAME=CLASS"),
        (("inspect", tmp_path), "directory of logged episodes"),
        (("compact", tmp_path / "none"), "directory of logged episodes"),
        (("collect", "uniform", "Nowhere-v0", tmp_path / "x", "--episodes", 1), "Nowhere"),
        (("collect", "uniform", "no_module:X-v0", tmp_path / "x", "--episodes", 1), "no_module"),
        (("collect", "uniform", ENV, log, "--episodes", 1), "--overwrite"),
        (("collect", "uniform", ENV, tmp_path / "x", "--episodes", 0), "n_episodes"),
        (("nonsense",), "nonsense"),
    ):
        found = run(*arguments)
        assert found.exit_code == 2, (arguments, found.output, found.exception)
        assert message in found.stderr, arguments
        assert "Traceback" not in found.output
        assert found.stdout == ""


def test_an_interrupt_leaves_files_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("collect", "uniform", ENV, tmp_path / "log", "--episodes", 3)
    before = {file.name: file.read_bytes() for file in (tmp_path / "log").iterdir()}

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", interrupted)
        found = run("collect", "uniform", ENV, tmp_path / "log", "--episodes", 5, "--overwrite")
    assert found.exit_code == 130
    assert {file.name: file.read_bytes() for file in (tmp_path / "log").iterdir()} == before
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        found = evaluate(folder, "--html", tmp_path / "report.html", "--min-mean", -100)
    assert found.exit_code == 130
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log"]


def test_reproduce_runs_the_experiments(tmp_path: Path) -> None:
    help_text = run("reproduce", "--help")
    assert help_text.exit_code == 0
    assert "ove-sb3 reproduce" in help_text.stdout
    assert run("reproduce", "chess").exit_code == 2
    command = ["recommender", "--trials", 2, "--n", 100, "--jobs", 1, "--quiet"]
    found = run("reproduce", *command, "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert "recommender" in found.stdout.lower()
    assert any(tmp_path.rglob("*.png"))


def test_help_warns_of_pickles() -> None:
    for command in ((), ("evaluate",), ("compare",), ("collect",)):
        found = run(*command, "--help")
        assert found.exit_code == 0
        words = " ".join(found.stdout.replace("│", " ").split())
        assert "executes code in it" in words


def test_the_installed_command(folder: Path) -> None:
    command = Path(sys.executable).with_name("ove-sb3")
    found = subprocess.run(
        [command, "inspect", str(folder / "log"), "--json"], capture_output=True, text=True
    )
    assert json.loads(found.stdout)["episodes"] == 500
    missing = subprocess.run([command, "inspect", "nowhere"], capture_output=True, text=True)
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: ")


def test_without_typer() -> None:
    code = "import sys; sys.modules['typer'] = None\nfrom ove_sb3.cli import main\nmain()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 1
    assert "pip install 'ove-sb3[cli]'" in found.stderr


def test_the_version() -> None:
    found = run("--version")
    assert found.exit_code == 0
    assert found.stdout == f"ove-sb3 {ove.__version__}\n"


def test_a_picture_of_an_unknown_kind_is_bad_input(folder: Path, tmp_path: Path) -> None:
    found = evaluate(folder, "--plot", tmp_path / "figure.xyz")
    assert found.exit_code == 2
    assert "`--plot` must name a picture such as report.png" in found.stderr
    assert not (tmp_path / "figure.xyz").exists()


def test_an_unexpected_error_is_not_taken_for_a_gate_that_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("something nobody thought of")

    monkeypatch.setattr("ove_sb3.cli.judging.evaluate_candidate", broken)
    found = evaluate(folder, "--min-mean", 0)
    assert found.exit_code == 3
    assert "something nobody thought of" in found.stderr
