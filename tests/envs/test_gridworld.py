from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from ove_sb3.envs import GridworldEnv
from tests.problems.moment_checks import assert_moments_match

UNIFORM = np.full((16, 8), 1 / 8)


def directed() -> NDArray[np.float64]:
    """Policy that prefers moves toward the bottom right corner."""
    table = np.full((16, 8), 0.05)
    table[:, 7] = 0.4
    table[:, 1] = table[:, 3] = 0.175
    return table


def every_episode(
    env: Any, policy: NDArray[np.float64], gamma: float
) -> Iterator[tuple[float, float]]:
    """Probability and return of every sequence of moves."""
    p_move = (1 - env.grid.slip) * policy + env.grid.slip / 8

    def follow(state: int, time: int, probability: float, so_far: float) -> Iterator[Any]:
        if state == env.grid.goal or time == env.horizon:
            yield probability, so_far
            return
        row, column = divmod(state, env.shape[1])
        moves = [(-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
        for move, (down, right) in enumerate(moves):
            to = (row + down, column + right)
            inside = 0 <= to[0] < env.shape[0] and 0 <= to[1] < env.shape[1]
            after = to[0] * env.shape[1] + to[1] if inside else state
            reward = env.grid.goal_reward if after == env.grid.goal else env.grid.step_reward
            p = probability * p_move[state, move]
            yield from follow(after, time + 1, p, so_far + gamma**time * reward)

    for start in env.grid.starts:
        yield from follow(int(start), 0, 1 / len(env.grid.starts), 0.0)


@pytest.mark.parametrize("start", [(0, 0), None])
def test_exact_moments_equal_enumeration(start: tuple[int, int] | None) -> None:
    env = GridworldEnv(shape=(2, 3), horizon=4, slip=0.3, start=start, step_reward=-0.7)
    policy = np.random.default_rng(5).dirichlet(np.ones(8), size=6)
    p, g = np.array(list(every_episode(env, policy, 0.9))).T
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    mean = (p * g).sum()
    exact = env.exact_moments(policy, 0.9)
    assert exact.mean == pytest.approx(mean, abs=1e-12)
    assert exact.variance == pytest.approx((p * (g - mean) ** 2).sum(), abs=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize(
    "options", [{}, {"shape": (3, 5), "slip": 0.5, "start": None, "goal": (0, 2), "horizon": 9}]
)
def test_exact_moments_match_a_million_episodes(options: dict[str, Any], gamma: float) -> None:
    env = GridworldEnv(**options)
    n_states = env.observation_space.n
    policy = directed() if not options else np.full((n_states, 8), 1 / 8)
    exact = env.exact_moments(policy, gamma)
    episodes = env.simulate(policy, 1_000_000, rng=1)
    assert_moments_match(episodes.returns(gamma), exact)


def test_time_dependent_policy() -> None:
    env = GridworldEnv(horizon=6)
    policy = np.random.default_rng(2).dirichlet(np.ones(8), size=(6, 16))
    exact = env.exact_moments(policy, 0.95)
    episodes = env.simulate(policy, 200_000, rng=3)
    assert_moments_match(episodes.returns(0.95), exact)
    constant = env.exact_moments(np.broadcast_to(UNIFORM, (6, 16, 8)))
    assert constant == env.exact_moments(UNIFORM)


def test_deterministic_policy_without_slip_has_zero_variance() -> None:
    env = GridworldEnv(slip=0.0)
    diagonal = np.zeros((16, 8))
    diagonal[:, 7] = 1.0
    assert env.exact_moments(diagonal) == pytest.approx((-0.1 - 0.1 + 1.0, 0.0))
    episodes = env.simulate(diagonal, 10, rng=0)
    assert (episodes.lengths == 3).all()
    assert (episodes.log_probs == 0.0).all()


def test_slip_of_one_ignores_the_action() -> None:
    env = GridworldEnv(slip=1.0)
    assert env.exact_moments(directed()) == pytest.approx(env.exact_moments(UNIFORM))


@pytest.mark.parametrize("start", [(0, 0), None])
def test_batched_episodes_equal_the_single_environment(
    start: tuple[int, int] | None,
) -> None:
    env = GridworldEnv(start=start)
    episodes = env.simulate(directed(), 50, rng=42)
    at = 0
    for i, length in enumerate(episodes.lengths):
        observation, _ = env.reset(seed=42 if i == 0 else None)
        for t in range(length):
            assert observation == episodes.observations[at]
            observation, reward, terminated, truncated, _ = env.step(episodes.actions[at])
            assert reward == episodes.rewards[at]
            assert (terminated or truncated) == (t == length - 1)
            at += 1
    assert at == episodes.rewards.shape[0]
    assert len(episodes) == 50


def test_function_table_and_fixed_actions_agree() -> None:
    env = GridworldEnv()
    policy = directed()

    def function(states: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        u = rng.random((states.shape[0], 1))
        actions = (u > np.cumsum(policy[states], axis=1)[:, :-1]).sum(axis=1)
        return actions, np.log(policy[states, actions])

    exact = env.exact_moments(policy, 0.9)
    episodes = env.simulate(function, 100_000, rng=4)
    assert_moments_match(episodes.returns(0.9), exact)
    table = env.simulate(policy, 1_000, rng=9)
    padded = np.zeros((1_000, 25), dtype=np.int64)
    padded[np.arange(25) < table.lengths[:, np.newaxis]] = table.actions
    fixed = env.simulate(padded, 1_000, rng=9)
    np.testing.assert_array_equal(fixed.rewards, table.rewards)
    np.testing.assert_array_equal(fixed.observations, table.observations)
    np.testing.assert_array_equal(fixed.lengths, table.lengths)
    assert (fixed.log_probs == 0.0).all()


def test_log_probs_equal_the_table() -> None:
    policy = np.random.default_rng(0).dirichlet(np.ones(8), size=16)
    episodes = GridworldEnv().simulate(policy, 1_000, rng=0)
    expected = np.log(policy[episodes.observations, episodes.actions])
    np.testing.assert_allclose(episodes.log_probs, expected, rtol=1e-12)


def test_impossible_actions_are_never_drawn() -> None:
    policy = np.zeros((16, 8))
    policy[:, :3] = [0.1, 0.2, 0.7]
    episodes = GridworldEnv().simulate(policy, 20_000, rng=0)
    assert set(episodes.actions) == {0, 1, 2}
    assert np.isfinite(episodes.log_probs).all()


def test_several_chunks_give_the_same_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = GridworldEnv().simulate(UNIFORM, 1_000, rng=5)
    monkeypatch.setattr("ove_sb3.envs.gridworld.simulation._CHUNK_STEPS", 25 * 64)
    parts = GridworldEnv().simulate(UNIFORM, 1_000, rng=5)
    np.testing.assert_array_equal(whole.rewards, parts.rewards)
    np.testing.assert_array_equal(whole.lengths, parts.lengths)


@pytest.mark.parametrize("horizon", [3, 25, 40])
def test_spec_declares_the_horizon_and_episodes_reach_it(horizon: int) -> None:
    env: Any = gym.make("ove_sb3/Gridworld-v0", horizon=horizon, slip=0.0)
    assert env.spec.max_episode_steps == env.unwrapped.horizon == horizon
    again: Any = gym.make(env.spec)
    assert again.spec.max_episode_steps == horizon
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(horizon)]
    assert ends == [(False, False)] * (horizon - 1) + [(False, True)]


def test_ansi() -> None:
    env = GridworldEnv(shape=(2, 2), slip=0.0, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "step 0\nA .\n. G\n"
    env.step(np.int64(7))
    assert env.render() == "step 1\n. .\n. *\n"


def test_image_shows_agent_and_goal() -> None:
    env = GridworldEnv(render_mode="rgb_array")
    env.reset(seed=0)
    picture: Any = env.render()
    assert picture.shape == (193, 193, 3)
    assert tuple(picture[24, 24]) == (49, 104, 189)
    assert tuple(picture[168, 168]) == (88, 166, 110)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"shape": (4,)}, "shape"),
        ({"shape": (0, 4)}, "shape"),
        ({"shape": (1, 1)}, "shape"),
        ({"slip": 1.5}, "slip"),
        ({"slip": float("nan")}, "slip"),
        ({"step_reward": float("inf")}, "step_reward"),
        ({"goal_reward": "high"}, "goal_reward"),
        ({"start": (4, 0)}, "start"),
        ({"start": (3, 3)}, "start"),
        ({"goal": (-1, 0)}, "goal"),
        ({"goal": (0.5, 1)}, "goal"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        GridworldEnv(**options)


@pytest.mark.parametrize("action", [8, -1, 1.5, float("nan"), [1, 2], "up", None])
def test_bad_action(action: Any) -> None:
    env = GridworldEnv()
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="action"):
        env.step(action)


@pytest.mark.parametrize(
    "policy", [np.ones((16, 8)), np.full((8, 16), 1 / 16), np.full((16, 8), np.nan), -UNIFORM]
)
def test_bad_policy(policy: Any) -> None:
    with pytest.raises(ValueError, match="policy"):
        GridworldEnv().exact_moments(policy)
    with pytest.raises(ValueError, match="policy"):
        GridworldEnv().simulate(policy, 10)


def test_bad_simulation_arguments() -> None:
    env = GridworldEnv()
    with pytest.raises(ValueError, match="`n`"):
        env.simulate(UNIFORM, 0)
    with pytest.raises(gym.error.InvalidAction, match=r"\(10, 25\)"):
        env.simulate(np.zeros((10, 3), dtype=int), 10)
    with pytest.raises(gym.error.InvalidAction, match="values from"):
        env.simulate(np.full((10, 25), 8), 10)
    with pytest.raises(ValueError, match="gamma"):
        env.exact_moments(UNIFORM, 1.1)
