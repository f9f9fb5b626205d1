"""Collecting episodes with the probability of every action, by one forward pass per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ove_sb3._progress import ProgressBar, progress_bar
from ove_sb3._validation import FloatArray, IntArray, check_flag, check_integer, check_range
from ove_sb3.data.trajectories import Trajectories
from ove_sb3.policies.dispatch import as_policy
from ove_sb3.policies.mixtures import components_of
from ove_sb3.policies.observations import copy_observations, take_rows
from ove_sb3.policies.policy import Policy, PolicyContext

from .environments import (
    as_vec_env,
    check_spaces,
    metadata_of,
    read_masks,
    split_normalizer,
    stack_observations,
)
from .steps import EpisodeEnd, Outcome, Step, check_signals, copy_outcome, copy_step


def collect(
    model: Any,
    env: Any,
    n_episodes: int,
    *,
    seed: int | None = None,
    n_envs: int = 1,
    deterministic: bool = False,
    reward_range: tuple[float, float] | None = None,
    columns: Sequence[str] = (),
    progress: bool | None = None,
) -> Trajectories:
    """Run `model` and log every step with the probability of its action.

    Parameters
    ----------
    model : BaseAlgorithm, BasePolicy or built-in policy
        The behavior, see `action_distribution`. Off-policy models explore as in training, without
        the warm-up: epsilon of DQN, action noise of TD3. With gSDE the noise is redrawn at every
        step.
    env : str, gymnasium.Env or VecEnv
        A gymnasium id, an environment, or a vectorized one. Under a VecNormalize the model sees
        normalized observations, with statistics that are not updated; the log holds the original
        observations and rewards.
    n_episodes : int
        Number of episodes. The number per environment is fixed in advance, so that short episodes
        are not favored.
    seed : int, optional
        Seeds the environments and the actions; None for fresh entropy. No global seed is set.
    n_envs : int
        Number of environments, if `env` is a gymnasium id.
    deterministic : bool
        Act as ``predict(..., deterministic=True)``; not for a Box.
    reward_range : (float, float), optional
        Smallest and largest reward of the environment, stored in the metadata.
    columns : sequence of str
        Numbers in every info of the environment, such as a cost, to log beside the reward; see
        `Trajectories.columns`.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.

    Returns
    -------
    Trajectories
        Episodes in the order in which they ended.

    Examples
    --------
    >>> import ove_sb3 as ove
    >>> from gymnasium import spaces
    >>> data = ove.collect(ove.UniformPolicy(spaces.Discrete(2)), "CartPole-v1", 3, seed=0)
    >>> len(data), data.metadata.horizon
    (3, 500)
    """
    n_episodes = check_integer(n_episodes, "n_episodes", 1)
    n_envs = check_integer(n_envs, "n_envs", 1)
    if seed is not None:
        seed = check_integer(seed, "seed", 0)
    deterministic = check_flag(deterministic, "deterministic")
    if reward_range is not None:
        reward_range = check_range(reward_range, "reward_range")  # before anything is logged
    outer, created = as_vec_env(env, n_envs)
    bar = progress_bar(progress, total=n_episodes, unit="episode")
    try:
        venv, normalizer = split_normalizer(outer)
        policy = as_policy(model, vec_normalize=normalizer)
        check_spaces(policy, venv, "Wrap `env` as it was in training.")
        streams = np.random.SeedSequence(seed)
        rng = np.random.default_rng(streams)
        if seed is not None:
            # A hashed number: SB3 counts up from it, and small seeds would overlap.
            venv.seed(int(streams.generate_state(1)[0]) >> 1)
        steps = _Steps(venv.num_envs, n_episodes, check_signals(columns))
        _run(venv, policy, steps, rng, deterministic, bar)
        metadata = metadata_of(
            venv,
            seed=seed,
            reward_range=reward_range,
            behavior=type(model).__name__,
            fingerprint=None if deterministic else policy.fingerprint(),
            components=() if deterministic else components_of(policy),
        )
        return steps.trajectories(metadata)
    finally:
        bar.close()
        if created:
            outer.close()


def _run(
    venv: Any,
    policy: Policy,
    steps: _Steps,
    rng: np.random.Generator,
    deterministic: bool,
    bar: ProgressBar,
) -> None:
    observations = copy_observations(venv.reset())
    start = np.ones(venv.num_envs, dtype=np.bool_)
    state = None
    while steps.missing:
        masks = read_masks(venv) if policy.masked else None
        distribution = policy.distribution(observations, PolicyContext(masks, state, start))
        if deterministic:
            state, distribution = distribution.state, distribution.deterministic()
        actions = distribution.sample(rng)
        log_probs = distribution.log_prob(actions)
        if not deterministic:
            state = distribution.state  # that of Ornstein-Uhlenbeck noise is known after the draw
        step = copy_step(observations, actions, log_probs, masks, distribution.columns)
        after, rewards, dones, infos = venv.step(actions)
        outcome = copy_outcome(after, rewards, dones, infos, steps.signals)
        observations, start = outcome.observations, outcome.dones
        if ended := steps.add(step, outcome):
            bar.update(ended)


class _Steps:
    """Steps of all environments, and the episodes among them that belong to the log."""

    def __init__(self, n_envs: int, n_episodes: int, signals: Sequence[str] = ()) -> None:
        self.signals = signals
        # A quota per environment: the first n to finish would be the short ones.
        self.quota = np.array([(n_episodes + i) // n_envs for i in range(n_envs)])
        self.missing = n_episodes
        self.begin = np.zeros(n_envs, dtype=np.int64)
        self.rows: list[Step] = []
        self.rewards: list[FloatArray] = []
        self.episodes: list[tuple[int, int, int]] = []  # environment, begin, end
        self.ends: list[EpisodeEnd] = []

    def add(self, step: Step, outcome: Outcome) -> int:
        """Add one step of all environments; return the number of logged episodes that ended."""
        if outcome.signals:
            step = step._replace(columns={**step.columns, **outcome.signals})
        self.rows.append(step)
        self.rewards.append(outcome.rewards)
        now, ended = len(self.rows), 0
        for i, end in outcome.ends.items():
            if self.quota[i]:
                self.episodes.append((i, int(self.begin[i]), now))
                self.ends.append(end)
                self.quota[i] -= 1
                ended += 1
            self.begin[i] = now
        self.missing -= ended
        return ended

    def trajectories(self, metadata: Any) -> Trajectories:
        """All logged episodes, in the order in which they ended."""
        env, begin, end = zip(*self.episodes, strict=True)
        terminated, truncated, final = zip(*self.ends, strict=True)
        lengths = np.array(end) - np.array(begin)
        time = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        at = (time + np.repeat(begin, lengths), np.repeat(env, lengths))
        observations, actions, log_probs, masks, columns = zip(*self.rows, strict=True)
        complete = all(observation is not None for observation in final)
        return Trajectories.from_arrays(
            observations=_gather(observations, at),
            actions=_gather(actions, at),
            log_probs=_gather(log_probs, at),
            rewards=_gather(self.rewards, at),
            lengths=lengths,
            terminated=terminated,
            truncated=truncated,
            action_masks=None if masks[0] is None else _gather(masks, at),
            final_observations=stack_observations(final) if complete else None,
            columns={name: _gather([row[name] for row in columns], at) for name in columns[0]},
            metadata=metadata,
        )


def _gather(rows: Any, at: tuple[IntArray, IntArray]) -> Any:
    return take_rows(stack_observations(rows), at)
