"""Bounds of every quantity on every kind of log, whatever is known of the weights.

A mistake can be in a single place: one quantity, one side, one kind of log, one stated bound.
So all of them are crossed, on problems where the episodes that are missing decide the quantity.
"""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import ove_sb3 as ove
from ove_sb3.core.assigned import ARMS, SHARES
from ove_sb3.core.step_reduction import shard_statistics
from ove_sb3.core.steps import StepScores
from ove_sb3.core.stopping import Logging, LoggingRecord, begin_key
from ove_sb3.core.truncation import MAX_RATIOS, truncated_columns
from tests.problems.problem import listed_ratios
from tests.problems.risk import truth

DELTA = 0.2
SIGNIFICANT = 1e-4  # probability of a failure if a bound misses as often as it may
TRIALS = 12  # of a combination whose bounds have missed before
ONE_ORDER = ove.Betting(n_shuffles=1)


@dataclass(frozen=True)
class Problem:
    """Episodes of one decision: every action has its return and its number of steps.

    The behavior is one of two, and may change from one to the other. A loop that does not wait
    gives episodes up with these probabilities.
    """

    candidate: tuple[float, ...]
    behaviors: tuple[tuple[float, ...], tuple[float, ...]]
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    given_up: tuple[float, ...]
    reward_range: tuple[float, float] = (0.0, 1.0)

    @property
    def size(self) -> int:
        return len(self.candidate)

    @property
    def max_ratio(self) -> float:
        return float(np.max(np.array(self.candidate) / np.array(self.behaviors)))

    @property
    def distribution(self) -> dict[float, float]:
        """The candidate's probability of every return, in increasing order."""
        values = sorted({r for r, p in zip(self.returns, self.candidate, strict=True) if p > 0.0})
        chances = list(zip(self.returns, self.candidate, strict=True))
        return {value: math.fsum(p for r, p in chances if r == value) for value in values}

    def truth(self, quantity: str) -> float:
        mean = math.fsum(p * value for value, p in self.distribution.items())
        if quantity == "mean":
            return mean
        if quantity == "variance":
            return math.fsum(p * (value - mean) ** 2 for value, p in self.distribution.items())
        return truth(self.distribution, quantity)

    def shifted(self, by: float) -> Problem:
        low, high = self.reward_range
        returns = tuple(value + by for value in self.returns)
        return replace(self, returns=returns, reward_range=(low + by, high + by))


EVEN, MILD = ((0.5, 0.5), (0.3, 0.7)), ((0.95, 0.05), (0.8, 0.2))
LONG_IS_BAD = Problem((0.6, 0.4), EVEN, (0.0, 1.0), (12, 2), (0.7, 0.0))
LONG_IS_GOOD = replace(LONG_IS_BAD, returns=(1.0, 0.0))
PROBLEMS = {
    "long is bad": LONG_IS_BAD,
    "long is good": LONG_IS_GOOD,
    "long is bad, above 0": LONG_IS_BAD.shifted(5.0),
    "long is good, below 0": LONG_IS_GOOD.shifted(-6.0),
    "rare and good": Problem((0.85, 0.15), MILD, (0.0, 1.0), (2, 30), (0.0, 0.8)),
    "rare and bad": Problem((0.85, 0.15), MILD, (1.0, 0.0), (2, 30), (0.0, 0.8)),
    "long is average": Problem(
        (0.3, 0.4, 0.3),
        ((0.45, 0.1, 0.45), (0.2, 0.6, 0.2)),
        (0.0, 0.5, 1.0),
        (2, 20, 2),
        (0.0, 0.8, 0.0),
    ),
    "long is extreme": Problem(
        (0.3, 0.4, 0.3),
        ((0.3, 0.4, 0.3), (0.4, 0.2, 0.4)),
        (0.0, 0.5, 1.0),
        (20, 2, 20),
        (0.7, 0.0, 0.7),
    ),
    "on policy, long is bad": Problem(
        (0.5, 0.5), ((0.5, 0.5), (0.5, 0.5)), (0.0, 1.0), (10, 1), (0.5, 0.0)
    ),
    "on policy, long is good": Problem(
        (0.5, 0.5), ((0.5, 0.5), (0.5, 0.5)), (1.0, 0.0), (10, 1), (0.5, 0.0)
    ),
    "weights 0 or 2": Problem(
        (0.5, 0.5, 0.0),
        ((0.25, 0.25, 0.5), (0.25, 0.25, 0.5)),
        (0.0, 1.0, 0.0),
        (10, 2, 2),
        (0.6, 0.0, 0.5),
    ),
    "equal returns": Problem((0.6, 0.4), EVEN, (0.5, 0.5), (9, 2), (0.7, 0.0)),
}


def quantities(problem: Problem) -> tuple[str, ...]:
    low, high = problem.reward_range
    levels = ("quantile:0.05", "quantile:0.3", "median", "quantile:0.55", "quantile:0.9")
    return ("mean", "variance", *levels, "cvar:0.1", "cvar:0.6", f"p_below:{(low + high) / 2}")


@cache
def outcomes(problem: Problem) -> ove.TrajectoryStatistics:
    """Statistics of every action under the first behavior, then under the second."""
    candidate, behaviors = np.array([problem.candidate] * 2), np.array(problem.behaviors)
    states, actions = np.repeat([0, 1], problem.size), np.tile(np.arange(problem.size), 2)
    ratios = listed_ratios(candidate, behaviors, states, actions)
    ones = np.ones_like(actions)
    with np.errstate(divide="ignore"):
        scores = StepScores(np.log(ratios.logged), columns=truncated_columns(ratios, ones))
    return shard_statistics(
        scores, np.tile(np.array(problem.returns), 2), ones, gamma=1.0, horizon=1
    )


@dataclass(frozen=True)
class Log:
    """Statistics of a log, and what is known about how it was made."""

    stats: ove.TrajectoryStatistics
    max_ratio: float
    adaptive: bool = False
    n_envs: int = 1


def fixed_number(problem: Problem, n: int, rng: np.random.Generator) -> Log:
    drawn = rng.choice(problem.size, n, p=np.array(problem.behaviors[0]))
    return Log(outcomes(problem).select(drawn), problem.max_ratio)


def assigned(problem: Problem, n: int, rng: np.random.Generator, *, random: bool) -> Log:
    """Log two policies, one for each half of the episodes, or the second in three of ten."""
    arms = np.arange(n) * 2 // n
    if random:
        arms = (rng.random(n) < 0.3).astype(np.int64)
        arms[:2], arms[-2:] = 0, 1
    tables = np.array(problem.behaviors)
    shares = np.bincount(arms, minlength=2) / n
    below = tables.cumsum(axis=1)[arms, :-1] < rng.random(n)[:, None]
    actions = below.sum(axis=1)
    ratios = np.array(problem.candidate) / (shares @ tables)
    columns = {ARMS: arms.astype(float), SHARES: shares[arms]}
    with np.errstate(divide="ignore"):
        scores = StepScores(np.log(ratios)[actions], columns=columns)
    returns, ones = np.array(problem.returns)[actions], np.ones_like(actions)
    stats = shard_statistics(scores, returns, ones, gamma=1.0, horizon=1)
    return Log(stats, max(float(ratios.max()), 1.0))


def environments(
    problem: Problem,
    n: int,
    rng: np.random.Generator,
    n_envs: int,
    *,
    stop: str = "steps",
    learning: bool = False,
    wait: bool = True,
) -> Log:
    """Log environments that run at the same time, until about n episodes have ended.

    Logging stops after a number of `"episodes"` of every environment, after a number of `"steps"`,
    at `"any time"`, or at the `"news"` of an unusual mean return. A behavior that learns is the
    second one after a good return.
    """
    middle = sum(problem.reward_range) / 2
    mean_length = float(np.dot(problem.behaviors[0], problem.lengths))
    last = math.inf if stop == "episodes" else max(int(n * mean_length / n_envs), 2)
    running: list[tuple[int, int, int, int, int]] = []
    numbers: list[int] = []
    ended: list[int] = []
    before: list[int] = []
    begun, total, good = 0, 0.0, False

    def begin(env: int, now: int) -> None:
        nonlocal begun
        behavior = int(learning and good)
        action = int(rng.choice(problem.size, p=np.array(problem.behaviors[behavior])))
        length, outcome = problem.lengths[action], action + behavior * problem.size
        if not wait and rng.random() < problem.given_up[action]:
            length, outcome = 1 + length // 2, -1
        heapq.heappush(running, (now + length, env, begun, outcome, len(ended)))
        begun += 1

    for env in range(n_envs):
        begin(env, 0)
    while running and running[0][0] <= last:
        now, env, number, outcome, n_before = heapq.heappop(running)
        if outcome >= 0:
            numbers.append(number)
            ended.append(outcome)
            before.append(n_before)
            value = problem.returns[outcome % problem.size]
            good, total = value > middle, total + value
            unusual = abs(total / len(ended) - middle) > 0.1
            if stop == "news" and len(ended) > n // 2 and unusual:
                last = min(last, now)
        if begun < n if stop == "episodes" else now < last:
            begin(env, now)
    index = np.array(ended, dtype=np.int64)
    overlaps = np.arange(index.size) - np.array(before) if n_envs > 1 else None
    stats = replace(outcomes(problem).select(index), overlaps=overlaps)
    if stop != "episodes":
        steps = int(last) * n_envs
        record = LoggingRecord(begun, index.size, n_envs, steps, steps if stop == "steps" else None)
        stats = replace(
            stats,
            lengths=np.array(problem.lengths)[index % problem.size],
            begins=begin_key(1, 0) + np.array(numbers),
            logging=Logging({1: record}),
        )
    return Log(stats, problem.max_ratio, learning, n_envs)


_OPTIONS: dict[str, dict[str, Any]] = {
    "steps": {},
    "learning": {"learning": True},
    "news": {"stop": "news"},
    "given up": {"stop": "any time", "wait": False},
    "given up, steps": {"wait": False},
    "given up, learning": {"wait": False, "learning": True},
}
Kind = Callable[[Problem, int, np.random.Generator], Log]
FIXED: dict[str, Kind] = {
    "fixed number": fixed_number,
    "in order": partial(environments, n_envs=1, stop="episodes", learning=True),
    "overlapping": partial(environments, n_envs=8, stop="episodes", learning=True),
}
OPEN: dict[str, Kind] = {
    f"{'several environments' if n_envs > 1 else 'one environment'}, {name}": partial(
        environments, n_envs=n_envs, **options
    )
    for n_envs in (1, 8)
    for name, options in _OPTIONS.items()
}
ASSIGNED: dict[str, Kind] = {
    "assigned by number": partial(assigned, random=False),
    "assigned at random": partial(assigned, random=True),
}
KINDS = {**FIXED, **OPEN, **ASSIGNED}
GIVEN_UP = [kind for kind in OPEN if "given up" in kind and "steps" not in kind]
FEW = ("long is bad", "long is good, below 0")
ADVERSE = {kind: FEW if k % 2 else FEW[::-1] for k, kind in enumerate(KINDS)}
KNOWN = ("nothing", "max_weight", "max_ratio", "behavior")
Bounds = Callable[[Log, str, Problem, str, int], tuple[float, float]]


def limits(log: Log, problem: Problem, known: str) -> tuple[ove.TrajectoryStatistics, Any]:
    """Statistics without what is not known, and the assumptions."""
    stats = log.stats
    if known != "behavior":
        names = [
            name
            for name in stats.columns
            if name != MAX_RATIOS and not name.startswith(("truncated", "charges"))
        ]
        stats = replace(stats, columns={name: stats[name] for name in names})
    bound = {known: log.max_ratio} if known.startswith("max") else {}
    options = {"reward_range": problem.reward_range, "delta": DELTA, "adaptive": log.adaptive}
    return stats, options | bound


def of_interval(
    log: Log, quantity: str, problem: Problem, known: str, trial: int
) -> tuple[float, float]:
    stats, options = limits(log, problem, known)
    interval = ove.interval(stats, quantity, method=ONE_ORDER, rng=trial, **options)
    assert interval.guaranteed or not interval.consistent
    return interval.lower, interval.upper


def of_sequence(
    log: Log, quantity: str, problem: Problem, known: str, trial: int
) -> tuple[float, float]:
    """Best bounds at any number of episodes."""
    stats, options = limits(log, problem, known)
    n_envs = log.n_envs if stats.logging is None else 1
    target_n = len(stats) if trial % 2 == 0 else None
    sequence = ove.confidence_sequence(stats, quantity, target_n=target_n, n_envs=n_envs, **options)
    assert sequence.guaranteed or not sequence.interval.consistent
    return float(sequence.lower.max()), float(sequence.upper.min())


def check(
    kind: str, names: Iterable[str], n: int, bounds_of: Bounds, known: Iterable[str] = KNOWN
) -> None:
    """Fail if a bound of some combination misses significantly more often than it may."""
    failures = []
    for name in names:
        problem = PROBLEMS[name]

        @cache
        def log(trial: int, name: str = name, problem: Problem = problem) -> Log:
            seed = [trial, zlib.crc32(f"{kind} {name}".encode())]
            return KINDS[kind](problem, n, np.random.default_rng(seed))

        for what in known:
            if what == "behavior" and kind in ASSIGNED:
                continue  # the behavior of a mixture is not one policy
            for quantity in quantities(problem):
                value, lower, upper, trial = problem.truth(quantity), 0, 0, 0
                while trial < TRIALS and (trial < 1 or lower + upper):
                    low, high = bounds_of(log(trial), quantity, problem, what, trial)
                    lower, upper = lower + (low > value + 1e-9), upper + (high < value - 1e-9)
                    trial += 1
                for side, count in (("lower", lower), ("upper", upper)):
                    if binom.sf(count - 1, trial, DELTA / 2) < SIGNIFICANT:
                        failures.append((name, what, quantity, side, f"{count} of {trial}"))
    assert not failures


@pytest.mark.parametrize("kind", KINDS)
def test_intervals(kind: str) -> None:
    check(kind, ADVERSE[kind], 300, of_interval)


@pytest.mark.parametrize("kind", ["overlapping", *GIVEN_UP])
def test_sequences(kind: str) -> None:
    check(kind, ADVERSE[kind][:1], 100, of_sequence, ("max_weight",))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_on_every_problem(kind: str) -> None:
    check(kind, PROBLEMS, 300, of_interval)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*FIXED, *OPEN])
def test_sequences_on_more_problems(kind: str) -> None:
    check(kind, FEW, 200, of_sequence, ("nothing", "max_weight", "behavior"))
