"""Mean of the return."""

from __future__ import annotations

from dataclasses import dataclass

from ove_sb3._validation import FloatArray
from ove_sb3.core.assumptions import Limits
from ove_sb3.core.betting import averages
from ove_sb3.core.betting.forms import per_decision_forms, reference_return
from ove_sb3.core.concentration.inequalities import Inequality
from ove_sb3.core.concentration.moments import paper_mean_lower, paper_mean_upper
from ove_sb3.core.sample import Sample

from .base import Quantity, register_quantity, without_argument


@dataclass(frozen=True)
class Mean(Quantity):
    """Mean of the return."""

    kind = "mean"
    label = "mean"
    definition = "the average over many episodes"
    is_location = True

    def of_sample(self, returns: FloatArray) -> float:
        """Sample mean."""
        return float(returns.mean())

    def a_priori(self, limits: Limits) -> tuple[float, float]:
        """Range of the return."""
        return limits.return_range

    def betting_lower(self, sample: Sample, level: float) -> float:
        """Lower confidence bound by betting."""
        return mean_lower(sample, level)

    def betting_upper(self, sample: Sample, level: float) -> float:
        """Upper confidence bound by betting."""
        return -mean_lower(sample, level, sign=-1.0)

    def concentration_lower(self, sample: Sample, level: float, bound: Inequality) -> float:
        """Lower confidence bound by the paper's method."""
        return paper_mean_lower(sample, level, bound)

    def concentration_upper(self, sample: Sample, level: float, bound: Inequality) -> float:
        """Upper confidence bound by the paper's method."""
        return paper_mean_upper(sample, level, bound)


register_quantity("mean", without_argument(Mean))


def mean_lower(sample: Sample, level: float, *, sign: float = 1.0) -> float:
    """Lower confidence bound on the mean of ``sign * G`` at the given level."""
    schedule = sample.schedule(averages.BLOCKS, warm_up=True)
    reference = reference_return(sample, schedule)
    forms = per_decision_forms(sample, reference, sign)
    low, high = sorted(sign * (end - reference) for end in sample.limits.return_range)
    return sign * reference + averages.mean_lower(forms, schedule, level, low, high)
