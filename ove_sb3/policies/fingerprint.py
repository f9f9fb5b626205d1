"""Fingerprints of policies: digests of everything that their action distributions depend on.

A policy is described by a sequence of byte strings, its parts. A part that cannot be described,
such as the code of a user's own module, is given as None.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatch
from typing import Any

import numpy as np
from gymnasium import spaces

Part = bytes | None


def digest(name: str, parts: Iterable[Part], *, complete: bool) -> str | None:
    """Digest of `parts`; None if `complete` is required and one of them is None."""
    sha = hashlib.sha256(name.encode())
    for part in parts:
        if part is not None:
            sha.update(len(part).to_bytes(8, "little"))
            sha.update(part)
        elif complete:
            return None
    return sha.hexdigest()


@singledispatch
def value_parts(value: Any) -> Iterator[Part]:
    """Parts of a setting: a plain value, an array, a space, or a collection of these."""
    del value
    yield None


@value_parts.register(bool)
@value_parts.register(int)
@value_parts.register(float)
@value_parts.register(complex)
@value_parts.register(str)
@value_parts.register(bytes)
@value_parts.register(type(None))
def plain_value_parts(value: Any) -> Iterator[Part]:
    """Parts of a value that its `repr` describes."""
    yield repr(value).encode()


@value_parts.register(np.ndarray)
@value_parts.register(np.generic)
def _array_parts(value: Any) -> Iterator[Part]:
    yield f"{value.shape} {value.dtype}".encode()
    yield None if value.dtype.hasobject else value.tobytes()


@value_parts.register(Mapping)
def _mapping_parts(value: Mapping[Any, Any]) -> Iterator[Part]:
    for key in sorted(value, key=repr):
        yield repr(key).encode()
        yield from value_parts(value[key])


@value_parts.register(list)
@value_parts.register(tuple)
def _sequence_parts(value: list[Any] | tuple[Any, ...]) -> Iterator[Part]:
    yield str(len(value)).encode()
    for entry in value:
        yield from value_parts(entry)


@value_parts.register(spaces.Space)
def space_parts(space: spaces.Space[Any]) -> Iterator[Part]:
    """Parts of a space, without its random generator."""
    yield type(space).__qualname__.encode()
    if isinstance(space, spaces.Box):
        yield from value_parts((space.low, space.high))
    elif isinstance(space, spaces.Dict):
        yield from value_parts(dict(space.spaces))
    elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        sizes = getattr(space, "nvec", getattr(space, "n", None))
        yield from value_parts((np.asarray(sizes), np.asarray(getattr(space, "start", 0))))
    else:
        yield None


def tensor_parts(module: Any) -> Iterator[Part]:
    """Parameters and buffers of a `torch.nn.Module`."""
    for part in module.modules():
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None:
                yield tensor_bytes(tensor)


def tensor_bytes(tensor: Any) -> bytes:
    """Content of a `torch.Tensor`."""
    values = tensor.detach().cpu()
    if str(values.dtype) == "torch.bfloat16":  # unknown to numpy
        import torch

        values = values.contiguous().flatten().view(torch.uint8)
    content: bytes = values.numpy().tobytes()
    return content
