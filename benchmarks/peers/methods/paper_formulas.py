"""The authors' formulas as printed: double sums over steps, numpy only.

Written from the paper (Chandak, Shankar and Thomas, AAAI 2021): Algorithms 1, 3 and 4, with the
bound of Thomas et al. (2015). The horizon counts rewards, so that c and the sums are consistent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.protocol import Answer, Log, Method

FloatArray = NDArray[np.float64]
DELTA = 0.05


def padded(log: Log) -> tuple[FloatArray, FloatArray]:
    """Ratios and rewards as (n, horizon) arrays; an ended episode has ratio 1 and reward 0."""
    logged = np.arange(log.horizon) < log.lengths[:, None]
    ratios, rewards = np.ones(logged.shape), np.zeros(logged.shape)
    ratios[logged], rewards[logged] = np.exp(log.log_ratios), log.rewards
    return ratios, rewards


def weights_and_returns(log: Log) -> tuple[FloatArray, FloatArray]:
    """Weight and discounted return of each episode."""
    ratios, rewards = padded(log)
    return ratios.prod(axis=1), rewards @ log.gamma ** np.arange(log.horizon)


def cdis(ratios: FloatArray, rewards: FloatArray, gamma: float, xi: float = 0.0) -> FloatArray:
    """Sum over j, k of rho(0, max(j, k)) gamma^(j + k) (R_j R_k - xi), for each trajectory."""
    rho, step = np.cumprod(ratios, axis=1), np.arange(rewards.shape[1])
    products = rewards[:, :, None] * rewards[:, None, :] - xi
    weights = rho[:, np.maximum.outer(step, step)] * gamma ** np.add.outer(step, step)
    return np.asarray(np.sum(weights * products, axis=(1, 2)))


def pdis(ratios: FloatArray, rewards: FloatArray, gamma: float, xi: float = 0.0) -> FloatArray:
    """Sum over j of rho(0, j) gamma^j (R_j - xi), for each trajectory."""
    rho, step = np.cumprod(ratios, axis=1), np.arange(rewards.shape[1])
    return np.asarray(np.sum(rho * gamma**step * (rewards - xi), axis=1))


def algorithm_1(X: FloatArray, Y: FloatArray) -> float:
    """Mean of X minus the product of the means of the two halves of Y."""
    half = len(Y) // 2
    return float(X.mean() - Y[:half].mean() * Y[half:].mean())


def thomas_lower(values: FloatArray, delta: float) -> float:
    """CI-: lower bound on a mean of non-negative values, one threshold c from the first 1/20."""
    pre, post = np.split(values, [max(len(values) // 20, 2)])
    log_term, n = np.log(2 / delta), len(post)

    def bound(cut: FloatArray, c: float) -> float:
        spread = np.sqrt(2 * log_term * cut.var() / (n - 1))
        return float(cut.mean() - 7 * c * log_term / (3 * (n - 1)) - spread)

    thresholds = np.geomspace(1e-3, 1e3, 61) * max(float(pre.mean()), 1e-12)
    c = max(thresholds, key=lambda c: bound(np.minimum(pre, c), c))
    return bound(np.minimum(post, c), c)


def algorithms_3_and_4(
    ratios: FloatArray,
    rewards: FloatArray,
    gamma: float,
    reward_range: tuple[float, float],
    delta: float,
) -> tuple[float, float]:
    """Lower and upper bound, each at delta/2."""
    low, high = reward_range
    c = np.sum(gamma ** np.arange(rewards.shape[1]))
    G_low, G_high, tail = c * low, c * high, delta / 2
    xi_R, xi_G = max(low**2, high**2), max(G_low**2, G_high**2)
    X_upper = xi_G - thomas_lower(-cdis(ratios, rewards, gamma, xi_R), tail / 2)
    X_lower = thomas_lower(cdis(ratios, rewards, gamma), tail / 2)
    Y_lower = G_low + thomas_lower(pdis(ratios, rewards, gamma, low), tail / 4)
    Y_upper = G_high - thomas_lower(-pdis(ratios, rewards, gamma, high), tail / 4)
    inside = Y_lower <= 0 <= Y_upper
    Z_lower = 0.0 if inside else min(Y_lower**2, Y_upper**2)
    return X_lower - max(Y_lower**2, Y_upper**2), X_upper - Z_lower


def as_printed(log: Log) -> Answer:
    """Algorithm 1, and Algorithms 3 and 4; the interval is clipped to the a priori range."""
    ratios, rewards = padded(log)
    X, Y = cdis(ratios, rewards, log.gamma), pdis(ratios, rewards, log.gamma)
    lower, upper = algorithms_3_and_4(ratios, rewards, log.gamma, log.reward_range, DELTA)
    c = np.sum(log.gamma ** np.arange(log.horizon))
    most = (c * (log.reward_range[1] - log.reward_range[0])) ** 2 / 4
    return Answer(algorithm_1(X, Y), min(max(lower, 0.0), most), min(upper, most))


METHODS = {
    ("variance", "as printed"): Method(
        as_printed,
        (padded, cdis, pdis, algorithm_1, thomas_lower, algorithms_3_and_4, as_printed),
        imports=1,
    ),
}
