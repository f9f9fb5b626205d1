"""pandas and Minari: round trips without loss."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import minari
import numpy as np
import pytest

import ove_sb3 as ove
from tests.policies.toys import make_model, toys

from .test_storage import same, some


def test_pandas() -> None:
    data = some(5, kind="dict")
    frame = data.to_pandas()
    assert len(frame) == data.n_steps
    assert frame.index.names == ["episode", "step"]
    np.testing.assert_array_equal(frame["reward"], data.rewards)
    np.testing.assert_array_equal(frame["action_1"], data.actions[:, 1])
    np.testing.assert_array_equal(frame["observation_k"], data.observations["k"])
    ends = frame.groupby("episode")["truncated"].last()
    np.testing.assert_array_equal(ends, data.truncated)
    assert frame["terminated"].sum() == data.terminated.sum()


LOSSLESS = "jpeg_encoding" in inspect.signature(minari.create_dataset_from_buffers).parameters


def test_a_minari_that_compresses_images_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minari, "create_dataset_from_buffers", lambda *_args: None)  # before 0.5.4
    data = ove.collect(
        ove.UniformPolicy(toys().action_space), toys(2, observations="image"), 2, seed=0
    )
    with pytest.raises(ove.InvalidInputError, match=r"before 0\.5\.4 compresses them"):
        ove.to_minari(data, "test/toy-v0")


class Camera(gym.Env[Any, Any]):
    """Random colors."""

    observation_space = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (32, 32, 3), np.uint8), {}

    def step(self, action: Any) -> Any:
        return self.np_random.integers(0, 256, (32, 32, 3), np.uint8), 0.0, True, False, {}


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("lossless", [True, False])
def test_observations_that_minari_compressed_are_refused(
    lossless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate has other probabilities on them than on what it would see."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = ove.collect(ove.UniformPolicy(Camera.action_space), Camera(), 3, seed=0)
    if not LOSSLESS:
        with pytest.raises(ove.InvalidInputError, match="with loss"):
            ove.to_minari(data, "test/camera-v0")
        return
    ove.to_minari(data, "test/camera-v0", jpeg_encoding=not lossless)
    if lossless:
        same(data, ove.from_minari("test/camera-v0"))
    else:
        with pytest.raises(ove.InvalidInputError, match="compressed with loss"):
            ove.from_minari("test/camera-v0")


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("kind", ["vector", "dict", *(["image"] if LOSSLESS else [])])
def test_minari(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    model: Any = ove.UniformPolicy(toys().action_space)
    if kind == "vector":
        model = make_model("MaskablePPO-discrete")
    data = ove.collect(model, toys(2, observations=kind, early=0.2), 6, seed=0)
    if kind == "dict":
        data = replace(data, columns={"a/b": data.rewards + 1, "c": np.zeros((data.n_steps, 2))})
    dataset = ove.to_minari(data, "test/toy-v0")
    assert dataset.total_steps == data.n_steps
    back = ove.from_minari("test/toy-v0")
    same(data, back)
    assert not back.metadata.adaptive
    assert back.metadata.action_space == data.metadata.action_space
    with pytest.raises(ove.InvalidInputError, match="final observations"):
        ove.to_minari(some(2, kind="scalar"), "test/none-v0")
    with pytest.raises(ove.InvalidInputError, match="spaces in the metadata"):
        ove.to_minari(some(2), "test/none-v0")


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
@pytest.mark.parametrize("overlaps", [None, [0, 1, 2, 0, 1, 3]])
def test_minari_keeps_that_the_behavior_learned(
    overlaps: list[int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = ove.collect(ove.UniformPolicy(toys().action_space), toys(early=0.2), 6, seed=0)
    learned = replace(
        data,
        metadata=replace(data.metadata, adaptive=True),
        overlaps=None if overlaps is None else np.array(overlaps),
    )
    ove.to_minari(learned, "test/toy-v0")
    back = ove.from_minari("test/toy-v0")
    assert back.metadata.adaptive
    assert (None if back.overlaps is None else back.overlaps.tolist()) == overlaps
    with pytest.raises(ove.InvalidInputError, match="order of logging, because the behavior"):
        ove.from_minari(minari.split_dataset(minari.load_dataset("test/toy-v0"), [6], seed=0)[0])


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_combined_datasets_have_lost_their_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    policy = ove.UniformPolicy(toys().action_space)
    for k in (1, 2):
        ove.to_minari(ove.collect(policy, toys(early=0.2), 3, seed=k), f"test/part{k}-v0")
    parts = [minari.load_dataset(f"test/part{k}-v0") for k in (1, 2)]
    combined = minari.combine_datasets(parts, "test/both-v0")
    with pytest.raises(ove.InvalidInputError, match="Minari drops them when it combines datasets"):
        ove.from_minari(combined)
    assert len(ove.Trajectories.concat([ove.from_minari(part) for part in parts])) == 6


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_minari_without_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = toys()
    buffer = EpisodeBuffer(
        observations=np.zeros((4, 3), np.float32),
        actions=np.zeros(3, np.int64),
        rewards=np.zeros(3),
        terminations=np.array([False, False, True]),
        truncations=np.zeros(3, bool),
        infos={},
    )
    minari.create_dataset_from_buffers(
        "test/bare-v0",
        [buffer],
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    with pytest.raises(ove.InvalidInputError, match="got the name 'log_prob' and an info with"):
        ove.from_minari("test/bare-v0")
