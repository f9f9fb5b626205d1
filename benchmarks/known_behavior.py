"""Known behavior: upper bounds on the variance, and scoring time.

See `benchmarks.reference` for the reference excess.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ove_sb3 as ove
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.evaluation.candidates import PolicyCandidate
from ove_sb3.evaluation.reduction import reduce_log
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.ratio_bounds import ratio_bound
from tests.problems.bandits import Bandit, continuous_bandit, recommender
from tests.problems.gridworld import gridworld
from tests.problems.problem import Problem

from .promises import record
from .reference import LEVEL, ReferenceExcess, unseen_mass, worst_square
from .tables import cpu_times, median_ratio, print_table

SIZES = (1_000, 10_000, 31_622)
_PROBLEMS: dict[str, Problem] = {
    "one step, Gaussians 0.7 apart": continuous_bandit(0.7),
    "one step, Gaussians 1.27 apart": continuous_bandit(1.27),
    "recommender": recommender(),
    "grid of 15 steps": gridworld(15),
}
_STUDIES = {"diabetes": "one day", "diabetes_half_range": "behavior farther away"}
_TRUTH = 100_000  # returns of the candidate from which the true variance is computed


def _derived_max_ratio(problem: Problem) -> float | None:
    """Bound on the ratio that `evaluate` derives from the structure of the two policies."""
    if not isinstance(problem, Bandit):
        return None
    candidate, uniform = ove.TabularPolicy(problem.candidate[None]), np.full((1, 5), 0.2)
    behavior = ove.MixturePolicy([candidate, ove.TabularPolicy(uniform)], [0.5, 0.5])
    bound = ratio_bound(as_policy(candidate), as_policy(behavior))
    return None if bound is None else bound.value * (1 + 1e-9)


def _upper(stats: TrajectoryStatistics, max_ratio: float | None, **ranges: Any) -> float:
    return ove.variance_interval(stats, max_ratio=max_ratio, delta=2 * LEVEL, **ranges).upper


def _upper_bounds(trials: int) -> None:
    rows = []
    for name, problem in _PROBLEMS.items():
        max_ratio, reference_excess = _derived_max_ratio(problem), ReferenceExcess(problem)
        for n in SIZES:
            uppers = np.zeros(2)
            for trial in range(trials):
                for k, known in enumerate((False, True)):
                    rng = np.random.default_rng([trial, n])
                    stats = problem.statistics(n, rng, known=known)
                    ranges = {"reward_range": problem.reward_range}
                    uppers[k] += _upper(stats, max_ratio if known else None, **ranges) / trials
            excess, reference = uppers - problem.variance, reference_excess(n)
            if n == SIZES[-1] and problem.name == "bandit_continuous":
                record("known Gaussians", excess[1] / reference)
            if n == SIZES[-1] and problem.name == "recommender":
                record("known recommender", excess[0] / excess[1])
            rows.append(
                [
                    name,
                    f"{n:,}",
                    *(f"{value:.3g}" for value in (problem.variance, *uppers, reference)),
                    f"{excess[0] / reference:.2f}",
                    f"{excess[1] / reference:.2f}",
                    f"1/{excess[0] / excess[1]:.2f}",
                ]
            )
    print_table(
        f"Upper bounds on the variance (level {LEVEL}), mean of {trials} logs",
        [
            *("problem", "n", "truth", "without behavior=", "with", "reference excess"),
            *("excess / reference, without", "with", "excess with / without"),
        ],
        rows,
        name="known_behavior",
    )


def _diabetes(trials: int) -> None:
    from ove_sb3.experiments.domains import make_domain
    from ove_sb3.experiments.policies import evaluation_policy
    from ove_sb3.experiments.settings import STUDIES

    rows = []
    for name, title in _STUDIES.items():
        study = STUDIES[name]
        with tempfile.TemporaryDirectory() as folder:
            domain = make_domain(study, evaluation_policy(study, Path(folder), 0))
        uppers = np.zeros(2)
        for trial in range(trials):
            rng = np.random.default_rng(trial)
            log = domain.log(SIZES[-1], rng)
            both = domain.statistics(log, SIZES[-1]), domain.known_statistics(log, SIZES[-1], rng)
            for k, stats in enumerate(both):
                uppers[k] += _upper(stats, None, reward_range=study.reward_range) / trials
        returns = domain.returns(_TRUTH, np.random.default_rng(trials))
        shift = np.linalg.norm((domain.policy.mean - domain.behavior.mean) / domain.policy.sd)
        reference = unseen_mass(float(shift), SIZES[-1]) * worst_square(returns, study.reward_range)
        ratio, least = uppers[1] / uppers[0], (returns.var() + reference) / uppers[0]
        if name == "diabetes":
            record("known diabetes", ratio)
        rows.append(
            [
                *(title, f"{SIZES[-1]:,}", f"{returns.var():.3g}"),
                *(f"{value:.3g}" for value in (*uppers, reference)),
                *(f"{ratio:.3f}", f"{least:.3f}"),
            ]
        )
    print_table(
        f"Diabetes, upper bounds on the variance, mean of {trials} logs",
        [
            *("study", "n", "truth", "without behavior=", "with", "reference excess"),
            *("with / without", "truth + reference / without"),
        ],
        rows,
        name="known_behavior_diabetes",
    )


def _scoring_time(repeats: int = 120) -> None:
    """Time from a log on disk to the statistics of its trajectories, and of the scores alone."""
    from stable_baselines3 import PPO, SAC

    rows = []
    for algorithm, env, n in ((PPO, "CartPole-v1", 1200), (SAC, "Pendulum-v1", 60)):
        models = [algorithm("MlpPolicy", env, seed=seed, device="cpu") for seed in (0, 1)]
        behavior, candidate = (as_policy(model) for model in models)
        scorers = [
            PolicyCandidate(candidate, False, "candidate", behavior=known)
            for known in (None, behavior)
        ]
        with tempfile.TemporaryDirectory() as folder:
            data = ove.collect(models[0], env, n, n_envs=32, seed=0)
            data.save(folder)
            log = ove.open_log(folder)
            for title, calls in (
                ("log to statistics", [partial(_reduce, log, scorer) for scorer in scorers]),
                ("policies alone", [partial(_score, data, scorer) for scorer in scorers]),
            ):
                times = cpu_times(calls, repeats)
                per_step = [f"{1e6 * s / data.n_steps:.2f} us" for s in np.median(times, axis=0)]
                factor = median_ratio(times)
                if title == "log to statistics":
                    record("known scoring", factor)
                rows.append([algorithm.__name__, title, *per_step, f"{factor:.2f}"])
    print_table(
        "CPU time of scoring a step, medians",
        ["candidate", "part", "without behavior=", "with", "factor"],
        rows,
        name="known_behavior_scoring",
    )


def _reduce(log: ove.Log, scorer: PolicyCandidate) -> None:
    reduce_log(log, [scorer], gamma=0.99, horizon=log.metadata.horizon, progress=False)


def _score(data: ove.Trajectories, scorer: PolicyCandidate) -> None:
    scorer.score(data, 0)


def main(trials: int = 10) -> None:
    """Print the tables."""
    _upper_bounds(trials)
    _diabetes(max(trials // 3, 1))
    _scoring_time()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    main(parser.parse_args().trials)
