"""`behavior=` for every kind of policy, on the command line, in the callback and on a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import PPO, SAC
from typer.testing import CliRunner

import ove_sb3 as ove
from ove_sb3.cli.app import app
from ove_sb3.core.truncation import CAPS, column_names
from tests.policies.test_canary_kinds import Push, Ragged, make_models
from tests.problems.corridor import GAMMA

TRUNCATED = column_names(2.0)[0]


def policies(algorithm: Any) -> tuple[list[Any], Any]:
    if algorithm is SAC:
        return [SAC("MlpPolicy", Push(), seed=seed, device="cpu") for seed in (0, 1)], Push()
    return make_models(algorithm), Ragged()


@pytest.mark.parametrize("algorithm", [PPO, RecurrentPPO, MaskablePPO, SAC])
def test_kinds_of_policies(algorithm: Any, tmp_path: Path) -> None:
    (behavior, candidate), env = policies(algorithm)
    data = ove.collect(behavior, env, 300, seed=0, reward_range=(-1, 1))
    options: dict[str, Any] = {"gamma": 1.0, "horizon": 9, "quantities": ["mean", "variance"]}
    result = ove.evaluate(data, candidate, behavior=behavior, **options)
    assert result.stats is not None
    for cap in CAPS:
        w, k = (result.stats[name] for name in column_names(cap))
        M = w + k
        assert M.max() <= cap * (1 + 1e-12)
        assert abs(M.mean() - 1.0) < 5 * M.std() / len(M) ** 0.5 + 1e-9, cap
    assert result.stats[column_names(2.0)[1]].max() > 0.0
    for name in ("mean", "variance"):
        assert result[name].interval.guaranteed
    data.save(tmp_path / "log")
    streamed = ove.evaluate(tmp_path / "log", candidate, behavior=behavior, **options)
    assert streamed["variance"].interval == result["variance"].interval
    with pytest.raises(ove.errors.BehaviorError, match="episode 0"):
        ove.evaluate(data, behavior, behavior=candidate, **options)


def test_the_command_line_takes_it(
    data: ove.Trajectories, behavior: PPO, candidate: PPO, tmp_path: Path
) -> None:
    data.save(tmp_path / "log")
    behavior.save(tmp_path / "old.zip")
    candidate.save(tmp_path / "new.zip")
    line = ["evaluate", tmp_path / "log", tmp_path / "new.zip", "--gamma", GAMMA, "--json"]
    line += ["--model-class", "PPO", "--behavior", tmp_path / "old.zip", "--behavior-class", "PPO"]
    done = CliRunner().invoke(app, [str(word) for word in line])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    here = ove.evaluate(data, candidate, gamma=GAMMA, behavior=behavior)
    interval = here["variance"].interval
    assert printed["quantities"]["variance"]["interval"]["upper"] == interval.upper
    assert "the behavior is the given policy, whose probabilities were logged" in done.stdout
    line[line.index(tmp_path / "old.zip")] = tmp_path / "new.zip"
    refused = CliRunner().invoke(app, [str(word) for word in line])
    assert refused.exit_code == 3
    assert "the policy that wrote the log" in refused.output


def test_the_callback_takes_it(data: ove.Trajectories, behavior: PPO) -> None:
    callback = ove.OffPolicyVarianceCallback(
        data, gamma=GAMMA, eval_freq=64, behavior=behavior, verbose=0
    )
    env: Any = behavior.get_env()
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, seed=3, device="cpu")
    model.learn(64, callback=callback)
    result = callback.last_evaluation
    assert result is not None
    assert result.stats is not None
    assert TRUNCATED in result.stats.columns
    interval = result["variance"].interval
    assert interval.guaranteed
    assert "the behavior is the given policy" in " ".join(interval.assumptions)
    assert np.isfinite(interval.upper)
