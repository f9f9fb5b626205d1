"""Sequential test of whether executed actions were drawn, or are always the most probable ones.

If every action is drawn with its logged probability, it is the most probable one (the mode) with
probability p_t given the past. Betting that it is so more often, namely with probability
p_t + c (1 - p_t), multiplies the capital by 1 + c (1 - p_t) / p_t or by 1 - c, and the capital is a
nonnegative martingale. So are mixtures over c and over the step at which betting begins. By
Ville's inequality the capital ever reaches 1 / error with probability at most `error`, however
long the log: saturated policies, which take their mode nearly always, give no false alarm.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ove_sb3._validation import FloatArray

_ERROR = 1e-6
_SHARES = np.array([0.1, 0.5, 0.9, 0.999])  # c: share of the steps that are deterministic
_SMALLEST = -30.0  # log-probability; below it, one step is as good as certain
_ROUNDING = 1e-6  # of probabilities in single precision


class ModeTest:
    """Test of the hypothesis that executed actions are drawn with their logged probabilities.

    Attributes
    ----------
    rejected : bool
        Whether the hypothesis is rejected, with an error probability of 1e-6; stays True.
    """

    def __init__(self) -> None:
        self.rejected = False
        self._capital = np.zeros(_SHARES.size)
        self._n_steps = 0

    def add(self, hits: NDArray[np.bool_], log_p: FloatArray, *, dependent: bool = False) -> bool:
        """Add a step of n environments; return whether the hypothesis is rejected.

        Parameters
        ----------
        hits : ndarray of bool, (n,)
            Whether the action is the mode.
        log_p : ndarray, (n,)
            Log-probability of that, given the past.
        dependent : bool
            Whether the environments share their randomness.
        """
        p = np.minimum(np.exp(np.maximum(log_p, _SMALLEST)) + _ROUNDING, 1.0)
        gains = 1.0 + _SHARES[:, None] * np.where(hits, (1.0 - p) / p, -1.0)
        # The product of dependent factors has an unknown mean, their mean has not.
        gain = gains.mean(axis=1) if dependent else np.minimum(gains.prod(axis=1), 1e100)
        begin = _tail(self._n_steps) - _tail(self._n_steps + 1)
        self._n_steps += 1
        self._capital = np.minimum((self._capital + begin) * gain, 1e100)
        if self._capital.mean() + _tail(self._n_steps) >= 1.0 / _ERROR:
            self.rejected = True
        return self.rejected


def _tail(n_steps: int) -> float:
    """Capital not bet yet, spent slowly so that a late start of deterministic actions is found."""
    return 1.0 / math.log2(2.0 + n_steps)
