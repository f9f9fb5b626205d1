"""Action distributions on a Box: per dimension, a density inside and an atom at each finite bound.

stable-baselines3 clips Gaussian actions to the Box, and its squashed Gaussian reaches the bounds in
single precision, so the executed action lies on a bound with positive probability. The base measure
shared by all families here is, per dimension and in environment units, Lebesgue measure inside plus
a unit atom at each finite bound.

Executed actions are rounded numbers. Where the density changes within the rounding cell of an
action, the density is the mean over the cell: the probability of the action over the width of the
cell. The ratio of two such densities is the exact ratio of probabilities.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr
from typing_extensions import override

from ove_sb3._validation import FloatArray, IntArray, as_generator
from ove_sb3.errors import PLACE, InvalidInputError

from .bounds import BoxBounds
from .distribution import ActionDistribution, Rng
from .rounding import Grid, SquashedGrid

Pick = Callable[[NDArray[Any]], NDArray[Any]]
_LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
_LARGEST = 1.0 - 2.0**-30  # between 1 and the float32 number below
_COARSE = 1e-4  # width of a cell, in units of the scale on which the density changes
_NEAR = 4e-6  # half-widths: rounding errors of networks


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
    def _log_density(self, x: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Log-density inside, (..., n, d), and the scale on which it changes, like it or (d,).

        The scale is None if it is larger than any cell.
        """

    @abstractmethod
    def _log_below(self, x: FloatArray) -> FloatArray:
        """Log-probability of uncensored values below x, (d,) -> (n, d)."""

    @abstractmethod
    def _log_above(self, x: FloatArray) -> FloatArray:
        """Log-probability of uncensored values above x, (d,) -> (n, d)."""

    def _log_mass(self, low: FloatArray, high: FloatArray, pick: Pick) -> FloatArray:
        """Log-probability of intervals, (m,); `pick` gives their entries of any parameter."""
        raise NotImplementedError

    @property
    def _grid(self) -> Grid:
        """Rounding of the draws."""
        return self.bounds.float_grid

    def _log_atoms(self) -> tuple[FloatArray, FloatArray]:
        """Log-probabilities of the bounds."""
        b, grid = self.bounds, self._grid
        low, high = grid.edge_above(b.low_edge), grid.edge_below(b.high_edge)
        return self._log_below(low), self._log_above(high)

    def _log_inside(self, x: FloatArray) -> FloatArray:
        """Log-density of the actions inside, the mean over the cell where cells are coarse."""
        density, scale = self._log_density(x)
        if scale is None:
            return density
        coarse = self.bounds.spacing(x) > _COARSE * scale
        if coarse.any():
            shape = density.shape

            def pick(values: NDArray[Any]) -> NDArray[Any]:
                return np.broadcast_to(values, shape)[at]

            flat = np.flatnonzero(np.broadcast_to(coarse, shape))  # faster than nonzero
            at = np.unravel_index(flat, shape)
            low, high = self._grid.cell(pick(x), at[-1])
            wide = high - low > _COARSE * pick(scale)
            at, low, high = tuple(i[wide] for i in at), low[wide], high[wide]
            density[at] = self._log_mass(low, high, pick) - np.log(high - low)
        return density

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        x = np.clip(self._draw(as_generator(rng)), self.bounds.low, self.bounds.high)
        return x.reshape(-1, *self.bounds.space.shape).astype(self.bounds.dtype)

    @override
    def log_prob(self, actions: ArrayLike) -> FloatArray:
        return self._log_prob(self._coordinates([actions])[0])

    def _coordinates(self, actions: Sequence[ArrayLike]) -> FloatArray:
        """Actions that lie in the Box, (J, n, d)."""
        b, rows = self.bounds, np.stack([self._rows(part) for part in actions])
        x = rows.reshape(len(actions), self._n, -1).astype(np.float64)
        inside = (x >= b.low - b.margin) & (x <= b.high + b.margin)
        if not inside.all():
            first = int(np.argwhere(~inside)[0, 0])
            self._refuse_outside(x[first], inside[first])
        return x

    def _log_prob(self, x: FloatArray) -> FloatArray:
        """Log-probabilities, (..., n, d) -> (..., n)."""
        b = self.bounds
        at_low, at_high = x <= b.low_edge, x >= b.high_edge
        log_p = self._log_inside(x)  # per dimension
        if at_low.any() or at_high.any():
            below, above = self._log_atoms()
            log_p = np.where(at_low, below, np.where(at_high, above, log_p))
        return np.asarray(log_p.sum(axis=-1))

    @override
    def cells(self, actions: ArrayLike) -> tuple[FloatArray, IntArray]:
        b = self.bounds
        x = self._rows(actions).reshape(self._n, -1).astype(np.float64)
        atoms = [np.broadcast_to(mass, x.shape) for mass in self._log_atoms()]
        mass = np.exp(np.concatenate(atoms, axis=1)).mean(axis=0)
        return mass, np.concatenate([(x <= b.low_edge).sum(axis=0), (x >= b.high_edge).sum(axis=0)])

    def _mode(self) -> FloatArray | None:
        """Action that ``deterministic=True`` takes, (n, d); None if there is none."""
        return None

    def _standardized(self, x: FloatArray) -> FloatArray:
        """Standard normal numbers of which actions x inside the bounds are made, (n, d)."""
        raise NotImplementedError

    @override
    def point_mass(self) -> PointMass:
        mode = self._mode()
        if mode is None:
            return super().deterministic()  # type: ignore[return-value]  # raises
        return PointMass(self.bounds, mode)

    @override
    def mode_probability(self, actions: ArrayLike) -> tuple[NDArray[np.bool_], FloatArray] | None:
        mode, b = self._mode(), self.bounds
        if mode is None:
            return None
        x = self._rows(actions).reshape(self._n, -1).astype(np.float64)
        near = _nearness(b, mode)
        hits = np.asarray((np.abs(x - mode) <= near).all(axis=1))
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


def _nearness(bounds: BoxBounds, mode: FloatArray) -> FloatArray:
    """Distance within which an action is the mode: networks round differently in other batches."""
    scale = np.where(np.isfinite(bounds.half_width), bounds.half_width, 1.0 + np.abs(mode))
    return np.maximum(_NEAR * scale, bounds.margin)


class PointMass(BoxDistribution):
    """All mass on one action, as a component of a mixture.

    The mass is spread over the tiny interval of actions that count as the same one. So it has a
    density like all others, and a mixture with it has exact importance ratios.

    Parameters
    ----------
    bounds : BoxBounds
    action : ndarray, (n, d)
    """

    def __init__(self, bounds: BoxBounds, action: FloatArray) -> None:
        super().__init__(bounds, len(action))
        self.action = np.clip(action, bounds.low, bounds.high)
        self._near = np.broadcast_to(_nearness(bounds, self.action), self.action.shape)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        del rng
        return self.action

    def _log_density(self, x: FloatArray) -> tuple[FloatArray, None]:
        inside = np.abs(x - self.action) <= self._near
        return np.where(inside, -np.log(2.0 * self._near), -np.inf), None

    def _log_below(self, x: FloatArray) -> FloatArray:
        return np.where(self.action <= x, 0.0, -np.inf)

    def _log_above(self, x: FloatArray) -> FloatArray:
        return np.where(self.action >= x, 0.0, -np.inf)

    @override
    def point_mass(self) -> PointMass:
        return self


class NormalBased(BoxDistribution):
    """Distribution of a function of Normal(mean, std), on which nothing else has an influence.

    Parameters
    ----------
    bounds : BoxBounds
    mean : ndarray, (n, d)
    std : ndarray, (n, d) or (d,)
        Positive.
    """

    def __init__(self, bounds: BoxBounds, mean: FloatArray, std: FloatArray) -> None:
        super().__init__(bounds, len(mean))
        self.mean, self.std = mean, _positive(std)

    @override
    def log_probs(
        self, actions: Sequence[ArrayLike], other: ActionDistribution
    ) -> tuple[FloatArray, FloatArray]:
        if type(other) is not type(self) or not other.bounds.equals(self.bounds):
            return super().log_probs(actions, other)
        # Together: what depends on the actions alone is computed once.
        both = copy.copy(self)
        std = (np.broadcast_to(one.std, one.mean.shape) for one in (self, other))
        both.mean, both.std = np.stack([self.mean, other.mean])[:, None], np.stack([*std])[:, None]
        own, others = both._log_prob(self._coordinates(actions))
        return own, others


class ClippedNormal(NormalBased):
    """Normal(mean, std) in environment units, clipped to the bounds.

    The normal tails are the masses of the atoms.
    """

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        return self.mean + self.std * rng.standard_normal(self.mean.shape)

    def _log_density(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _log_normal(x, self.mean, self.std), self.std

    @override
    def _log_mass(self, low: FloatArray, high: FloatArray, pick: Pick) -> FloatArray:
        mean, std = pick(self.mean), pick(self.std)
        return _log_between((low - mean) / std, (high - mean) / std)

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


class SquashedNormal(NormalBased):
    """tanh of Normal(mean, std), scaled from [-1, 1] to the bounds, all of which are finite."""

    @override
    def sample(self, rng: Rng = None) -> NDArray[Any]:
        # In the arithmetic of stable-baselines3, which decides the probability of an action.
        x = self._grid.scale(np.tanh(self._gaussian(rng)).astype(np.float32))
        return x.reshape(-1, *self.bounds.space.shape)

    def _gaussian(self, rng: Rng) -> FloatArray:
        noise = as_generator(rng).standard_normal(self.mean.shape)
        return np.asarray(self.mean + self.std * noise)

    def _draw(self, rng: np.random.Generator) -> FloatArray:
        return self.bounds.from_unit(np.tanh(self._gaussian(rng)))

    @property
    @override
    def _grid(self) -> SquashedGrid:
        return self.bounds.squashed_grid

    def _log_density(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        # The cells at the bounds are much wider than what is clipped.
        y = np.clip(self.bounds.to_unit(x), -_LARGEST, _LARGEST)
        slope = (1.0 - y) * (1.0 + y) * self.bounds.half_width  # of x in the Gaussian
        density = _log_normal(np.arctanh(y), self.mean, self.std) - np.log(slope)
        return density, slope * np.minimum(self.std, 1.0)

    @override
    def _log_mass(self, low: FloatArray, high: FloatArray, pick: Pick) -> FloatArray:
        mean, std = pick(self.mean), pick(self.std)
        dimension = pick(np.arange(self.bounds.low.size))
        edges = np.array([self.bounds.to_unit(edge, dimension) for edge in (low, high)])
        inside = np.clip(edges, -_LARGEST, _LARGEST)
        low_z, high_z = (np.arctanh(inside) - mean) / std
        # A number in the cell of a bound is executed as the bound.
        return np.where((edges == inside).all(axis=0), _log_between(low_z, high_z), -np.inf)

    def _log_below(self, x: FloatArray) -> FloatArray:
        return np.asarray(log_ndtr((np.arctanh(self.bounds.to_unit(x)) - self.mean) / self.std))

    def _log_above(self, x: FloatArray) -> FloatArray:
        return np.asarray(log_ndtr((self.mean - np.arctanh(self.bounds.to_unit(x))) / self.std))

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

    def _log_density(self, x: FloatArray) -> tuple[FloatArray, None]:
        return np.broadcast_to(-np.log(2.0 * self.bounds.half_width), x.shape), None

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

    def _log_density(self, x: FloatArray) -> tuple[FloatArray, None]:
        y = self.bounds.to_unit(x)
        below, above = ((y + end - self.shift) / self.std for end in (-1.0, 1.0))
        # Both arguments on the side where the difference of tails loses no digits.
        far = below > 0
        mass = np.where(far, ndtr(-below) - ndtr(-above), ndtr(above) - ndtr(below))
        with np.errstate(divide="ignore"):
            return np.log(mass) - np.log(2.0 * self.bounds.half_width), None

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
    return np.asarray(-0.5 * z * z - (np.log(std) + _LOG_SQRT_2PI))


def _log_between(low: FloatArray, high: FloatArray) -> FloatArray:
    """Logarithm of the standard normal mass between two numbers, from the nearer tail."""
    mirrored = low + high > 0.0
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(lower - upper, 0.0))))


def _positive(std: FloatArray) -> FloatArray:
    if not (std > 0.0).all():
        raise InvalidInputError(
            "`std` must be positive in every dimension of a Box: without noise there is no "
            f"density, got {float(std.min())}. Use noise in every dimension."
        )
    return std
