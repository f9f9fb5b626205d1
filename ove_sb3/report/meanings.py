"""Explanations of the numbers of a report, in a sentence each, and a glossary."""

from __future__ import annotations

import math
import re

from ove_sb3.core.diagnostics import Diagnostics, share_text
from ove_sb3.core.interval import Interval, lower_text, upper_text

from .about import Row
from .numbers import count, number, percent
from .views import EvaluationView, QuantityView


def quantity_rows(result: EvaluationView) -> list[Row]:
    """Names of the quantities, without a value, and explanations of their numbers."""
    return [(one.quantity.label, "", quantity_sentence(one)) for one in result.quantities.values()]


def quantity_sentence(one: QuantityView) -> str:
    """Where a quantity lies, by its definition, and its value for the logged episodes."""
    place = _place(one.interval, one.quantity.definition or f"the {one.quantity.label}")
    estimate = (
        "The log supports no estimate"
        if math.isnan(one.estimate)
        else f"The estimate is {number(one.estimate)}"
    )
    return f"{place} {estimate}; the logged episodes had {number(one.behavior)}."


def _place(interval: Interval, what: str) -> str:
    """Where `what` lies, and how sure that is."""
    if not interval.consistent:
        return f"The bounds on {what} contradict each other, so that they say nothing."
    low, high = interval.a_priori
    lower, upper = lower_text(interval.lower), upper_text(interval.upper)
    if not interval.informative:
        if not (math.isfinite(low) and math.isfinite(high)):
            return f"The log says nothing about {what}."
        between = f"between {lower} and {upper}"
        return f"The bounds on {what} are no tighter than the stated ranges: it is {between}."
    if not interval.upper < high:
        place = f"at least {lower}"
    elif not interval.lower > low:
        place = f"at most {upper}"
    else:
        place = f"between {lower} and {upper}"
    confidence = percent(interval.delta)
    if interval.guaranteed:
        return f"With {confidence} confidence, {what} is {place}."
    return f"With about {confidence} confidence, not proven, {what} is {place}."


def diagnostic_rows(d: Diagnostics) -> list[Row]:
    """How informative the log is: names, values and what they mean."""
    return [
        (
            "effective sample size",
            f"{count(d.effective_sample_size)} of {d.n_trajectories} episodes",
            "Approximate number of episodes of the candidate itself that would be as informative.",
        ),
        (
            "95% of the weight",
            f"on {d.n_for_95_percent} episodes",
            "The fewer episodes carry this weight, the more the estimates depend on them.",
        ),
        (
            "mean weight",
            f"{d.mean_weight:.4g} ± {d.mean_weight_error:.2g}",
            "Should be 1. Far from it, logged probabilities are wrong, or the behavior never takes "
            "some actions of the candidate.",
        ),
        (
            "largest weight",
            f"{d.max_weight:.4g}; of a step {d.max_ratio:.4g}",
            "Largest factor by which an episode, or an action, is more likely under the candidate "
            "than under the behavior.",
        ),
        (
            "Pareto k",
            "unknown" if math.isnan(d.pareto_k) else f"{d.pareto_k:.2f}",
            "How heavy the tail of the weights is. Above 0.7, approximate intervals are "
            "unreliable.",
        ),
        (
            "never taken",
            f"{share_text(d.zero_ratio_fraction)} of steps",
            "Logged actions that the candidate never takes. Episodes with one have weight 0.",
        ),
    ]


# Term, text that shows its use, meaning.
_GLOSSARY = (
    ("candidate", "candidate", "The policy that is evaluated, before it acts."),
    ("behavior", "behavior", "The policy, or policies, that acted while the log was written."),
    ("return", "return", "Sum of the rewards of an episode, discounted by gamma per step."),
    (
        "weight",
        "weight",
        "How many times as likely an episode is under the candidate as under the behavior: "
        "the product of the importance ratios of its steps.",
    ),
    (
        "guaranteed",
        "guaranteed (",
        "Proven at this number of episodes, for any distribution of returns, if the "
        "assumptions hold.",
    ),
    (
        "approximate",
        "approximate (",
        "Correct for large numbers of episodes, if at all; nothing is proven at this one.",
    ),
    (
        "confidence",
        "confidence",
        "The share of logs, if many were written alike, whose interval contains the true value.",
    ),
    ("estimate", "estimate", "The best single guess. It need not be the middle of the interval."),
    (
        "ESS",
        " ess ",
        "Effective sample size: about as many episodes of the candidate itself would be as "
        "informative.",
    ),
    ("proven", ": proven.", "A guaranteed bound shows that the requirement holds."),
    (
        "refuted",
        ": refuted.",
        "A guaranteed bound shows that the requirement does not hold.",
    ),
    ("undecided", ": undecided.", "Nothing is proven either way."),
    (
        "quantile",
        "quantile",
        "The 5% quantile is the return that 5% of the episodes are at or below.",
    ),
    (
        "CVaR",
        "cvar",
        "Conditional value at risk: CVaR 10% is the average of the lowest 10% of the episodes.",
    ),
    ("bootstrap", "bootstrap", "Approximate intervals from samples drawn again from the log."),
    (
        "betting",
        "betting",
        "Bets are placed against every value; one is excluded once the bets against it have "
        "won more than chance allows.",
    ),
    (
        "band",
        "band",
        "Bounds on the share of episodes at or below every return, which hold simultaneously.",
    ),
)


def glossary_rows(text: str) -> list[Row]:
    """Terms that occur in the HTML of a page, and what they mean."""
    words = re.sub(r"<[^>]+>", " ", text).lower()
    return [(term, "", meaning) for term, use, meaning in _GLOSSARY if use in words]
