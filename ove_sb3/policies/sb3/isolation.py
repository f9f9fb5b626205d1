"""Evaluating a model without any effect on its training."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


@contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Restore, on leaving, every source of randomness and the train or eval mode of `model`.

    Restored are the global generators of Python, numpy and torch (all CUDA devices in use
    included), the generators of the action spaces, and the mode of every module of the policy.
    Training continues as if nothing had happened in between.
    """
    spaces = _action_spaces(model)
    generators = [space._np_random for space in spaces]
    states = [
        None if generator is None else generator.bit_generator.state for generator in generators
    ]
    policy = getattr(model, "policy", None)
    modules = list(policy.modules()) if isinstance(policy, torch.nn.Module) else []
    modes = [module.training for module in modules]
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        for space, generator, state in zip(spaces, generators, states, strict=True):
            space._np_random = generator
            if generator is not None:
                generator.bit_generator.state = state
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _action_spaces(model: Any) -> list[Any]:
    """The model's action space and its environment's, which are often one object."""
    env = model.get_env() if hasattr(model, "get_env") else None
    action_spaces = [getattr(owner, "action_space", None) for owner in (model, env)]
    return list({id(space): space for space in action_spaces if space is not None}.values())
