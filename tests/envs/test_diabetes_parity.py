"""Agreement of the compiled kernel with simglucose on the same inputs."""

import pickle
from typing import Any

import numpy as np
import pytest

from ove_sb3.envs import PUBLIC_CODE, DiabetesEnv
from ove_sb3.envs.diabetes.kernel import glucose_trace
from ove_sb3.envs.diabetes.reference import make_patient
from ove_sb3.envs.diabetes.simglucose_package import load_simulator, read_table

OPEN_LOOP = 0.05  # mg/dL
CLOSED_LOOP = 1e-4  # of the return


def compare(patient: str, key: int, action: Any, **options: Any) -> tuple[float, float, Any]:
    """Worst open-loop error, error of the return, and the reference day."""
    fast, reference = (
        DiabetesEnv(patient=patient, backend=backend, **options)
        for backend in ("fast", "simglucose")
    )
    days = []
    for env in (fast, reference):
        env.reset(options={"key": key})
        env.step(np.array(action))
        days.append(env.day)
    ours, theirs = days
    assert ours.simulated == theirs.simulated
    np.testing.assert_array_equal(ours.minutes, theirs.minutes)
    minutes = theirs.simulated
    insulin = np.repeat(theirs.insulin, theirs.sample_time)[:minutes]
    trace = glucose_trace(
        fast.days.patient, theirs.minutes[np.newaxis], theirs.grams[np.newaxis], insulin
    )
    worst = float(np.abs(trace - theirs.glucose[: minutes + 1]).max())
    scale = options.get("risk_scale", 25.0) / 25.0
    return worst, scale * abs(ours.reward - theirs.reward), theirs


@pytest.mark.parametrize(
    ("patient", "key", "action", "options"),
    [
        ("adolescent#003", 11, (-0.3, 0.1), {}),
        # With one step per minute while eating, the error on this day would be 0.2 mg/dL.
        ("child#007", 14, (0.9, 0.5), {"sensor": "GuardianRT", "pump": "Cozmo"}),
        ("adult#002", 13, (-0.9, -0.9), PUBLIC_CODE),
    ],
)
def test_fast_backend_equals_simglucose(
    patient: str, key: int, action: Any, options: dict[str, Any]
) -> None:
    worst, error, day = compare(patient, key, action, **options)
    assert worst < OPEN_LOOP
    assert error < CLOSED_LOOP
    assert day.minutes.size >= 2
    assert np.nanmax(day.insulin) > 5 * np.nanmin(day.insulin)  # a bolus was given


def test_backends_agree_on_an_early_end() -> None:
    worst, error, day = compare("adolescent#003", 14, (-1.0, -1.0))
    assert day.simulated < 1440
    assert np.isnan(day.glucose[day.simulated + 1 :]).all()
    assert worst < OPEN_LOOP
    assert error < CLOSED_LOOP


def test_reference_environment_can_be_pickled() -> None:
    env: Any = DiabetesEnv(backend="simglucose")
    copy = pickle.loads(pickle.dumps(env))
    assert copy.backend == "simglucose"


def test_plain_parameters_do_not_change_simglucose() -> None:
    simulator = load_simulator()
    pandas_patient = simulator.patient.withName("adolescent#003")
    plain_patient = make_patient(simulator, "adolescent#003")
    inputs = type(pandas_patient._last_action)
    for minute in range(25):
        step = inputs(CHO=30.0 if minute == 3 else 0.0, insulin=0.02 + 0.5 * (minute == 5))
        for patient in (pandas_patient, plain_patient):
            patient.step(step)
        np.testing.assert_array_equal(pandas_patient.state, plain_patient.state)


@pytest.mark.slow
def test_all_thirty_patients_on_random_days() -> None:
    rng = np.random.default_rng(20)
    worst, errors = [], []
    for patient in read_table("vpatient_params"):
        for _ in range(4):
            key = int(rng.integers(0, 2**64, dtype=np.uint64))
            open_loop, error, _ = compare(patient, key, rng.uniform(-1, 1, 2))
            worst.append(open_loop)
            errors.append(error)
    assert len(worst) == 120
    assert max(worst) < OPEN_LOOP
    assert max(errors) < CLOSED_LOOP
