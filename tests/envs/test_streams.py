import numpy as np
import pytest
from scipy.stats import kstest

from ove_sb3.envs.common.streams import draw_key, draw_keys, key_from_options, uniform, uniforms


def splitmix64(key: int, index: int) -> int:
    """SplitMix64 in Python integers."""
    z = (key + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_splitmix64_known_answers() -> None:
    # First outputs for seed 0, as published with the algorithm.
    assert [splitmix64(0, i) for i in range(2)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@pytest.mark.parametrize("key", [0, 1, 12345, 2**63 + 7, 2**64 - 1])
def test_uniform_uses_the_upper_bits_of_splitmix64(key: int) -> None:
    for index in (0, 1, 24, 1000):
        expected = ((splitmix64(key, index) >> 12) + 0.5) / 2**52
        assert uniform(np.uint64(key), index) == expected
        assert uniforms(np.array([key], dtype=np.uint64), index)[0] == expected


def test_uniforms_are_uniform_over_keys_and_over_indices() -> None:
    keys = draw_keys(np.random.default_rng(3), 50_000)
    assert kstest(uniforms(keys, 5), "uniform").pvalue > 1e-3
    along = np.array([uniform(keys[0], i) for i in range(20_000)])
    assert kstest(along, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(uniforms(keys, 5), uniforms(keys, 6))[0, 1]) < 4 / np.sqrt(50_000)


def test_single_and_batched_keys_are_equal() -> None:
    one, many = np.random.default_rng(8), np.random.default_rng(8)
    assert [draw_key(one) for _ in range(10)] == list(draw_keys(many, 10))


@pytest.mark.parametrize("key", [-1, 2**64, 1.0, "7", True])
def test_key_in_options_must_be_a_64_bit_integer(key: object) -> None:
    with pytest.raises(ValueError, match=r"options\[\"key\"\]"):
        key_from_options({"key": key}, np.random.default_rng(0))
