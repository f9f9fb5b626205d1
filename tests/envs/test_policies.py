from typing import Any

import numpy as np
import pytest

from ove_sb3.envs import GridworldEnv, RecommenderEnv
from ove_sb3.envs.common.tables import cumulative_table, log_table
from ove_sb3.errors import InvalidInputError


def test_cumulative_table_is_exactly_one_from_the_last_possible_action_on() -> None:
    table = np.array([[0.1] * 10 + [0.0, 0.0], [0.0, 1.0] + [0.0] * 10])
    assert np.cumsum(table[0])[-1] < 1.0  # rounding: ten tenths sum to less than 1
    cumulative = cumulative_table(table)
    np.testing.assert_array_equal(cumulative[0, 9:], 1.0)
    np.testing.assert_allclose(cumulative[0, :9], np.arange(1, 10) / 10)
    np.testing.assert_array_equal(cumulative[1], [0.0] + [1.0] * 11)


def test_log_of_impossible_actions() -> None:
    np.testing.assert_array_equal(log_table(np.array([0.0, 1.0])), [-np.inf, 0.0])


def test_function_policy_must_return_one_log_probability_per_observation() -> None:
    def pair(observations: Any, rng: np.random.Generator) -> Any:
        return np.zeros(3, dtype=np.int64), np.zeros(2)

    for env in (GridworldEnv(), RecommenderEnv()):
        with pytest.raises(InvalidInputError, match=r"3 log-probabilities.*got .* \(2,\)"):
            env.simulate(pair, 3, rng=0)
