"""Fingerprints of networks and normalizers of stable-baselines3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import BaseModel, BasePolicy
from stable_baselines3.common.vec_env import VecNormalize

from ove_sb3.policies.fingerprint import Part, plain_value_parts, tensor_bytes, value_parts
from ove_sb3.policies.provenance import SELECTED_BY, TRAINED_ON
from ove_sb3.policies.state import state_part

_LIBRARIES = ("torch.nn.modules.", "stable_baselines3.", "sb3_contrib.")
# Arguments of the constructor and of training: the result is seen in the modules.
_CONSTRUCTION = {
    "activation_fn",
    "actor_kwargs",
    "critic_kwargs",
    "features_extractor_class",
    "features_extractor_kwargs",
    "lr_schedule",
    "lstm_kwargs",
    "net_args",
    "optimizer",
    "optimizer_class",
    "optimizer_kwargs",
    "dist_kwargs",
    # How it came to be, not how it acts.
    TRAINED_ON,
    SELECTED_BY,
}
_CONTENT = {*vars(torch.nn.Module()), *_CONSTRUCTION}  # tensors, submodules and hooks: see there
_SAMPLED = {"distribution", "exploration_mat", "exploration_matrices", "gaussian_actions"}

value_parts.register(torch.dtype, plain_value_parts)
value_parts.register(torch.device, plain_value_parts)


def structure_parts(module: torch.nn.Module) -> Iterator[Part]:
    """Classes and settings of a network and its submodules."""
    for name, part in module.named_modules():
        yield name.encode()
        yield from _class_parts(part)
        if part._forward_hooks or part._forward_pre_hooks:
            yield None
        for key, value in sorted(vars(part).items()):
            construction = key in _CONSTRUCTION and isinstance(part, BaseModel)
            if key != "training" and not key.startswith("_") and not construction:
                yield key.encode()
                yield from value_parts(value)
        if isinstance(part, BasePolicy):
            yield from value_parts(part.squash_output)
        for key, tensor in (*part._parameters.items(), *part._buffers.items()):
            kind = None if tensor is None else (tuple(tensor.shape), tensor.dtype)
            yield f"{key} {kind}".encode()


def settings_parts(module: torch.nn.Module) -> Iterator[Part]:
    """Settings of a network and its submodules that may change while it acts, besides tensors."""
    for part in module.modules():
        own = vars(part)
        yield repr((type(part).__qualname__, _plain_values(own))).encode()
        if isinstance(dist := own.get("action_dist"), Distribution):
            yield repr((type(dist).__qualname__, _plain_values(vars(dist)))).encode()
        if part._forward_hooks or part._forward_pre_hooks:
            yield state_part(part._forward_hooks, part._forward_pre_hooks)
        if not type(part).__module__.startswith(_LIBRARIES):
            state: Any = part.__reduce_ex__(4)[2]
            yield state_part({key: state[key] for key in state if key not in _CONTENT})
        elif "forward" in own or "forward_actor" in own:
            yield state_part(own.get("forward"), own.get("forward_actor"))


def _plain_values(variables: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (key, value)
        for key, value in variables.items()
        if isinstance(value, (bool, int, float, str)) and key != "training"
    ]


def normalizer_parts(normalizer: VecNormalize | None) -> Iterator[Part]:
    """Current statistics and settings of the normalization of observations."""
    if normalizer is None or not normalizer.norm_obs:
        return
    if type(normalizer) is not VecNormalize:
        yield from _class_parts(normalizer)
    statistics = normalizer.obs_rms
    named = statistics if isinstance(statistics, dict) else {"": statistics}
    for name, running in sorted(named.items()):
        yield from value_parts((name, np.asarray(running.mean), np.asarray(running.var)))
    yield from value_parts((normalizer.clip_obs, normalizer.epsilon, normalizer.norm_obs_keys))


@value_parts.register(torch.Tensor)
def _tensor_value_parts(value: torch.Tensor) -> Iterator[Part]:
    yield f"{tuple(value.shape)} {value.dtype}".encode()
    yield tensor_bytes(value)


@value_parts.register(torch.nn.Module)
def _class_parts(value: Any) -> Iterator[Part]:
    """Class of `value`; its code is known only if it belongs to a library of a fixed version."""
    # All that a module among the settings needs: its content is listed with the submodules.
    cls = type(value)
    yield f"{cls.__module__}.{cls.__qualname__}".encode()
    if not (cls.__module__.startswith(_LIBRARIES) or value is None):
        yield None


@value_parts.register(Distribution)
def _distribution_parts(value: Distribution) -> Iterator[Part]:
    yield from _class_parts(value)
    kept = {key: entry for key, entry in vars(value).items() if key not in _SAMPLED}
    for key, entry in sorted(kept.items()):
        if not key.startswith("_") and key != "weights_dist":
            yield key.encode()
            yield from _class_parts(entry) if key == "bijector" else value_parts(entry)
