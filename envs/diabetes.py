"""Treatment of type-1 diabetes: the two constants of a bolus calculator, a day at a time."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import ArrayLike, NDArray

from . import diabetes_batch, diabetes_render
from .checks import check_number, check_range, check_render_mode
from .diabetes_actions import Dosing, check_actions
from .diabetes_days import Day, Days
from .diabetes_patient import Patient
from .diabetes_rules import Pump, Rules
from .episodes import Episodes, Policy
from .gaussian import GaussianPolicy
from .simglucose_package import look_up
from .streams import Rng, key_from_options

#: Options of `DiabetesEnv` for the choices of the authors' later public code: no basal insulin,
#: meals counted in grams a minute, no early end, another scale of the return.
PUBLIC_CODE: dict[str, Any] = {
    "basal": 0.0,
    "meal_unit": "g/min",
    "stop_range": None,
    "risk_offset": 26.5,
    "risk_scale": 0.5,
    "reward_range": (-15.0, 15.0),
}


class DiabetesEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A day of a virtual patient with type-1 diabetes, steered by two constants.

    ## Description
    The patient (UVA/Padova model, as in simglucose) wears a glucose sensor and an insulin pump and
    eats up to six meals at random times. When a meal is announced, a bolus calculator injects

    ``grams / CR + (reading - target) / CF``  (the second term only above `correct_above`; never
    negative)

    units of insulin over the next sample of the sensor, on top of a constant basal rate. An
    episode is a day and has one step: the choice of CR and CF. Two backends simulate the same day
    from the same meals and the same sensor noise: ``"fast"``, compiled, and ``"simglucose"``, the
    reference.

    ## Observation space
    ``Box(0, 1, (1,))``: always [1.], as every day begins alike.

    ## Action space
    ``Box(-1, 1, (2,))``: CR and CF, scaled linearly to `cr_range` and `cf_range`.

    ## Rewards
    ``(risk_offset - mean risk) / risk_scale``, clipped to `reward_range`, where the mean is over
    the samples of the day and the risk is Kovatchev's, of the sensor reading.

    ## Starting state
    Midnight, the patient in simglucose's initial state.

    ## Episode end
    Terminated after one step (``horizon`` is 1). The simulated day ends early when the mean glucose
    of a sample leaves `stop_range`; the rest of it is then scored at the limit of the sensor.

    ## Info
    ``reset`` returns ``key``: the 64-bit key of the day; ``reset(options={"key": key})`` replays
    its meals and noise. ``step`` returns ``cr``, ``cf``, ``mean_risk`` and ``minutes`` (simulated,
    1440 if the day was not ended early). The traces are in the attribute ``day``.

    ## Arguments

    Parameters
    ----------
    patient
        ``"adolescent#001"`` to ``"adolescent#010"``, likewise ``adult`` and ``child``.
    backend
        ``"fast"`` or ``"simglucose"`` (slow; needs pandas).
    cr_range, cf_range
        Limits of CR (grams a unit) and CF (mg/dL a unit).
    target, correct_above
        Glucose a correction aims at, and the reading above which one is given, mg/dL.
    basal
        Basal insulin, units a minute; None is what keeps the fasting patient steady.
    meal_unit
        ``"g"``, or ``"g/min"`` to divide the meal by the minutes of a sample.
    sensor, pump
        ``"Dexcom"``, ``"GuardianRT"`` or ``"Navigator"``; ``"Insulet"`` or ``"Cozmo"``.
    stop_range
        Glucose outside of which the day ends, mg/dL; None to go on in any case.
    risk_offset, risk_scale, reward_range
        Scale and limits of the return.
    clip_actions
        Clip actions to [-1, 1] instead of refusing those outside.
    render_mode
        ``"ansi"`` or ``"rgb_array"`` (which needs matplotlib).

    ## Version history
    v0: first version.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 1}  # noqa: RUF012 (as in Env)
    horizon = 1

    def __init__(
        self,
        *,
        patient: str = "adolescent#003",
        backend: str = "fast",
        cr_range: tuple[float, float] = (3.0, 30.0),
        cf_range: tuple[float, float] = (5.0, 50.0),
        target: float = 140.0,
        correct_above: float = 150.0,
        basal: float | None = None,
        meal_unit: str = "g",
        sensor: str = "Dexcom",
        pump: str = "Insulet",
        stop_range: tuple[float, float] | None = (10.0, 600.0),
        risk_offset: float = 5.0,
        risk_scale: float = 25.0,
        reward_range: tuple[float, float] = (-1.0, 0.2),
        clip_actions: bool = False,
        render_mode: str | None = None,
    ) -> None:
        self.render_mode = check_render_mode(self, render_mode)
        self.patient = patient
        self.backend = _check_choice("backend", backend, ("fast", "simglucose"))
        self.dosing = Dosing(cr_range, cf_range)
        self.reward_range = check_range("reward_range", reward_range)
        self.clip_actions = clip_actions
        body = Patient.from_table(look_up("patient", patient))
        minutes = look_up("sensor", sensor)["sample_time"]
        in_grams = _check_choice("meal_unit", meal_unit, ("g", "g/min")) == "g"
        low, high = (-np.inf, np.inf)
        if stop_range is not None:
            low, high = check_range("stop_range", stop_range)
        rules = Rules(
            pump=Pump.from_table(look_up("pump", pump)),
            basal=body.basal if basal is None else check_number("basal", basal, 0.0),
            target=check_number("target", target, 0.0),
            correct_above=check_number("correct_above", correct_above, 0.0),
            meal_per_gram=1.0 if in_grams else 1.0 / minutes,
            stop_low=float(low),
            stop_high=float(high),
            risk_offset=check_number("risk_offset", risk_offset),
            risk_scale=check_number("risk_scale", risk_scale, 1e-9),
            reward_low=self.reward_range[0],
            reward_high=self.reward_range[1],
        )
        self.days = Days(patient, sensor, pump, rules, backend)
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.day: Day | None = None
        self._key = np.uint64(0)
        self._done = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Midnight; see the class for ``options`` and the info."""
        super().reset(seed=seed)
        self._key = key_from_options(options, self.np_random)
        self._done = False
        self.day = None
        return np.ones(1, dtype=np.float32), {"key": int(self._key)}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Live through the day with these constants.

        Raises
        ------
        gymnasium.error.ResetNeeded
            If the day is over or has not begun.
        gymnasium.error.InvalidAction
            If the action is not two finite numbers, or outside [-1, 1] while `clip_actions` is off.
        """
        if self._done:
            raise ResetNeeded("The episode is over (or never began): call `reset` before `step`.")
        actions = check_actions(np.asarray(action)[np.newaxis], 1, self.clip_actions)
        cr, cf = (float(ratio) for ratio in self.dosing.ratios(actions)[0])
        self.day = self.days.live(self._key, cr, cf)
        self._done = True
        info = {
            "cr": cr,
            "cf": cf,
            "mean_risk": self.day.mean_risk,
            "minutes": self.day.simulated,
        }
        return np.ones(1, dtype=np.float32), self.day.reward, True, False, info

    def render(self) -> str | NDArray[np.uint8] | None:
        """The glucose of the day with meals, insulin and the target band."""
        if self.render_mode == "ansi":
            return diabetes_render.text(self.patient, self.day)
        if self.render_mode == "rgb_array":
            return diabetes_render.image(self.patient, self.day)
        gym.logger.warn("render() was called, but no `render_mode` was given to the environment.")
        return None

    def gaussian_policy(
        self,
        cr: float,
        cf: float,
        *,
        spread: float = 0.15,
        mixed: float = 1.0,
        middle: str = "midpoint",
    ) -> GaussianPolicy:
        """A Gaussian policy around CR and CF, as in the paper.

        Parameters
        ----------
        cr, cf
            The mean.
        spread
            Standard deviation, as a fraction of each range.
        mixed
            Weight of the mean given; the rest goes to the middle of the ranges. The paper's
            behaviour policy is its candidate with ``mixed=0.5``.
        middle
            ``"midpoint"``, (low + high) / 2; or ``"half-range"``, (high - low) / 2, as the paper
            has it to the letter.
        """
        weight = check_number("mixed", mixed, 0.0, 1.0)
        half_range = _check_choice("middle", middle, ("midpoint", "half-range")) == "half-range"
        center = self.dosing.half_range_action() if half_range else np.zeros(2)
        mean = weight * self.dosing.action(cr, cf) + (1.0 - weight) * center
        return GaussianPolicy(mean, 2.0 * check_number("spread", spread, 1e-9))

    def simulate(
        self, policy: ArrayLike | Policy, n: int, rng: Rng = None, *, n_threads: int = 1
    ) -> Episodes:
        """Run `n` days at once.

        Parameters
        ----------
        policy
            A function of observations and generator that returns actions and their log-densities,
            such as a `GaussianPolicy`; its actions are executed clipped to [-1, 1] and returned as
            drawn. Or actions given in advance, (n, 2) or (2,) for every day.
        n
            Number of days.
        rng
            Seed or generator. Day i is the i-th one of this environment after ``reset(seed=rng)``.
        n_threads
            Threads to share the days among; the result does not depend on it.
        """
        return diabetes_batch.simulate(self, policy, n, rng, n_threads)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return value
