"""`watch`: follow a growing log until requirements are proven or refuted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ove_sb3._validation import check_integer, check_real
from ove_sb3.data.log import Log
from ove_sb3.errors import EmptyLogError, InvalidInputError, LogChangedError

from .candidates import is_array
from .decision import Decision
from .model_files import check_safe_load
from .requirements import Requirement, parse_requirements
from .watcher import Question, Watcher

_ATTEMPTS = 20  # to read a log that a writer is changing
_LONGEST_WAIT = 60.0


def watch(
    path: str | PathLike[str],
    candidate: Any,
    requirements: Sequence[str | Requirement],
    *,
    gamma: float,
    reward_range: tuple[float, float] | None = None,
    return_range: tuple[float, float] | None = None,
    horizon: int | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    reward: str | None = None,
    delta: float = 0.05,
    target_n: int | None = None,
    timeout: float | None = None,
    max_episodes: int | None = None,
    poll_seconds: float = 1.0,
    state: str | PathLike[str] | None = None,
    progress: Callable[[Decision], None] | None = None,
    model_class: Any = None,
    safe_load: bool = False,
    vec_normalize: Any = None,
    deterministic: bool = False,
) -> Decision:
    """Follow a log that is being written until all requirements are proven, or one is refuted.

    The bounds hold simultaneously at every number of episodes. So the log may be evaluated as
    often as one likes, and logging may stop as soon as there is a decision.

    Parameters
    ----------
    path : path
        Directory that a logging wrapper writes to. Its writers must follow one another, such as a
        process that is restarted.
    candidate : model, policy or path
        See `evaluate`; not log-probabilities. It must not depend on the log.
    requirements : sequence of str
        Requirements such as ``"variance <= 80"``, see `Evaluation.check`.
    gamma, reward_range, return_range, horizon, max_ratio, max_weight, reward
        Discount factor and assumptions, see `evaluate`.
    delta : float
        Probability that, over the whole time, all requirements are called proven although one is
        false; and that any true one is called refuted.
    target_n : int, optional
        Number of episodes at which the bounds are to be tightest; they hold at every number.
    timeout : float, optional
        Seconds to wait for a decision; 0 evaluates what is there.
    max_episodes : int, optional
        Number of episodes after which to give up.
    poll_seconds : float
        Seconds between checks for new episodes.
    state : path, optional
        File with the state, so that a later call continues from it; by default beside the log,
        with the suffix ``.watch.json``. It belongs to one question: candidate, requirements and
        assumptions.
    progress : callable, optional
        Called with the Decision so far after every evaluation; its `progress` is one line of text.
    model_class, safe_load, vec_normalize, deterministic
        See `evaluate`.

    Returns
    -------
    Decision
        Prints as a few lines; with `status`, `verdicts` and `n`.

    Notes
    -----
    Bounds are computed when 60, 66, 72, ... episodes have ended, 10% more each time, and when time
    or episodes are used up. What is computed at a number of episodes depends on these episodes
    alone, not on when `watch` was running.
    """
    parsed = parse_requirements(requirements)
    if not parsed:
        raise InvalidInputError(
            '`requirements` must hold at least one, got none. Write for example ["variance <= 80"].'
        )
    most = None if max_episodes is None else check_integer(max_episodes, "max_episodes", 2)
    seconds = None if timeout is None else check_real(timeout, "timeout", 0.0, float("inf"))
    wait = check_real(poll_seconds, "poll_seconds", 0.0, _LONGEST_WAIT)
    if is_array(candidate):
        raise InvalidInputError(
            "`candidate` must be a model, a policy or the path of a saved model, got "
            f"{type(candidate).__name__}: the log-probabilities of steps to come are not known."
        )
    check_safe_load(safe_load, candidate)
    directory = Path(path)
    question = Question(
        candidate=candidate,
        requirements=parsed,
        options={
            "gamma": gamma,
            "reward_range": reward_range,
            "return_range": return_range,
            "horizon": horizon,
            "max_ratio": max_ratio,
            "max_weight": max_weight,
            "reward": reward,
            "delta": delta,
        },
        model_class=model_class,
        safe_load=safe_load,
        vec_normalize=vec_normalize,
        deterministic=deterministic,
        target_n=None if target_n is None else check_integer(target_n, "target_n", 2),
    )
    file = directory.with_name(f"{directory.name}.watch.json") if state is None else Path(state)
    return _follow(directory, Watcher(question, file), most, seconds, wait, progress)


def _follow(
    directory: Path,
    watcher: Watcher,
    most: int | None,
    seconds: float | None,
    wait: float,
    progress: Callable[[Decision], None] | None,
) -> Decision:
    """Evaluate the log as it grows, until there is a decision or time is up."""
    started, failures = time.monotonic(), 0
    decision = Decision("undecided", (), 0)
    while True:
        over = seconds is not None and time.monotonic() - started >= seconds
        try:
            log = Log(directory)
            ended = over or (most is not None and len(log) >= most)
            for decision in watcher.evaluations(log, most, to_the_end=ended):
                if progress is not None:
                    progress(decision)
                if decision.status != "undecided":
                    break
            failures = 0
        except EmptyLogError:
            ended = over
        except (LogChangedError, FileNotFoundError):  # a writer has just replaced a file
            failures, ended = failures + 1, over
            if failures >= _ATTEMPTS:
                raise
        if ended or decision.status != "undecided":
            return decision
        left = wait if seconds is None else seconds - (time.monotonic() - started)
        time.sleep(max(min(wait, left), 0.0))
