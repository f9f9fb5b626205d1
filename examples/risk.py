"""Bad episodes: quantiles, CVaR, the probability of a loss, and the band, with guarantees.

A trader chooses between a safe and a risky asset. The logged policy tosses a coin; the
candidate mostly takes the safe one.
"""

from __future__ import annotations

import numpy as np

import ove_sb3 as ove

SAFE = 0.9  # probability of the safe choice under the candidate


def trade(p_safe: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Choices (1 is safe) and gains, both (n,)."""
    safe = (rng.random(n) < p_safe).astype(int)
    gains = np.where(safe == 1, rng.uniform(4, 6, n), rng.uniform(0, 10, n))
    return safe, gains


def main() -> None:
    """Evaluate, check requirements on the tail, read the band."""
    rng = np.random.default_rng(0)
    choices, gains = trade(0.5, 5_000, rng)
    data = ove.Trajectories.from_arrays(
        observations=np.zeros((choices.size, 1)),
        actions=choices,
        log_probs=np.full(choices.size, np.log(0.5)),
        rewards=gains,
        lengths=np.ones(choices.size, dtype=int),
    )
    candidate = np.log(np.where(choices == 1, SAFE, 1 - SAFE))
    result = ove.evaluate(
        data,
        candidate,
        gamma=1.0,
        reward_range=(0, 10),
        horizon=1,
        max_ratio=2.0,
        quantities=["mean", "variance", "quantile:0.05", "cvar:0.1", "p_below:3"],
    )
    print(result)
    for requirement in ("quantile:0.05 >= 2", "p_below:3 <= 0.05", "cvar:0.1 >= behavior"):
        print(result.check(requirement))
    band = result.band
    assert band is not None
    lower, upper = band.at(4.0)
    print(f"between {float(lower):.0%} and {float(upper):.0%} of the gains are at most 4")

    # For comparison: let the candidate trade.
    _, gains = trade(SAFE, 200_000, rng)
    print(f"on-policy: mean {gains.mean():.4g}, variance {gains.var():.4g}")


if __name__ == "__main__":
    main()
