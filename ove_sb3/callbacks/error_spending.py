"""Sharing of the failure probability over the evaluations of a training run."""

from __future__ import annotations

from typing import Literal

from ove_sb3._validation import check_choice
from ove_sb3.collection.log_source import LogSource
from ove_sb3.core.methods import Betting, Method, as_method
from ove_sb3.core.methods.anytime import AnytimeBetting
from ove_sb3.data.log import Log, LogLike
from ove_sb3.errors import InvalidInputError
from ove_sb3.evaluation.candidates import Candidate
from ove_sb3.evaluation.growth import Writers, check_growth

Kind = Literal["spend", "each", "anytime"]
KINDS = ("spend", "each", "anytime")


class ErrorSpending:
    """Number that the budget of an evaluation depends on, and the method it needs.

    With ``"anytime"`` it counts the models that were evaluated: the bounds of one model hold
    simultaneously at every size of a growing log.

    Parameters
    ----------
    kind : {"spend", "each", "anytime"}
    source : LogSource
    """

    def __init__(self, kind: str, source: LogSource) -> None:
        self.kind = check_choice(kind, "error_spending", KINDS)
        self._n_models = 0
        self._digest: str | None = None
        self._writers: Writers = ()
        if self.kind == "anytime" and not source.is_path:
            raise InvalidInputError(
                "`error_spending` must be 'spend' or 'each' unless `data` is a log directory to "
                f"which episodes are added, got 'anytime' with {type(source.data).__name__}."
            )

    def method(self, method: str | Method) -> Method:
        """Method of the intervals."""
        chosen = as_method(method)
        if self.kind != "anytime":
            return chosen
        if not isinstance(chosen, Betting):
            raise InvalidInputError(
                "`method` must be 'betting' with error_spending='anytime', got "
                f"{chosen.name!r}: the other methods are for one number of episodes."
            )
        return AnytimeBetting()

    def number(self, candidate: Candidate, log: LogLike, n_evaluations: int) -> int | None:
        """Number of the evaluation of a model that follows `n_evaluations` others, from 1."""
        if self.kind == "each":
            return None
        if self.kind == "spend":
            return n_evaluations + 1
        self._check_log(log)
        policy = getattr(candidate, "policy", None)
        digest = None if policy is None else policy.state_digest()
        if digest is None or digest != self._digest:
            # Evaluations of an earlier process count as evaluations of one model each.
            earlier = n_evaluations if self._digest is None else 0
            self._n_models, self._digest = max(self._n_models, earlier) + 1, digest
        return self._n_models

    def _check_log(self, log: LogLike) -> None:
        if log.metadata.logging is None:
            raise InvalidInputError(
                "`data` must be a log that records every episode when it begins with "
                "error_spending='anytime', got one that does not. Log with LogActionProbability or "
                "VecLogActionProbability, or use error_spending='spend'."
            )
        assert isinstance(log, Log)
        check_growth(self._writers, log.writers, log.path)
        self._writers = log.writers
