"""ICU-Sepsis: treatment of sepsis, 716 states, 25 actions, reward 1 for survival.

The process was fitted to hospital records by Choudhary, Gupta and Thomas (2024) and is published as
the package ``icu-sepsis``. Only its dynamics file is read, so that all results have an exact truth.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ove_sb3 as ove
from ove_sb3.core.quantities import as_quantity
from tests.problems.risk import truth as risk_of

from .download import Archive
from .results import Content, evaluation_summary, load, save
from .tabular import FloatArray, Simulator, TabularMDP, TabularVectorEnv

ARCHIVE = Archive(
    "icu-sepsis==2.0.1",
    "icu_sepsis-2.0.1-py3-none-any.whl",
    "7f55ff190f11b252593000814b6cd56ecf9b5de6fdca256e4966c0a0dc369466",
)
NAME = "ICU-Sepsis-v2"
HORIZON = 500  # max_episode_steps of the published environment
N_TERMINAL = 3  # the last states: death, survival, and an absorbing state

SHARES = {"10% optimal": 0.1, "half optimal": 0.5, "optimal": 1.0}
"""Candidates: probability of following the optimal policy at a step, else the clinicians."""
CANARY = 0.1
CELLS = (
    ("clinicians", "10% optimal"),
    ("clinicians", "half optimal"),
    ("clinicians", "optimal"),
    ("mixture", "optimal"),
    ("canary", "optimal"),
)
"""Behavior and candidate of every cell of the study."""
RANGES: dict[str, Any] = {"reward_range": (0, 1), "return_range": (0, 1)}
RISK_GAMMA = 0.95  # for the risk quantities: makes a survivor's return depend on the stay
RISK = ("mean", "variance", "quantile:0.25", "median", "quantile:0.95", "cvar:0.25", "p_below:0.5")


@dataclass(frozen=True)
class Settings:
    """Size of the study."""

    n_logs: int = 200
    sizes: tuple[int, ...] = (500, 2_000, 10_000)
    delta: float = 0.05
    n_envs: int = 500


QUICK = Settings(n_logs=4, sizes=(500, 2_000))


def read_mdp(contents: bytes) -> tuple[TabularMDP, FloatArray]:
    """The process and the clinicians' policy, from the contents of ``dynamics.npz``."""
    with np.load(io.BytesIO(contents), allow_pickle=False) as file:
        transition, start, policy = file["tx_mat"], file["d_0"], file["expert_policy"].copy()
        rewards = file["r_mat"]
    n_states, n_actions = policy.shape
    terminal = np.arange(n_states) >= n_states - N_TERMINAL
    reward = rewards[0, 0]
    possible = transition[~terminal] > 0.0
    if (np.where(possible, rewards[~terminal] - reward, 0.0) != 0.0).any():
        raise ValueError("`r_mat` must depend on the next state only.")
    policy[terminal] = 1.0 / n_actions  # all zeros in the file: no action is taken there
    transition = transition / transition.sum(axis=2, keepdims=True)
    policy = policy / policy.sum(axis=1, keepdims=True)
    return TabularMDP(transition, reward, start / start.sum(), terminal, HORIZON), policy


class Study:
    """Process, policies and truth."""

    def __init__(self, mdp: TabularMDP, clinicians: FloatArray, n_envs: int) -> None:
        self.mdp = mdp
        best = mdp.best_policy(prefer=clinicians)
        self.tables = {"clinicians": clinicians} | {
            name: (1 - share) * clinicians + share * best for name, share in SHARES.items()
        }
        self.policies = {name: ove.TabularPolicy(table) for name, table in self.tables.items()}
        pair = [self.policies["clinicians"], self.policies["optimal"]]
        self.behaviors: dict[str, Any] = {
            "clinicians": self.policies["clinicians"],
            "mixture": ove.MixturePolicy(pair, [0.5, 0.5]),
            "canary": ove.MixturePolicy(pair, [1 - CANARY, CANARY], per="episode"),
        }
        self.env = TabularVectorEnv(mdp, n_envs, NAME)
        clinicians, best = self.tables["clinicians"], self.tables["optimal"]
        self._simulators = {
            "clinicians": Simulator(mdp, [clinicians], [1.0]),
            "mixture": Simulator(mdp, [(clinicians + best) / 2], [1.0]),
            "canary": Simulator(mdp, [clinicians, best], [1 - CANARY, CANARY]),
        }

    def truth(self) -> Content:
        """Exact mean and variance of the return of every policy, and its risk quantities."""
        truths: Content = {}
        for name, table in self.tables.items():
            mean, variance = self.mdp.moments(table, 1.0)
            steps = self.mdp.mean_length(table)
            risk_mean, risk_variance = self.mdp.moments(table, RISK_GAMMA)
            returns = self.mdp.returns(table, RISK_GAMMA)
            risk = {"mean": risk_mean, "variance": risk_variance}
            risk |= {key: risk_of(returns, key) for key in RISK if key not in risk}
            truths[name] = {"mean": mean, "variance": variance, "steps": steps, "risk": risk}
        return truths

    def simulate(self, behavior: str, n: int, rng: np.random.Generator) -> ove.Trajectories:
        """A log with the same distribution as that of `log`, drawn faster."""
        states, actions, rewards, lengths = self._simulators[behavior].draw(n, rng)
        steps: dict[str, Any] = {"observations": states, "actions": actions}
        steps |= {"rewards": rewards, "lengths": lengths}
        drawn = ove.Trajectories.from_arrays(log_probs=np.zeros(len(rewards)), **steps)
        log_probs = ove.log_prob(self.behaviors[behavior], drawn)
        return ove.Trajectories.from_arrays(log_probs=log_probs, **steps)

    def log(self, behavior: str, n: int, seed: int) -> ove.Trajectories:
        """A log of n episodes of a behavior."""
        return ove.collect(
            self.behaviors[behavior],
            self.env,
            n,
            seed=seed,
            reward_range=(0, 1),
            progress=False,
        )


def run(settings: Settings, path: Path) -> Content:
    """Run the study, or continue it: the results are stored after every log."""
    cells = ["/".join(cell) for cell in CELLS]
    content = load(path, asdict(settings) | {"sizes": list(settings.sizes), "cells": cells})
    if "examples" in content and len(content.get("logs", ())) == settings.n_logs:
        return content
    study = Study(*read_mdp(ARCHIVE.read("icu_sepsis/envs/assets/dynamics.npz")), settings.n_envs)
    n = settings.sizes[-1]
    if "examples" not in content:
        content["truth"] = study.truth()
        data = {name: study.log(name, n, seed) for seed, name in enumerate(study.behaviors)}
        examples = _examples(study, data, settings)
        _check_same(examples, _cells(study, data, settings), n)
        content["examples"] = examples
        save(path, content)
    logs = content.setdefault("logs", [])
    while len(logs) < settings.n_logs:
        rng = np.random.default_rng(len(logs))
        data = {name: study.simulate(name, n, rng) for name in study.behaviors}
        logs.append(_cells(study, data, settings))
        save(path, content)
        if len(logs) % 10 == 0:
            print(f"ICU-Sepsis: {len(logs)} of {settings.n_logs} logs", flush=True)
    return content


def _cells(study: Study, data: Mapping[str, ove.Trajectories], settings: Settings) -> Content:
    """Bounds of every cell and n."""
    cells = {}
    for behavior, candidate in CELLS:
        log_ratios = ove.log_prob(study.policies[candidate], data[behavior])
        log_ratios -= data[behavior].log_probs
        known = _known(behavior, candidate)
        cells[f"{behavior}/{candidate}"] = {
            str(n): _bounds(data[behavior], log_ratios, n, settings.delta, known)
            for n in settings.sizes
        }
    return cells


def _known(behavior: str, candidate: str) -> dict[str, Any]:
    """Bound on the weights that `evaluate` derives for a component of a canary log."""
    if (behavior, candidate) == ("canary", "optimal"):
        return {"max_weight": (1 + 1e-9) / CANARY}
    return {}


def _bounds(
    data: ove.Trajectories, log_ratios: FloatArray, n: int, delta: float, known: Mapping[str, Any]
) -> Content:
    """Estimate and bounds of mean and variance from the first n episodes, ours and the paper's."""
    lengths = data.lengths[:n]
    steps = int(lengths.sum())
    stats = ove.trajectory_statistics(
        log_ratios[:steps], data.rewards[:steps], lengths, gamma=1.0, horizon=HORIZON
    )
    row: Content = {"ess": float(stats.weights.sum() ** 2 / (stats.weights**2).sum())}
    for quantity in ("mean", "variance"):
        entry = {"estimate": as_quantity(quantity).estimate(stats)}
        for method, told in (("betting", known), ("paper", {})):
            bounds = ove.interval(stats, quantity, delta=delta, method=method, **RANGES, **told)
            entry |= {f"{method}_lower": bounds.lower, f"{method}_upper": bounds.upper}
        row[quantity] = entry
    return row


def _examples(
    study: Study, data: Mapping[str, ove.Trajectories], settings: Settings
) -> dict[str, Content]:
    """`evaluate` on the first log of every cell: with and without the behavior, and the risk."""
    examples = {}
    for behavior, candidate in CELLS:
        options: dict[str, Any] = {"return_range": (0, 1), "delta": settings.delta}
        policy, log = study.policies[candidate], data[behavior]
        plain = ove.evaluate(log, policy, gamma=1.0, **options)
        risk = ove.evaluate(log, policy, gamma=RISK_GAMMA, quantities=RISK, **options)
        cell = {"plain": evaluation_summary(plain), "risk": evaluation_summary(risk)}
        if behavior != "canary":  # the weights of a canary log are bounded already
            options["behavior"] = study.behaviors[behavior]
            cell["known"] = evaluation_summary(ove.evaluate(log, policy, gamma=1.0, **options))
        examples[f"{behavior}/{candidate}"] = cell
    return examples


def _check_same(examples: Mapping[str, Content], cells: Mapping[str, Content], n: int) -> None:
    """Check that the bounds of the study equal those of `evaluate`."""
    for name, cell in cells.items():
        for quantity in ("mean", "variance"):
            ours, theirs = cell[str(n)][quantity], examples[name]["plain"]["quantities"][quantity]
            for side in ("lower", "upper"):
                if not np.isclose(ours[f"betting_{side}"], theirs[side], rtol=1e-6, atol=1e-9):
                    raise AssertionError(f"{name}, {quantity}, {side}: {ours} and {theirs}")
