"""Models whose Gaussian does not depend on the observation, and tests of their executed actions."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr
from stable_baselines3.common.noise import NormalActionNoise

import ove_sb3 as ove

FloatArray = NDArray[np.float64]


class OneStep(gym.Env[Any, Any]):
    """Episodes of one step with reward 0."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, low: float, high: float) -> None:
        self.action_space = spaces.Box(np.float32(low), np.float32(high), (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(1, np.float32), self.reward(action), True, False, {}

    def reward(self, action: Any) -> float:
        return 0.0


def squashed(algorithm: str, env: gym.Env[Any, Any], mean: float, std: float, seed: int = 0) -> Any:
    """SAC, TQC or CrossQ with this Gaussian before squashing."""
    model = _make(algorithm, env, seed)
    actor: Any = model.policy.actor
    with torch.no_grad():
        for layer, value in ((actor.mu, mean), (actor.log_std, np.log(std))):
            layer.weight.zero_()
            layer.bias.fill_(float(value))
    return model


def clipped(algorithm: str, env: gym.Env[Any, Any], mean: float, std: float) -> Any:
    """PPO or TD3 with this Gaussian in environment units before clipping."""
    space: Any = env.action_space
    low, high = float(space.low[0]), float(space.high[0])
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    noise = NormalActionNoise(np.zeros(1), np.full(1, std / half))
    model = _make(algorithm, env, 0, **({"action_noise": noise} if algorithm == "TD3" else {}))
    with torch.no_grad():
        if algorithm == "PPO":
            model.policy.action_net.weight.zero_()
            model.policy.action_net.bias.fill_(mean)
            model.policy.log_std.fill_(float(np.log(std)))
        else:
            output = model.policy.actor.mu[-2]
            output.weight.zero_()
            output.bias.fill_(float(np.arctanh((mean - middle) / half)))
    return model


def _make(algorithm: str, env: gym.Env[Any, Any], seed: int, **arguments: Any) -> Any:
    cls = getattr(stable_baselines3, algorithm, None) or getattr(sb3_contrib, algorithm)
    if algorithm != "PPO":
        arguments["buffer_size"] = 10
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="stable_baselines3")
        network = {"net_arch": [4]}
        return cls("MlpPolicy", env, device="cpu", seed=seed, policy_kwargs=network, **arguments)


def executed(model: Any, n: int) -> NDArray[Any]:
    """Actions that SB3 itself executes, (n, 1)."""
    observations = np.zeros((n, 1), np.float32)
    if model.action_noise is None if hasattr(model, "action_noise") else True:
        return np.asarray(model.predict(observations)[0])
    model._last_obs = observations
    noise = model.action_noise
    draws = np.random.normal(noise._mu, noise._sigma, (n, 1))  # noqa: NPY002 (as SB3 draws it)
    return np.asarray(model._sample_action(0, lambda: draws.astype(np.float32), n)[0])


def ratios(candidate: Any, behavior: Any, actions: NDArray[Any]) -> FloatArray:
    """Importance ratios of actions that `behavior` executed, (n,)."""
    observations = np.zeros((len(actions), 1), np.float32)
    log_p, log_q = (ove.log_prob(model, observations, actions) for model in (candidate, behavior))
    assert np.isfinite(log_q).all(), "an action of probability 0 was drawn"
    return np.exp(log_p - log_q)


def deviation(rho: FloatArray) -> float:
    """Distance of the mean ratio from 1, in standard errors."""
    # The sample has no spread if all of it lies on a bound.
    error = max(rho.std(ddof=1), 0.1) / np.sqrt(rho.size)
    return float((rho.mean() - 1.0) / error)


def cell_p_value(
    actions: NDArray[Any], space: spaces.Box, mean: float, std: float, n_thresholds: int = 40
) -> float:
    """Chi-square test of squashed actions, (n, 1), between thresholds on single cells.

    The probability of an action at or below a threshold is that of the largest float32 number which
    is scaled to it, found by trying the numbers around it.
    """
    y = np.sort(actions.ravel())
    thresholds = np.unique(np.concatenate([y[:: max(1, y.size // n_thresholds)], y[[-1]]]))
    cumulative = np.array([at_most(t, space, mean, std) for t in thresholds])
    counts = np.diff(np.searchsorted(y, thresholds, side="right"), prepend=0)
    expected = np.diff(cumulative, prepend=0.0, append=1.0) * y.size
    counts = np.append(counts, 0)
    # Bins without enough expected actions are merged with the next.
    edges = np.unique(np.searchsorted(np.cumsum(expected), np.arange(20.0, y.size, 20.0)))
    edges = np.unique(np.append(edges, expected.size - 1))
    counts, expected = (np.diff(np.cumsum(v)[edges], prepend=0.0) for v in (counts, expected))
    enough = expected > 5.0
    if enough.sum() < 2:
        return 1.0
    statistic = float(((counts - expected)[enough] ** 2 / expected[enough]).sum())
    return float(stats.chi2.sf(statistic, enough.sum() - 1))


def at_most(y: float, space: spaces.Box, mean: float, std: float) -> float:
    """Probability of an executed action at or below y."""
    low, high = space.low[0], space.high[0]
    half = 0.5 * (float(high) - float(low))
    reach = 16.0 * max(float(np.spacing(np.abs([low, high]).max())) / half, 1.2e-7)
    around = (float(y) - float(low)) / half - 1.0 + reach * np.linspace(-1.0, 1.0, 65537)
    a = np.unique(np.clip(around, -1.0, 1.0).astype(np.float32))
    scaled = low + (0.5 * (a + 1.0) * (high - low))
    last = int((scaled <= y).sum()) - 1
    if last == len(a) - 1 and a[-1] == 1.0:
        return 1.0
    assert 0 <= last < len(a) - 1
    return float(ndtr((np.arctanh(0.5 * (float(a[last]) + float(a[last + 1]))) - mean) / std))
