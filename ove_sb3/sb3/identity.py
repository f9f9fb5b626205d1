"""Everything a law depends on, as bytes: what tells two laws apart, and a changed one from itself.

Parts that cannot be told, such as the code of a module of one's own, are given as None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import BaseModel, BasePolicy
from stable_baselines3.common.vec_env import VecNormalize

Part = bytes | None
_LIBRARIES = ("torch.nn.modules.", "stable_baselines3.", "sb3_contrib.")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
# How a policy was built and is trained: what was built is seen in its modules.
_MAKING = {
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
}
_DRAWN = {"distribution", "exploration_mat", "exploration_matrices", "gaussian_actions"}


def digest(name: str, parts: Iterable[Part], *, whole: bool) -> str | None:
    """Digest of `parts`; with `whole`, None if one of them cannot be told."""
    found = hashlib.sha256(name.encode())
    for part in parts:
        if part is not None:
            found.update(len(part).to_bytes(8, "little"))
            found.update(part)
        elif whole:
            return None
    return found.hexdigest()


def of_structure(module: torch.nn.Module) -> Iterator[Part]:
    """Classes and settings of a network and of all its parts."""
    for name, part in module.named_modules():
        yield name.encode()
        yield from _of_class(part)
        if part._forward_hooks or part._forward_pre_hooks:
            yield None
        for key, value in sorted(vars(part).items()):
            making = key in _MAKING and isinstance(part, BaseModel)
            if key != "training" and not key.startswith("_") and not making:
                yield key.encode()
                yield from of_value(value)
        if isinstance(part, BasePolicy):
            yield from of_value(part.squash_output)
        for key, tensor in (*part._parameters.items(), *part._buffers.items()):
            kind = None if tensor is None else (tuple(tensor.shape), tensor.dtype)
            yield f"{key} {kind}".encode()


def of_tensors(module: torch.nn.Module) -> Iterator[Part]:
    """Weights and other tensors of a network."""
    for part in module.modules():
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None:
                yield _content(tensor)


def of_value(value: Any) -> Iterator[Part]:
    """A setting: plain values, arrays, spaces, distributions, and collections of these."""
    if isinstance(value, _PLAIN):
        yield repr(value).encode()
    elif isinstance(value, torch.Tensor):
        yield f"{tuple(value.shape)} {value.dtype}".encode()
        yield _content(value)
    elif isinstance(value, (np.ndarray, np.generic)):
        yield f"{value.shape} {value.dtype}".encode()
        yield None if value.dtype.hasobject else value.tobytes()
    elif isinstance(value, spaces.Space):
        yield from of_space(value)
    elif isinstance(value, torch.nn.Module):  # listed a second time, as critics are
        yield from _of_class(value)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            yield repr(key).encode()
            yield from of_value(value[key])
    elif isinstance(value, (list, tuple)):
        yield str(len(value)).encode()
        for entry in value:
            yield from of_value(entry)
    elif isinstance(value, Distribution):
        yield from _of_class(value)
        kept = {key: entry for key, entry in vars(value).items() if key not in _DRAWN}
        for key, entry in sorted(kept.items()):
            if not key.startswith("_") and key != "weights_dist":
                yield key.encode()
                yield from _of_class(entry) if key == "bijector" else of_value(entry)
    else:
        yield None


def of_space(space: spaces.Space[Any]) -> Iterator[Part]:
    """A space without its random generator."""
    yield type(space).__qualname__.encode()
    if isinstance(space, spaces.Box):
        yield from of_value((space.low, space.high))
    elif isinstance(space, spaces.Dict):
        yield from of_value(dict(space.spaces))
    elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        sizes = getattr(space, "nvec", getattr(space, "n", None))
        yield from of_value((np.asarray(sizes), np.asarray(getattr(space, "start", 0))))
    else:
        yield None


def of_normalizer(normalizer: VecNormalize | None) -> Iterator[Part]:
    """What a VecNormalize does to observations, with its statistics of this moment."""
    if normalizer is None or not normalizer.norm_obs:
        return
    if type(normalizer) is not VecNormalize:
        yield from _of_class(normalizer)
    statistics = normalizer.obs_rms
    named = statistics if isinstance(statistics, dict) else {"": statistics}
    for name, running in sorted(named.items()):
        yield from of_value((name, np.asarray(running.mean), np.asarray(running.var)))
    yield from of_value((normalizer.clip_obs, normalizer.epsilon, normalizer.norm_obs_keys))


def _content(tensor: torch.Tensor) -> bytes:
    values = tensor.detach().cpu()
    if values.dtype is torch.bfloat16:  # unknown to numpy
        values = values.contiguous().flatten().view(torch.uint8)
    return values.numpy().tobytes()


def _of_class(thing: Any) -> Iterator[Part]:
    """The class; its code is known only if it comes with a library whose version is fixed."""
    cls = type(thing)
    yield f"{cls.__module__}.{cls.__qualname__}".encode()
    if not (cls.__module__.startswith(_LIBRARIES) or thing is None):
        yield None
