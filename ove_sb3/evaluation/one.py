"""`evaluate`: one call from a log and a candidate to what may be said about its return."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3.core.diagnostics import diagnose
from ove_sb3.core.estimators import (
    estimate_mean,
    estimate_variance,
    sample_variance,
    warn_if_blind,
)
from ove_sb3.core.intervals import mean_interval, variance_interval
from ove_sb3.core.results import Interval
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.data.log import DiskLog, as_log
from ove_sb3.data.metadata import Metadata
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import SupportWarning

from .candidates import as_candidate
from .precision import episodes_to_halve
from .reduction import reduce_log
from .result import Evaluation
from .settings import Settings, resolve_settings, versions

_FEWEST_FOR_BOOTSTRAP = 20
_MANY_UNFINISHED = 0.01  # of all episodes


def evaluate(
    data: Trajectories | DiskLog | str | PathLike[str],
    candidate: Any | ArrayLike,
    *,
    gamma: float,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    horizon: int | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    delta: float = 0.05,
    simultaneous: bool = False,
    model_class: Any = None,
    vec_normalize: Any = None,
    deterministic: bool = False,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool = False,
) -> Evaluation:
    """Mean, variance and standard deviation of the return a candidate would get, from a log.

    Parameters
    ----------
    data : Trajectories, DiskLog or path
        The log, or the directory it is in, which is read as it is gone through. Its episodes must
        be complete.
    candidate : model, policy, path or array_like
        A model or policy that `action_distribution` knows; the path of a model saved by
        stable-baselines3, together with `model_class`; or log pi(a|s) of every logged step,
        (n_steps,). It must not have been trained on `data`: see `Trajectories.split`.
    gamma : float
        Discount factor of the return in question.
    reward_range : (float, float), optional
        Smallest and largest reward the environment can give; by default as noted in the log.
    return_range : (float, float), optional
        Smallest and largest return, where known to be tighter than the rewards imply.
    horizon : int, optional
        Largest number of steps of an episode; by default as noted in the log. Episodes that were
        cut off before it are refused.
    max_ratio, max_weight : float, optional
        Known bounds on the importance ratio of a step or of a whole episode, which make the
        guaranteed intervals far narrower, see `variance_interval`.
    delta : float
        Probability of a miss that each interval may have.
    simultaneous : bool
        Let the guaranteed intervals of mean and variance hold together with probability
        1 - delta, half of delta for each.
    model_class : type, optional
        With a path: the class that saved the model. Loading executes pickled code of the file:
        only load files you trust.
    vec_normalize : VecNormalize or path, optional
        Normalises the observations for the candidate. A model that was trained in a VecNormalize
        and has it as its environment needs nothing; a model loaded from a file has lost it.
    deterministic : bool
        Judge the candidate as it acts with ``deterministic=True``; not for a Box.
    rng : int, Generator or None
        Seed of shuffling and resampling; the result names it.
    n_jobs : int
        Processes that share the work (needs joblib if more than 1); they change no result.
    scheduler : str or distributed.Client, optional
        Address of a Dask cluster that shares the log, in place of `n_jobs`. Its workers read the
        files themselves: the log must be under the same path there.
    progress : bool
        Show a progress bar (needs tqdm).

    Returns
    -------
    Evaluation
        Prints as a table; see also its `plot`, `save_html`, `to_dict` and `satisfies`.

    Notes
    -----
    The guarantee is for a candidate that does not depend on the log and a number of episodes fixed
    in advance. A log of a training run (``metadata.adaptive``) is taken in the order of logging,
    which keeps the guaranteed intervals valid; the bootstrap, which needs independent episodes,
    is then left out.

    Examples
    --------
    >>> import numpy as np
    >>> import ove_sb3 as ove
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.integers(2, size=1000)
    >>> data = ove.Trajectories.from_arrays(
    ...     observations=np.zeros((1000, 1)),
    ...     actions=actions,
    ...     log_probs=np.full(1000, np.log(0.5)),
    ...     rewards=actions.astype(float),
    ...     lengths=np.ones(1000, dtype=int),
    ... )
    >>> candidate = np.log(np.where(actions == 1, 0.9, 0.1))
    >>> result = ove.evaluate(data, candidate, gamma=1.0, reward_range=(0, 1), horizon=1)
    >>> 0.09 in result.intervals["guaranteed"]  # the true variance is 0.9 * 0.1
    True
    """
    log = as_log(data)
    settings = resolve_settings(
        log.metadata,
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        simultaneous=simultaneous,
        rng=rng,
    )
    judged = as_candidate(
        candidate,
        metadata=log.metadata,
        n_steps=log.n_steps,
        model_class=model_class,
        vec_normalize=vec_normalize,
        deterministic=deterministic,
    )
    (stats,) = reduce_log(
        log,
        [judged],
        gamma=settings.gamma,
        horizon=settings.horizon,
        n_jobs=n_jobs,
        scheduler=scheduler,
        progress=progress,
    )
    warn_if_blind(stats)
    return assess(stats, settings, log.metadata, judged.label)


def assess(
    stats: TrajectoryStatistics, settings: Settings, metadata: Metadata, label: str
) -> Evaluation:
    """All that is said about a candidate, from its statistics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # the result's own warnings say it
        mean_intervals = _intervals("mean", stats, settings)
        variance_intervals = _intervals("variance", stats, settings)
        mean = estimate_mean(stats, estimator="crossfit")
        variance = estimate_variance(stats)
        halve = episodes_to_halve(
            stats,
            variance_intervals["guaranteed"],
            lambda part: _guaranteed("variance", part, settings),
            seed=settings.seed,
            in_order=settings.adaptive,
        )
    diagnostics = diagnose(stats, mean_intervals["guaranteed"], variance_intervals["guaranteed"])
    return Evaluation(
        mean=mean,
        variance=variance,
        intervals=variance_intervals,
        mean_intervals=mean_intervals,
        std_intervals={kind: _root(found) for kind, found in variance_intervals.items()},
        behavior_mean=float(stats.returns.mean()),
        behavior_variance=sample_variance(stats.returns),
        episodes_to_halve=halve,
        diagnostics=diagnostics,
        warnings=(
            *diagnostics.warnings,
            *_further_warnings(settings, mean, variance, mean_intervals, variance_intervals),
        ),
        mean_estimator="crossfit",
        variance_estimator="crossfit",
        candidate=label,
        behavior=metadata.behavior,
        env_id=metadata.env_id,
        settings=settings,
        versions=versions(),
        stats=stats,
    )


def _intervals(
    quantity: str, stats: TrajectoryStatistics, settings: Settings
) -> dict[str, Interval]:
    found = {"guaranteed": _guaranteed(quantity, stats, settings)}
    enough = len(stats) >= _FEWEST_FOR_BOOTSTRAP and bool(stats.weights.any())
    if enough and not settings.adaptive:
        function = mean_interval if quantity == "mean" else variance_interval
        found["bootstrap"] = function(
            stats,
            delta=settings.interval_delta,
            method="bootstrap",
            rng=settings.seed,
            **settings.limits,
        )
    return found


def _guaranteed(quantity: str, stats: TrajectoryStatistics, settings: Settings) -> Interval:
    function = mean_interval if quantity == "mean" else variance_interval
    return function(
        stats,
        delta=settings.interval_delta,
        adaptive=settings.adaptive,
        rng=settings.seed,
        **settings.limits,
    )


def _root(interval: Interval) -> Interval:
    """The interval for the standard deviation that one for the variance implies."""
    low, high = (math.sqrt(max(end, 0.0)) for end in interval.trivial)
    return replace(
        interval,
        lower=math.sqrt(interval.lower),
        upper=math.sqrt(interval.upper),
        quantity="standard deviation",
        trivial=(low, high),
    )


def _further_warnings(
    settings: Settings,
    mean: float,
    variance: float,
    mean_intervals: dict[str, Interval],
    variance_intervals: dict[str, Interval],
) -> list[str]:
    found = []
    if settings.adaptive:
        found.append(
            "the behavior changed while the log was written: episodes are taken in the order of "
            "logging, and the bootstrap, which needs independent episodes, is left out."
        )
    if settings.unfinished_share >= _MANY_UNFINISHED:
        found.append(
            f"up to {settings.unfinished_share:.0%} of the episodes were reset before their end or "
            "under way when logging stopped, and are missing: long ones more often than short "
            "ones. Log more in one go, or fix the number of episodes in advance (ove_sb3.collect)."
        )
    if variance < 0.0:
        found.append(
            f"the estimate of the variance is negative ({variance:.3g}): an unbiased estimate can "
            "be, when the log says little. Trust the interval."
        )
    for name, value, interval in (
        ("mean", mean, mean_intervals["guaranteed"]),
        ("variance", variance, variance_intervals["guaranteed"]),
    ):
        reported = name == "variance" and value < 0.0
        if not reported and not interval.lower <= value <= interval.upper:
            found.append(
                f"the estimate of the {name} lies outside its guaranteed interval: a few heavily "
                "weighted episodes drive it. Trust the interval."
            )
    return found
