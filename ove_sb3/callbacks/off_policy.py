"""Off-policy evaluation of the model in training."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import EventCallback

from ove_sb3._files import replacing
from ove_sb3._validation import check_integer, check_real
from ove_sb3.collection.log_source import ATTEMPTS, Data, LogSource
from ove_sb3.core.interval import lower_text
from ove_sb3.core.methods import Method, as_method
from ove_sb3.core.quantities import MOMENTS, Mean, Quantity, as_quantities
from ove_sb3.data.log import LogLike
from ove_sb3.errors import (
    DependenceWarning,
    InvalidInputError,
    MeanWeightError,
    OveWarning,
    SupportWarning,
    WeightOverflowError,
)
from ove_sb3.evaluation.candidates import (
    Candidate,
    LoggedBehavior,
    as_behavior,
    as_candidate,
)
from ove_sb3.evaluation.pipeline import evaluate_a_priori, evaluate_candidates
from ove_sb3.evaluation.plan import Plan, make_plan
from ove_sb3.evaluation.requirements import Requirement, Verdict, parse_requirements
from ove_sb3.evaluation.result import Evaluation
from ove_sb3.policies.provenance import mark_selected, marked_as_selected, read_provenance
from ove_sb3.policies.sb3.isolation import untouched
from ove_sb3.report.history import History, make_row

from .by_name import CallbackLike, as_callback
from .error_spending import ErrorSpending, Kind
from .reporting import interval_label, record, summary_line

T = TypeVar("T")


class OffPolicyVarianceCallback(EventCallback):
    """Evaluate the model in training from the log of another policy, every so many steps.

    Each evaluation is that of `ove_sb3.evaluate`, reported to the logger and to files. The best
    model whose requirements are proven is saved. No environment is run, and training is bit for
    bit the same as without the callback.

    Parameters
    ----------
    data : Trajectories, Log, callable or path
        A log that the model does not learn from; a function without arguments that returns one,
        called at every evaluation; or a log directory, streamed at every evaluation, to which
        another process may be adding.
    reward_range : (float, float) or "from_data", optional
        Smallest and largest reward the environment can give; by default as stated in the log.
    gamma : float, optional
        Discount factor of the return; by default the model's.
    eval_freq : int
        Evaluate every `eval_freq` calls of the callback. With several environments a call stands
        for as many steps: use ``max(eval_freq // n_envs, 1)``.
    delta : float
        Probability of a miss: with ``error_spending="spend"`` of any bound of the whole run.
    log_path : path, optional
        Folder for ``evaluations.npz``, written anew at every evaluation. Not that of an
        EvalCallback, whose file has the same name.
    best_model_save_path : path, optional
        Folder for ``best_model.zip``, and ``best_model_vecnormalize.pkl`` if observations are
        normalized.
    requirements : sequence of str
        Requirements such as ``"variance <= 4"``. A model satisfies them if all are proven. Without
        requirements every model does.
    quantities : sequence of str or Quantity
        Quantities of the return to evaluate; by default only the mean, the variance and the
        standard deviation, because `delta` is divided among them. The mean, by which models are
        ranked, and those of `requirements` are added.
    callback_on_new_best : BaseCallback, str or dict, optional
        Called when a model that satisfies the requirements has the highest lower bound for the
        mean so far.
    callback_after_eval : BaseCallback, str or dict, optional
        Called after every evaluation. In settings files a child callback is given by its name,
        or as a dict of its name to its arguments.
    error_spending : {"spend", "each", "anytime"}
        ``"spend"``: evaluation k is given ``6 delta / (pi k)^2``, so that all bounds of all
        evaluations hold simultaneously with probability ``1 - delta``. ``"each"``: the bounds of
        every single evaluation hold simultaneously with probability ``1 - delta``; those of the
        best of many evaluations do not. ``"anytime"``, for a log directory that grows while the
        model stays the same for several evaluations: k counts the models that were evaluated, and
        the bounds of each hold simultaneously at every size of the log.
    deterministic : bool
        Evaluate the model acting as ``predict(..., deterministic=True)``; not for a Box.
    max_ratio, max_weight, return_range, horizon : optional
        Further assumptions, see `evaluate`.
    behavior : model or policy, optional
        The policy that wrote the log, see `evaluate`; not the model that is being trained.
    method : str or Method
        Method of the intervals, see `interval`.
    approximate : str, Method or None
        Method of the approximate intervals beside them; None leaves them out.
    estimators : dict of str to str, optional
        Estimators other than the defaults.
    independent : bool, optional
        Whether `data` had no part in training the model. By default this is inferred from the log:
        the log of the model's training environment, and any log of learning by a model of the same
        class, is treated as its own. The bounds are then labeled approximate, with a warning, and
        prove no requirement. They are also approximate on data of any training run that this
        package did not log, unless this is True.
    verbose : int
        1: print a line for every evaluation. 2: print its warnings as well.

    Attributes
    ----------
    last_evaluation : Evaluation or None
        Result of the last evaluation.
    last_verdicts : tuple of Verdict
        Its requirements, decided.
    n_evaluations : int
        Evaluations so far. The count continues in later calls of `learn`; after loading a model,
        with ``learn(..., reset_num_timesteps=False)``, from the file in `log_path`.
    evaluations : dict of str to ndarray
        Contents of ``evaluations.npz``.
    best_mean_reward, last_mean_reward : float
        Lower bounds for the mean: of the best model that satisfies the requirements, and of the
        last evaluation. `StopTrainingOnRewardThreshold` and `StopTrainingOnNoModelImprovement`
        read them.

    Notes
    -----
    There is one more evaluation when training ends, unless the model has not changed since the
    last: the final model is usually the one to be deployed.

    Where `evaluate` would refuse because the importance weights overflow or cannot be right,
    training goes on with a warning: the interval is then the a priori range.

    The model remembers, also in its files, that it was selected by the log: the best model that is
    saved, and the one with which a child callback ends training. Evaluated on the same log by
    `evaluate`, whose bounds do not account for the selection, it is labeled approximate.

    The guarantee assumes that the bounds influence the training of later models only by ending it.
    Callbacks that change the learning rate based on them, say, void it.

    Examples
    --------
    >>> from gymnasium import spaces
    >>> from stable_baselines3 import PPO
    >>> import ove_sb3 as ove
    >>> data = ove.collect(ove.UniformPolicy(spaces.Discrete(2)), "CartPole-v1", 200, seed=0)
    >>> callback = ove.OffPolicyVarianceCallback(
    ...     data, reward_range=(0, 1), eval_freq=64, verbose=0
    ... )
    >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, device="cpu", seed=0)
    >>> _ = model.learn(128, callback=callback)
    >>> callback.n_evaluations, callback.last_evaluation.guaranteed
    (3, True)
    """

    def __init__(
        self,
        data: Data,
        *,
        reward_range: tuple[float, float] | str | None = None,
        gamma: float | None = None,
        eval_freq: int = 10_000,
        delta: float = 0.05,
        log_path: str | PathLike[str] | None = None,
        best_model_save_path: str | PathLike[str] | None = None,
        requirements: Sequence[str | Requirement] = (),
        quantities: Sequence[str | Quantity] = MOMENTS,
        callback_on_new_best: CallbackLike = None,
        callback_after_eval: CallbackLike = None,
        error_spending: Kind = "spend",
        deterministic: bool = False,
        max_ratio: float | None = None,
        max_weight: float | None = None,
        behavior: Any = None,
        return_range: tuple[float, float] | None = None,
        horizon: int | None = None,
        method: str | Method = "betting",
        approximate: str | Method | None = None,
        estimators: Mapping[str, str] | None = None,
        independent: bool | None = None,
        verbose: int = 1,
    ) -> None:
        super().__init__(as_callback(callback_after_eval, "callback_after_eval"), verbose=verbose)
        self.callback_on_new_best = as_callback(callback_on_new_best, "callback_on_new_best")
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.parent = self
        self.source = LogSource(data)
        self.eval_freq = check_integer(eval_freq, "eval_freq", 1)
        self.delta = check_real(delta, "delta", 0.0, 1.0, closed=False)
        self._spending = ErrorSpending(error_spending, self.source)
        self.error_spending = self._spending.kind
        self.requirements = parse_requirements(requirements)
        if self.requirements and isinstance(reward_range, str):
            raise InvalidInputError(
                f"`reward_range` must be stated for requirements, got {reward_range!r}: bounds "
                "from the range of the data are not guaranteed and would never prove them."
            )
        self.gamma = None if gamma is None else check_real(gamma, "gamma", 0.0, 1.0)
        if independent is not None and not isinstance(independent, bool):
            raise InvalidInputError(
                f"`independent` must be True, False or None, got {independent!r}. Pass True only "
                "if the model has learned nothing from the log."
            )
        self.independent = independent
        self.behavior = behavior
        self.deterministic = deterministic
        required = [requirement.quantity for requirement in self.requirements]
        self.quantities = as_quantities([*as_quantities(quantities), Mean(), *required])
        self._options: dict[str, Any] = {
            "horizon": None if horizon is None else check_integer(horizon, "horizon", 1),
            "reward_range": reward_range,
            "return_range": return_range,
            "max_ratio": max_ratio,
            "max_weight": max_weight,
            "delta": self.delta,
            "quantities": self.quantities,
            "method": self._spending.method(method),
            "approximate": None if approximate is None else as_method(approximate),
            "estimators": estimators,
        }
        self.log_path = None if log_path is None else Path(log_path) / "evaluations.npz"
        self.best_model_save_path = best_model_save_path
        self.history = History([quantity.name for quantity in self.quantities])
        self.last_evaluation: Evaluation | None = None
        self.last_verdicts: tuple[Verdict, ...] = ()
        self.best_mean_reward = self.last_mean_reward = -float("inf")
        self._evaluated: tuple[object, ...] | None = None
        self._warned = False
        self._log_ids: tuple[str, ...] = ()  # of the log last evaluated
        self._selection_counted = True  # no callback but this one has selected the model

    @property
    def n_evaluations(self) -> int:
        """Number of evaluations so far."""
        return len(self.history)

    @property
    def evaluations(self) -> dict[str, NDArray[Any]]:
        """Numbers of all evaluations by key."""
        return self.history.arrays()

    @property
    def evaluations_timesteps(self) -> list[int]:
        """Steps of training at every evaluation."""
        return list(self.history.rows["timesteps"])

    @property
    def satisfied(self) -> bool:
        """Whether the last evaluation proves all requirements."""
        if self.last_evaluation is None:
            return False
        return all(verdict.proven for verdict in self.last_verdicts)

    # --- called by SB3

    def _init_callback(self) -> None:
        for folder in (self.best_model_save_path, self.log_path and self.log_path.parent):
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)

    def _on_training_start(self) -> None:
        super()._on_training_start()
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.on_training_start(self.locals, self.globals)
        if self.num_timesteps > 0 and not self.n_evaluations:
            self._resume()
        if not self.n_evaluations:
            self._selection_counted = not read_provenance(self.model).selected_by
        if self.source.is_function:
            self._depends_on(None)
            return
        with untouched(self.model):
            self._retrying(self._check_start)

    def _on_step(self) -> bool:
        return self._evaluate() if self.n_calls % self.eval_freq == 0 else True

    def _on_training_end(self) -> None:
        self.num_timesteps = self.model.num_timesteps
        if self._evaluated != self._model_state():
            self._evaluate()

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Pass the local variables of `learn` on to the child callbacks."""
        super().update_child_locals(locals_)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.update_locals(locals_)

    # --- one evaluation

    def _evaluate(self) -> bool:
        """Evaluate the model and report; return whether training goes on."""
        self._evaluated = self._model_state()
        with untouched(self.model):
            evaluation = self._retrying(self._evaluate_log)
            if evaluation is None:
                return True
            verdicts = evaluation.check_all(*self.requirements) if self.requirements else ()
        self.last_evaluation, self.last_verdicts = evaluation, verdicts
        self.last_mean_reward = evaluation["mean"].interval.lower
        self.history.add(
            make_row(
                evaluation,
                number=self.n_evaluations + 1,
                timesteps=self.num_timesteps,
                delta=evaluation.plan.budget.evaluation_delta,
                satisfied=self.satisfied,
            )
        )
        if self.log_path is not None:
            self.history.save(self.log_path)
        self._report(evaluation)
        # What is saved now was selected by this log; a model that trains on was not.
        with marked_as_selected(self.model, self._log_ids):
            proceed = self._announce()
        if not proceed:
            mark_selected(self.model, self._log_ids)
        return proceed

    def _announce(self) -> bool:
        """Save the model if it is the best, call the child callbacks; whether training goes on."""
        proceed = True
        if self.satisfied and self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            self._save_best()
            if self.callback_on_new_best is not None:
                proceed = self.callback_on_new_best.on_step()
        return self._on_event() and proceed

    def _evaluate_log(self) -> Evaluation | None:
        log = self._open()
        if log is None:
            return None
        self._log_ids = log.metadata.log_ids
        candidate = self._candidate(log)
        number = self._spending.number(candidate, log, self.n_evaluations)
        plan = self._plan(log, number)
        try:
            return evaluate_candidates(log, [candidate], plan)[0]
        except (MeanWeightError, WeightOverflowError) as error:
            warnings.warn(
                f"the bounds of this evaluation are no tighter than the a priori bound: {error}",
                SupportWarning,
                stacklevel=2,
            )
            return evaluate_a_priori(log, candidate, plan, str(error))

    def _check_start(self) -> None:
        """Raise errors of the first evaluation now, such as wrong spaces or violated ranges."""
        log = self._open()
        if log is None:
            return
        candidate = self._candidate(log)
        plan = self._plan(log, None)
        _, chunk = next(iter(log.part(0, log.n_steps).windows(log.block_steps)))
        with warnings.catch_warnings():
            # Two episodes need not show every action; an evaluation of all of them will tell.
            warnings.simplefilter("ignore", SupportWarning)
            candidate.score(chunk[:2], 0)
        evaluate_a_priori(log, LoggedBehavior(), plan, "")

    def _retrying(self, read: Callable[[], T]) -> T:
        """Call `read`, and call it again if a writer has just replaced a file."""
        for _ in range(ATTEMPTS - 1):
            try:
                return read()
            except FileNotFoundError:
                continue
        return read()

    def _model_state(self) -> tuple[object, ...]:
        """Value that changes whenever the model may have changed."""
        return self.model.num_timesteps, getattr(self.model, "_n_updates", None)

    def _plan(self, log: LogLike, evaluation: int | None) -> Plan:
        gamma = getattr(self.model, "gamma", None) if self.gamma is None else self.gamma
        if gamma is None:
            raise InvalidInputError(
                f"`gamma` must be given for {type(self.model).__name__}, which has none itself, "
                "got None. Pass the discount factor of the return."
            )
        return make_plan(
            log.metadata,
            gamma=float(gamma),
            simultaneous=True,
            candidate_depends_on_log=self._depends_on(log),
            selection_counted=self._selection_counted,
            independent=bool(self.independent),
            evaluation=evaluation,
            **self._options,
        )

    def _candidate(self, log: LogLike) -> Candidate:
        return as_candidate(
            self.model,
            metadata=log.metadata,
            n_steps=log.n_steps,
            model_class=None,
            vec_normalize=None,
            deterministic=self.deterministic,
            behavior=as_behavior(self.behavior, metadata=log.metadata),
        )

    def _open(self) -> LogLike | None:
        """The log as it is now; None, with a warning, if a growing one is still too short."""
        log = self.source.open(self.model)
        n = 0 if log is None else len(log)
        if n >= 2:
            return log
        if self.num_timesteps > 0:
            warnings.warn(
                "`data` must hold at least 2 complete episodes for an evaluation, got "
                f"{n} at {self.num_timesteps} timesteps: this evaluation is left out.",
                OveWarning,
                stacklevel=2,
            )
        return None

    def _depends_on(self, log: LogLike | None) -> bool:
        """Whether the model depends on the log; warns about it once."""
        trained = log is not None and read_provenance(self.model).was_trained_on(
            log.metadata.log_ids
        )
        if self.independent is not None:
            own = trained or not self.independent
        else:
            own = trained or self.source.may_be_own(log, self.model)
        if own and not self._warned:
            self._warned = True
            warnings.warn(
                "the model is evaluated from a log of its own training: it depends on the data, so "
                "all bounds are labeled approximate"
                + (" and prove no requirement" if self.requirements else "")
                + ". Hold data out (Trajectories.split)"
                + (
                    ", or collect them with another policy."
                    if trained
                    else ", collect them with another policy, or pass independent=True if this log "
                    "comes from another run."
                ),
                DependenceWarning,
                stacklevel=2,
            )
        return own

    def _resume(self) -> None:
        """Continue the count of an earlier process."""
        if self.log_path is None or not self.log_path.exists():
            return
        self.history.load(self.log_path)
        rows = self.evaluations
        best = rows["mean_lower"][rows["satisfied"].astype(np.bool_)]
        self.best_mean_reward = float(best.max()) if best.size else self.best_mean_reward

    # --- reports

    def _report(self, evaluation: Evaluation) -> None:
        label = interval_label(evaluation, self.delta, self.error_spending)
        if self.verbose >= 1:
            print(summary_line(evaluation, self.last_verdicts, label, self.num_timesteps))
        if self.verbose >= 2:
            for text in evaluation.warnings:
                print(f"  warning: {text}")
        record(self.logger, evaluation, self.history, self.requirements, label, self.num_timesteps)

    def _save_best(self) -> None:
        if self.verbose >= 1:
            print(f"New best lower bound of the mean: {lower_text(self.best_mean_reward)}")
        if self.best_model_save_path is None:
            return
        folder = Path(self.best_model_save_path)
        normalizer = self.model.get_vec_normalize_env()
        if normalizer is not None:
            with replacing(folder / "best_model_vecnormalize.pkl") as path:
                normalizer.save(str(path))
        with replacing(folder / "best_model.zip") as path:
            self.model.save(path)
