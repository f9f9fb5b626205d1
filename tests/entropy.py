"""Reproducible random numbers: generators without a seed are seeded by the name of the test."""

from __future__ import annotations

import random
import sys
import zlib

import numpy as np
import numpy.random.bit_generator as numpy_seeds


def seed_everything(name: str) -> None:
    """Seed all global generators by `name`, and the generators made without a seed from now on.

    NumPy asks ``randbits`` for the seed of a generator made without one. Each call gets another
    number, so that two such generators still differ.
    """
    stream = random.Random(name)
    numpy_seeds.randbits = stream.getrandbits  # type: ignore[attr-defined]
    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, stable-baselines3 and many environments use it
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
