"""Errors and warnings. Every error of this package derives from `OveError`."""

from __future__ import annotations

from os import PathLike

from typing_extensions import Self

PLACE = "{place}"
"""Placeholder in the message of an error for the position given by its attributes."""


class OveError(Exception):
    """Base class of all errors raised by ove_sb3.

    Parameters
    ----------
    message : str
        `PLACE` in it is replaced by the position, such as "episode 3, step 14", when the error is
        shown.
    episode, step : int, optional
        Number of the episode, and of the step within it.
    row : int, optional
        Row of a batch, table or file.
    path : path, optional
        File.
    """

    def __init__(
        self,
        message: object = "",
        *,
        episode: int | None = None,
        step: int | None = None,
        row: int | None = None,
        path: str | PathLike[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.episode, self.step, self.row, self.path = episode, step, row, path

    @property
    def place(self) -> str:
        """Position in words; empty if none is known."""
        numbers = {"episode": self.episode, "step": self.step, "row": self.row}
        place = ", ".join(f"{name} {n}" for name, n in numbers.items() if n is not None)
        if self.path is None:
            return place
        return f"{place} of {self.path}" if place else str(self.path)

    def at(
        self,
        *,
        episode: int | None = None,
        step: int | None = None,
        row: int | None = None,
        path: str | PathLike[str] | None = None,
    ) -> Self:
        """Copy of this error at another position, for instance in the log instead of a batch."""
        # Not copy.copy: libraries that send exceptions between processes redefine it for errors.
        error = type(self).__new__(type(self), *self.args)
        error.args = self.args
        error.__dict__.update(self.__dict__)
        error.episode, error.step, error.row, error.path = episode, step, row, path
        return error

    def __str__(self) -> str:
        return str(self.args[0]).replace(PLACE, self.place or "an unknown position")


class InvalidInputError(OveError, ValueError):
    """An argument breaks a rule; the message names argument, rule, value, place and remedy."""


class AssumptionError(InvalidInputError):
    """The data contradict an assumption the caller stated, such as ``reward_range``."""


class BehaviorError(InvalidInputError):
    """The given behavior is not the policy that wrote the log."""


class MeanWeightError(AssumptionError):
    """Importance weights are significantly off 1 on average: a probability or bound is wrong."""


class WeightOverflowError(OveError, OverflowError):
    """An importance weight, or a statistic built on it, is too large to compute with."""


class UnsupportedPolicyError(OveError, NotImplementedError):
    """The probability of an action under this policy is not known exactly."""


class StorageError(OveError, OSError):
    """Logged files are missing, damaged, or of another version; the message names the file."""


class EmptyLogError(StorageError):
    """A log directory holds no complete episode yet."""


class LogChangedError(StorageError):
    """A log was replaced after it was opened: open it again."""


class WorkerError(OveError, RuntimeError):
    """Processes that share the work keep dying, or one of a SubprocVecEnv has ended."""


class OveWarning(UserWarning):
    """Base class of all warnings issued by ove_sb3."""


class SupportWarning(OveWarning):
    """The logged data say next to nothing about the candidate."""


class UncoveredActionWarning(SupportWarning):
    """The candidate often takes an action that is never seen in the log.

    Attributes
    ----------
    action : str
        The action, as the end of a sentence about the candidate: "takes an action".
    probability : float
        Average probability of it under the candidate.
    n_steps : int
        Number of logged steps.
    """

    def __init__(self, action: str, probability: float, n_steps: int) -> None:
        super().__init__(action, probability, n_steps)
        self.action, self.probability, self.n_steps = action, probability, n_steps

    def in_steps(self, n_steps: int) -> UncoveredActionWarning:
        """The warning for a log of another length."""
        return UncoveredActionWarning(self.action, self.probability, n_steps)

    def __str__(self) -> str:
        return (
            f"the candidate {self.action} that is never seen in the {self.n_steps} logged steps, "
            f"with probability {self.probability:.2g}. The behavior seems to have probability 0 "
            "there: estimates leave that part of the candidate out. Use a behavior that covers the "
            "candidate, such as a MixturePolicy with it."
        )


class DependenceWarning(OveWarning):
    """Logged episodes, or the candidate and the log, are not independent as intervals assume."""
