"""Public problems: exact truth, files, Thompson sampling, tables and figures, without a network."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import ove_sb3 as ove
from benchmarks.public import PARTS, figures, pages
from benchmarks.public.control import PENDULUM_COST, TASKS
from benchmarks.public.control import Settings as ControlSettings
from benchmarks.public.control import run as run_control
from benchmarks.public.download import Archive
from benchmarks.public.icu_sepsis import CELLS, RISK, SHARES, Study, read_mdp
from benchmarks.public.open_bandit import (
    CAMPAIGNS,
    agreement,
    as_log,
    drift,
    read_prior,
    read_rows,
    thompson_probabilities,
)
from benchmarks.public.results import load, save
from benchmarks.public.tabular import FloatArray, Simulator, TabularMDP, TabularVectorEnv
from tests.problems.mdp import FiniteMDP

# --- a small process: two states to start from, two actions, death and survival


def small(horizon: int = 6) -> TabularMDP:
    transition = np.zeros((5, 2, 5))  # 0, 1: patients; 2: death; 3: survival; 4: after the end
    transition[0] = [[0.2, 0.3, 0.1, 0.4, 0.0], [0.1, 0.5, 0.0, 0.4, 0.0]]
    transition[1] = [[0.3, 0.2, 0.4, 0.1, 0.0], [0.0, 0.6, 0.2, 0.2, 0.0]]
    transition[2:, :, 4] = 1.0
    reward = np.array([0.0, 0.0, 0.0, 1.0, 0.0])
    return TabularMDP(transition, reward, np.array([0.7, 0.3, 0, 0, 0]), _ends(5), horizon)


def _ends(n: int) -> Any:
    return np.arange(n) >= n - 3


def policy() -> FloatArray:
    return np.array([[0.6, 0.4], [0.1, 0.9], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])


def enumerated(mdp: TabularMDP, table: FloatArray, gamma: float) -> dict[float, float]:
    """Distribution of the return from every possible episode."""
    found: dict[float, float] = {}
    reward = np.broadcast_to(mdp.reward, mdp.transition.shape)
    for start in (0, 1):
        finite = FiniteMDP(mdp.transition, reward, mdp.terminal, gamma, mdp.horizon, start)
        for episode in finite.trajectories(table):
            value = float(gamma ** np.arange(len(episode.rewards)) @ np.array(episode.rewards))
            p = float(mdp.start[start]) * episode.probability
            value = round(value, 12)
            found[value] = found.get(value, 0.0) + p
    return dict(sorted(found.items()))


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_moments_and_returns_are_those_of_all_episodes(gamma: float) -> None:
    mdp = small()
    exact = enumerated(mdp, policy(), gamma)
    values, p = np.array(list(exact)), np.array(list(exact.values()))
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    mean = float(values @ p)
    variance = float((values - mean) ** 2 @ p)
    assert mdp.moments(policy(), gamma) == pytest.approx((mean, variance), abs=1e-12)
    returns = mdp.returns(policy(), gamma)
    assert list(returns) == pytest.approx(list(exact), abs=1e-9)
    assert list(returns.values()) == pytest.approx(list(exact.values()), abs=1e-12)


def test_rewards_on_the_way_count_in_moments_and_are_refused_in_returns() -> None:
    mdp = small()
    costly = TabularMDP(
        mdp.transition, mdp.reward - 0.1 * ~mdp.terminal, mdp.start, mdp.terminal, mdp.horizon
    )
    exact = enumerated(costly, policy(), 0.9)
    values, p = np.array(list(exact)), np.array(list(exact.values()))
    mean = float(values @ p)
    second = float(values**2 @ p)
    assert costly.moments(policy(), 0.9) == pytest.approx((mean, second - mean**2), abs=1e-12)
    with pytest.raises(ValueError, match="terminal"):
        costly.returns(policy(), 0.9)


def test_the_best_policy_beats_all_others() -> None:
    mdp = small(horizon=60)
    best = mdp.moments(mdp.best_policy(policy()), 1.0)[0]
    deterministic = [np.eye(2)[[a, b, 0, 0, 0]] for a in (0, 1) for b in (0, 1)]
    values = [mdp.moments(table, 1.0)[0] for table in deterministic]
    assert best == pytest.approx(max(values), abs=1e-9)
    assert sorted(values)[-2] < best - 1e-3


def test_simulated_episodes_have_the_exact_distribution() -> None:
    mdp, n = small(), 8_000
    data = ove.collect(
        ove.TabularPolicy(policy()), TabularVectorEnv(mdp, 100, "Small-v0"), n, seed=0
    )
    assert data.metadata.horizon == mdp.horizon
    assert data.lengths.mean() == pytest.approx(mdp.mean_length(policy()), abs=0.1)
    lived = int(data.returns().sum())
    assert binomtest(lived, n, mdp.moments(policy(), 1.0)[0]).pvalue > 1e-3
    gamma = 0.9
    exact = mdp.returns(policy(), gamma)
    for value, p in exact.items():
        hits = int(np.isclose(data.returns(gamma), value).sum())
        assert binomtest(hits, n, min(p, 1.0)).pvalue > 1e-4


def test_the_simulator_has_the_exact_distribution_for_a_policy_per_episode() -> None:
    mdp, n = small(), 20_000
    other = policy()[:, ::-1]
    simulator = Simulator(mdp, [policy(), other], [0.8, 0.2])
    states, actions, rewards, lengths = simulator.draw(n, np.random.default_rng(0))
    assert states.size == actions.size == rewards.size == lengths.sum()
    starts = np.cumsum(lengths) - lengths
    assert binomtest(int((states[starts] == 0).sum()), n, 0.7).pvalue > 1e-3
    time = np.arange(rewards.size) - np.repeat(starts, lengths)
    returns = np.add.reduceat(0.9**time * rewards, starts)
    first, second = (mdp.returns(table, 0.9) for table in (policy(), other))
    for value, p in first.items():
        hits = int(np.isclose(returns, value).sum())
        assert binomtest(hits, n, min(0.8 * p + 0.2 * second[value], 1.0)).pvalue > 1e-4


def test_the_simulator_keeps_to_one_policy_in_an_episode() -> None:
    always = [np.tile(np.eye(2)[action], (5, 1)) for action in (0, 1)]
    _, actions, _, lengths = Simulator(small(), always, [0.8, 0.2]).draw(
        5_000, np.random.default_rng(0)
    )
    starts = np.cumsum(lengths) - lengths
    np.testing.assert_array_equal(actions, np.repeat(actions[starts], lengths))
    assert binomtest(int(actions[starts].sum()), 5_000, 0.2).pvalue > 1e-3


# --- files


def dynamics(**changes: Any) -> bytes:
    mdp = small()
    arrays: dict[str, Any] = {
        "tx_mat": mdp.transition,
        "r_mat": np.broadcast_to(mdp.reward, mdp.transition.shape).copy(),
        "d_0": mdp.start,
        "expert_policy": np.where(mdp.terminal[:, None], 0.0, policy()),
    }
    file = io.BytesIO()
    np.savez(file, **(arrays | changes))
    return file.getvalue()


def test_the_dynamics_file() -> None:
    mdp, clinicians = read_mdp(dynamics())
    np.testing.assert_allclose(mdp.transition, small().transition)
    np.testing.assert_array_equal(mdp.reward, small().reward)
    np.testing.assert_array_equal(mdp.terminal, small().terminal)
    np.testing.assert_allclose(clinicians, policy())
    rewards = np.zeros((5, 2, 5))
    rewards[0, 1, 3] = 1.0
    with pytest.raises(ValueError, match="next state"):
        read_mdp(dynamics(r_mat=rewards))


def test_the_study_of_a_small_process() -> None:
    study = Study(*read_mdp(dynamics()), n_envs=50)
    truth = study.truth()
    assert list(truth) == ["clinicians", *SHARES]
    assert truth["optimal"]["mean"] > truth["clinicians"]["mean"]
    data = study.log("canary", 400, seed=0)
    drawn = study.simulate("canary", 400, np.random.default_rng(0))
    weights = ove.log_prob(study.policies["optimal"], drawn) - drawn.log_probs
    assert np.exp(np.add.reduceat(weights, drawn.starts)).max() <= 10 * (1 + 1e-9)
    result = ove.evaluate(data, study.policies["optimal"], gamma=1.0, return_range=(0, 1))
    for quantity in ("mean", "variance"):
        assert truth["optimal"][quantity] in result[quantity].interval
    assert "no trajectory's importance weight exceeds 10" in result["mean"].interval.assumptions


ROWS = """,timestamp,item_id,position,click,propensity_score,user_feature_0
0,2019-11-24 00:03:13.442536+00:00,1,3,0,0.5,cef3
1,2019-11-24 00:01:31.123456+00:00,0,1,1,0.25,03a5
2,2019-11-25 10:00:00.000000+00:00,1,2,0,1,7bc9
"""


def test_the_rows_of_a_bandit_log() -> None:
    rows = read_rows(ROWS.encode())
    assert rows.column("position").to_pylist() == [0, 2, 1]  # in the order of time
    data = as_log(rows)
    assert len(data) == 3
    np.testing.assert_array_equal(data.lengths, [1, 1, 1])
    np.testing.assert_array_equal(data.observations, [0, 2, 1])
    np.testing.assert_array_equal(data.actions, [0, 1, 1])
    np.testing.assert_array_equal(data.rewards, [1, 0, 0])
    np.testing.assert_allclose(np.exp(data.log_probs), [0.25, 0.5, 1.0])
    with pytest.raises(ValueError, match="position"):
        read_rows(ROWS.replace(",1,3,", ",1,4,").encode())


def test_the_drift_of_a_learning_policy_by_day() -> None:
    table = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    found = drift(read_rows(ROWS.encode()), table)
    expected = {"2019-11-24": (np.log(0.5) + np.log(1.0)) / 2, "2019-11-25": np.log(2.0)}
    assert found == pytest.approx(expected)


def test_agreement_tells_positions_apart() -> None:
    rows = read_rows(ROWS.encode())  # at positions 0, 2, 1: probabilities 0.25, 0.5 and 1
    table = np.array([[0.25, 0.75], [0.1, 1.0], [0.5, 0.5]])
    found = agreement(rows, table)
    assert found["own"] == pytest.approx(1.0)
    assert found["other"] > 1.0
    assert agreement(rows, table[[1, 0, 2]])["own"] > 1.0


def test_the_prior() -> None:
    text = b"men:\n  alpha:\n    - 2.0\n    - 1.0\n  beta:\n    - 1.0\n    - 3.0\n"
    alpha, beta = read_prior(text, "men")
    assert (alpha.tolist(), beta.tolist()) == ([2.0, 1.0], [1.0, 3.0])
    with pytest.raises(ValueError, match="length"):
        read_prior(text + b"    - 4.0\n", "men")


def test_thompson_sampling_by_position_has_its_closed_form() -> None:
    """Rate u of item 0 has the density 2u, those of items 1 and 2 are uniform.

    Item 0 is first if both others are below u, last if both are above.
    """
    n = 60_000
    found = thompson_probabilities(np.array([2.0, 1, 1]), np.ones(3), 3, n, seed=0)
    exact = np.array([[1 / 2, 1 / 4, 1 / 4], [1 / 3, 1 / 3, 1 / 3], [1 / 6, 5 / 12, 5 / 12]])
    np.testing.assert_allclose(found, exact, atol=5 * 0.5 / np.sqrt(n))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_fewer_positions_than_items_and_a_number_of_draws_that_is_not_round() -> None:
    found = thompson_probabilities(np.array([5.0, 1, 1, 1]), np.ones(4), 2, 20_001, seed=1)
    assert found.shape == (2, 4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found[0].argmax() == 0


def test_archives_are_read_and_other_contents_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("x/y.txt", "wheel")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as source:
        entry = tarfile.TarInfo("x/y.txt")
        entry.size = 6
        source.addfile(entry, io.BytesIO(b"source"))
    for name, text in (("a.whl", b"wheel"), ("a.tar.gz", b"source")):
        digest = sha256((tmp_path / name).read_bytes()).hexdigest()
        assert Archive("a==1", name, digest).read("x/y.txt", tmp_path) == text
        with pytest.raises(RuntimeError, match="SHA-256"):
            Archive("a==1", name, "0" * 64).read("x/y.txt", tmp_path)


# --- results, tables and figures


def test_results_continue_only_under_the_same_settings(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    content = load(path, {"n": 1})
    content["logs"] = [1]
    save(path, content)
    assert load(path, {"n": 1})["logs"] == [1]
    assert load(path, {"n": 2}) == {"settings": {"n": 2}}


def entry(lower: float, estimate: float | None, upper: float, **changes: Any) -> dict[str, Any]:
    values = {"lower": lower, "estimate": estimate, "upper": upper, "guaranteed": True}
    return {**values, "informative": True, **changes}


def summary(*names: str, **changes: Any) -> dict[str, Any]:
    quantities = {name: entry(0.1, 0.2, 0.4, **changes) for name in names}
    return {"n": 10, "ess": 5.0, "quantities": quantities, "warnings": [], "advice": ["Log more."]}


def contents(part: str) -> dict[str, Any]:
    """Results of a part, made up."""
    if part == "icu_sepsis":
        risk = dict.fromkeys(RISK, 0.3)
        truth = {"mean": 0.8, "variance": 0.16, "steps": 9.0, "risk": risk}
        bounds = {"betting_lower": 0.7, "betting_upper": 0.9, "paper_lower": 0, "paper_upper": 1}
        cell = {"ess": 3.0, "mean": {"estimate": 0.7, **bounds}}
        cell["variance"] = {"estimate": 0.17, **bounds}
        plain = summary("mean", "variance", informative=False)
        example = {"plain": plain, "risk": summary(*RISK)}
        names = ["/".join(pair) for pair in CELLS]
        return {
            "settings": {"sizes": [500]},
            "truth": dict.fromkeys(["clinicians", *SHARES], truth),
            "logs": [{name: {"500": cell} for name in names}] * 4,
            "examples": dict.fromkeys(names, example),
        }
    two = summary("mean", "variance")
    if part == "open_bandit":
        names = ["plain", "known", "paper", "uniform_own", "thompson_own", "backward"]
        study = dict.fromkeys(names, two) | {"n_items": 3, "drift": {"2019-11-24": 0.5}}
        study["agreement"] = {"own": 1.1, "other": 1.3}
        study["approximate"] = {"mean": [0.0, 0.1], "variance": [0.0, 0.1]}
        return {"settings": {}, "campaigns": dict.fromkeys(CAMPAIGNS, study)}
    three = summary("mean", "variance", "cvar:0.1")
    truth = {"mean": 0.2, "mean_error": 0.1, "variance": 0.2, "variance_error": 0.1, "cvar:0.1": 0}
    truth["n"] = 5
    pair = {"plain": three, "known": three, "canary": three}
    task = {"checkpoints": [1, 2, 3], "truth": {"1": truth}, "pairs": {"0-1": pair}}
    return {"settings": {}, "tasks": {"CartPole-v1": task}}


@pytest.mark.parametrize("part", PARTS)
def test_tables_and_figure_of_every_part(part: str, tmp_path: Path) -> None:
    content = contents(part)
    save(tmp_path / "part.json", content)
    tables = pages.tables_of(part, json.loads((tmp_path / "part.json").read_text()))
    page = (Path(__file__).parents[2] / "docs" / "public.md").read_text()
    for name, text in tables.items():
        assert f"<!-- table {name} -->" in page
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1
        assert "Measured on " in text
    figures.save_figure(part, content, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_misses_and_useless_intervals_are_counted() -> None:
    (row, *_) = pages.study_rows(contents("icu_sepsis"), "variance")
    assert row["betting"]["misses"] == [4, 0]  # of 4: the bounds [0.7, 0.9] miss 0.16
    assert row["paper"]["misses"] == [0, 0]
    assert row["error"] == row["rmse"] == pytest.approx(0.01 / 0.16)  # all logs alike
    text = pages.tables_of("icu_sepsis", contents("icu_sepsis") | {"measured": MEASURED})
    assert "*useless*" in text["icu_advice"]


MEASURED = {"date": "2026-01-01", "machine": "a machine", "versions": {"python": "3"}}


def test_the_pendulum_costs_no_more_than_stated() -> None:
    import gymnasium as gym

    env: Any = gym.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    env.state = np.array([np.pi, env.max_speed])
    env.last_u = None
    _, reward, *_ = env.step(np.array([env.max_torque]))
    assert reward == pytest.approx(-PENDULUM_COST)
    assert TASKS[2].reward_range == (-PENDULUM_COST, 0.0)


def test_stored_results_of_other_checkpoints_are_not_continued(tmp_path: Path) -> None:
    settings = ControlSettings(n_episodes=60, tasks=("CartPole-v1",), shorter=64)
    path = tmp_path / "control.json"
    first = run_control(settings, path)
    assert run_control(settings, path) == first
    stored = json.loads(path.read_text())
    entry = stored["tasks"]["CartPole-v1"]
    entry["checkpoints"][0] += 1
    entry["pairs"]["0-1"]["steps"] = -1.0
    path.write_text(json.dumps(stored))
    assert run_control(settings, path)["tasks"] == first["tasks"]
