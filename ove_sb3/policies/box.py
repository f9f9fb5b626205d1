"""Action distributions on a Box: per dimension, a density inside and an atom at each finite bound.

stable-baselines3 clips Gaussian actions to the Box, and its squashed Gaussian reaches the bounds in
single precision, so the executed action lies on a bound with positive probability. The base measure
shared by all families here is, per dimension and in environment units, Lebesgue measure inside plus
a unit atom at each finite bound. In every family an action within `BoxBounds.margin` of a bound, a
few units in the last place, counts as lying on it, so that rounding errors do not matter.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator
from ove_sb3.errors import PLACE, InvalidInputError

from .distribution import ActionDistribution, Rng
from .squashing import Squashing

_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_MARGIN = 4.0  # units in the last place of the larger bound
_NEAR = 4e-6  # half-widths: rounding errors of networks
_COARSE = 1e-3  # width of the set of draws that give an action, in standard deviations


class BoxBounds:
    """Bounds of a Box, flattened, and the edges of their atoms.

    Attributes
    ----------
    low, high : ndarray, (d,)
        Bounds, possibly infinite.
    low_edge, high_edge : ndarray, (d,)
        Actions at or beyond an edge count as lying on the bound.
    """

    def __init__(self, space: spaces.Box) -> None:
        if np.dtype(space.dtype or np.float32).kind != "f":
            raise InvalidInputError(
                f"`action_space` must be a Box of floating-point numbers, got {space}. Use "
                "MultiDiscrete for integer actions."
            )
        self.space = space
        self.low = space.low.astype(np.float64).ravel()
        self.high = space.high.astype(np.float64).ravel()
        self.bounded = bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())
        half = np.where(np.isfinite(self.high - self.low), 0.5 * (self.high - self.low), 0.0)
        largest = np.maximum(
            *(np.where(np.isfinite(b), abs(b), 0.0) for b in (self.low, self.high))
        )
        single = np.result_type(space.dtype or np.float32, np.float32)
        spacing = np.spacing(largest.astype(single)).astype(np.float64)
        self.margin = _MARGIN * np.maximum(spacing, half * np.spacing(np.float32(1.0)))
        self.low_edge, self.high_edge = self.low + self.margin, self.high - self.margin
        if (self.low_edge >= self.high_edge).any():
            raise InvalidInputError(
                f"`action_space` must have bounds that its dtype can tell apart, got {space}. "
                "Rescale the actions."
            )

    @cached_property
    def half_width(self) -> FloatArray:
        """Half of high - low, (d,)."""
        return 0.5 * (self.high - self.low)

    @cached_property
    def squashing(self) -> Squashing:
        """The map from [-1, 1] to the bounds in the arithmetic of stable-baselines3."""
        return Squashing(self.space)

    @cached_property
    def spacing(self) -> FloatArray:
        """Largest distance of neighboring actions, in half-widths, (d,)."""
        return np.asarray(self.margin / (_MARGIN * self.half_width))

    def to_unit(self, x: FloatArray) -> FloatArray:
        """From environment units to [-1, 1]."""
        return (x - self.low) / self.half_width - 1.0

    def from_unit(self, y: NDArray[Any]) -> FloatArray:
        """From [-1, 1] to environment units."""
        return self.low + (y.astype(np.float64) + 1.0) * self.half_width


class BoxDistribution(ActionDistribution):
    """Distribution with independent dimensions, censored at the bounds of its Box."""

    def __init__(self, bounds: BoxBounds, n: int) -> None:
        self.bounds = bounds
        self.action_space = bounds.space
        self._n = n

    def __len__(self) -> int:
        return self._n

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> FloatArray:
        """Uncensored draws in environment units, (n, d)."""

    @abstractmethod
    def _log_density(self, x: FloatArray) -> FloatArray:
        """Log-density inside, (n, d)."""

    @abstractmethod
    def _log_below(self, x: FloatArray) -> FloatArray:
        """Log-probability of values at or below x, (d,) -> (n, d)."""

    @abstractmethod
    def _log_above(self, x: FloatArray) -> FloatArray:
        """Log-probability of values at or above x, (d,) -> (n, d)."""

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        x = np.clip(self._draw(as_generator(rng)), self.bounds.low, self.bounds.high)
        return x.reshape(-1, *self.bounds.space.shape).astype(self.bounds.space.dtype)

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        b = self.bounds
        x = self._rows(actions).reshape(self._n, -1).astype(np.float64)
        inside = (x >= b.low - b.margin) & (x <= b.high + b.margin)
        if not inside.all():
            self._refuse_outside(x, inside)
        at_low, at_high = x <= b.low_edge, x >= b.high_edge
        log_p = self._log_density(np.clip(x, b.low_edge, b.high_edge))  # per dimension
        if at_low.any():
            log_p = np.where(at_low, self._log_below(b.low_edge), log_p)
        if at_high.any():
            log_p = np.where(at_high, self._log_above(b.high_edge), log_p)
        return np.asarray(log_p.sum(axis=1))

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        b = self.bounds
        x = self._rows(actions).reshape(self._n, -1).astype(np.float64)
        below = np.broadcast_to(self._log_below(b.low_edge), x.shape)
        above = np.broadcast_to(self._log_above(b.high_edge), x.shape)
        mass = np.exp(np.concatenate([below, above], axis=1)).mean(axis=0)
        return mass, np.concatenate([(x <= b.low_edge).sum(axis=0), (x >= b.high_edge).sum(axis=0)])

    def _mode(self) -> FloatArray | None:
        """Action that ``deterministic=True`` takes, (n, d); None if there is none."""
        return None

    def _standardized(self, x: FloatArray) -> FloatArray:
        """Standard normal numbers of which actions x inside the bounds are made, (n, d)."""
        raise NotImplementedError

    @override
    def mode_probability(self, actions: ArrayLike) -> tuple[NDArray[np.bool_], FloatArray] | None:
        mode, b = self._mode(), self.bounds
        if mode is None:
            return None
        x = self._rows(actions).reshape(self._n, -1).astype(np.float64)
        # Networks round differently from batch to batch.
        scale = np.where(np.isfinite(b.half_width), b.half_width, 1.0 + np.abs(mode))
        near = np.maximum(_NEAR * scale, b.margin)
        hits = (np.abs(x - mode) <= near).all(axis=1)
        # Room for the rounding of actions: the probability must not come out too small.
        low, high = mode - near - b.margin, mode + near + b.margin
        at_low, at_high = low <= b.low_edge, high >= b.high_edge
        z_low = np.where(at_low, -np.inf, self._standardized(np.where(at_low, mode, low)))
        z_high = np.where(at_high, np.inf, self._standardized(np.where(at_high, mode, high)))
        return hits, np.asarray(_log_between(z_low, z_high).sum(axis=1))

    def _refuse_outside(self, x: FloatArray, inside: NDArray[np.bool_]) -> None:
        row, column = (int(i) for i in np.argwhere(~inside)[0])
        raise InvalidInputError(
            f"`actions` must lie in the action space {self.bounds.space}, got "
            f"{x[row, column]} in dimension {column} at {PLACE} "
            f"({int((~inside).any(axis=1).sum())} of {len(x)} rows). Log the action that is "
            "executed: clip it to the bounds before the environment's step.",
            row=row,
        )


class ClippedNormal(BoxDistribution):
    """Normal(mean, std), clipped to the bounds; the normal tails are the masses of the atoms.

    Parameters
    ----------
    bounds : BoxBounds
    mean : ndarray, (n, d)
    std : ndarray, (n, d) or (d,)
        In environment units, positive.
    """

    def __init__(self, bounds: BoxBounds, mean: FloatArray, std: FloatArray) -> None:
        super().__init__(bounds, len(mean))
        self.mean, self.std = mean, _positive(std)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        return self.mean + self.std * rng.standard_normal(self.mean.shape)

    def _log_density(self, x: FloatArray) -> FloatArray:
        return _log_normal(x, self.mean, self.std)

    def _log_below(self, x: FloatArray) -> FloatArray:
        return np.asarray(log_ndtr((x - self.mean) / self.std))

    def _log_above(self, x: FloatArray) -> FloatArray:
        return np.asarray(log_ndtr((self.mean - x) / self.std))

    @override
    def _mode(self) -> FloatArray:
        return np.clip(self.mean, self.bounds.low, self.bounds.high)

    @override
    def _standardized(self, x: FloatArray) -> FloatArray:
        return (x - self.mean) / self.std


class SquashedNormal(BoxDistribution):
    """tanh of Normal(mean, std), scaled from [-1, 1] to the bounds.

    Parameters
    ----------
    bounds : BoxBounds
        All finite.
    mean, std : ndarray, (n, d)
        Before squashing.
    """

    def __init__(self, bounds: BoxBounds, mean: FloatArray, std: FloatArray) -> None:
        super().__init__(bounds, len(mean))
        self.mean, self.std = mean, _positive(std)

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        # In the arithmetic of stable-baselines3, which decides the probability of an action.
        x = self.bounds.squashing.scale(np.tanh(self._gaussian(rng)).astype(np.float32))
        return x.reshape(-1, *self.bounds.space.shape).astype(self.bounds.space.dtype)

    def _gaussian(self, rng: Rng) -> FloatArray:
        noise = as_generator(rng).standard_normal(self.mean.shape)
        return np.asarray(self.mean + self.std * noise)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        return self.bounds.from_unit(np.tanh(self._gaussian(rng)))

    def _log_density(self, x: FloatArray) -> FloatArray:
        y = self.bounds.to_unit(x)
        slope = (1.0 - y) * (1.0 + y)  # of y in the Gaussian
        log_slope = np.log1p(-y) + np.log1p(y) + np.log(self.bounds.half_width)
        density = np.asarray(_log_normal(np.arctanh(y), self.mean, self.std) - log_slope)
        coarse = self.bounds.spacing > _COARSE * slope * self.std
        if coarse.any():
            density[coarse] = self._log_mean_density(x[coarse], np.nonzero(coarse))
        return density

    def _log_mean_density(self, x: FloatArray, at: tuple[IntArray, ...]) -> FloatArray:
        """Probability of each executed action over the width of its rounding cell, in logs."""
        low, high = self.bounds.squashing.edges(x, at[1])
        inside = low < high  # else no draw gives x: the density at x itself
        y = (
            self.bounds.to_unit(x)
            if x.ndim == 2
            else ((x - self.bounds.low[at[1]]) / self.bounds.half_width[at[1]] - 1.0)
        )
        low, high = np.where(inside, low, y), np.where(inside, high, np.nextafter(y, 2.0))
        mean, std = (np.broadcast_to(v, self.mean.shape)[at] for v in (self.mean, self.std))
        mass = _log_between((np.arctanh(low) - mean) / std, (np.arctanh(high) - mean) / std)
        return np.asarray(mass - np.log((high - low) * self.bounds.half_width[at[1]]))

    def _log_below(self, x: FloatArray) -> FloatArray:
        edge = self.bounds.squashing.edge_at_most(x)
        return np.asarray(log_ndtr((np.arctanh(edge) - self.mean) / self.std))

    def _log_above(self, x: FloatArray) -> FloatArray:
        edge = self.bounds.squashing.edge_at_least(x)
        return np.asarray(log_ndtr((self.mean - np.arctanh(edge)) / self.std))

    @override
    def _mode(self) -> FloatArray:
        return self.bounds.from_unit(np.tanh(self.mean))

    @override
    def _standardized(self, x: FloatArray) -> FloatArray:
        unit = np.clip(self.bounds.to_unit(x), -1.0, 1.0)
        with np.errstate(divide="ignore"):  # a mode on a bound
            return np.asarray((np.arctanh(unit) - self.mean) / self.std)


class Uniform(BoxDistribution):
    """Uniform on a bounded Box, for n observations."""

    def __init__(self, bounds: BoxBounds, n: int) -> None:
        if not bounds.bounded:
            raise InvalidInputError(
                f"`action_space` must be bounded for a uniform distribution, got {bounds.space}. "
                "Clip or rescale the actions to finite bounds."
            )
        super().__init__(bounds, n)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(self.bounds.low, self.bounds.high, (self._n, self.bounds.low.size))

    def _log_density(self, x: FloatArray) -> FloatArray:
        return np.broadcast_to(-np.log(2.0 * self.bounds.half_width), x.shape)

    def _log_below(self, x: FloatArray) -> FloatArray:
        return np.log((x - self.bounds.low) / (2.0 * self.bounds.half_width))

    def _log_above(self, x: FloatArray) -> FloatArray:
        return np.log((self.bounds.high - x) / (2.0 * self.bounds.half_width))


class NoisyUniform(Uniform):
    """Uniform plus Normal(shift, std) in units of the half-width, clipped.

    Actions of an off-policy algorithm with action noise during its warm-up.

    Parameters
    ----------
    bounds : BoxBounds
    shift, std : ndarray, (n, d)
    """

    def __init__(self, bounds: BoxBounds, shift: FloatArray, std: FloatArray) -> None:
        super().__init__(bounds, len(shift))
        self.shift, self.std = shift, _positive(std)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        noise = self.shift + self.std * rng.standard_normal(self.shift.shape)
        return super()._draw(rng) + noise * self.bounds.half_width

    def _log_density(self, x: FloatArray) -> FloatArray:
        y = self.bounds.to_unit(x)
        below, above = ((y + end - self.shift) / self.std for end in (-1.0, 1.0))
        # Both arguments on the side where the difference of tails loses no digits.
        far = below > 0
        mass = np.where(far, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(mass) - np.log(2.0 * self.bounds.half_width))

    def _log_below(self, x: FloatArray) -> FloatArray:
        return self._log_tail(self.bounds.to_unit(x), self.shift)

    def _log_above(self, x: FloatArray) -> FloatArray:
        return self._log_tail(-self.bounds.to_unit(x), -self.shift)

    def _log_tail(self, y: FloatArray, shift: FloatArray) -> FloatArray:
        """Log of P(U + N <= y), the mean of P(N <= v) over v in [y - 1, y + 1]."""
        ends = [(y + end - shift) / self.std for end in (-1.0, 1.0)]
        # The integral of ndtr is v ndtr(v) + the normal density at v.
        primitive = [v * ndtr(v) + np.exp(-0.5 * v**2 - _LOG_SQRT_2PI) for v in ends]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(0.5 * self.std * (primitive[1] - primitive[0])))


def _log_normal(x: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    z = (x - mean) / std
    return np.asarray(-0.5 * z * z - np.log(std) - _LOG_SQRT_2PI)


def _log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Logarithm of the standard normal mass between two numbers, from the nearer tail."""
    mirrored = low + high > 0.0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log1p(-np.exp(np.minimum(lower - upper, 0.0))))


def _positive(std: FloatArray) -> FloatArray:
    if not (std > 0.0).all():
        raise InvalidInputError(
            "`std` must be positive in every dimension of a Box: without noise there is no "
            f"density, got {float(std.min())}. Use noise in every dimension."
        )
    return std
