"""Collecting episodes with the probability of every action, by one forward pass per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from ove_sb3._progress import progress_bar
from ove_sb3._validation import check_flag, check_integer, check_range
from ove_sb3.data.seeds import collect_seed, reset_seeds
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.mixtures import components_of

from .environments import as_vec_env, check_spaces, metadata_of, seeds_at_reset, split_normalizer
from .rounds import Run, Steps, collect_rounds
from .steps import check_signals


def collect(
    model: Any,
    env: Any,
    n_episodes: int,
    *,
    seed: int | None = None,
    n_envs: int | None = None,
    deterministic: bool = False,
    reward_range: tuple[float, float] | None = None,
    columns: Sequence[str] = (),
    progress: bool | None = None,
    path: str | PathLike[str] | None = None,
) -> Trajectories:
    """Run `model` and log every step with the probability of its action.

    Parameters
    ----------
    model : BaseAlgorithm, BasePolicy or built-in policy
        The behavior, see `action_distribution`. Off-policy models explore as in training, without
        the warm-up: epsilon of DQN, action noise of TD3. With gSDE the noise is redrawn at every
        step.
    env : str, gymnasium.Env, gymnasium.vector.VectorEnv or VecEnv
        A gymnasium id, an environment, or a vectorized one. Under a VecNormalize the model sees
        normalized observations, with statistics that are not updated; the log holds the original
        observations and rewards.
    n_episodes : int
        Number of episodes. The number per environment is fixed in advance, so that short episodes
        are not favored.
    seed : int, optional
        Seeds the environments and the actions; None for fresh entropy. No global seed is set.
        Logs with the same seed share random numbers: if they are joined, intervals are
        approximate.
    n_envs : int, optional
        Number of environments, if `env` is a gymnasium id. By default 8, or `n_episodes` if that
        is less; they are stepped together, which is several times faster than one after another.
        ``data.metadata.n_envs`` has the number.
    deterministic : bool
        Act as ``predict(..., deterministic=True)``; not for a Box.
    reward_range : (float, float), optional
        Smallest and largest reward of the environment, stored in the metadata.
    columns : sequence of str
        Numbers in every info of the environment, such as a cost, to log beside the reward; see
        `Trajectories.columns`.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.
    path : path, optional
        Directory to write to. Episodes are kept there when the environment raises or the process
        ends; the same call again continues where it stopped, and gives the same log as without
        interruption. If the environment raised, the metadata say so (`Metadata.interrupted`), and
        intervals are labeled approximate. With a path, episodes are drawn in rounds of 16 per
        environment, each with a seed of its own, so that those after the first round are not what
        `seed` gives without `path`.

    Returns
    -------
    Trajectories
        The first episode of every environment, then the second ones, and so on: an order that
        does not depend on how long they are.

    Examples
    --------
    >>> import ove_sb3 as ove
    >>> from gymnasium import spaces
    >>> data = ove.collect(ove.UniformPolicy(spaces.Discrete(2)), "CartPole-v1", 3, seed=0)
    >>> len(data), data.metadata.horizon
    (3, 500)
    """
    n_episodes = check_integer(n_episodes, "n_episodes", 1)
    if n_envs is not None:
        n_envs = check_integer(n_envs, "n_envs", 1)
    if seed is not None:
        seed = check_integer(seed, "seed", 0)
    deterministic = check_flag(deterministic, "deterministic")
    if reward_range is not None:
        reward_range = check_range(reward_range, "reward_range")  # before anything is logged
    outer, created = as_vec_env(env, n_envs, n_episodes)
    bar = progress_bar(progress, total=n_episodes, unit="episode")
    try:
        venv, normalizer = split_normalizer(outer)
        policy = as_policy(model, vec_normalize=normalizer)
        check_spaces(policy, venv, "Wrap `env` as it was in training.")
        metadata = metadata_of(
            venv,
            seed=seed,
            n_envs=venv.num_envs,
            reward_range=reward_range,
            behavior=type(model).__name__,
            fingerprint=None if deterministic else policy.fingerprint(),
            components=() if deterministic else components_of(policy),
        )
        run = Run(venv, policy, deterministic, metadata, bar, check_signals(columns))
        if path is not None:
            return collect_rounds(run, n_episodes, path)
        steps = Steps(venv.num_envs, n_episodes, run.signals)
        given = seeds_at_reset(venv)
        run.steps(steps, np.random.SeedSequence(seed), seeded=seed is not None)
        data = run.trajectories(steps, metadata)
        log_id = data.metadata.log_ids[0]
        seeds = reset_seeds(log_id, given) if seed is None else collect_seed(log_id, seed)
        return replace(data, metadata=replace(data.metadata, seeds=seeds))
    finally:
        bar.close()
        if created:
            outer.close()
