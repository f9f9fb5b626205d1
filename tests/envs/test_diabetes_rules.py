import importlib.util
import math
from typing import Any

import numpy as np
import pytest

from ove_sb3.envs import DiabetesEnv
from ove_sb3.envs.diabetes.risk import risk
from ove_sb3.envs.diabetes.rules import Pump, bolus, delivered, score
from ove_sb3.envs.diabetes.simglucose_package import load_simulator, look_up, package_folder


def test_bolus_hand_computed() -> None:
    rules = DiabetesEnv().days.rules
    assert bolus(rules, 120.0, 60.0, 10.0, 25.0) == 6.0
    assert bolus(rules, 190.0, 60.0, 10.0, 25.0) == 6.0 + 50.0 / 25.0
    assert bolus(rules, 150.0, 60.0, 10.0, 25.0) == 6.0
    assert bolus(rules, 300.0, 0.0, 10.0, 25.0) == 0.0
    assert bolus(rules._replace(correct_above=0.0), 40.0, 10.0, 10.0, 25.0) == 0.0
    per_minute = DiabetesEnv(meal_unit="g/min").days.rules
    assert bolus(per_minute, 120.0, 60.0, 10.0, 25.0) == pytest.approx(2.0)


def test_score_hand_computed() -> None:
    rules = DiabetesEnv().days.rules
    assert score(rules, 5.0) == 0.0
    assert score(rules, 0.0) == 0.2
    assert score(rules, 17.5) == -0.5
    assert score(rules, 80.0) == -1.0


@pytest.mark.parametrize("name", ["Insulet", "Cozmo"])
def test_pump_equals_simglucose(name: str) -> None:
    ours = Pump.from_table(look_up("pump", name))
    theirs = load_simulator().pump.withName(name)
    for rate in [0.0, 1e-7, 0.0123456, 1.98765, 29.999, 34.0, 100.0]:
        bolus_rate = delivered(rate, ours.bolus_step, ours.bolus_low, ours.bolus_high)
        basal_rate = delivered(rate, ours.basal_step, ours.basal_low, ours.basal_high)
        assert bolus_rate == pytest.approx(theirs.bolus(rate), abs=1e-12)
        assert basal_rate == pytest.approx(theirs.basal(rate), abs=1e-12)


def test_risk_equals_simglucose() -> None:
    path = package_folder() / "analysis" / "risk.py"
    spec: Any = importlib.util.spec_from_file_location("risk", path)
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for glucose in [5.0, 39.0, 70.0, 112.5, 180.0, 400.0, 600.0]:
        assert risk(glucose) == pytest.approx(module.risk_index([glucose], 1)[2], rel=1e-12)
    assert risk(112.517) < 1e-4
    assert math.isfinite(risk(-3.0))


def test_basal_keeps_a_fasting_patient_steady() -> None:
    from ove_sb3.envs.diabetes.kernel import glucose_trace

    body = DiabetesEnv().days.patient
    none = np.empty((1, 0), dtype=np.int64)
    trace = glucose_trace(body, none, np.empty((1, 0)), np.full(600, body.basal))
    np.testing.assert_allclose(trace, trace[0], atol=0.01)
