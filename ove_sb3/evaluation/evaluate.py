"""`evaluate`: one call from a log and a candidate to estimates and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ove_sb3.core.methods import Method
from ove_sb3.core.quantities import DEFAULT_QUANTITIES, Quantity
from ove_sb3.data.log import Log, as_log
from ove_sb3.data.trajectories import Trajectories

from .candidates import as_behavior, as_candidate, is_path
from .model_files import check_safe_load
from .pipeline import evaluate_candidates
from .plan import make_plan
from .result import Evaluation


def evaluate(
    data: Trajectories | Log | str | PathLike[str],
    candidate: Any | ArrayLike,
    *,
    gamma: float,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    horizon: int | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    behavior: Any = None,
    reward: str | None = None,
    quantities: Sequence[str | Quantity] = DEFAULT_QUANTITIES,
    delta: float = 0.05,
    simultaneous: bool = False,
    method: str | Method = "betting",
    approximate: str | Method | None = "bootstrap",
    estimators: Mapping[str, str] | None = None,
    model_class: Any = None,
    safe_load: bool = False,
    vec_normalize: Any = None,
    deterministic: bool = False,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int = 1,
    scheduler: Any = None,
    progress: bool | None = None,
) -> Evaluation:
    """Evaluate the return a candidate would get, from a log of another policy.

    Parameters
    ----------
    data : Trajectories, Log or path
        The log, or its directory, which is streamed. Its episodes must be complete.
    candidate : model, policy, path or array_like
        A model or policy that `action_distribution` knows; the path of a model saved by
        stable-baselines3, together with `model_class`; or log pi(a|s) of every logged step,
        (n_steps,). It must not have been trained on `data`: see `Trajectories.split`.
    gamma : float
        Discount factor of the return in question.
    reward_range : (float, float) or "from_data", optional
        Smallest and largest reward the environment can give; by default as stated in the log.
        ``"from_data"`` takes the extremes of the log and makes all intervals approximate.
    return_range : (float, float), optional
        Smallest and largest return, where known to be tighter than the rewards imply.
    horizon : int, optional
        Largest number of steps of an episode; by default as stated in the log. Episodes that were
        cut off before it are refused.
    max_ratio, max_weight : float, optional
        Known bounds on the importance ratio of a step or of a whole episode, which make the
        guaranteed intervals far narrower, see `interval`.
    behavior : model, policy or path, optional
        The one policy that wrote the log, if it is still available. Its log-probabilities are
        compared with the logged ones. Both policies are then known in every logged state: bounds on
        the ratio are derived from how they are built, and weights can be truncated without losing
        the guarantee. Only for a `candidate` that is a model or policy.
    reward : str, optional
        Kept column to evaluate in place of the reward, such as a cost; `reward_range` is then its
        range.
    quantities : sequence of str or Quantity
        Quantities of the return to evaluate; by default the mean, the variance and the standard
        deviation, the 5%, 50% and 95% quantiles, and CVaR 10%. Of the defaults, those that
        `method` has no bounds for are left out, with a warning.
    delta : float
        Probability of a miss of each interval.
    simultaneous : bool
        Let the intervals of all quantities hold simultaneously with probability 1 - delta. `delta`
        is divided evenly among them: into six parts with the default quantities, because the
        standard deviation has the interval of the variance.
    method : str or Method
        Method of the main intervals, see `interval`.
    approximate : str, Method or None
        Method of the approximate intervals beside them; None leaves them out.
    estimators : dict of str to str, optional
        Estimators other than the defaults, such as ``{"variance": "pair"}``.
    model_class : type, optional
        With a path, also as `behavior`: the class that saved the model. Loading unpickles, and so
        executes code of the file: only load files you trust, or pass `safe_load`.
    safe_load : bool
        Load model files without unpickling, see `safe_load_model`. The spaces are those of the log.
    vec_normalize : VecNormalize or path, optional
        Normalizes the observations for the candidate. A model that was trained in a VecNormalize
        and has it as its environment needs nothing; a model loaded from a file has lost it. A path
        is unpickled, which executes code of the file: only load files you trust. If statistics
        lie beside a model given by its path, either pass them, or ``"none"``.
    deterministic : bool
        Evaluate the candidate as it acts with ``deterministic=True``; not for a Box.
    rng : int, Generator or None
        Seed of shuffling and resampling; the result names it. Choose it before looking at a
        result: the guarantee is for one seed, not for the best of several.
    n_jobs : int
        Processes that share the work; they change no result.
    scheduler : str or distributed.Client, optional
        Address of a Dask cluster that shares the log, in place of `n_jobs`. Its workers read the
        files themselves: the log must be under the same path there.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.

    Returns
    -------
    Evaluation
        Prints as a table; see also its `check`, `plot`, `save_html` and `to_dict`.

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
    >>> 0.09 in result["variance"].interval  # the true variance is 0.9 * 0.1
    True
    """
    log = as_log(data)
    plan = make_plan(
        log.metadata,
        gamma=gamma,
        reward_range=reward_range,
        return_range=return_range,
        horizon=horizon,
        max_ratio=max_ratio,
        max_weight=max_weight,
        reward=reward,
        delta=delta,
        simultaneous=simultaneous,
        quantities=quantities,
        method=method,
        approximate=approximate,
        estimators=estimators,
        rng=rng,
    )
    check_safe_load(safe_load, candidate, behavior)
    policy = as_candidate(
        candidate,
        metadata=log.metadata,
        n_steps=log.n_steps,
        behavior=as_behavior(
            behavior, metadata=log.metadata, model_class=model_class, safe_load=safe_load
        ),
        model_class=None if is_path(behavior) and not is_path(candidate) else model_class,
        vec_normalize=vec_normalize,
        deterministic=deterministic,
        safe_load=safe_load,
    )
    (evaluation,) = evaluate_candidates(
        log, [policy], plan, n_jobs=n_jobs, scheduler=scheduler, progress=progress
    )
    return evaluation
