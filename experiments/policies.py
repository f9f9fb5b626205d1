"""Evaluation policies, trained by stable-baselines3's A2C and kept for later runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3.core.step_reduction import n_threads

from .domains import make_env
from .settings import Study, Training, as_plain
from .storage import fingerprint, read_json, versions, write_json

FloatArray = NDArray[np.float64]


def evaluation_policy(study: Study, folder: Path, seed: int) -> FloatArray:
    """Evaluation policy pi of a study, trained if it is not in `folder` yet.

    Parameters
    ----------
    study
        The settings.
    folder
        Folder of trained policies.
    seed
        Seed of the training.

    Returns
    -------
    ndarray
        Action probabilities (n_states, n_actions), or the mean (d,) of a Gaussian with a fixed
        standard deviation.
    """
    if study.candidate is not None:
        probabilities = np.asarray(study.candidate, dtype=np.float64)
        return np.asarray(probabilities / probabilities.sum())[np.newaxis]
    assert study.training is not None  # one of the two is given
    settings = {
        "domain": study.domain,
        "env": study.env,
        "training": as_plain(study.training),
        "seed": seed,
    }
    path = folder / f"{study.domain}-{fingerprint(settings, ('envs', 'policies'))}.json"
    if not path.exists():
        policy = train(study, study.training, seed)
        write_json(path, {"policy": policy.tolist(), "settings": settings, "versions": versions()})
    return np.asarray(read_json(path)["policy"], dtype=np.float64)


def train(study: Study, training: Training, seed: int) -> FloatArray:
    """Train A2C and return the policy; the same seed gives the same policy."""
    import torch
    from stable_baselines3 import A2C

    with _one_thread():
        # With one thread the policy does not depend on the number of cores.
        venv = _vec_env(study, training.n_envs)
        keywords: dict[str, Any] = {"net_arch": []}
        if training.sd is not None:
            keywords["log_std_init"] = math.log(training.sd)
        model = A2C(
            "MlpPolicy",
            venv,
            learning_rate=training.learning_rate,
            n_steps=training.n_steps,
            gamma=training.gamma,
            gae_lambda=1.0,
            ent_coef=training.entropy,
            policy_kwargs=keywords,
            seed=seed,
            device="cpu",
        )
        if training.sd is not None:
            # As in the paper, the standard deviation is fixed and the mean is squashed.
            model.policy.log_std.requires_grad_(False)
            model.policy.action_net = torch.nn.Sequential(model.policy.action_net, torch.nn.Tanh())
        model.learn(training.total_timesteps)
        with torch.no_grad():
            if training.sd is not None:
                observation, _ = model.policy.obs_to_tensor(np.ones((1, 1), dtype=np.float32))
                actions: Any = model.policy.get_distribution(observation).distribution
                return np.asarray(actions.mean[0].numpy(), dtype=np.float64)
            states = np.arange(venv.observation_space.n)
            observation, _ = model.policy.obs_to_tensor(states)
            actions = model.policy.get_distribution(observation).distribution
            table = np.exp(np.asarray(actions.logits.numpy(), dtype=np.float64))
            return np.asarray(table / table.sum(axis=1, keepdims=True))


def _vec_env(study: Study, n_envs: int) -> Any:
    """Batched environments for training."""
    from ove_sb3.envs import DiabetesVecEnv, GridworldVecEnv, RecommenderVecEnv

    if study.domain == "gridworld":
        return GridworldVecEnv(n_envs, make_env(study))
    if study.domain == "recommender":
        return RecommenderVecEnv(n_envs, make_env(study))
    return DiabetesVecEnv(n_envs, make_env(study), n_threads=n_threads())


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
