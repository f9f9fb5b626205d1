from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from ove_sb3.envs import PUBLIC_CODE, DiabetesEnv, DiabetesVecEnv, GaussianPolicy
from ove_sb3.envs.diabetes.meals import draw_meals
from ove_sb3.envs.diabetes.risk import risk


def test_step_maps_the_action_and_records_the_day() -> None:
    env = DiabetesEnv()
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(observation, [1.0])
    _, reward, terminated, truncated, info = env.step(np.array([-1.0, 1.0], dtype=np.float32))
    assert (terminated, truncated) == (True, False)
    assert (info["cr"], info["cf"]) == (3.0, 50.0)
    assert reward == pytest.approx((5.0 - min(info["mean_risk"], 30.0)) / 25.0)
    assert env.day is not None
    assert info["minutes"] == env.day.simulated
    np.testing.assert_allclose(env.dosing.action(3.0, 50.0), [-1.0, 1.0])


def test_mean_risk_is_the_mean_over_the_readings() -> None:
    env = DiabetesEnv()
    env.reset(seed=3)
    env.step(np.array([0.5, 0.5], dtype=np.float32))
    day: Any = env.day
    assert day.simulated == 1440
    assert day.mean_risk == pytest.approx(np.mean([risk(x) for x in day.readings[1:]]))


def test_samples_after_an_early_end_count_at_the_limit_of_the_sensor() -> None:
    env = DiabetesEnv()
    env.reset(options={"key": 14})
    env.step(np.array([-1.0, -1.0], dtype=np.float32))
    day: Any = env.day
    n_done = day.simulated // 3
    assert n_done < 480
    total = sum(risk(x) for x in day.readings[1 : n_done + 1]) + (480 - n_done) * risk(39.0)
    assert day.mean_risk == pytest.approx(total / 480)
    planned = draw_meals(np.array([14], dtype=np.uint64)).minutes[0]
    assert planned.max() >= day.simulated  # at least one meal was not served
    np.testing.assert_array_equal(day.minutes, planned[(planned >= 0) & (planned < day.simulated)])


def test_bolus_follows_the_meal_by_one_sample() -> None:
    env = DiabetesEnv()
    env.reset(seed=5)
    _, _, _, _, info = env.step(np.array([0.0, 0.0], dtype=np.float32))
    day: Any = env.day
    basal = day.insulin.min()
    dosed = np.flatnonzero(day.insulin > basal + 1e-6)
    np.testing.assert_array_equal(dosed, np.sort(day.minutes[day.grams > 0]) // 3 + 1)
    units = (day.insulin[dosed] - basal) * 3
    order = np.argsort(day.minutes[day.grams > 0])
    reading = day.readings[dosed]
    expected = day.grams[day.grams > 0][order] / info["cr"]
    expected += np.where(reading > 150, (reading - 140) / info["cf"], 0.0)
    np.testing.assert_allclose(units, expected, atol=1e-4)


def test_batched_days_equal_the_single_environment() -> None:
    env = DiabetesEnv()
    actions = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    batch = env.simulate(actions, 40, rng=9)
    threads = env.simulate(actions, 40, rng=9, n_threads=2)
    for i in range(40):
        env.reset(seed=9 if i == 0 else None)
        assert env.step(actions[i])[1] == batch.rewards[i]
    np.testing.assert_array_equal(threads.rewards, batch.rewards)
    assert (batch.log_probs == 0).all()
    assert (batch.observations == 1).all()
    same = env.simulate(np.array([0.1, 0.2]), 3, rng=1)
    np.testing.assert_array_equal(same.actions, [[0.1, 0.2]] * 3)


def test_result_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    env = DiabetesEnv()
    actions = np.random.default_rng(1).uniform(-1, 1, (28, 2))
    whole = env.simulate(actions, 28, rng=2)
    monkeypatch.setattr("ove_sb3.envs.diabetes.days._CHUNK", 7)
    for n_threads in (1, 3):
        parts = env.simulate(actions, 28, rng=2, n_threads=n_threads)
        np.testing.assert_array_equal(whole.rewards, parts.rewards)


def test_both_backends_simulate_the_same_days() -> None:
    actions = np.array([[0.3, 0.4]])
    fast = DiabetesEnv().simulate(actions, 1, rng=6)
    reference = DiabetesEnv(backend="simglucose").simulate(actions, 1, rng=6)
    np.testing.assert_allclose(fast.rewards, reference.rewards, atol=1e-4)


def test_vectorized_days_do_not_depend_on_threads() -> None:
    one, two = DiabetesVecEnv(4), DiabetesVecEnv(4, n_threads=2)
    for venv in (one, two):
        venv.seed(3)
        venv.reset()
    actions = np.zeros((4, 2))
    np.testing.assert_array_equal(one.step(actions)[1], two.step(actions)[1])


def test_gaussian_policy_distribution_and_density() -> None:
    policy = GaussianPolicy([0.2, -0.4], [0.3, 0.5])
    actions, log_probs = policy(np.ones((20_000, 1), dtype=np.float32), np.random.default_rng(0))
    for d in range(2):
        assert kstest(actions[:, d], norm(policy.mean[d], policy.sd[d]).cdf).pvalue > 1e-3
    expected = multivariate_normal(policy.mean, np.diag(policy.sd**2)).logpdf(actions)
    np.testing.assert_allclose(log_probs, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(policy.log_prob(actions), log_probs)
    assert "0.2" in repr(policy)


def test_gaussian_policy_of_the_paper() -> None:
    env = DiabetesEnv()
    candidate = env.gaussian_policy(10.0, 20.0)
    behavior = env.gaussian_policy(10.0, 20.0, mixed=0.5)
    np.testing.assert_allclose(env.dosing.ratios(candidate.mean), [10.0, 20.0])
    np.testing.assert_allclose(
        env.dosing.ratios(behavior.mean), [0.5 * 10 + 0.5 * 16.5, 0.5 * 20 + 0.5 * 27.5]
    )
    literal = env.gaussian_policy(10.0, 20.0, mixed=0.5, middle="half-range")
    np.testing.assert_allclose(
        env.dosing.ratios(literal.mean), [0.5 * 10 + 0.5 * 13.5, 0.5 * 20 + 0.5 * 22.5]
    )
    with pytest.raises(ValueError, match="`middle`"):
        env.gaussian_policy(10.0, 20.0, middle="edge")
    in_units = candidate.sd * 0.5 * np.diff(env.dosing.ranges, axis=1).ravel()
    np.testing.assert_allclose(in_units, [0.15 * 27, 0.15 * 45])


def test_actions_are_clipped_for_execution_and_returned_as_drawn() -> None:
    env = DiabetesEnv()
    policy = GaussianPolicy([1.4, -1.4], 0.3)
    days = env.simulate(policy, 20, rng=4)
    assert (abs(days.actions) > 1).any(axis=1).sum() > 10
    np.testing.assert_array_equal(days.log_probs, policy.log_prob(days.actions))
    clipped = env.simulate(np.clip(days.actions, -1, 1), 20, rng=4)
    np.testing.assert_array_equal(clipped.rewards, days.rewards)


def test_arguments_change_the_reward() -> None:
    def reward(**options: Any) -> float:
        env = DiabetesEnv(**options)
        env.reset(options={"key": 5})
        return float(env.step(np.array([0.2, 0.2], dtype=np.float32))[1])

    base = reward()
    for options in (
        {"patient": "adult#001"},
        {"target": 100.0},
        {"correct_above": 400.0},
        {"basal": 0.0},
        {"meal_unit": "g/min"},
        {"sensor": "Navigator"},
        {"cr_range": (3.0, 20.0)},
        {"cf_range": (5.0, 20.0)},
        {"risk_offset": 6.0},
    ):
        assert reward(**options) != base, options


def test_public_code_settings() -> None:
    env = DiabetesEnv(**PUBLIC_CODE)
    assert env.reward_range == (-15.0, 15.0)
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.array([0.0, 0.0], dtype=np.float32))
    assert reward == pytest.approx(np.clip(2 * (26.5 - info["mean_risk"]), -15, 15))
    assert info["minutes"] == 1440
    assert env.day is not None
    assert env.day.insulin.min() == 0.0


def test_text() -> None:
    env = DiabetesEnv(render_mode="ansi")
    assert "midnight" in str(env.render())
    env.reset(options={"key": 14})
    env.step(np.array([-1.0, -1.0], dtype=np.float32))
    lines = str(env.render()).splitlines()
    assert lines[0].startswith("adolescent#003: CR 3.0 g/U, CF 5.0 mg/dL/U")
    assert lines[1].startswith("00:00  146 |###")
    assert lines[-1].endswith("ended early: glucose outside the limits")
    assert sum(" g, " in line for line in lines[1:]) >= 1


def test_image_shows_an_early_end() -> None:
    pictures = []
    for action in ((-1.0, -1.0), (0.5, 0.5)):
        env = DiabetesEnv(render_mode="rgb_array")
        env.reset(options={"key": 14})
        env.step(np.array(action, dtype=np.float32))
        pictures.append(np.asarray(env.render()))
    assert pictures[0].shape == pictures[1].shape == (400, 640, 3)
    assert (pictures[0] != pictures[1]).any()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"patient": "adolescent#011"}, "`patient` must be one of 'adolescent#001'"),
        ({"backend": "quick"}, "`backend` must be one of 'fast', 'simglucose'"),
        ({"sensor": "Eye"}, "`sensor`"),
        ({"pump": "Foot"}, "`pump`"),
        ({"meal_unit": "kg"}, "`meal_unit`"),
        ({"cr_range": (0.0, 30.0)}, "`cr_range` must be positive"),
        ({"cf_range": (50.0, 5.0)}, "`cf_range`"),
        ({"stop_range": (600.0, 10.0)}, "`stop_range`"),
        ({"reward_range": (1.0, 1.0)}, "`reward_range`"),
        ({"basal": -1.0}, "`basal`"),
        ({"target": float("nan")}, "`target`"),
        ({"risk_scale": 0.0}, "`risk_scale`"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        DiabetesEnv(**options)


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ([np.nan, 0.0], "finite"),
        ([0.0], "two numbers"),
        ([[0.0, 0.0]], "two numbers"),
        (["a", "b"], "two numbers"),
        ([0.0, 1.5], r"\[-1, 1\].*clip_actions"),
    ],
)
def test_bad_action(action: Any, match: str) -> None:
    env = DiabetesEnv()
    env.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match=match):
        env.step(np.array(action))
    env.step(np.zeros(2, dtype=np.float32))  # an invalid action does not end the episode


def test_clip_actions() -> None:
    env = DiabetesEnv(clip_actions=True)
    env.reset(seed=0)
    info = env.step(np.array([7.0, -7.0], dtype=np.float32))[4]
    assert (info["cr"], info["cf"]) == (30.0, 5.0)


def test_ratios_outside_their_range() -> None:
    env = DiabetesEnv()
    with pytest.raises(ValueError, match=r"`cr` must be in \[3, 30\], got 31"):
        env.dosing.action(31.0, 20.0)
    with pytest.raises(ValueError, match=r"`cf` must be in \[5, 50\], got nan"):
        env.gaussian_policy(10.0, float("nan"))


def test_bad_simulation_arguments() -> None:
    env = DiabetesEnv()
    with pytest.raises(ValueError, match="`n`"):
        env.simulate(np.zeros(2), 0)
    with pytest.raises(ValueError, match="`n_threads`"):
        env.simulate(np.zeros(2), 3, n_threads=0)
    with pytest.raises(gym.error.InvalidAction, match=r"\(3, 2\)"):
        env.simulate(np.zeros((4, 2)), 3)
    with pytest.raises(gym.error.InvalidAction, match="row 1"):
        env.simulate(np.array([[0.0, 0.0], [0.0, -2.0]]), 2)
    for mean, sd, match in (
        ([[0.0]], 0.3, "`mean`"),
        ([0.0], 0.0, "`sd`"),
        ([0.0], [1, 2], "`sd`"),
    ):
        with pytest.raises(ValueError, match=match):
            GaussianPolicy(mean, sd)
