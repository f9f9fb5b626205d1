"""Everything a result depends on besides the log and the candidate."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from ove_sb3 import __version__
from ove_sb3._validation import as_generator, check_integer, check_range, check_real
from ove_sb3.data.metadata import Metadata
from ove_sb3.errors import InvalidInputError

_MOST_UNFINISHED = 0.25
_REPORTED = ("numpy", "scipy", "numba", "torch", "stable-baselines3", "sb3-contrib", "gymnasium")


@dataclass(frozen=True)
class Settings:
    """Checked options of `evaluate`, with what the log itself knows filled in.

    Attributes
    ----------
    gamma, horizon, reward_range, return_range, max_ratio, max_weight
        As passed, or as the log knows them.
    delta : float
        Probability of a miss: of each guaranteed interval, or with `simultaneous` of any.
    simultaneous : bool
        Mean and variance hold together.
    adaptive : bool
        The behavior changed while the log was written.
    unfinished_share
        See `Metadata`.
    seed : int
        Seed of shuffling and resampling.
    """

    gamma: float
    horizon: int | None
    reward_range: tuple[float, float] | None
    return_range: tuple[float, float] | None
    max_ratio: float | None
    max_weight: float | None
    delta: float
    simultaneous: bool
    adaptive: bool
    unfinished_share: float
    seed: int

    @property
    def interval_delta(self) -> float:
        """Probability of a miss that one interval gets."""
        return self.delta / 2 if self.simultaneous else self.delta

    @property
    def limits(self) -> dict[str, Any]:
        """The assumptions that intervals are given."""
        return {
            "reward_range": self.reward_range,
            "return_range": self.return_range,
            "max_ratio": self.max_ratio,
            "max_weight": self.max_weight,
        }

    def shared_by(self, n: int) -> Settings:
        """The settings of one of n candidates whose bounds are to hold together."""
        return replace(self, delta=self.delta / n, simultaneous=True)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        values = asdict(self)
        for name in ("reward_range", "return_range"):
            if values[name] is not None:
                values[name] = list(values[name])
        return values


def resolve_settings(
    metadata: Metadata,
    *,
    gamma: object,
    reward_range: object,
    return_range: object,
    horizon: object,
    max_ratio: object,
    max_weight: object,
    delta: object,
    simultaneous: object,
    rng: object,
) -> Settings:
    """Check the options, and fill in what the log knows."""
    if metadata.unfinished_share > _MOST_UNFINISHED:
        raise InvalidInputError(
            "`data` must hold most of the episodes that were begun, but up to "
            f"{metadata.unfinished_share:.0%} of them were reset before their end or under way "
            "when logging stopped. Those are the long ones: what is left is not what the behavior "
            "does. Let episodes run to their end, log more of them in one go, or use "
            "ove_sb3.collect."
        )
    if not isinstance(simultaneous, (bool, np.bool_)):
        raise InvalidInputError(f"`simultaneous` must be True or False, got {simultaneous!r}.")
    steps = metadata.horizon if horizon is None else check_integer(horizon, "horizon", 1)
    discount = check_real(gamma, "gamma", 0.0, 1.0)
    returns = None if return_range is None else check_range(return_range, "return_range")
    if reward_range is None:
        rewards = metadata.reward_range
    else:
        rewards = check_range(reward_range, "reward_range")
    if rewards is None and returns is None:
        raise InvalidInputError(
            "`reward_range` (or `return_range`) must be given, got None, and the log does not name "
            "it. State the smallest and largest reward the environment can give: the guarantee "
            "rests on it, so it is not taken from the data."
        )
    if returns is None and steps is None and discount == 1.0:
        raise InvalidInputError(
            "`horizon` must be given when gamma = 1, got None, and the log does not name it: the "
            "return has no bound. Pass the environment's max_episode_steps, or `return_range`."
        )
    return Settings(
        gamma=discount,
        horizon=steps,
        reward_range=rewards,
        return_range=returns,
        max_ratio=None if max_ratio is None else _bound(max_ratio, "max_ratio"),
        max_weight=None if max_weight is None else _bound(max_weight, "max_weight"),
        delta=check_real(delta, "delta", 0.0, 1.0, closed=False),
        simultaneous=bool(simultaneous),
        adaptive=metadata.adaptive,
        unfinished_share=metadata.unfinished_share,
        seed=_seed(rng),
    )


def versions() -> dict[str, str]:
    """Versions of what a result was computed with."""
    found = {"ove-sb3": __version__, "python": platform.python_version()}
    for name in _REPORTED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _bound(value: object, name: str) -> float:
    remedy = "Importance ratios average 1 under the behavior, so their bound is at least 1."
    return check_real(value, name, 1.0, np.inf, remedy=remedy)


def _seed(rng: object) -> int:
    """A number that can be written down, from a seed, a Generator, or fresh entropy."""
    if rng is None or isinstance(rng, np.random.Generator):
        return int(as_generator(rng).integers(2**63))
    return check_integer(rng, "rng", 0, "Pass an int seed, a numpy Generator, or None.")
