from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import ks_2samp

from ove_sb3.envs.diabetes_meals import day_uniforms
from ove_sb3.envs.diabetes_sensor import Sensor, draw_noise
from ove_sb3.envs.simglucose_package import load_simulator, look_up
from ove_sb3.envs.streams import draw_keys

SENSORS = ["Dexcom", "GuardianRT", "Navigator"]


class Given:
    """A stand-in for simglucose's generator that hands out given normal numbers."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = iter(numbers)

    def randn(self) -> float:
        return float(next(self._numbers))


@pytest.mark.parametrize("name", SENSORS)
def test_noise_from_given_normals_equals_simglucose(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = look_up("sensor", name)
    sensor = Sensor.from_table(row)
    keys = draw_keys(np.random.default_rng(0), 3)
    found = draw_noise(sensor, keys)
    assert found.shape == (3, 1440 // sensor.sample_time + 1)
    normals = ndtri(day_uniforms(keys, 18, 101))
    for day in range(3):
        monkeypatch.setattr(np.random, "RandomState", lambda seed, d=day: Given(normals[d]))
        generator = load_simulator().noise(pd.Series(row))
        expected = [next(generator) for _ in range(found.shape[1])]
        np.testing.assert_allclose(found[day], expected, rtol=0, atol=1e-9)


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any]:
    row = look_up("sensor", "Dexcom")
    noise = load_simulator().noise
    theirs = []
    for seed in range(400):
        generator = noise(pd.Series(row), seed=seed)
        theirs.append([next(generator) for _ in range(260)])
    keys = draw_keys(np.random.default_rng(4), 10_000)
    return np.array(theirs), draw_noise(Sensor.from_table(row), keys)


@pytest.mark.parametrize("reading", [0, 3, 100, 257])
def test_noise_has_the_law_of_simglucose(reading: int, both: tuple[Any, Any]) -> None:
    theirs, ours = both
    assert ks_2samp(theirs[:, reading], ours[:, reading]).pvalue > 1e-3
    later = reading + 2
    changes = [x[:, later] - x[:, reading] for x in (theirs, ours)]
    assert ks_2samp(*changes).pvalue > 1e-3
