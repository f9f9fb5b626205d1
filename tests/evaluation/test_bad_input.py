"""Input that would make a result wrong is refused, with a message that says what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import A2C, PPO

import ove_sb3 as ove
from ove_sb3.data.metadata import Metadata
from tests.problems.corridor import GAMMA, make_env


def truncated_last(data: ove.Trajectories) -> ove.Trajectories:
    """The last episode was interrupted after its first step."""
    whole, last = data[:-1], data[-1]
    cut = ove.Trajectories.from_arrays(
        observations=np.asarray(last.observations)[:1],
        actions=last.actions[:1],
        log_probs=last.log_probs[:1],
        rewards=last.rewards[:1],
        lengths=[1],
        truncated=[True],
        metadata=data.metadata,
    )
    return ove.Trajectories.concat([replace(whole, final_observations=None), cut])


def test_an_episode_that_was_cut_off_is_refused(data: ove.Trajectories, candidate: PPO) -> None:
    with pytest.raises(
        ove.InvalidInputError, match=r"episode 599 was cut off after 1 steps, and the horizon is 6"
    ):
        ove.evaluate(truncated_last(data), candidate, gamma=GAMMA)
    bare = replace(data, metadata=Metadata())
    with pytest.raises(ove.InvalidInputError, match="no horizon is known"):
        ove.evaluate(bare, candidate, gamma=GAMMA, reward_range=(-1, 2))
    with pytest.raises(ove.InvalidInputError, match="the horizon is 9"):
        ove.evaluate(data, candidate, gamma=GAMMA, horizon=9)


def test_an_episode_that_neither_ended_nor_was_cut_off_is_refused(
    data: ove.Trajectories, candidate: PPO
) -> None:
    short = data[data.lengths < 6]
    flags = np.zeros(len(short), bool)
    incomplete = replace(short, terminated=flags, truncated=flags)
    with pytest.raises(ove.InvalidInputError, match="complete episodes"):
        ove.evaluate(incomplete, candidate, gamma=GAMMA)


def other_actions() -> PPO:
    return PPO("MlpPolicy", "Acrobot-v1", device="cpu")


def other_observations() -> PPO:
    return PPO("MlpPolicy", "CartPole-v1", device="cpu")


@pytest.mark.parametrize(
    ("make", "message"), [(other_actions, "action space"), (other_observations, "observations")]
)
def test_a_candidate_with_other_spaces(data: ove.Trajectories, make: Any, message: str) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.evaluate(data, make(), gamma=GAMMA)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reward_range": (-1, 1)},
            r"must contain that of the log, got \(-1, 1\), but the log states .* from -1 to 2",
        ),
        ({"return_range": (0, 1)}, "`return_range` must contain all logged returns"),
        ({"reward_range": "data"}, "`reward_range` must be a pair of numbers or 'from_data'"),
        ({"reward_range": (2, -1)}, "low <= high"),
        (
            {"horizon": 5},
            r"`horizon` must be at least that of the log, got 5, but .* up to 6 steps",
        ),
        ({"reward_range": (-0.9, 3)}, "must contain that of the log"),
        ({"horizon": 0}, "`horizon` must be an integer"),
        ({"max_ratio": 1.01}, "`max_ratio` must be at least every ratio"),
        ({"max_ratio": 0.5}, "`max_ratio` must lie in"),
        ({"max_weight": 1.01}, "`max_weight` must be at least every product of ratios"),
        ({"gamma": 1.5}, "`gamma` must lie in"),
        ({"gamma": None}, "`gamma` must be a real number"),
        ({"delta": 0.0}, "`delta` must lie in"),
        ({"delta": 1}, "`delta` must lie in"),
        ({"simultaneous": 1}, "`simultaneous` must be True or False"),
        ({"deterministic": "yes"}, "`deterministic` must be True or False"),
        ({"rng": -1}, "`rng` must be an integer"),
        ({"n_jobs": 0}, "`n_jobs` must be an integer of at least 1"),
        ({"model_class": PPO}, "`model_class` must be None unless"),
        ({"quantities": []}, "`quantities` must name at least one quantity"),
        ({"quantities": "mean"}, "`quantities` must be a sequence"),
        ({"quantities": ["median of nothing"]}, "`quantity` must be one of .*'mean', .*'variance'"),
        ({"quantities": [3]}, "`quantity` must be a quantity such as"),
        ({"method": "luck"}, "`method` must be one of 'betting'"),
        ({"method": None}, "`method` must be a method such as"),
        ({"approximate": "luck"}, "`method` must be one of 'betting'"),
        ({"estimators": {"std": "pair"}}, "`estimators` must be a mapping from quantities"),
        ({"estimators": ["pair"]}, "`estimators` must be a mapping from quantities"),
        ({"estimators": {"variance": "luck"}}, "`estimator` must be one of"),
    ],
)
def test_options(
    data: ove.Trajectories, candidate: PPO, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.evaluate(data, candidate, **{"gamma": GAMMA, **options})


def test_a_range_from_the_data_is_approximate(data: ove.Trajectories, candidate: PPO) -> None:
    stated = ove.evaluate(data, candidate, gamma=GAMMA)
    result = ove.evaluate(data, candidate, gamma=GAMMA, reward_range="from_data")
    assert stated.guaranteed
    for one in result.quantities.values():
        assert not one.interval.guaranteed
        assert one.interval.reasons == (
            "the range of rewards was taken from the data instead of being stated",
        )
    assert any("range of rewards was taken from the data" in text for text in result.warnings)
    assert "95% betting, approximate" in str(result)


def test_unknown_limits_must_be_stated(data: ove.Trajectories, candidate: PPO) -> None:
    bare = replace(data, metadata=Metadata(), terminated=np.ones(len(data), dtype=bool))
    with pytest.raises(ove.InvalidInputError, match="not taken from the data"):
        ove.evaluate(bare, candidate, gamma=GAMMA)
    with pytest.raises(ove.InvalidInputError, match="`horizon` must be given when gamma = 1"):
        ove.evaluate(bare, candidate, gamma=1.0, reward_range=(-1, 2))
    assert ove.evaluate(bare, candidate, gamma=1.0, return_range=(-6, 12)).n_trajectories


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_episodes(data: ove.Trajectories, candidate: PPO, n: int) -> None:
    with pytest.raises(ove.InvalidInputError, match=f"at least 2 episodes, got {n}"):
        ove.evaluate(data[:n], candidate, gamma=GAMMA)


def test_logs_that_are_not_there(candidate: PPO, data: ove.Trajectories, tmp_path: Path) -> None:
    with pytest.raises(ove.StorageError, match="directory of logged episodes"):
        ove.evaluate(tmp_path / "nowhere", candidate, gamma=GAMMA)
    data[:2].save(tmp_path / "log")
    for file in (tmp_path / "log").glob("part-*"):
        file.unlink()
    with pytest.raises(ove.StorageError, match="lists it as a shard of 2 episodes"):
        ove.evaluate(tmp_path / "log", candidate, gamma=GAMMA)
    ove.EpisodeWriter(tmp_path / "empty", data.metadata)
    with pytest.raises(ove.EmptyLogError, match="at least one complete episode"):
        ove.evaluate(tmp_path / "empty", candidate, gamma=GAMMA)
    with pytest.raises(ove.InvalidInputError, match="`data` must be Trajectories, a log"):
        ove.evaluate([1, 2], candidate, gamma=GAMMA)  # type: ignore[arg-type]


def test_model_files(data: ove.Trajectories, candidate: PPO, tmp_path: Path) -> None:
    file = tmp_path / "model.zip"
    with pytest.raises(ove.InvalidInputError, match="does not exist"):
        ove.evaluate(data, file, gamma=GAMMA, model_class=PPO)
    candidate.save(file)
    with pytest.raises(ove.InvalidInputError, match="executes pickled code"):
        ove.evaluate(data, file, gamma=GAMMA)
    with pytest.raises(ove.InvalidInputError, match="`load` method"):
        ove.evaluate(data, file, gamma=GAMMA, model_class="PPO")
    file.write_bytes(b"not a zip file")
    with pytest.raises(ove.InvalidInputError, match="cannot be loaded as one"):
        ove.evaluate(data, file, gamma=GAMMA, model_class=A2C)


def test_candidates_that_make_no_sense(data: ove.Trajectories) -> None:
    log_probs = data.log_probs.copy()
    for bad, message in (
        (None, "must be a model, a policy"),
        (0.5, "must be a model, a policy"),
        (log_probs[:-1], r"shape \(\d+,\)"),
        (log_probs[:, None], "must be 1-dimensional"),
        (np.ma.masked_array(log_probs, log_probs < log_probs.mean()), "no masked entries"),
        (np.exp(log_probs), "If these are probabilities"),
        (np.where(np.arange(log_probs.size) == 4, np.nan, log_probs), "nan at step 4"),
        (["a"] * log_probs.size, "real numbers"),
        ([[1.0], [1.0, 2.0]], "must convert to an array"),
        ([True] * log_probs.size, "real numbers"),
    ):
        with pytest.raises(ove.InvalidInputError, match=message):
            ove.evaluate(data, bad, gamma=GAMMA)
    with pytest.raises(ove.UnsupportedPolicyError, match="known class"):
        ove.evaluate(data, object(), gamma=GAMMA)


@pytest.mark.parametrize(
    "option", [{"model_class": PPO}, {"vec_normalize": "stats.pkl"}, {"deterministic": True}]
)
def test_options_that_an_array_would_ignore(
    data: ove.Trajectories, candidate: PPO, option: dict[str, Any]
) -> None:
    (name,) = option
    message = f"`{name}` must be left out when"
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.evaluate(data, data.log_probs, gamma=GAMMA, **option)
    with pytest.raises(ove.InvalidInputError, match=message):
        ove.compare(data, {"a": data.log_probs, "b": list(data.log_probs)}, gamma=GAMMA, **option)
    if name == "model_class":
        with pytest.raises(ove.InvalidInputError, match="when no models are paths"):
            ove.compare(data, {"a": candidate}, gamma=GAMMA, model_class=PPO)
        with pytest.raises(ove.InvalidInputError, match=r"for models that are paths, got \['b"):
            ove.compare(data, {"a": candidate}, gamma=GAMMA, model_class={"b": PPO})


def test_a_larger_horizon_than_that_of_the_log_is_said(
    data: ove.Trajectories, candidate: PPO
) -> None:
    ended = replace(data, terminated=np.ones(len(data), bool))
    result = ove.evaluate(ended, candidate, gamma=GAMMA, horizon=9)
    assert any("horizon of 9 steps exceeds that of the log, 6" in text for text in result.warnings)
    assert result.guaranteed
    assert result.plan.assumptions.horizon == 9
    wider = ove.evaluate(ended, candidate, gamma=GAMMA)
    assert result["mean"].interval.a_priori[1] > wider["mean"].interval.a_priori[1]
    assert not any("exceeds that of the log" in text for text in wider.warnings)


def test_a_wider_reward_range_than_that_of_the_log_is_used(
    data: ove.Trajectories, candidate: PPO
) -> None:
    result = ove.evaluate(data, candidate, gamma=GAMMA, reward_range=(-1, 3))
    assert result.plan.assumptions.reward_range == (-1.0, 3.0)


def test_a_candidate_that_cannot_be_sent_to_a_process(data: ove.Trajectories) -> None:
    class Odd:
        observation_space = make_env().observation_space
        action_space = gym.spaces.Discrete(2)

        def __reduce__(self) -> Any:
            raise TypeError("cannot pickle it")

    ove.register_policy(Odd, lambda *a, **k: None)  # type: ignore[arg-type]
    with pytest.raises(ove.InvalidInputError, match="`n_jobs` must be 1"):
        ove.evaluate(data, Odd(), gamma=GAMMA, n_jobs=2)
