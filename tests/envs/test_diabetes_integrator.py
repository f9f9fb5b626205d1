import numba
import numpy as np

from ove_sb3.envs import DiabetesEnv
from ove_sb3.envs.diabetes.integrator import (
    LANES,
    PER_MEAL,
    advance,
    exp_simd,
    new_buffer,
    set_length,
    set_state,
)
from ove_sb3.envs.diabetes.patient import Patient, emptying_arguments, slopes


@numba.njit
def all_exp(x: np.ndarray) -> np.ndarray:
    result = np.empty_like(x)
    for i in range(x.shape[0]):
        result[i] = exp_simd(x[i])
    return result


def test_exponential_is_accurate() -> None:
    x = np.concatenate([np.linspace(-690, 690, 10_001), np.linspace(-1, 1, 1_001)])
    np.testing.assert_allclose(all_exp(x), np.exp(x), rtol=4e-15)


def test_gastric_emptying_equals_the_tanh_formula() -> None:
    p: Patient = DiabetesEnv().days.patient
    meal = 40_000.0
    for content in (100.0, 9_000.0, 25_000.0, 39_000.0):
        full, empty = np.exp(emptying_arguments(p, content / meal))
        zeros = [0.0] * 10
        liquid = slopes(p, 0.0, content, 0.0, *zeros, 0.0, 0.0, full, empty)
        a, c = 5 / (2 * meal * (1 - p.b)), 5 / (2 * meal * p.d)
        tanh = np.tanh(a * (content - p.b * meal)) - np.tanh(c * (content - p.d * meal))
        rate = p.kmin + (p.kmax - p.kmin) / 2 * (tanh + 2)
        np.testing.assert_allclose(liquid[1], -rate * content, rtol=1e-12)
        np.testing.assert_allclose(liquid[2], rate * content, rtol=1e-12)


def end_state(p: Patient, steps: int) -> np.ndarray:
    """States after ten minutes of digestion, integrated in `steps` steps."""
    w = new_buffer()
    set_state(w, 3, p)
    w[3], w[LANES + 3], w[PER_MEAL + 3] = 20_000.0, 15_000.0, 1 / 50_000.0
    set_length(w, 3, 10.0 / steps)
    for _ in range(steps):
        advance(p, w)
    return np.array(w[3 : 13 * LANES : LANES])


def test_integration_is_of_fourth_order_and_idle_lanes_do_not_change() -> None:
    p: Patient = DiabetesEnv().days.patient
    exact = end_state(p, 2_000)
    coarse, fine = (np.abs(end_state(p, n) - exact)[[1, 2, 3]] for n in (5, 10))
    assert (coarse / fine > 12).all()
    assert (coarse / fine < 24).all()
    w = new_buffer()
    set_state(w, 0, p)
    before = w[: 13 * LANES].copy()
    advance(p, w)
    np.testing.assert_array_equal(w[: 13 * LANES], before)
