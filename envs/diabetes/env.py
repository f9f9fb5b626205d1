"""Insulin dosing for type 1 diabetes, one day per episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ove_sb3._validation import check_choice

from ..common.checks import check_finite, check_limits
from ..common.env import BundledEnv
from ..common.episodes import Episodes
from ..common.policies import GaussianPolicy, Policy
from ..common.types import Rng
from . import render, simulation
from .actions import Dosing, check_actions
from .days import Day, Days
from .patient import Patient
from .rules import Pump, Rules
from .simglucose_package import look_up

#: Arguments of `DiabetesEnv` for the settings of the authors' public code, released after the
#: paper: no basal insulin, meals in grams per minute, no early end, another scale of the return.
PUBLIC_CODE: dict[str, Any] = {
    "basal": 0.0,
    "meal_unit": "g/min",
    "stop_range": None,
    "risk_offset": 26.5,
    "risk_scale": 0.5,
    "reward_range": (-15.0, 15.0),
}


class DiabetesEnv(BundledEnv[NDArray[np.float32], NDArray[np.float32]]):
    """One day of a virtual patient with type 1 diabetes, controlled by two constants.

    ## Description
    The patient (UVA/Padova model, as in simglucose) wears a glucose sensor and an insulin pump and
    eats up to six meals at random times. When a meal is announced, a bolus calculator injects

    ``grams / CR + (reading - target) / CF``

    units of insulin (U) during the next sample of the sensor, in addition to a constant basal rate.
    CR is the carbohydrate ratio and CF the correction factor. The second term applies only if the
    reading is above `correct_above`; the bolus is never negative. An episode is one day with one
    step, the choice of CR and CF. Two backends simulate the same day from the same meals and the
    same sensor noise: ``"fast"``, compiled, and ``"simglucose"``, the reference.

    ## Action Space
    ``Box(-1, 1, (2,))``: CR and CF, scaled linearly to `cr_range` and `cf_range`.

    ## Observation Space
    ``Box(0, 1, (1,))``: always [1.], because all days start in the same state.

    ## Rewards
    ``(risk_offset - mean risk) / risk_scale``, clipped to `reward_range`. The mean is taken over
    the samples of the day; the risk is Kovatchev's risk of the sensor reading.

    ## Starting State
    Midnight, with the patient in simglucose's initial state.

    ## Episode End
    - Termination: after one step (the attribute ``horizon`` is 1).

    The simulated day ends early if the mean glucose of a sample leaves `stop_range`. The remaining
    samples then count with the risk at the limit of the sensor.

    ## Information
    ``reset`` returns ``key``, the 64-bit key of the day. ``reset(options={"key": key})`` replays
    its meals and noise. ``step`` returns ``cr``, ``cf``, ``mean_risk`` and ``minutes``, the
    simulated minutes (1440 unless the day ended early). The attribute ``day`` holds the traces of
    the last day.

    ## Arguments

    Parameters
    ----------
    patient
        ``"adolescent#001"`` to ``"adolescent#010"``; also ``"adult#..."`` and ``"child#..."``.
    backend
        ``"fast"`` or ``"simglucose"`` (slow).
    cr_range, cf_range
        Limits of CR (g/U) and CF (mg/dL per U).
    target, correct_above
        Glucose that a correction aims at, and reading above which it is given, mg/dL.
    basal
        Basal insulin, U/min; None for the rate that keeps the glucose constant without meals.
    meal_unit
        ``"g"``, or ``"g/min"`` to divide the meal by the minutes per sample.
    sensor, pump
        ``"Dexcom"``, ``"GuardianRT"`` or ``"Navigator"``; ``"Insulet"`` or ``"Cozmo"``.
    stop_range
        Glucose limits beyond which the day ends, mg/dL; None to simulate the day to its end.
    risk_offset, risk_scale, reward_range
        Offset, scale and limits of the return.
    clip_actions
        Clip actions to [-1, 1] instead of raising an error for actions outside.
    render_mode
        ``"ansi"`` or ``"rgb_array"``.

    ## References
    J. Xie, "Simglucose v0.2.1", 2018, https://github.com/jxx123/simglucose.

    ## Version History
    - v0: Initial version.
    """

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
        super().__init__(render_mode)
        self.patient = patient
        self.backend = check_choice(backend, "backend", ("fast", "simglucose"))
        self.dosing = Dosing(cr_range, cf_range)
        self.reward_range = check_limits(reward_range, "reward_range")
        self.clip_actions = clip_actions
        body = Patient.from_table(look_up("patient", patient))
        minutes = look_up("sensor", sensor)["sample_time"]
        in_grams = check_choice(meal_unit, "meal_unit", ("g", "g/min")) == "g"
        low, high = (-np.inf, np.inf)
        if stop_range is not None:
            low, high = check_limits(stop_range, "stop_range")
        rules = Rules(
            pump=Pump.from_table(look_up("pump", pump)),
            basal=body.basal if basal is None else check_finite(basal, "basal", 0.0),
            target=check_finite(target, "target", 0.0),
            correct_above=check_finite(correct_above, "correct_above", 0.0),
            meal_per_gram=1.0 if in_grams else 1.0 / minutes,
            stop_low=float(low),
            stop_high=float(high),
            risk_offset=check_finite(risk_offset, "risk_offset"),
            risk_scale=check_finite(risk_scale, "risk_scale", 1e-9),
            reward_low=self.reward_range[0],
            reward_high=self.reward_range[1],
        )
        self.days = Days(patient, sensor, pump, rules, backend)
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.day: Day | None = None

    def _begin(self) -> NDArray[np.float32]:
        self.day = None
        return np.ones(1, dtype=np.float32)

    def _advance(
        self, action: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        actions = check_actions(np.asarray(action)[np.newaxis], 1, self.clip_actions)
        cr, cf = (float(ratio) for ratio in self.dosing.ratios(actions)[0])
        self.day = self.days.simulate(self._key, cr, cf)
        info = {
            "cr": cr,
            "cf": cf,
            "mean_risk": self.day.mean_risk,
            "minutes": self.day.simulated,
        }
        return np.ones(1, dtype=np.float32), self.day.reward, True, False, info

    def _render_text(self) -> str:
        return render.text(self.patient, self.day)

    def _render_image(self) -> NDArray[np.uint8]:
        return render.image(self.patient, self.day)

    def gaussian_policy(
        self,
        cr: float,
        cf: float,
        *,
        spread: float = 0.15,
        mixed: float = 1.0,
        middle: str = "midpoint",
    ) -> GaussianPolicy:
        """Gaussian policy around CR and CF, as in the paper.

        Parameters
        ----------
        cr, cf
            Mean of the policy.
        spread
            Standard deviation, as a fraction of each range.
        mixed
            Weight of (cr, cf) in the mean; the remaining weight is on the middle of the ranges. The
            paper's behavior policy is its candidate with ``mixed=0.5``.
        middle
            ``"midpoint"``, (low + high) / 2, or ``"half-range"``, (high - low) / 2, which is what
            the paper states.
        """
        weight = check_finite(mixed, "mixed", 0.0, 1.0)
        half_range = check_choice(middle, "middle", ("midpoint", "half-range")) == "half-range"
        center = self.dosing.half_range_action() if half_range else np.zeros(2)
        mean = weight * self.dosing.action(cr, cf) + (1.0 - weight) * center
        return GaussianPolicy(mean, 2.0 * check_finite(spread, "spread", 1e-9))

    def simulate(
        self, policy: ArrayLike | Policy, n: int, rng: Rng = None, *, n_threads: int = 1
    ) -> Episodes:
        """Run a batch of `n` days.

        Parameters
        ----------
        policy
            Function of observations and generator that returns actions and their log-densities,
            such as a `GaussianPolicy`; actions are clipped to [-1, 1] for execution and returned as
            drawn. Or actions fixed in advance, (n, 2), or (2,) for every day.
        n
            Number of days.
        rng
            Seed or generator. Day i equals the i-th day of this environment after
            ``reset(seed=rng)`` with the same action.
        n_threads
            Number of threads; the result does not depend on it.
        """
        return simulation.simulate(
            self.days,
            self.dosing,
            policy,
            n,
            rng,
            clip_actions=self.clip_actions,
            n_threads=n_threads,
        )
