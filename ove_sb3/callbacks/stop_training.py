"""Stop training once requirements are proven."""

from __future__ import annotations

from collections.abc import Sequence

from stable_baselines3.common.callbacks import BaseCallback

from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.requirements import Requirement, parse_requirements
from ove_sb3.policies.sb3.isolation import untouched

from .off_policy import OffPolicyVarianceCallback


class StopTrainingOnRequirements(BaseCallback):
    """Stop training once an evaluation proves the requirements.

    Use it as `callback_after_eval` of an `OffPolicyVarianceCallback`.

    Parameters
    ----------
    requirements : sequence of str
        Requirements such as ``"variance <= 4"``; by default those of the parent.
    verbose : int
        1: print a line when training is stopped.
    """

    def __init__(self, requirements: Sequence[str | Requirement] = (), verbose: int = 0) -> None:
        super().__init__(verbose=verbose)
        self.requirements = parse_requirements(requirements)

    def _init_callback(self) -> None:
        parent = self.parent
        if not isinstance(parent, OffPolicyVarianceCallback):
            raise InvalidInputError(
                "`StopTrainingOnRequirements` must be a child of OffPolicyVarianceCallback, got "
                f"{type(parent).__name__} as its parent. Pass it as callback_after_eval."
            )
        self.requirements = self.requirements or parent.requirements
        if not self.requirements:
            raise InvalidInputError(
                "`requirements` must be given, here or to the parent, got none. Without them "
                "training would stop at the first evaluation."
            )

    def _on_step(self) -> bool:
        evaluation = getattr(self.parent, "last_evaluation", None)
        if evaluation is None:
            return True
        with untouched(self.model):
            verdicts = evaluation.check_all(*self.requirements)
        if not all(verdict.proven for verdict in verdicts):
            return True
        if self.verbose >= 1:
            proven = " ".join(str(verdict) for verdict in verdicts)
            print(f"Stopping training at num_timesteps={self.num_timesteps}. {proven}")
        return False
