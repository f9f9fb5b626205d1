from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import ks_2samp

from ove_sb3.envs.common.streams import draw_keys, uniform_table
from ove_sb3.envs.diabetes.sensor import Sensor, draw_noise
from ove_sb3.envs.diabetes.simglucose_package import load_simulator, look_up

SENSORS = ["Dexcom", "GuardianRT", "Navigator"]


class FixedNormals:
    """Stub of simglucose's generator that returns a fixed sequence of normal numbers."""

    def __init__(self, numbers: Any) -> None:
        self._numbers = iter(numbers)

    def randn(self) -> float:
        return float(next(self._numbers))


@pytest.mark.parametrize("name", SENSORS)
def test_noise_from_the_same_normals_equals_simglucose(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = look_up("sensor", name)
    sensor = Sensor.from_table(row)
    keys = draw_keys(np.random.default_rng(0), 3)
    noise = draw_noise(sensor, keys)
    assert noise.shape == (3, 1440 // sensor.sample_time + 1)
    normals = ndtri(uniform_table(keys, 18, 101))
    for day in range(3):
        monkeypatch.setattr(np.random, "RandomState", lambda seed, d=day: FixedNormals(normals[d]))
        generator = load_simulator().noise(pd.Series(row))
        expected = [next(generator) for _ in range(noise.shape[1])]
        np.testing.assert_allclose(noise[day], expected, rtol=0, atol=1e-9)


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
def test_noise_has_the_distribution_of_simglucose(reading: int, both: tuple[Any, Any]) -> None:
    theirs, ours = both
    assert ks_2samp(theirs[:, reading], ours[:, reading]).pvalue > 1e-3
    later = reading + 2
    changes = [x[:, later] - x[:, reading] for x in (theirs, ours)]
    assert ks_2samp(*changes).pvalue > 1e-3
