import numpy as np

from ove_sb3.envs.tables import cumulative_table, log_table


def test_cumulative_is_one_from_the_last_possible_action_on() -> None:
    table = np.array([[0.1] * 10 + [0.0, 0.0], [0.0, 1.0] + [0.0] * 10])
    assert np.cumsum(table[0])[-1] < 1.0  # ten tenths are less than one in floating point
    cumulative = cumulative_table(table)
    np.testing.assert_array_equal(cumulative[0, 9:], 1.0)
    np.testing.assert_allclose(cumulative[0, :9], np.arange(1, 10) / 10)
    np.testing.assert_array_equal(cumulative[1], [0.0] + [1.0] * 11)


def test_log_of_impossible_actions() -> None:
    np.testing.assert_array_equal(log_table(np.array([0.0, 1.0])), [-np.inf, 0.0])
