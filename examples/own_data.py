"""Logged data of your own, without any framework: arrays in, estimates and bounds out.

A shop shows one of three offers at each of up to two visits of a customer, and logs the offer, its
probability and the profit. How would profits vary with another rule? Neither torch nor
stable-baselines3 is loaded.
"""

from __future__ import annotations

import sys

import numpy as np

import ove_sb3 as ove

RUNNING = np.array([0.5, 0.3, 0.2])  # probabilities of the offers in the log
PROPOSED = np.array([0.2, 0.3, 0.5])
PROFIT = np.array([0.2, 0.4, 0.5])  # mean by offer; the log does not know it
RETURNING = 0.6  # share of customers who come a second time


def visit_customers(
    rule: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a shop system would deliver: offers and profits by visit, and visits by customer."""
    lengths = 1 + (rng.random(n) < RETURNING)
    offers = rng.choice(3, size=lengths.sum(), p=rule)
    profits = rng.beta(4 * PROFIT[offers], 4 * (1 - PROFIT[offers]))
    return offers, profits, lengths


def main() -> None:
    """Judge the proposed rule by the log of the running one."""
    rng = np.random.default_rng(0)
    offers, profits, lengths = visit_customers(RUNNING, 5_000, rng)

    log_ratios = np.log(PROPOSED[offers]) - np.log(RUNNING[offers])
    stats = ove.trajectory_statistics(log_ratios, profits, lengths, gamma=1.0, horizon=2)
    known = {"reward_range": (0.0, 1.0), "max_ratio": float((PROPOSED / RUNNING).max())}
    estimate = ove.estimate_mean(stats, estimator="crossfit")
    print(f"mean {estimate:.4f}, variance {ove.estimate_variance(stats):.4f}")
    print(ove.mean_interval(stats, **known))  # type: ignore[arg-type]
    variance = ove.variance_interval(stats, **known)  # type: ignore[arg-type]
    print(variance)
    for assumption in variance.assumptions:
        print(f"  if {assumption}")
    print(ove.diagnose(stats))

    # What the proposed rule does in truth, which one would not know.
    _, profits, lengths = visit_customers(PROPOSED, 1_000_000, rng)
    returns = np.add.reduceat(profits, np.cumsum(lengths) - lengths)
    print(f"in truth: mean {returns.mean():.4f}, variance {returns.var():.4f}")
    print(f"frameworks loaded: {sorted({'torch', 'stable_baselines3'} & set(sys.modules))}")


if __name__ == "__main__":
    main()
