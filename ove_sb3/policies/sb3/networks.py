"""Forward passes through the acting networks of SB3 policies, without side effects."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from ove_sb3.errors import PLACE, InvalidInputError
from ove_sb3.policies.observations import Observation

_NARROW = 0.02  # standard deviation, in units of the mean or 1


class ObservationReader:
    """Turns observations, as the environment returns them, into features of an SB3 policy.

    Parameters
    ----------
    policy : BasePolicy
    network : torch.nn.Module
        The acting part of the policy, which holds the features extractor.
    extractor : str
        Name of the features extractor in it.
    normalizer : VecNormalize, optional
        Applied first, with its statistics at the time of the call.
    """

    def __init__(
        self, policy: BasePolicy, network: Any, extractor: str, normalizer: VecNormalize | None
    ) -> None:
        _check_normalizer(normalizer)
        self.policy, self.network, self.normalizer = policy, network, normalizer
        self.space = policy.observation_space
        self._extractor = extractor
        self._parameter = next(iter(policy.parameters()), None)
        self._vectors = isinstance(self.space, spaces.Box) and not is_image_space(self.space)

    @property
    def plain(self) -> bool:
        """Whether the features are the flattened observations."""
        if not self._vectors:
            return False
        extractor = self.network._modules[self._extractor]
        return is_untouched(extractor, FlattenExtractor) and is_untouched(
            extractor._modules["flatten"], torch.nn.Flatten
        )

    def features(self, observations: Observation) -> torch.Tensor:
        """Features of a batch, (n, features_dim). Call within `evaluation_mode`."""
        observations = _writable(self._normalized(observations))
        if self.plain:  # equal to the general case below, and faster
            flat = self._flat(observations)
            return torch.as_tensor(flat, device=getattr(self._parameter, "device", None))
        tensors, _ = self.policy.obs_to_tensor(observations)  # type: ignore[arg-type]
        normalize = self.network.normalize_images
        tensors = preprocess_obs(tensors, self.space, normalize_images=normalize)
        features: torch.Tensor = getattr(self.network, self._extractor)(tensors)
        return features

    def flat_features(self, observations: Observation) -> NDArray[np.float32]:
        """Features of plain vectors as an array, (n, features_dim)."""
        return self._flat(self._normalized(observations))

    def _normalized(self, observations: Observation) -> Observation:
        if self.normalizer is None:
            return observations
        return self.normalizer.normalize_obs(observations)  # type: ignore[arg-type]

    def _flat(self, observations: Observation) -> NDArray[np.float32]:
        return np.asarray(observations, dtype=np.float32).reshape(len(observations), -1)


def _check_normalizer(normalizer: VecNormalize | None) -> None:
    """Refuse a VecNormalize around another one that normalizes observations, too."""
    inner = None if normalizer is None else normalizer.venv
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, VecNormalize) and inner.norm_obs:
            raise InvalidInputError(
                "`vec_normalize`, or the model's own VecNormalize, must be the only one that "
                "normalizes observations, got one around another VecNormalize with norm_obs=True: "
                "probabilities are computed from observations that one has normalized. Train "
                "again, and use one VecNormalize, with norm_obs and norm_reward."
            )
        inner = inner.venv


class PlainMlp:
    """A stack of Linear, Tanh and ReLU layers, evaluated without the overhead of `torch.nn`.

    Small batches are evaluated by numpy, because the overhead of torch is several times the
    arithmetic; large ones by the matrix products of torch, with activations in place. Nothing is
    cached between calls: the weights are read where torch holds them.
    """

    small_batch = 32

    def __init__(self, layers: list[torch.nn.Module]) -> None:
        self._layers = layers

    @classmethod
    def of(cls, *modules: torch.nn.Module) -> PlainMlp | None:
        """Stack of these modules, or None if one of them is anything else."""
        layers: list[Any] = []
        for module in modules:
            if is_untouched(module, torch.nn.Sequential):
                layers.extend(module._modules.values())
            else:
                layers.append(module)
        if not layers or type(layers[0]) is not torch.nn.Linear or _hooked_everywhere():
            return None
        for layer in layers:
            if not is_untouched(layer, torch.nn.Linear, torch.nn.Tanh, torch.nn.ReLU):
                return None
            for tensor in layer._parameters.values():
                if tensor is None or tensor.dtype is not torch.float32 or not tensor.is_cpu:
                    return None
        return cls(layers)

    def __call__(self, x: NDArray[np.float32]) -> NDArray[Any]:
        """Outputs of the stack for a batch, (n, outputs)."""
        return self._by_numpy(x) if len(x) <= self.small_batch else self._by_torch(x)

    def _by_torch(self, x: NDArray[np.float32]) -> NDArray[Any]:
        with torch.no_grad():
            values = torch.as_tensor(np.require(x, requirements="W"))
            for layer in self._layers:
                if isinstance(layer, torch.nn.Linear):  # gives a tensor of its own
                    values = torch.nn.functional.linear(values, layer.weight, layer.bias)
                elif isinstance(layer, torch.nn.Tanh):
                    np.tanh(values.numpy(), out=values.numpy())  # faster than that of torch
                else:
                    values.relu_()
            return values.numpy()

    def _by_numpy(self, x: NDArray[np.float32]) -> NDArray[Any]:
        for layer in self._layers:
            if isinstance(layer, torch.nn.Linear):
                weight, bias = layer._parameters["weight"], layer._parameters["bias"]
                x = x @ weight.detach().numpy().T + bias.detach().numpy()  # type: ignore[union-attr]
            else:
                x = np.tanh(x) if isinstance(layer, torch.nn.Tanh) else np.maximum(x, 0.0)
        return x


def is_untouched(module: Any, *kinds: type) -> bool:
    """Whether `module` is exactly of one of these classes, without hooks or an own `forward`."""
    return (
        type(module) in kinds
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and "forward" not in module.__dict__
    )


def _hooked_everywhere() -> bool:
    torch_modules: Any = torch.nn.modules.module
    return bool(torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks)


def refuse_nan(output: NDArray[Any], observations: Observation) -> None:
    """Refuse NaN in the outputs of a network, (n, outputs), and name its source."""
    if not np.isnan(output).any():
        return
    entries = observations.values() if isinstance(observations, Mapping) else [observations]
    bad = np.zeros(len(output), dtype=np.bool_)
    for entry in map(np.asarray, entries):
        if entry.dtype.kind == "f":
            bad |= np.isnan(entry).reshape(len(entry), -1).any(axis=1)
    if bad.any():
        message = (
            f"`observations` must hold no NaN, got some at {PLACE} ({int(bad.sum())} of "
            f"{bad.size} rows). Repair the environment or the log."
        )
    else:
        bad = np.isnan(output).reshape(len(output), -1).any(axis=1)
        message = (
            f"`model` must return numbers, but its network gives NaN at {PLACE} for an observation "
            "without NaN. Training has diverged, or an observation is infinite?"
        )
    raise InvalidInputError(message, row=int(np.flatnonzero(bad)[0]))


def _writable(observations: Observation) -> Observation:
    """Copy of read-only arrays, which torch does not support; logs are read-only."""
    if isinstance(observations, Mapping):
        return {key: np.require(array, requirements="W") for key, array in observations.items()}
    return np.require(observations, requirements="W")


@contextmanager
def evaluation_mode(network: torch.nn.Module) -> Iterator[None]:
    """Disable gradients and training mode, as `predict` does; the modes are restored."""
    in_training = [module for module in network.modules() if module.training]
    for module in in_training:
        module.__dict__["training"] = False  # a plain flag; torch's own setter is slow
    try:
        with torch.no_grad():
            yield
    finally:
        for module in in_training:
            module.__dict__["training"] = True


def is_narrow(mean: NDArray[np.float64], std: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether rounding errors of a network in single precision matter for Gaussians, (n, d)."""
    return np.asarray(std < _NARROW * np.maximum(1.0, np.abs(mean)))


def double_copy(module: torch.nn.Module) -> Any:
    """Copy of a module in double precision, whose outputs hardly depend on the batch size."""
    return copy.deepcopy(module).double()


def to_float64(tensor: torch.Tensor) -> NDArray[np.float64]:
    """Tensor as a new float64 array."""
    return tensor.detach().cpu().numpy().astype(np.float64)
