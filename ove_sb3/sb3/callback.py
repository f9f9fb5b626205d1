"""Watching a training run: what the logs of another policy say about the model, look by look."""

from __future__ import annotations

import importlib.util
import os
import warnings
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from stable_baselines3.common.callbacks import BaseCallback, EventCallback
from stable_baselines3.common.logger import Figure, TensorBoardOutputFormat

from ove_sb3._validation import check_choice, check_integer, check_real
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.errors import DependenceWarning, InvalidInputError, OveWarning

from .gate import check_gate
from .isolation import untouched
from .log_source import Data, LogSource
from .look import Look, Question, delta_of_look, look_at
from .look_files import Rows, draw, empty_rows, read_rows, row_of, write_rows, write_whole

_ALL_BUT_TENSORBOARD = ("stdout", "log", "json", "csv")


class OffPolicyVarianceCallback(EventCallback):
    """Judges the model in training, by the log of another policy, every so many steps.

    At each look it reports mean and variance of the model's return with guaranteed bounds, to the
    logger and to files, and saves the best model whose bounds satisfy the gate. No environment is
    run, and training is bit for bit the same as without it.

    Parameters
    ----------
    data : Trajectories, callable or path
        A log that the model does not learn from; a function without arguments that returns one,
        asked at every look; or a directory of logs, read again at every look, to which another
        process may be adding.
    reward_range : (float, float), optional
        Smallest and largest reward the environment can give; by default as noted in the log.
    gamma : float, optional
        Discount factor of the return that is judged; by default the model's.
    eval_freq : int
        Look every `eval_freq` calls of the callback. With several environments a call stands
        for as many steps: use ``max(eval_freq // n_envs, 1)``.
    delta : float
        Probability of a miss: with ``looks="spend"`` of any bound of the whole run.
    log_path : path, optional
        Folder for ``evaluations.npz``, written anew at every look. Not that of an EvalCallback,
        whose file has the same name.
    best_model_save_path : path, optional
        Folder for ``best_model.zip``, and ``best_model_vecnormalize.pkl`` if observations are
        normalised.
    max_variance, min_mean : float, optional
        The gate. A model is admissible if its upper bound for the variance and its lower bound for
        the mean satisfy it, and are guaranteed. Without a gate every model is admissible.
    callback_on_new_best : BaseCallback, optional
        Called when an admissible model has the highest lower bound for the mean so far.
    callback_after_eval : BaseCallback, optional
        Called after every look.
    looks : {"spend", "each"}
        ``"spend"``: look k is given ``6 delta / (pi k)^2``, half for the mean and half for the
        variance, so that all bounds of all looks hold together with probability ``1 - delta``.
        ``"each"``: the bounds of every single look hold with probability ``1 - delta``; those of
        the best of many looks do not.
    deterministic : bool
        Judge the model acting as ``predict(..., deterministic=True)``; not for a Box.
    max_ratio, max_weight, return_range, horizon : optional
        What else is known beforehand, see `variance_interval` and `trajectory_statistics`. The
        horizon is by default as noted in the log.
    independent : bool, optional
        Whether `data` had no part in training the model. By default this is judged by the log: that
        of the very environment the model is being trained in, or any log of learning by a model
        of its class, is taken for its own. The bounds are then labelled approximate, with a
        warning, and satisfy no gate.
    verbose : int
        1: print a line for every look. 2: print the worries of the diagnostics as well.

    Attributes
    ----------
    last_look : Look or None
        Everything found at the last look.
    n_looks : int
        Looks so far. The count goes on in later calls of `learn`; after loading a model, with
        ``learn(..., reset_num_timesteps=False)``, from the file in `log_path`.
    evaluations : dict of list
        The contents of ``evaluations.npz``.
    best_mean_reward, last_mean_reward : float
        Lower bounds for the mean: of the best admissible model, and of the last look. This is
        what `StopTrainingOnRewardThreshold` and `StopTrainingOnNoModelImprovement` read.

    Notes
    -----
    There is one more look when training ends, unless the model has not changed since the last:
    the final model is usually the one to be deployed.

    The guarantee assumes that the bounds have no influence on the training of later models except
    by ending it. Callbacks that change the learning rate by what they see here, say, void it.

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
    >>> callback.n_looks, callback.last_look.guaranteed
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
        max_variance: float | None = None,
        min_mean: float | None = None,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        looks: Literal["spend", "each"] = "spend",
        deterministic: bool = False,
        max_ratio: float | None = None,
        max_weight: float | None = None,
        return_range: tuple[float, float] | None = None,
        horizon: int | None = None,
        independent: bool | None = None,
        verbose: int = 1,
    ) -> None:
        super().__init__(callback_after_eval, verbose=verbose)
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.source = LogSource(data)
        self.eval_freq = check_integer(eval_freq, "eval_freq", 1)
        self.delta = check_real(delta, "delta", 0.0, 1.0, closed=False)
        self.looks = check_choice(looks, "looks", ("spend", "each"))
        self.max_variance, self.min_mean = check_gate(max_variance, min_mean, reward_range)
        self.gamma = None if gamma is None else check_real(gamma, "gamma", 0.0, 1.0)
        if independent is not None and not isinstance(independent, bool):
            raise InvalidInputError(
                f"`independent` must be True, False or None, got {independent!r}. Pass True only "
                "if the model has learned nothing from the log."
            )
        self.independent = independent
        self._options: dict[str, Any] = {
            "horizon": None if horizon is None else check_integer(horizon, "horizon", 1),
            "reward_range": reward_range,
            "return_range": return_range,
            "max_ratio": max_ratio,
            "max_weight": max_weight,
            "deterministic": deterministic,
        }
        self.log_path = None if log_path is None else Path(log_path) / "evaluations.npz"
        self.best_model_save_path = best_model_save_path
        self.evaluations: Rows = empty_rows()
        self.last_look: Look | None = None
        self.best_mean_reward = self.last_mean_reward = -float("inf")
        self._seen: tuple[object, ...] | None = None
        self._warned = False

    @property
    def n_looks(self) -> int:
        """Number of looks so far."""
        return len(self.evaluations["look"])

    @property
    def evaluations_timesteps(self) -> list[int]:
        """Steps of training at every look."""
        return self.evaluations["timesteps"]

    # --- what SB3 calls

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
        if self.num_timesteps > 0 and not self.n_looks:
            self._resume()
        if self.source.asked_each_time:
            self._is_own(None)
            return
        with untouched(self.model):
            data = self._read()
            if data is not None:
                self._is_own(data)
                self._question().check(self.model, data)

    def _on_step(self) -> bool:
        return self._look() if self.n_calls % self.eval_freq == 0 else True

    def _on_training_end(self) -> None:
        self.num_timesteps = self.model.num_timesteps
        if self._seen != self._state():
            self._look()

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Pass the local variables of `learn` on to the child callbacks."""
        super().update_child_locals(locals_)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.update_locals(locals_)

    # --- one look

    def _look(self) -> bool:
        """Judge the model and report; return whether training goes on."""
        self._seen = self._state()
        number = self.n_looks + 1
        with untouched(self.model):
            data = self._read()
            if data is None:
                return True
            look = look_at(
                self.model,
                data,
                self._question(),
                number=number,
                timesteps=self.num_timesteps,
                delta=delta_of_look(self.delta, number) if self.looks == "spend" else self.delta,
                void=self._is_own(data),
            )
        admissible = look.satisfies(self.max_variance, self.min_mean)
        self.last_look = look
        self.last_mean_reward = look.mean_interval.lower
        for name, value in row_of(look, admissible).items():
            self.evaluations[name].append(value)
        if self.log_path is not None:
            write_rows(self.evaluations, self.log_path)
        self._report(look, admissible)
        proceed = True
        if admissible and self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            self._save_best()
            if self.callback_on_new_best is not None:
                proceed = self.callback_on_new_best.on_step()
        return self._on_event() and proceed

    def _state(self) -> tuple[object, ...]:
        """Changes whenever the model may have changed."""
        return self.model.num_timesteps, getattr(self.model, "_n_updates", None)

    def _question(self) -> Question:
        gamma = getattr(self.model, "gamma", None) if self.gamma is None else self.gamma
        if gamma is None:
            raise InvalidInputError(
                f"`gamma` must be given for {type(self.model).__name__}, which has none itself, "
                "got None. Pass the discount factor of the return to be judged."
            )
        return Question(gamma=float(gamma), **self._options)

    def _read(self) -> Trajectories | None:
        """The log as it is now; None, with a warning, if a growing one is still too short."""
        data = self.source.read(self.model)
        if data is not None and len(data) >= 2:
            return data
        if self.num_timesteps > 0:
            warnings.warn(
                "`data` must hold at least 2 complete episodes for a look, got "
                f"{0 if data is None else len(data)} at {self.num_timesteps} timesteps: this look "
                "is left out.",
                OveWarning,
                stacklevel=2,
            )
        return None

    def _is_own(self, data: Trajectories | None) -> bool:
        """Whether the model depends on the log; warns about it once."""
        if self.independent is not None:
            own = not self.independent
        else:
            own = self.source.may_be_own(data, self.model)
        if own and not self._warned:
            self._warned = True
            gate = self.max_variance is not None or self.min_mean is not None
            warnings.warn(
                "the model is judged by a log of its own training: it depends on the data, so the "
                "guarantee is void and all bounds are labelled approximate"
                + ", and no model satisfies the gate"
                * gate
                + ". Hold data out (Trajectories.split), collect them with another policy, or pass "
                "independent=True if this log stems from another run.",
                DependenceWarning,
                stacklevel=2,
            )
        return own

    def _resume(self) -> None:
        """Go on counting where an earlier process stopped."""
        if self.log_path is not None and self.log_path.exists():
            self.evaluations = read_rows(self.log_path)
            best = [
                lower
                for lower, admissible in zip(
                    self.evaluations["mean_lower"], self.evaluations["admissible"], strict=True
                )
                if admissible
            ]
            self.best_mean_reward = max(best, default=self.best_mean_reward)

    # --- reports

    def _report(self, look: Look, admissible: bool) -> None:
        if self.verbose >= 1:
            print(self._line(look, admissible))
        if self.verbose >= 2:
            for worry in look.warnings:
                print(f"  warning: {worry}")
        values = row_of(look, admissible)
        hidden = ("timesteps", "behavior_mean", "behavior_variance")
        for name in values.keys() - set(hidden):
            value = values[name]
            self.logger.record(f"ove/{name}", int(value) if isinstance(value, bool) else value)
        if self._wants_figure():
            limits = {"mean": self.min_mean, "variance": self.max_variance}
            figure = draw(self.evaluations, limits, self._label(look))
            self.logger.record("ove/bounds", Figure(figure, close=True), _ALL_BUT_TENSORBOARD)
        # As EvalCallback: dump now, so that the numbers stand at their own timestep.
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _wants_figure(self) -> bool:
        formats = self.logger.output_formats
        if not any(isinstance(each, TensorBoardOutputFormat) for each in formats):
            return False
        return importlib.util.find_spec("matplotlib") is not None

    def _label(self, look: Look) -> str:
        kind = "guaranteed" if look.guaranteed else "approximate"
        reach = "all looks together" if self.looks == "spend" else "each look by itself"
        return f"{100 * (1 - self.delta):g}% {kind}, {reach}"

    def _line(self, look: Look, admissible: bool) -> str:
        mean, variance = look.mean_interval, look.variance_interval
        gate = self.max_variance is not None or self.min_mean is not None
        return (
            f"Look {look.number} at num_timesteps={look.timesteps}: "
            f"mean {look.mean:.4g} [{mean.lower:.4g}, {mean.upper:.4g}], "
            f"variance {look.variance:.4g} [{variance.lower:.4g}, {variance.upper:.4g}] "
            f"({self._label(look)}; ESS {look.effective_sample_size:.4g} of {look.n_trajectories})"
            + f", {'' if admissible else 'not '}admissible"
            * gate
        )

    def _save_best(self) -> None:
        if self.verbose >= 1:
            print(f"New best lower bound of the mean: {self.best_mean_reward:.4g}")
        if self.best_model_save_path is None:
            return
        folder = Path(self.best_model_save_path)
        normalizer = self.model.get_vec_normalize_env()
        if normalizer is not None:
            write_whole(
                folder / "best_model_vecnormalize.pkl", lambda path: normalizer.save(str(path))
            )
        write_whole(folder / "best_model.zip", self.model.save)
