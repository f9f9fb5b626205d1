"""Type aliases for arrays and random generators."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
KeyArray: TypeAlias = NDArray[np.uint64]
Rng: TypeAlias = "int | np.random.Generator | None"
