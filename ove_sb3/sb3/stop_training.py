"""Ending a training run as soon as its model is proven to be safe enough."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from ove_sb3.errors import InvalidInputError

from .callback import OffPolicyVarianceCallback
from .gate import check_gate


class StopTrainingOnSafeVariance(BaseCallback):
    """Stops training once the guaranteed bounds of a look satisfy the gate.

    Use it as `callback_after_eval` of an `OffPolicyVarianceCallback`.

    Parameters
    ----------
    max_variance, min_mean : float, optional
        The gate; by default that of the parent. A bound that is not guaranteed never satisfies it.
    verbose : int
        1: say so when training is stopped.
    """

    def __init__(
        self,
        max_variance: float | None = None,
        min_mean: float | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose=verbose)
        self.max_variance, self.min_mean = check_gate(max_variance, min_mean, None)

    def _init_callback(self) -> None:
        parent = self.parent
        if not isinstance(parent, OffPolicyVarianceCallback):
            raise InvalidInputError(
                "`StopTrainingOnSafeVariance` must be a child of OffPolicyVarianceCallback, got "
                f"{type(parent).__name__} as its parent. Pass it as callback_after_eval."
            )
        if (self.max_variance, self.min_mean) == (None, None):
            self.max_variance, self.min_mean = parent.max_variance, parent.min_mean
        if (self.max_variance, self.min_mean) == (None, None):
            raise InvalidInputError(
                "`max_variance` or `min_mean` must be given, here or to the parent, got None. "
                "Without a gate training would stop at the first look."
            )

    def _on_step(self) -> bool:
        look = getattr(self.parent, "last_look", None)
        if look is None or not look.satisfies(self.max_variance, self.min_mean):
            return True
        if self.verbose >= 1:
            print(
                f"Stopping training at num_timesteps={look.timesteps}: guaranteed mean of at least "
                f"{look.mean_interval.lower:.4g} and variance of at most "
                f"{look.variance_interval.upper:.4g}"
            )
        return False
