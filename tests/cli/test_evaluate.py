"""``ove-sb3 evaluate`` on real models and files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import ove_sb3 as ove
from ove_sb3.cli import evaluation
from ove_sb3.cli.wording import in_options
from tests.problems.corridor import GAMMA, choices, exact_moments, make_env, make_model

from .running import as_json, evaluate, run


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


def test_names_of_classes_need_no_capitals(folder: Path) -> None:
    common = ("evaluate", folder / "log", folder / "new.zip", "--gamma", GAMMA, "--json")
    upper, lower = (run(*common, "--model-class", name) for name in ("PPO", "ppo"))
    assert lower.exit_code == 0, lower.output
    assert lower.stdout == upper.stdout
