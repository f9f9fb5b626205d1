"""Forward passes through the acting part of SB3 policies: nothing sampled, nothing left changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import (
    is_image_space,
    is_image_space_channels_first,
    preprocess_obs,
)
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import VecNormalize

from ..core.errors import InvalidInputError

Observation = NDArray[Any] | Mapping[str, NDArray[Any]]


class ObservationReader:
    """Turns observations, as the environment gives them, into features of an SB3 policy.

    Parameters
    ----------
    policy : BasePolicy
    extractor : torch.nn.Module
        The features extractor of the acting network.
    normalizer : VecNormalize, optional
        Its statistics, as they are at the time of the call, are applied first.
    """

    def __init__(
        self, policy: BasePolicy, extractor: torch.nn.Module, normalizer: VecNormalize | None
    ) -> None:
        self.policy, self.extractor, self.normalizer = policy, extractor, normalizer
        self.space = policy.observation_space
        self._plain = (
            isinstance(self.space, spaces.Box)
            and not is_image_space(self.space)
            and type(extractor) is FlattenExtractor
        )

    def features(self, observations: Observation) -> torch.Tensor:
        """Features of a batch, (n, features_dim). Call within `evaluation_mode`."""
        if self.normalizer is not None:
            observations = self.normalizer.normalize_obs(observations)  # type: ignore[arg-type]
        observations = _writable(observations)
        device = self.policy.device
        if self._plain:  # the general way below, without its detours
            flat = np.asarray(observations, dtype=np.float32).reshape(len(observations), -1)
            return torch.as_tensor(flat, device=device)
        tensors, _ = self.policy.obs_to_tensor(observations)  # type: ignore[arg-type]
        normalize = self.policy.normalize_images
        tensors = preprocess_obs(tensors, self.space, normalize_images=normalize)
        features: torch.Tensor = self.extractor(tensors)
        return features

    def check(self, observations: Observation) -> tuple[Observation, int]:
        """`observations` with their batch dimension, and their number."""
        return check_observations(observations, self.space)


def check_observations(
    observations: Observation, space: spaces.Space[Any]
) -> tuple[Observation, int]:
    """Check a batch, or one observation, against `space`; return the batch and its size."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observations, Mapping) or set(observations) != set(space.spaces):
            got = sorted(observations) if isinstance(observations, Mapping) else type(observations)
            raise InvalidInputError(
                f"`observations` must be a dict with the entries {sorted(space.spaces)}, got "
                f"{got}. The policy and the log belong to different environments?"
            )
        parts = {key: check_observations(observations[key], space[key]) for key in space.spaces}
        sizes = {n for _, n in parts.values()}
        if len(sizes) != 1:
            raise InvalidInputError(
                f"`observations` must have as many rows in every entry, got {sorted(sizes)}."
            )
        return {key: rows for key, (rows, _) in parts.items()}, sizes.pop()
    array = np.asarray(observations)
    shapes = [tuple(space.shape or ())]
    if is_image_space(space):
        height_first = shapes[0]
        channels_first = is_image_space_channels_first(space)  # type: ignore[arg-type]
        moved = height_first[1:] + height_first[:1]
        shapes.append(moved if channels_first else height_first[-1:] + height_first[:-1])
    for shape in shapes:
        if array.shape[1:] == shape and array.ndim == len(shape) + 1:
            return array, len(array)
        if array.shape == shape:
            return array[None], 1
    raise InvalidInputError(
        f"`observations` must be a batch of {space}, (n, {', '.join(map(str, shapes[0]))}), got "
        f"shape {array.shape}. The policy and the log belong to different environments?"
    )


def _writable(observations: Observation) -> Observation:
    """Logs are read-only, which torch does not support: a copy of the batch then."""
    if isinstance(observations, Mapping):
        return {key: np.require(array, requirements="W") for key, array in observations.items()}
    return np.require(observations, requirements="W")


@contextmanager
def evaluation_mode(modules: list[torch.nn.Module]) -> Iterator[None]:
    """Without gradients and in evaluation mode, as `predict` acts; the modes are restored."""
    in_training = [module for module in modules if module.training]
    for module in in_training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in in_training:
            module.training = True


def to_float64(tensor: torch.Tensor) -> NDArray[np.float64]:
    """Tensor as a float64 array of its own."""
    return tensor.detach().cpu().numpy().astype(np.float64)
