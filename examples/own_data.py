"""Your own logged data as arrays, without torch or stable-baselines3.

A shop shows one of three offers at each of up to two visits of a customer, and logs the offer, its
probability and the profit. How high and how variable would the profit per customer be with other
probabilities?
"""

from __future__ import annotations

import sys

import numpy as np

import ove_sb3 as ove

BEHAVIOR = np.array([0.5, 0.3, 0.2])  # probabilities of the offers in the log
CANDIDATE = np.array([0.2, 0.3, 0.5])
PROFIT = np.array([0.2, 0.4, 0.5])  # mean by offer, unknown to the shop
RETURNING = 0.6  # fraction of customers who come a second time


def simulate_customers(
    policy: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offers and profits of all visits, and number of visits of each customer."""
    lengths = 1 + (rng.random(n) < RETURNING)
    offers = rng.choice(3, size=lengths.sum(), p=policy)
    profits = rng.beta(4 * PROFIT[offers], 4 * (1 - PROFIT[offers]))
    return offers, profits, lengths


def main() -> None:
    """Evaluate the candidate from the log of the behavior."""
    rng = np.random.default_rng(0)
    offers, profits, lengths = simulate_customers(BEHAVIOR, 5_000, rng)

    log_ratios = np.log(CANDIDATE[offers]) - np.log(BEHAVIOR[offers])
    stats = ove.trajectory_statistics(log_ratios, profits, lengths, gamma=1.0, horizon=2)
    max_ratio = float((CANDIDATE / BEHAVIOR).max())
    print(f"mean {ove.estimate_mean(stats):.4f}, variance {ove.estimate_variance(stats):.4f}")
    print(ove.mean_interval(stats, reward_range=(0.0, 1.0), max_ratio=max_ratio))
    variance = ove.variance_interval(stats, reward_range=(0.0, 1.0), max_ratio=max_ratio)
    print(variance)
    for assumption in variance.assumptions:
        print(f"  if {assumption}")
    print(ove.diagnose(stats))

    # For comparison: run the candidate itself.
    _, profits, lengths = simulate_customers(CANDIDATE, 1_000_000, rng)
    returns = np.add.reduceat(profits, np.cumsum(lengths) - lengths)
    print(f"on-policy: mean {returns.mean():.4f}, variance {returns.var():.4f}")
    print(f"frameworks loaded: {sorted({'torch', 'stable_baselines3'} & set(sys.modules))}")


if __name__ == "__main__":
    main()
