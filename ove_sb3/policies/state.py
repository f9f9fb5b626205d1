"""State of an object of any class, compared to tell whether a policy has changed.

It is what `pickle` stores, so that a class can leave a cache out with ``__getstate__``. Parts that
change while a policy acts, but do not decide how it acts, are left out: random generators,
optimizers, buffers of training. Of an environment only the statistics of observations count.
"""

from __future__ import annotations

import dis
import hashlib
import io
import logging
import pickle
import random
import sys
import threading
import types
import uuid
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .fingerprint import tensor_bytes
from .known_code import has_known_code, is_known_class
from .provenance import SELECTED_BY, TRAINED_ON

_PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.ndarray, list, tuple, dict, set)
_LEFT_OUT = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
    random.Random,
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
)
_POLICY = "ove_sb3.policies.policy.Policy"  # by name, because that module uses this one
# By name, because the libraries need not be loaded.
_KINDS = {
    "torch._C.Generator": "left out",
    "torch.optim.optimizer.Optimizer": "left out",
    "stable_baselines3.common.buffers.BaseBuffer": "left out",
    "stable_baselines3.common.logger.Logger": "left out",
    "stable_baselines3.common.vec_env.base_vec_env.VecEnv": "environment",
    "stable_baselines3.common.distributions.Distribution": "distribution",
    "sb3_contrib.common.maskable.distributions.MaskableDistribution": "distribution",
    "torch.Tensor": "tensor",
    "torch.jit._script.ScriptModule": "script",
    "torch.nn.modules.module.Module": "module",
}
_STATISTICS = ("obs_rms", "clip_obs", "epsilon", "norm_obs", "norm_obs_keys")
# Set by the last draw, see the distributions of stable-baselines3.
_DRAWN = {"distribution", "exploration_mat", "exploration_matrices", "gaussian_actions"}
_DRAWN |= {"distributions", "weights_dist", "_latent_sde"}
_PROVENANCE = {TRAINED_ON, SELECTED_BY}  # how a model came to be, not how it acts


def state_part(*objects: Any) -> bytes:
    """Digest that stays the same as long as `objects` do not change.

    A new one every time if they hold something that cannot be described, such as a connection: then
    nobody can tell whether they have changed.
    """
    sha = hashlib.sha256()
    try:
        _StatePickler(_Writer(sha), 5, buffer_callback=lambda part: sha.update(part.raw())).dump(
            objects
        )
    except Exception:  # code of the classes is run, which can raise anything
        return uuid.uuid4().bytes
    return sha.digest()


def class_state(cls: type) -> list[dict[str, Any]]:
    """Plain values among the attributes of a class and its bases."""
    return [_plain(vars(base)) for base in cls.__mro__[:-1]]


def function_state(function: Any) -> list[Any]:
    """A function with the variables of its closure, and the plain global ones that it uses."""
    if not isinstance(function, types.FunctionType):
        return [function]
    known = function.__globals__
    return [
        function,
        _plain({name: known[name] for name in _globals(function.__code__) & set(known)}),
    ]


@lru_cache(maxsize=256)
def _globals(code: types.CodeType) -> frozenset[str]:
    """Names of the global variables that a function reads."""
    steps = dis.get_instructions(code)
    return frozenset(step.argval for step in steps if step.opname == "LOAD_GLOBAL")


def _plain(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in variables.items()
        if isinstance(value, _PLAIN) and not name.startswith("__")
    }


class _Writer(io.RawIOBase):
    """File that keeps only the digest of what is written."""

    def __init__(self, sha: Any) -> None:
        self._sha = sha

    def write(self, content: Any) -> int:
        self._sha.update(content)
        return len(content)


def _stands_for(*description: Any) -> None:
    """Callable that stands for an object in the pickle; it is never called."""
    del description


class _StatePickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Description of an object that is not to be pickled as usual."""
        if isinstance(obj, (type, types.FunctionType)):
            return NotImplemented if _is_importable(obj) else _code(obj)
        if isinstance(obj, types.CodeType):
            return _stands_for, (obj.co_code, obj.co_names, obj.co_consts)
        if isinstance(obj, types.CellType):
            return _stands_for, (), _cell(obj)
        if isinstance(obj, types.ModuleType):
            return _stands_for, (obj.__name__,)
        name = type(obj).__qualname__
        kind = _kind(type(obj))  # type: ignore[arg-type]
        if kind == "policy":
            known = has_known_code(obj)
            return (_stands_for, (name, obj.state_digest())) if known else _own_policy(obj)
        if kind == "left out":
            return _stands_for, (name,)
        if kind == "tensor":
            return _stands_for, (str(obj.dtype), tuple(obj.shape), tensor_bytes(obj))
        if kind == "script":
            return _stands_for, (name, obj.save_to_buffer())
        if kind == "environment":
            return _stands_for, (name,), list(_statistics(obj))
        if kind == "distribution":
            return _stands_for, (name,), _without(vars(obj), _DRAWN)
        if kind == "space":
            return _stands_for, (name,), _without(vars(obj), {"_np_random"})
        # The mode of a module is set by `predict`.
        not_state = _PROVENANCE | ({"training"} if kind == "module" else set())
        if not_state.isdisjoint(getattr(obj, "__dict__", ())):
            return NotImplemented
        function, arguments, state, *items = obj.__reduce_ex__(5)
        return function, arguments, _without(state, not_state) or None, *items


def _own_policy(policy: Any) -> tuple[Any, ...]:
    """A policy that acts by code of a user: its state, and the plain values that the code reads."""
    reduced: Any = policy.__reduce_ex__(5)
    if isinstance(reduced, tuple) and len(reduced) > 2:
        left_out = _PROVENANCE | policy.not_state
        reduced = (*reduced[:2], _without(reduced[2], left_out), *reduced[3:])
    own = [cls for cls in type(policy).__mro__ if not is_known_class(cls)]
    values = (value for scope in (policy, *own) for value in vars(scope).values())
    functions = (getattr(value, "__func__", value) for value in values)
    code = [function_state(f) for f in functions if isinstance(f, types.FunctionType)]
    return _stands_for, (type(policy).__qualname__,), [reduced, class_state(type(policy)), code]


@lru_cache(maxsize=256)
def _kind(cls: type) -> str | None:
    """How an object of this class is described; None for the usual way."""
    if issubclass(cls, _LEFT_OUT):
        return "left out"
    if issubclass(cls, (gym.Env, gym.vector.VectorEnv)):
        return "environment"
    if issubclass(cls, spaces.Space):
        return "space"
    names = [f"{base.__module__}.{base.__qualname__}" for base in cls.__mro__]
    if _POLICY in names:
        return "policy"
    return next((_KINDS[name] for name in names if name in _KINDS), None)


def _is_importable(obj: Any) -> bool:
    """Whether its name says which class or function it is."""
    resolved: Any = sys.modules.get(obj.__module__)
    for name in obj.__qualname__.split("."):
        resolved = getattr(resolved, name, None)
    return resolved is obj


def _code(obj: Any) -> tuple[Any, ...]:
    """A function or class that was made at run time."""
    name = (obj.__module__, obj.__qualname__)
    if isinstance(obj, type):
        return _stands_for, (*name, id(obj))
    return _stands_for, name, [obj.__code__, obj.__defaults__, obj.__kwdefaults__, obj.__closure__]


def _cell(cell: Any) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not set yet
        return []


def _statistics(env: Any) -> Iterator[dict[str, Any]]:
    """Statistics by which an environment and those below it normalize observations."""
    while env is not None:
        own = getattr(env, "__dict__", {})
        yield {name: own[name] for name in _STATISTICS if name in own}
        env = own.get("env", own.get("venv"))


def _without(state: Any, names: AbstractSet[str]) -> Any:
    if not isinstance(state, dict):
        return state
    return {name: value for name, value in state.items() if name not in names}
