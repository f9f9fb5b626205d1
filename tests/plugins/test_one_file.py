"""One file adds a quantity, an estimator and a method, and everything shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ove_sb3 as ove
from ove_sb3.core.estimators import base as estimators
from ove_sb3.core.methods import base as methods
from ove_sb3.core.quantities import base as quantities
from ove_sb3.errors import InvalidInputError
from tests.problems.corridor import GAMMA, choices, make_model, simulate

from . import toys

NAMES = ["mean", "variance", "scaled_mean:3"]


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    toys.register()
    yield
    quantities._REGISTRY.remove("scaled_mean")
    methods._REGISTRY.remove("fixed_width")
    estimators._REGISTRIES["variance"].remove("toy")
    estimators._REGISTRIES.pop("scaled_mean")


@pytest.fixture(scope="module")
def data() -> ove.Trajectories:
    return simulate(choices(make_model(0)), 400, seed=1)


@pytest.fixture(scope="module")
def candidate(data: ove.Trajectories) -> Any:
    return ove.log_prob(make_model(2), data)


def statistics(data: ove.Trajectories, candidate: Any) -> ove.TrajectoryStatistics:
    return ove.trajectory_statistics(
        candidate - data.log_probs,
        data.rewards,
        data.lengths,
        gamma=GAMMA,
        horizon=6,
        columns=[toys.LAST_REWARD],
    )


# --- a quantity


def test_a_quantity_is_seen_in_text_html_plot_json_and_requirements(
    data: ove.Trajectories, candidate: Any, tmp_path: Path
) -> None:
    result = ove.evaluate(data, candidate, gamma=GAMMA, quantities=NAMES)
    mean = ove.evaluate(data, candidate, gamma=GAMMA)["mean"].interval
    interval = result["scaled_mean:3"].interval
    assert (interval.lower, interval.upper) == (3 * mean.lower, 3 * mean.upper)
    assert interval.guaranteed
    assert "scaled mean" in str(result)
    titles = [axes.get_title() for axes in result.plot().axes]
    assert any("Scaled mean of the return" in title for title in titles)
    result.save_html(tmp_path / "report.html", f"scaled_mean:3 >= {interval.lower - 1}")
    page = (tmp_path / "report.html").read_text()
    assert "Scaled mean of the return" in page
    assert "scaled_mean:3 &gt;= " in page
    assert result.to_dict()["quantities"]["scaled_mean:3"]["interval"]["guaranteed"]
    assert result.satisfies(f"scaled_mean:3 >= {interval.lower - 1}")
    assert result.check(f"scaled_mean:3 <= {interval.lower - 1}").status == "refuted"
    assert result.check("scaled_mean:2 >= -100").status == "proven"  # computed on demand


def test_a_quantity_is_seen_in_compare(data: ove.Trajectories, candidate: Any) -> None:
    comparison = ove.compare(
        data, {"a": candidate, "b": data.log_probs}, gamma=GAMMA, quantities=NAMES
    )
    assert "scaled mean" in str(comparison)
    # Three quantities and two candidates share delta.
    assert comparison["a"]["scaled_mean:3"].interval.delta == pytest.approx(0.05 / 6)
    assert comparison.satisfying("scaled_mean:3 >= -100") == list(comparison.evaluations)


def test_a_quantity_is_logged_by_the_callback(data: ove.Trajectories, tmp_path: Path) -> None:
    callback = ove.OffPolicyVarianceCallback(
        data,
        eval_freq=64,
        verbose=0,
        requirements=["scaled_mean:3 >= -100"],
        log_path=tmp_path,
    )
    model = make_model(2)
    model.learn(64, callback=callback)
    assert callback.satisfied
    with np.load(tmp_path / "evaluations.npz") as file:
        for key in ("scaled_mean:3", "scaled_mean:3_lower", "behavior_scaled_mean:3"):
            np.testing.assert_array_equal(file[key], callback.evaluations[key])
    assert "ove/scaled_mean:3_lower" in logged_keys(data, tmp_path / "csv")


def logged_keys(data: ove.Trajectories, folder: Path) -> list[str]:
    from stable_baselines3.common.logger import configure

    model = make_model(2)
    model.set_logger(configure(str(folder), ["csv"]))
    model.learn(
        64,
        callback=ove.OffPolicyVarianceCallback(data, eval_freq=64, verbose=0, quantities=NAMES),
    )
    model.logger.close()
    return (folder / "progress.csv").read_text().splitlines()[0].split(",")


# --- an estimator


def test_an_estimator_works_wherever_one_is_taken(data: ove.Trajectories, candidate: Any) -> None:
    stats = statistics(data, candidate)
    value = ove.estimate(stats, "variance", estimator="toy")
    last = data.rewards[np.cumsum(data.lengths) - 1]
    assert value == pytest.approx(np.mean(stats.weights * last**2))
    for method in (ove.Bootstrap(estimator="toy"), ove.Normal(estimator="toy")):
        assert value in ove.interval(stats, "variance", method=method)
    result = ove.evaluate(
        data,
        candidate,
        gamma=GAMMA,
        estimators={"variance": "toy"},
        approximate=ove.Bootstrap(estimator="toy"),
        quantities=["variance"],
    )
    assert result.variance == pytest.approx(value)
    assert result["variance"].estimator == "toy"
    approximate = result["variance"].approximate
    assert approximate is not None
    assert value in approximate


def test_an_estimator_without_its_column_is_refused(data: ove.Trajectories, candidate: Any) -> None:
    stats = ove.trajectory_statistics(
        candidate - data.log_probs, data.rewards, data.lengths, gamma=GAMMA, horizon=6
    )
    with pytest.raises(InvalidInputError, match="'last_reward'"):
        ove.estimate(stats, "variance", estimator="toy")


# --- a method


def test_a_method_is_used_by_name_and_never_called_guaranteed(
    data: ove.Trajectories, candidate: Any
) -> None:
    stats = statistics(data, candidate)
    interval = ove.interval(stats, "mean", method="fixed_width")
    assert interval.upper - interval.lower == pytest.approx(0.5)
    assert not interval.guaranteed
    result = ove.evaluate(
        data, candidate, gamma=GAMMA, method="fixed_width", approximate=toys.FixedWidth(0.1)
    )
    assert result["mean"].interval.width == pytest.approx(0.5)
    assert not result.guaranteed
    assert "95% fixed_width, approximate" in str(result)
    approximate = result["mean"].approximate
    assert approximate is not None
    assert approximate.width == pytest.approx(0.2)
    assert not result.satisfies("mean >= -100")


# --- the command line loads plugins


def test_the_command_line_loads_installed_plugins(
    data: ove.Trajectories, candidate: Any, tmp_path: Path
) -> None:
    info = tmp_path / "site" / "toys-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ove_sb3.plugins]\ntoys = toys:register\n")
    (tmp_path / "site" / "toys.py").write_text(Path(toys.__file__).read_text())
    data.save(tmp_path / "log")
    np.save(tmp_path / "candidate.npy", candidate)
    command = [
        *(sys.executable, "-c", "from ove_sb3.cli import main; main()"),
        *("evaluate", str(tmp_path / "log"), str(tmp_path / "candidate.npy")),
        *("--gamma", str(GAMMA), "--quantity", "scaled_mean:3", "--estimator", "variance=toy"),
        *("--approximate", "fixed_width", "--require", "scaled_mean:2 >= -100", "--json"),
    ]
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"mean", "variance", "std", "scaled_mean:3", "scaled_mean:2"} <= set(found["quantities"])
    assert found["quantities"]["variance"]["estimator"] == "toy"
    assert found["quantities"]["mean"]["approximate"]["method"] == "fixed_width"
    assert found["requirements"][0]["status"] == "proven"
