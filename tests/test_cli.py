"""The command line on real models and files: output, exit codes, and atomic writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from typer.testing import CliRunner, Result

import ove_sb3 as ove
from ove_sb3.cli import evaluation
from ove_sb3.cli.app import app
from ove_sb3.cli.evaluation import evaluate as evaluate_command
from ove_sb3.cli.models import named_paths
from ove_sb3.cli.wording import in_options
from tests.problems.corridor import GAMMA, choices, exact_moments, make_env, make_model

ENV = "tests.problems.corridor:Corridor-v0"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module", autouse=True)
def any_width() -> Iterator[None]:
    """Output of any width, as in a file; pytest-xdist sets a number of columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="module")
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


def evaluate(folder: Path, *more: object, candidate: str = "new.zip") -> Result:
    common = ("--model-class", "PPO") if candidate.endswith(".zip") else ()
    return run("evaluate", folder / "log", folder / candidate, "--gamma", GAMMA, *common, *more)


def as_json(result: Result) -> dict[str, Any]:
    assert result.exit_code in (0, 1), result.output
    values: dict[str, Any] = json.loads(result.stdout)
    return values


def test_collect_is_collect(folder: Path) -> None:
    again = ove.collect(make_model(0), ENV, 500, seed=1)
    logged = ove.Trajectories.load(folder / "log")
    np.testing.assert_array_equal(logged.rewards, again.rewards)
    assert logged.metadata.reward_range == (-1, 2)


def test_evaluate_json_is_the_result(folder: Path) -> None:
    values = as_json(evaluate(folder, "--json"))
    result = ove.evaluate(folder / "log", folder / "new.zip", gamma=GAMMA, model_class=PPO)
    assert values.pop("requirements") == []
    assert values.pop("origin") == json.loads(json.dumps(result.origin.to_dict()))
    assert values == json.loads(json.dumps(result.to_dict()))
    mean, variance = exact_moments(choices(make_model(2)))
    assert values["quantities"]["mean"]["interval"]["lower"] <= mean
    assert values["quantities"]["variance"]["interval"]["upper"] >= variance


def test_evaluate_prints_the_table(folder: Path) -> None:
    printed = evaluate(folder)
    assert printed.exit_code == 0
    result = ove.evaluate(folder / "log", folder / "new.zip", gamma=GAMMA, model_class=PPO)
    for line in str(result).splitlines():
        words = " ".join(in_options(line, evaluation.evaluate).split())
        assert words in " ".join(printed.stdout.split())


def test_options_of_evaluate(folder: Path) -> None:
    options = ("--quantity", "std", "--quantity", "mean", "--method", "paper", "--approximate",
               "normal", "--estimator", "variance=pair", "--estimator", "mean=pdis", "--delta", 0.1,
               "--simultaneous", "--seed", 3)  # fmt: skip
    values = as_json(evaluate(folder, *options, "--json"))
    expected = ove.evaluate(
        folder / "log",
        folder / "new.zip",
        gamma=GAMMA,
        model_class=PPO,
        method="paper",
        approximate="normal",
        estimators={"variance": "pair", "mean": "pdis"},
        delta=0.1,
        simultaneous=True,
        rng=3,
    )
    assert values.pop("requirements") == []
    assert values.pop("origin")["candidate_file"] == str(folder / "new.zip")
    assert values == json.loads(json.dumps(expected.to_dict()))
    assert list(values["quantities"]) == ["mean", "variance", "std"]
    bare = as_json(evaluate(folder, "--approximate", "none", "--json"))
    assert bare["quantities"]["variance"]["approximate"] is None


def test_requirements_are_decided_by_the_guaranteed_bounds(folder: Path) -> None:
    result = ove.evaluate(
        folder / "log",
        folder / "new.zip",
        gamma=GAMMA,
        model_class=PPO,
        quantities=["mean", "variance", "std"],
    )
    few = ("--quantity", "mean", "--quantity", "std", "--approximate", "none")
    assert result.stats is not None
    upper = ove.variance_interval(result.stats, reward_range=(-1, 2), side="upper").upper
    lower = ove.mean_interval(result.stats, reward_range=(-1, 2), side="lower").lower
    between = (result.variance + upper) / 2  # the estimate would pass, the bound does not
    assert result.variance < between < upper
    for limits, code in (
        ((f"variance <= {upper!r}",), 0),
        ((f"variance < {upper!r}",), 1),
        ((f"variance <= {between!r}",), 1),
        ((f"std <= {upper**0.5 + 1e-9!r}",), 0),
        ((f"mean >= {lower!r}",), 0),
        ((f"mean > {lower!r}",), 1),
        ((f"mean >= {lower + 0.01!r}",), 1),
        ((f"variance <= {upper!r}", f"mean >= {lower!r}"), 0),
        ((f"variance <= {upper!r}", f"mean >= {lower + 0.01!r}"), 1),
        ((f"variance <= {between!r}", f"mean >= {lower!r}"), 1),
    ):
        options = [word for limit in limits for word in ("--require", limit)]
        printed = evaluate(folder, *options, *few)
        assert printed.exit_code == code, limits
        verdicts = result.check_all(*limits)
        for verdict in verdicts:
            assert str(verdict) in printed.stdout
        if len(limits) == 1:
            continue
        plain = evaluate(folder, *options, "--json", *few)
        assert plain.exit_code == code
        decided = as_json(plain)["requirements"]
        assert decided == [verdict.to_dict() for verdict in verdicts]
        assert all(entry["status"] == "proven" for entry in decided) is (code == 0)


def test_a_refuted_requirement(folder: Path) -> None:
    printed = evaluate(folder, "--require", "variance <= 0.01")
    assert printed.exit_code == 1
    assert "variance <= 0.01: refuted. The 95% lower bound is" in printed.stdout


def test_approximate_intervals_prove_no_requirement(folder: Path) -> None:
    for options in (("--method", "bootstrap"), ("--method", "normal")):
        printed = evaluate(folder, *options, "--require", "mean >= -100")
        assert printed.exit_code == 1
        assert "mean >= -100: undecided. The bounds are not guaranteed" in printed.stdout


def test_files_are_written(folder: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "figure.png"
    about = ("--author", "A & B", "--purpose", "release 7")
    result = evaluate(
        folder, "--html", page, *about, "--plot", picture, "--require", "mean >= -100"
    )
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "All requirements are proven with 95% confidence." in text
    for shown in ("A &amp; B", "release 7", str(folder / "log"), str(folder / "new.zip")):
        assert shown in text
    assert picture.read_bytes().startswith(b"\x89PNG")
    both = tmp_path / "both.html"
    run("compare", folder / "log", folder / "new.zip", "--gamma", 0.9, "--model-class", "PPO",
        "--html", both, *about, "--require", "mean >= -100")  # fmt: skip
    text = both.read_text()
    assert "Which candidate has the smallest variance of the return?" in text
    for shown in ("A &amp; B", "new: mean &gt;= -100: proven.", str(folder / "new.zip")):
        assert shown in text
    refused = evaluate(folder, "--author", "me")
    assert refused.exit_code == 2
    assert "must come with" in refused.stderr


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


def test_log_probabilities_from_a_file(folder: Path) -> None:
    data = ove.Trajectories.load(folder / "log")
    np.save(folder / "new.npy", ove.log_prob(make_model(2), data))
    known = as_json(evaluate(folder, "--json", candidate="new.npy"))
    model = as_json(evaluate(folder, "--json"))
    for name in ("mean", "variance", "std"):
        estimate = model["quantities"][name]["estimate"]
        assert known["quantities"][name]["estimate"] == pytest.approx(estimate, rel=1e-6)


def test_normalized_observations(folder: Path, tmp_path: Path) -> None:
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
    assert given["quantities"]["mean"]["estimate"] == pytest.approx(inside.mean, rel=1e-6)
    assert lost["quantities"]["mean"]["estimate"] != pytest.approx(inside.mean, rel=1e-6)
    for bad in (tmp_path / "nothing.pkl", tmp_path / "model.zip"):
        refused = run(*common, "--vec-normalize", bad)
        assert refused.exit_code == 3
        assert "VecNormalize.save" in refused.stderr


@pytest.mark.parametrize(
    "place",
    [
        "vecnormalize.pkl",
        "model_vecnormalize.pkl",
        "old_vecnormalize.pkl",
        "Toy-v0/vecnormalize.pkl",
    ],
)
def test_statistics_beside_a_model_are_not_overlooked(
    place: str, folder: Path, tmp_path: Path
) -> None:
    venv = VecNormalize(DummyVecEnv([make_env]))
    venv.obs_rms.mean += 0.3  # type: ignore[attr-defined]
    model = PPO("MlpPolicy", venv, device="cpu", seed=0)
    path, statistics = tmp_path / "model.zip", tmp_path / place
    model.save(path)
    common = ("--gamma", GAMMA, "--model-class", "PPO")
    plain = as_json(run("evaluate", folder / "log", path, *common, "--json"))
    statistics.parent.mkdir(exist_ok=True)
    venv.save(str(statistics))
    watched = ("--require", "mean <= 1e9")
    for words in (
        ("evaluate", folder / "log", path, *common),
        ("compare", folder / "log", path, f"b={folder / 'new.zip'}", *common),
        ("watch", folder / "log", path, *common, *watched),
    ):
        refused = run(*words)
        assert refused.exit_code == 3, refused.output
        text = " ".join(refused.stderr.split())
        assert f"because {statistics} is there" in text
        assert f"--vec-normalize {statistics}, or --vec-normalize none" in text
        if words[0] != "watch":  # which does not follow a log of a fixed size
            assert run(*words, "--vec-normalize", statistics).exit_code == 0
    with pytest.raises(ove.InvalidInputError, match="vec_normalize='none'"):
        ove.evaluate(folder / "log", path, gamma=GAMMA, model_class=PPO)
    declined = as_json(
        run("evaluate", folder / "log", path, *common, "--json", "--vec-normalize", "none")
    )
    assert declined["quantities"]["mean"] == plain["quantities"]["mean"]
    inside = ove.evaluate(folder / "log", model, gamma=GAMMA)
    given = ove.evaluate(
        folder / "log", path, gamma=GAMMA, model_class=PPO, vec_normalize=statistics
    )
    assert given.mean == inside.mean != plain["quantities"]["mean"]["estimate"]


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
    assert facts["shards"] == 0
    assert as_json(run("compact", tmp_path, "--json"))["n_compacted"] == 1
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert "episodes of 0 writers compacted" in run("compact", tmp_path).stdout
    after = ove.Trajectories.load(tmp_path)
    np.testing.assert_array_equal(after.rewards, data[:40].rewards)


def test_verify_and_repair(folder: Path, tmp_path: Path) -> None:
    data = ove.Trajectories.load(folder / "log")
    for part in (data[:10], data[10:30]):
        with ove.EpisodeWriter(tmp_path, data.metadata) as writer:
            writer.add(part)
    assert "intact: 30 episodes" in run("inspect", tmp_path, "--verify").stdout
    shard = sorted(tmp_path.glob("*.parquet"))[0]
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    result = run("inspect", tmp_path, "--verify", "--json")
    assert result.exit_code == 3
    facts = json.loads(result.stdout)
    assert (facts["lost_episodes"], facts["n_trajectories"]) == (10, 20)
    assert shard.name in facts["problems"][0]
    assert "10 episodes dropped, 20 kept" in run("repair", tmp_path).stdout
    assert as_json(run("inspect", tmp_path, "--json"))["lost_episodes"] == 10


def test_wrong_usage_gives_a_message_and_code_2(folder: Path, tmp_path: Path) -> None:
    log, model = folder / "log", folder / "new.zip"
    common = ("evaluate", log, model, "--gamma", 0.9)
    ppo = ("--model-class", "PPO")
    for arguments, message in (
        ((*common, "--model-class", "PPPO"), "--model-class"),
        ((*common, "--model-class", "no.where:X"), "imported"),
        ((*common, *ppo, "--require", "variance"), "a requirement must be"),
        ((*common, *ppo, "--require", "variance <= much"), "finite number"),
        ((*common, *ppo, "--require", "variance <= nan"), "finite number"),
        ((*common, *ppo, "--require", "variance == 3"), "a requirement must"),
        ((*common, *ppo, "--require", "wealth <= 3"), "'wealth'"),
        ((*common, *ppo, "--require", "mean >= 0", "--require", "oops"), "'oops'"),
        ((*common, *ppo, "--quantity", "wealth"), "'wealth'"),
        ((*common, *ppo, "--method", "luck"), "'luck'"),
        ((*common, *ppo, "--approximate", "luck"), "'luck'"),
        ((*common, *ppo, "--estimator", "pair"), "QUANTITY=NAME"),
        ((*common, *ppo, "--estimator", "variance="), "QUANTITY=NAME"),
        ((*common, *ppo, "--estimator", "variance=luck"), "'luck'"),
        ((*common, *ppo, "--estimator", "wealth=pair"), "'wealth'"),
        ((*common, *ppo, "--max-variance", 3), "--max-variance"),
        ((*common, *ppo, "--delta", "small"), "--delta"),
        (("evaluate", log, model, *ppo), "--gamma"),
        (("evaluate", log, "--gamma", 0.9), "Missing argument"),
        (("compare", log, model, model, "--gamma", 0.9, *ppo), "different names"),
        (("compare", log, model, "--gamma", 0.9, *ppo, *ppo), "NAME=CLASS"),
        (("compare", log, model, "--gamma", 0.9, *ppo, "--rank-by", "ess"), "--rank-by"),
        (("compare", log, model, "--gamma", 0.9, *ppo, "--require", "mean"), "a requirement must"),
        (("collect", "uniform", ENV, tmp_path / "x"), "--episodes"),
        (("nonsense",), "nonsense"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, (arguments, result.output, result.exception)
        words = " ".join(result.stderr.replace("│", " ").split())
        assert message in words, (arguments, words)
        assert "Usage: " in words
        assert "Traceback" not in result.output
        assert result.stdout == ""


def test_refused_input_gives_a_message_and_code_3(folder: Path, tmp_path: Path) -> None:
    log, model = folder / "log", folder / "new.zip"
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    ppo = ("--model-class", "PPO")
    for arguments, message in (
        (("evaluate", log, tmp_path / "no.zip", "--gamma", 0.9, *ppo), "does not exist"),
        (("evaluate", log, model, "--gamma", 0.9), "executes pickled code"),
        (("evaluate", log, model, "--gamma", 1.9, *ppo), "`--gamma` must lie in"),
        (("evaluate", log, tmp_path / "bad.npy", "--gamma", 0.9), "numpy.save"),
        (("evaluate", log, tmp_path / "no.npy", "--gamma", 0.9), "numpy.save"),
        (("evaluate", tmp_path, model, "--gamma", 0.9, *ppo), "directory of logged episodes"),
        (
            ("evaluate", log, model, "--gamma", 0.9, *ppo, "--reward-range", 0, 1),
            "`--reward-range`",
        ),
        (
            ("evaluate", log, model, "--gamma", 0.9, *ppo, "--html", tmp_path / "a" / "b"),
            "`--html`",
        ),
        (("compare", log, tmp_path / "no.zip", "--gamma", 0.9, *ppo), "does not exist"),
        (("compare", log, tmp_path / "bad.npy", "--gamma", 0.9), "numpy.save"),
        (("inspect", tmp_path), "directory of logged episodes"),
        (("compact", tmp_path / "none"), "directory of logged episodes"),
        (("collect", "uniform", "Nowhere-v0", tmp_path / "x", "--episodes", 1), "Nowhere"),
        (("collect", "uniform", "no_module:X-v0", tmp_path / "x", "--episodes", 1), "no_module"),
        (("collect", "uniform", ENV, log, "--episodes", 1), "--overwrite"),
        (("collect", "uniform", ENV, tmp_path / "bad.npy", "--episodes", 1), "LOG must be a dir"),
        (("collect", "uniform", ENV, tmp_path / "bad.npy" / "x", "--episodes", 1), "LOG must be"),
        (("evaluate", log, model, "--gamma", 0.9), "such as --model-class PPO"),
        (("evaluate", log, model, "--gamma", 0.9), "CANDIDATE is a path"),
        (("evaluate", log, model, "--gamma", 0.9, *ppo, "--html", tmp_path), "`--html`"),
        (
            ("evaluate", log, model, "--gamma", 0.9, *ppo, "--plot", tmp_path / "a/b.png"),
            "`--plot`",
        ),
        (("collect", "uniform", ENV, tmp_path / "x", "--episodes", 0), "`--episodes`"),
    ):
        result = run(*arguments)
        assert result.exit_code == 3, (arguments, result.output, result.exception)
        assert message in result.stderr, arguments
        assert result.stderr.startswith("error: ")
        assert "Traceback" not in result.output
        assert result.stdout == ""


def test_an_interrupt_leaves_files_as_they_were(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("collect", "uniform", ENV, tmp_path / "log", "--episodes", 3)
    before = {file.name: file.read_bytes() for file in (tmp_path / "log").iterdir()}

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pyarrow.parquet.ParquetWriter.write_table", interrupted)
        result = run("collect", "uniform", ENV, tmp_path / "log", "--episodes", 5, "--overwrite")
    assert result.exit_code == 130
    assert {file.name: file.read_bytes() for file in (tmp_path / "log").iterdir()} == before
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        result = evaluate(folder, "--html", tmp_path / "report.html", "--require", "mean >= -100")
    assert result.exit_code == 130
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log"]


def test_reproduce_runs_the_experiments(tmp_path: Path) -> None:
    help_text = run("reproduce", "--help")
    assert help_text.exit_code == 0
    assert "ove-sb3 reproduce" in help_text.stdout
    assert run("reproduce", "chess").exit_code == 2
    command = ["recommender", "--trials", 2, "--n", 100, "--jobs", 1, "--quiet"]
    result = run("reproduce", *command, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "recommender" in result.stdout.lower()
    assert any(tmp_path.rglob("*.png"))


def test_errors_of_the_experiments_have_exit_codes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in ((RuntimeError("broken"), 3), (KeyboardInterrupt(), 130)):

        def fail(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("ove_sb3.experiments.__main__.main", fail)
        assert run("reproduce", "recommender").exit_code == code


def test_help_warns_of_pickles() -> None:
    for command in ((), ("evaluate",), ("compare",), ("collect",)):
        result = run(*command, "--help")
        assert result.exit_code == 0
        words = " ".join(result.stdout.replace("│", " ").split())
        assert "can execute code in it" in words


@pytest.mark.parametrize(
    "command", ["", "collect", "inspect", "evaluate", "compare", "watch", "compact", "repair"]
)
def test_flags_are_shown_without_a_type(command: str) -> None:
    result = run(*command.split(), "--help")
    assert "--help" in result.stdout
    assert "bool" not in result.stdout.lower()


def test_the_version() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"ove-sb3 {ove.__version__}\n"


def test_outputs_are_checked_before_the_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("ove_sb3.cli.evaluation.evaluate_candidate", fail)
    monkeypatch.setattr("ove_sb3.cli.evaluation.compare_candidates", fail)
    nowhere = tmp_path / "none"
    for arguments in (("--html", nowhere / "a.html"), ("--plot", nowhere / "a.png")):
        assert "in an existing directory" in evaluate(folder, *arguments).stderr
    compared = run(
        "compare", folder / "log", folder / "new.zip", "--gamma", GAMMA, "--model-class", "PPO",
        "--html", nowhere / "a.html",
    )  # fmt: skip
    assert "in an existing directory" in compared.stderr
    assert "in an existing directory" in evaluate(folder, "--plot", tmp_path).stderr


def test_names_of_classes_need_no_capitals(folder: Path) -> None:
    common = ("evaluate", folder / "log", folder / "new.zip", "--gamma", GAMMA, "--json")
    upper, lower = (run(*common, "--model-class", name) for name in ("PPO", "ppo"))
    assert lower.exit_code == 0, lower.output
    assert lower.stdout == upper.stdout


@pytest.mark.parametrize("columns", [60, 72, 120])
def test_tables_fit_the_terminal(
    folder: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    log, new, other = folder / "log", folder / "new.zip", folder / "other.zip"
    results = [
        evaluate(folder, "--require", "variance <= 3"),
        run("compare", log, new, other, "--gamma", GAMMA, "--model-class", "PPO"),
        run("inspect", log),
    ]
    for result in results:
        lines = result.stdout.splitlines()
        assert max(map(len, lines)) <= columns, max(lines, key=len)
        assert "…" not in result.stdout
    words = results[0].stdout.split()
    expected = ove.evaluate(log, new, gamma=GAMMA, model_class=PPO)
    for quantity in ("mean", "variance"):
        for cell in (row for row in expected.table.rows if row[0] == quantity):
            assert all(word in words for text in cell for word in text.split())


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`delta` must lie in (0, 1)", "`--delta` must lie in (0, 1)"),
        ("pass reward_range=(0, 1.5).", "pass --reward-range 0 1.5."),
        ("pass density=True for it", "pass --density for it"),
        ("`data` must hold episodes", "LOG must hold episodes"),
        ("`candidates['a']` must be", "CANDIDATE['a'] must be"),
        ("needs method='betting', got", "needs --method betting, got"),
        ("such as stable_baselines3.PPO.", "such as --model-class PPO."),
        ("columns: episode=..., step=...", "columns: --episode ..., --step ..."),
        ("`log_prob` and x=3 stay", "`log_prob` and x=3 stay"),
        ("With return_range=(6.7, 19.9), the", "With --return-range 6.7 19.9, the"),
        ("max_weight=3.5: variance", "--max-weight 3.5: variance"),
    ],
)
def test_errors_speak_of_options(text: str, expected: str) -> None:
    assert in_options(text, evaluate_command) == expected


def test_a_picture_of_an_unknown_kind_is_refused(folder: Path, tmp_path: Path) -> None:
    result = evaluate(folder, "--plot", tmp_path / "figure.xyz")
    assert result.exit_code == 3
    assert "`--plot` must name a picture such as report.png" in result.stderr
    assert not (tmp_path / "figure.xyz").exists()


def test_an_unexpected_error_is_not_taken_for_a_requirement_that_is_not_proven(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("an unforeseen error")

    monkeypatch.setattr("ove_sb3.cli.evaluation.evaluate_candidate", broken)
    result = evaluate(folder, "--require", "mean >= 0")
    assert result.exit_code == 3
    assert "an unforeseen error" in result.stderr


# --- the installed program, in a process of its own

PROGRAM = Path(sys.executable).with_name("ove-sb3")


@pytest.fixture(scope="module")
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


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def evaluate_small(small: Path, *more: object, candidate: str = "new.npy") -> tuple[object, ...]:
    return ("evaluate", small / "log", small / candidate, "--gamma", 1, *more)


def test_the_installed_command(folder: Path) -> None:
    inspected = program("inspect", folder / "log", "--json")
    assert inspected.returncode == 0
    assert json.loads(inspected.stdout)["episodes"] == 500


def test_exit_code_0_evaluated(small: Path) -> None:
    done = program(*evaluate_small(small))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Estimated return of the candidate from 400 episodes")
    assert done.stderr == ""


def test_exit_code_0_everything_required_is_proven(small: Path) -> None:
    done = program(*evaluate_small(small, "--require", "variance <= 0.3", "--require", "mean>0.4"))
    assert done.returncode == 0, done.stderr
    assert "variance <= 0.3: proven." in done.stdout
    assert "mean > 0.4: proven." in done.stdout


def test_exit_code_1_something_required_is_not_proven(small: Path) -> None:
    done = program(*evaluate_small(small, "--require", "variance <= 0.3", "--require", "mean>0.65"))
    assert done.returncode == 1, done.stderr
    assert "variance <= 0.3: proven." in done.stdout
    assert "mean > 0.65: undecided." in done.stdout
    refuted = program(*evaluate_small(small, "--require", "mean <= 0.3"))
    assert refuted.returncode == 1, refuted.stderr
    assert "mean <= 0.3: refuted." in refuted.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--no-such-option",),
        ("--delta", "small"),
        ("--require", "variance is small"),
        ("--require", "wealth >= 3"),
        ("--quantity", "wealth"),
    ],
)
def test_exit_code_2_wrong_usage(small: Path, options: tuple[str, ...]) -> None:
    done = program(*evaluate_small(small, *options))
    assert done.returncode == 2, done.stderr
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_exit_code_3_refused_data(small: Path) -> None:
    refused = program(*evaluate_small(small, "--require", "mean >= 0", candidate="wrong.npy"))
    assert refused.returncode == 3, refused.stderr
    assert refused.stderr.startswith("error: importance weights must be 1 on average")
    missing = program("inspect", small / "nowhere")
    assert missing.returncode == 3
    assert missing.stderr.startswith("error: ")
    assert refused.stdout == missing.stdout == ""


def without(package: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process where a package is not installed."""
    code = (
        "import sys\n"
        "class Blocker:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {package!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Blocker())\n"
        "from ove_sb3.cli import main\nmain()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_exit_code_3_without_typer_or_rich() -> None:
    for package in ("typer", "rich"):
        done = without(package, "--version")
        assert done.returncode == 3, done.stderr
        assert f"needs {package}. Install it: pip install {package}" in done.stderr
        assert "Traceback" not in done.stderr


def test_exit_code_3_without_matplotlib(small: Path, tmp_path: Path) -> None:
    plot = ("--plot", tmp_path / "figure.png")
    done = without("matplotlib", *evaluate_small(small, *plot))
    assert done.returncode == 3, done.stderr
    assert "error: No module named 'matplotlib" in done.stderr
    assert without("matplotlib", *evaluate_small(small)).returncode == 0


def test_exit_code_3_without_a_package_that_is_required(small: Path) -> None:
    assert without("numpy", *evaluate_small(small)).returncode == 3


def test_exit_code_3_crash(small: Path) -> None:
    code = (
        "import ove_sb3.cli.evaluation as module\n"
        "def crash(*_, **__): raise RuntimeError('an unforeseen error')\n"
        "module.evaluate_candidate = crash\n"
        "from ove_sb3.cli import main\nmain()"
    )
    arguments = [str(argument) for argument in evaluate_small(small, "--require", "mean >= 0")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 3
    assert "RuntimeError: an unforeseen error" in done.stderr


def test_exit_code_130_interrupted(tmp_path: Path) -> None:
    command: list[str] = [str(PROGRAM), "collect", "uniform", "CartPole-v1", str(tmp_path / "log"),
               "--episodes", "100000000", "--progress"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stderr is not None
        shown = b""
        while b"%" not in shown:  # the progress bar: episodes are being collected
            more = os.read(process.stderr.fileno(), 1000)
            assert more, shown
            shown += more
        rest = b""
        for _ in range(6):  # Python drops an interrupt that arrives in a finalizer: press again
            process.send_signal(signal.SIGINT)
            try:
                rest = process.communicate(timeout=20)[1]
                break
            except subprocess.TimeoutExpired:
                continue
    assert process.returncode == 130, rest
    assert b"interrupted: files are as they were before." in rest
    assert b"Traceback" not in rest
    assert not (tmp_path / "log").exists()
