"""One trial of a study, and one part of the simulated truth: pure functions of their seed."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ove_sb3.core.inference import interval
from ove_sb3.core.quantities import Variance, as_quantity
from ove_sb3.core.statistics import TrajectoryStatistics

from .domains import make_domain
from .settings import (
    CANARY_SHARE,
    ESTIMATORS,
    RISK,
    Bounds,
    Study,
    bounds_of,
    risk_bounds_of,
)

#: On-policy episodes simulated at a time.
TRUTH_PART = 25_000
_EVERY = 10  # of the sorted returns of a part is kept


def run_trial(
    study: Study, candidate: Sequence[Any], n_grid: Sequence[int], seed: int, trial: int
) -> list[dict[str, Any]]:
    """Draw a growing log of the behavior and evaluate it at each length of `n_grid`.

    Parameters
    ----------
    study
        The settings.
    candidate
        The evaluation policy, see `make_domain`.
    n_grid
        Numbers of trajectories, increasing.
    seed, trial
        All randomness derives from these and the name of the study.

    Returns
    -------
    list of dict
        For each n: ``estimates`` by name; ``bounds`` by name, lower and upper; ``risk`` by
        quantity, its estimate and bounds by name; ``mean_weight``; and ``least_cdis``, the smallest
        X_i of Algorithm 4.
    """
    domain = make_domain(study, candidate)
    streams = np.random.SeedSequence([seed, zlib.crc32(study.name.encode()), trial]).generate_state(
        4, np.uint64
    )
    log = domain.log(max(n_grid), np.random.default_rng(streams[0]))
    canary = domain.canary_log(max(n_grid), CANARY_SHARE, np.random.default_rng(streams[2]))
    cells = []
    for n in n_grid:
        stats = domain.statistics(log, n)
        by_log = {
            "behavior": stats,
            "known": domain.known_statistics(log, n, np.random.default_rng([int(streams[3]), n])),
            "canary": domain.statistics(canary, n),
        }
        estimates = {name: Variance().estimate(stats, name) for name in ESTIMATORS}
        bounds = {
            name: _bounds(study, kind, "variance", by_log[kind.log], int(streams[1]))
            for name, kind in bounds_of(study).items()
        }
        cells.append(
            {
                "trial": trial,
                "n": n,
                "estimates": estimates,
                "bounds": bounds,
                "risk": {name: _risk(study, name, stats, int(streams[1])) for name in RISK},
                "mean_weight": float(stats.weights.mean()),
                "least_cdis": float(stats.cdis.min()),
            }
        )
    return cells


def _risk(study: Study, name: str, stats: TrajectoryStatistics, seed: int) -> dict[str, Any]:
    """Estimate and bounds of a risk quantity."""
    bounds = {
        key: _bounds(study, kind, name, stats, seed) for key, kind in risk_bounds_of(study).items()
    }
    return {"estimate": as_quantity(name).estimate(stats), "bounds": bounds}


def _bounds(
    study: Study, kind: Bounds, quantity: str, stats: TrajectoryStatistics, seed: int
) -> list[float]:
    """Lower and upper bound, each with failure probability `study.delta`."""
    bounds = interval(
        stats,
        quantity,
        reward_range=study.reward_range,
        return_range=study.return_range,
        delta=2.0 * study.delta,
        max_ratio=study.max_ratio if kind.uses_ratio or kind.log == "known" else None,
        max_weight=1.0 / CANARY_SHARE if kind.log == "canary" else None,
        method=kind.method,
        rng=np.random.default_rng(seed),
    )
    return [bounds.lower, bounds.upper]


def run_truth(study: Study, candidate: Sequence[Any], seed: int, part: int) -> dict[str, Any]:
    """Simulate one part of the on-policy episodes.

    Returns
    -------
    dict
        ``n``, ``mean``, the second to fourth central ``moments`` of the returns, and every tenth
        return in increasing order, ``sorted``.
    """
    domain = make_domain(study, candidate)
    stream = np.random.SeedSequence([seed, zlib.crc32(b"truth"), part])
    returns = domain.returns(TRUTH_PART, np.random.default_rng(stream))
    mean = float(returns.mean())
    powers = [float(((returns - mean) ** k).mean()) for k in (2, 3, 4)]
    thinned = np.sort(returns)[_EVERY // 2 :: _EVERY]
    return {"n": int(returns.size), "mean": mean, "moments": powers, "sorted": thinned.tolist()}


def merge_risk(parts: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Risk quantities of the returns of all parts."""
    if not parts:
        return {}
    returns = np.concatenate([part["sorted"] for part in parts])
    return {name: as_quantity(name).of_sample(returns) for name in RISK}


def merge_truth(parts: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Mean and variance over all parts, and the standard error of the variance.

    The central moments of a part are shifted to the common mean. With d the difference of the
    means, ``E(x + d)^2 = m2 + d^2`` and ``E(x + d)^4 = m4 + 4 d m3 + 6 d^2 m2 + d^4``.
    """
    sizes = np.array([part["n"] for part in parts], dtype=np.float64)
    means = np.array([part["mean"] for part in parts])
    m2, m3, m4 = np.array([part["moments"] for part in parts]).T
    n = sizes.sum()
    mean = float(sizes @ means / n)
    d = means - mean
    second = float(sizes @ (m2 + d**2) / n)
    fourth = float(sizes @ (m4 + 4 * d * m3 + 6 * d**2 * m2 + d**4) / n)
    return {
        "mean": mean,
        "variance": second * n / (n - 1.0),
        "standard_error": float(np.sqrt(max(fourth - second**2, 0.0) / n)),
        "episodes": float(n),
    }
