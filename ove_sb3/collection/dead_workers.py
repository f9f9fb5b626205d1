"""Processes of a SubprocVecEnv that have died."""

from __future__ import annotations

from stable_baselines3.common.vec_env import VecEnv

from ove_sb3.errors import WorkerError


def raise_if_worker_died(venv: VecEnv, error: BaseException) -> None:
    """Raise a `WorkerError` if `error` is that of a pipe whose other end has died."""
    if not isinstance(error, (EOFError, ConnectionError)):
        return
    for process in getattr(venv.unwrapped, "processes", ()):
        process.join(0.5)  # it may be about to end
        if not process.is_alive():
            raise WorkerError(
                "`env` must keep its processes until it is closed, but one of them has ended (exit "
                f"code {process.exitcode}). Its output says why. Complete episodes are kept; "
                "continue with a new environment."
            ) from error
