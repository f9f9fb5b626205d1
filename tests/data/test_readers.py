"""Logs from a rollout buffer, from imitation, and from Minari datasets of other origin."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

import ove_sb3 as ove
from tests.policies.toys import CASES, HORIZON, make_model, toys

# --- RolloutBuffer


class Reading(BaseCallback):
    """Reads the buffer before training has changed it."""

    data: ove.Trajectories

    def _on_rollout_end(self) -> None:
        self.data = ove.from_rollout_buffer(self.model.rollout_buffer, horizon=HORIZON)  # type: ignore[attr-defined]

    def _on_step(self) -> bool:
        return True


def rollout(case: str, rollouts: int = 1) -> tuple[Any, Any, Any]:
    """A model, the log of its training by a wrapper, and that of the last buffer."""
    _, space, observations, _ = CASES[case]
    venv = ove.VecLogActionProbability(
        toys(3, actions=space, observations=observations, early=0.15)
    )
    model = make_model(case, venv=venv)
    venv.set_model(model)
    reading = Reading()
    model.learn(rollouts * model.n_steps * 3, callback=reading)
    return model, venv.trajectories(), reading.data


@pytest.mark.parametrize(
    "case", ["PPO-discrete", "PPO-multidiscrete", "A2C-multibinary", "PPO-dict"]
)
def test_a_buffer_is_what_the_wrapper_logged(case: str) -> None:
    model, logged, data = rollout(case)
    after = ove.from_rollout_buffer(model.rollout_buffer, horizon=HORIZON)  # flattened by training
    keys: list[tuple[float, ...]] = []
    for episode in logged:
        keys.append((float(episode.rewards.sum()), *episode.log_probs.round(4)))
    for read in (data, after):
        assert read.metadata.adaptive
        assert (read.lengths < HORIZON).all()
        at = -1
        for episode in read:
            key = (float(episode.rewards.sum()), *episode.log_probs.round(4))
            at = keys.index(key, at + 1)  # in the same order
            same = logged[at]
            np.testing.assert_array_equal(episode.actions, same.actions)
            np.testing.assert_allclose(episode.rewards, same.rewards, rtol=1e-6)
            ours, theirs = episode.observations, same.observations
            for key_ in ours if isinstance(ours, dict) else [None]:
                a, b = (ours, theirs) if key_ is None else (ours[key_], theirs[key_])
                np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(read.lengths, data.lengths)
        (record,) = read.metadata.begun.values()
        starts = int(model.rollout_buffer.episode_starts.sum())
        assert (record.begun, record.ended, record.n_envs) == (starts, len(read), 3)
        # Episodes that reached the time limit, and those without their end, are left out.
        full = int((logged.lengths == HORIZON).sum())
        assert len(logged) - full - 3 <= len(read) <= len(logged) - full


def test_episodes_of_an_earlier_rollout_are_left_out() -> None:
    model, _, data = rollout("PPO-discrete", rollouts=2)
    buffer = model.rollout_buffer
    assert not buffer.episode_starts[0].all()
    (record,) = data.metadata.begun.values()
    assert record.begun == int(buffer.episode_starts.sum())
    assert record.planned_steps is None
    candidate = make_model("PPO-discrete", seed=1)
    result = ove.evaluate(data, candidate, gamma=0.9, reward_range=(0, 3), horizon=HORIZON)
    assert any(
        "never ended" in text or "unfinished" in text for text in str(result).splitlines()
    ) or (data.metadata.incomplete_fraction > 0)


def test_other_buffers_are_refused() -> None:
    box = make_model("PPO-box")
    box.learn(box.n_steps)
    with pytest.raises(ove.InvalidInputError, match="discrete actions, got a Box"):
        ove.from_rollout_buffer(box.rollout_buffer, horizon=HORIZON)
    recurrent = make_model("RecurrentPPO-discrete")
    recurrent.learn(recurrent.n_steps)
    with pytest.raises(ove.InvalidInputError, match="recurrent policy"):
        ove.from_rollout_buffer(recurrent.rollout_buffer, horizon=HORIZON)
    with pytest.raises(ove.InvalidInputError, match=r"such as model\.rollout_buffer"):
        ove.from_rollout_buffer(make_model("DQN-discrete").replay_buffer, horizon=HORIZON)
    fresh = make_model("PPO-discrete")
    with pytest.raises(ove.InvalidInputError, match="at least one complete episode"):
        ove.from_rollout_buffer(fresh.rollout_buffer, horizon=HORIZON)


# --- imitation


@dataclass(frozen=True)
class TrajectoryWithRew:
    """The documented fields of imitation.data.types.TrajectoryWithRew."""

    obs: Any
    acts: NDArray[Any]
    infos: NDArray[Any] | None
    terminal: bool
    rews: NDArray[Any]


def trajectories(data: ove.Trajectories, kind: Any = TrajectoryWithRew) -> list[Any]:
    found = []
    for episode in data:
        assert episode.final_observations is not None
        infos = [{"policy": {"logp": p}, "cost": 2 * r} for p, r in zip(
            episode.log_probs, episode.rewards, strict=True)]  # fmt: skip
        if episode.truncated[0]:
            infos[-1]["TimeLimit.truncated"] = True
        found.append(
            kind(
                obs=np.concatenate([episode.observations, episode.final_observations]),
                acts=episode.actions,
                infos=np.array(infos),
                terminal=True,
                rews=episode.rewards,
            )
        )
    return found


def collected() -> ove.Trajectories:
    return ove.collect(ove.UniformPolicy(spaces.Discrete(4)), toys(early=0.15), 20, seed=0)


def check_same(back: ove.Trajectories, data: ove.Trajectories) -> None:
    for name in ("observations", "actions", "rewards", "lengths", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(back, name), getattr(data, name))
    np.testing.assert_allclose(back.log_probs, data.log_probs, rtol=1e-12)
    np.testing.assert_array_equal(back.columns["cost"], 2 * data.rewards)


def test_trajectories_of_imitation() -> None:
    data = collected()
    assert data.truncated.any()
    names = {"log_prob": "policy/logp", "cost": "cost"}
    theirs = trajectories(data)
    back = ove.from_imitation(theirs, infos=names, metadata={"horizon": HORIZON})
    check_same(back, data)
    assert back.metadata.horizon == HORIZON
    np.testing.assert_array_equal(back.final_observations, data.final_observations)
    as_dict = {
        "a": np.zeros((3, 2)),
        "b": np.arange(3),
    }
    some = TrajectoryWithRew(
        as_dict, np.array([0, 1]), np.array([{"p": 0.5}] * 2), False, np.ones(2)
    )
    found = ove.from_imitation([some], infos={"propensity": "p"})
    np.testing.assert_allclose(found.log_probs, np.log(0.5))
    assert not found.terminated[0]
    with pytest.raises(ove.InvalidInputError, match="complete episodes"):
        ove.evaluate(found, [0.0, 0.0], gamma=0.9, reward_range=(0, 1))


def test_bad_trajectories_of_imitation_are_refused() -> None:
    theirs = trajectories(collected())
    with pytest.raises(
        ove.InvalidInputError, match="got the name 'log_prob' and an info with"
    ) as refused:
        ove.from_imitation(theirs)
    assert (refused.value.episode, refused.value.step) == (0, 0)
    bare = TrajectoryWithRew(theirs[1].obs, theirs[1].acts, None, True, theirs[1].rews)
    with pytest.raises(ove.InvalidInputError, match="for each of") as refused:
        ove.from_imitation([theirs[0], bare], infos={"log_prob": "policy/logp"})
    assert refused.value.episode == 1
    with pytest.raises(ove.InvalidInputError, match="one of the two"):
        ove.from_imitation(theirs, infos={"cost": "cost"})
    with pytest.raises(ove.InvalidInputError, match="a dict of names"):
        ove.from_imitation(theirs, infos=["log_prob"])  # type: ignore[arg-type]
    with pytest.raises(ove.InvalidInputError, match="without rews"):
        ove.from_imitation([object.__new__(type("T", (), {"obs": 0, "acts": 0}))])
    with pytest.raises(ove.InvalidInputError, match="at least one trajectory"):
        ove.from_imitation([])
    wrong = TrajectoryWithRew(
        theirs[0].obs, theirs[0].acts, np.array([{"p": 0.0}] * len(theirs[0].acts)), True,
        theirs[0].rews,
    )  # fmt: skip
    with pytest.raises(ove.InvalidInputError, match=r"positive propensities, got 0\.0"):
        ove.from_imitation([wrong], infos={"propensity": "p"})


@pytest.mark.slow
def test_the_real_class_of_imitation(tmp_path: Path) -> None:
    """Without its requirements, which select an old gymnasium."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--target", tmp_path, "imitation==1.0.1"], check=True)
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from imitation.data.types import TrajectoryWithRew\n"
        "from tests.data.test_readers import *\n"
        "data = collected()\n"
        "theirs = trajectories(data, TrajectoryWithRew)\n"
        "names = {'log_prob': 'policy/logp', 'cost': 'cost'}\n"
        "check_same(ove.from_imitation(theirs, infos=names), data)\n"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


# --- Minari


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("reset_info", [True, False, None])
def test_minari_datasets_of_other_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reset_info: bool | None
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = collected()
    buffers = []
    for episode in data:
        n = episode.n_steps
        values = {"p": np.exp(episode.log_probs), "price": 2 * episode.rewards}
        pad = np.full(1, 0.5)
        if reset_info is not None:
            values = {
                name: np.concatenate([pad, x] if reset_info else [x, pad])
                for name, x in values.items()
            }
        ends = np.arange(n) == n - 1
        buffers.append(
            EpisodeBuffer(
                observations=np.concatenate([episode.observations, episode.final_observations]),
                actions=np.array(episode.actions),
                rewards=np.array(episode.rewards),
                terminations=ends & episode.terminated[0],
                truncations=ends & episode.truncated[0],
                infos={"policy": {"p": values["p"]}, "price": values["price"]},
            )
        )
    env = toys()
    minari.create_dataset_from_buffers(
        "test/other-v0",
        buffers,
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    names = {"propensity": "policy/p", "cost": "price"}
    back = ove.from_minari("test/other-v0", infos=names, reset_info=reset_info)
    check_same(back, data)
    if reset_info is not None:
        with pytest.raises(ove.InvalidInputError, match="`reset_info` must be given"):
            ove.from_minari("test/other-v0", infos=names)
    with pytest.raises(ove.InvalidInputError, match="got the name 'log_prob' and an info with"):
        ove.from_minari("test/other-v0")


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_names_are_for_datasets_of_other_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    dataset = ove.to_minari(collected(), "test/own-v0")
    with pytest.raises(ove.InvalidInputError, match="must be left out for a dataset that to_min"):
        ove.from_minari(dataset, infos={"log_prob": "x"})
