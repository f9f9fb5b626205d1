"""Do actions follow a claimed law? The randomised probability integral transform and its tests.

If action a_t was drawn from the claimed law F_t, which may depend on everything before t, then
u_t = F_t(a_t-) + V_t F_t({a_t}) are independent and uniform (Rosenblatt, 1952; V_t uniform). This
holds while a model learns from the very same actions, so that it can be tested there too. Only
`log_prob` of the law is used: it is the number that is logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from scipy import stats

from ove_sb3.sb3.distributions import ActionDistribution

FloatArray = NDArray[np.float64]
FALSE_ALARMS = 1e-3  # probability that a correct law fails, all tests of one call together
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_EDGE = 1.01e-6  # half-widths from a bound: just inside the part of a Box that has a density
_BINS = 20


def check_law(law: ActionDistribution, draws: NDArray[Any], n_envs: int = 1) -> None:
    """The law has mass 1, and `draws`, (n_steps * n_envs, ...), follow it row by row."""
    assert np.isfinite(law.log_prob(draws)).all(), "an action of probability 0 was drawn"
    check_uniform(pit(law, draws, np.random.default_rng(11)).reshape(-1, n_envs, columns(law)))


def check_uniform(u: FloatArray) -> None:
    """The entries of `u`, (n_steps, n_envs, columns), are independent and uniform."""
    samples = dict(_uniform_samples(u))
    values = {}
    for name, sample in samples.items():
        flat = sample.ravel()
        counts = np.histogram(flat, bins=_BINS, range=(0.0, 1.0))[0]
        values[f"KS of {name}"] = stats.kstest(flat, "uniform").pvalue
        values[f"chi-square of {name}"] = stats.chisquare(counts).pvalue
    name, smallest = min(values.items(), key=lambda item: item[1])
    assert smallest * len(values) > FALSE_ALARMS, f"{name}: p = {smallest:.2g} of {len(values)}"


def _uniform_samples(u: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    """Functions of independent uniforms that are so themselves, each blind to other errors."""
    yield "ranks", u
    yield "distances from the middle", np.abs(2.0 * u - 1.0)  # a spread that is wrong
    for axis, name in enumerate(("steps", "environments", "columns")):  # dependence
        if u.shape[axis] > 1:
            yield f"differences between {name}", np.diff(u, axis=axis) % 1.0


def columns(law: ActionDistribution) -> int:
    """Number of uniforms that `pit` gives a row."""
    space = law.action_space
    return int(np.prod(space.shape)) if isinstance(space, spaces.Box) else 1


def pit(law: ActionDistribution, actions: NDArray[Any], rng: np.random.Generator) -> FloatArray:
    """Randomised probability integral transform of one action a row, (n, columns)."""
    if isinstance(law.action_space, spaces.Box):
        return _pit_of_box(law, law.action_space, actions, rng)
    return _pit_of_choices(law, actions, rng)


def _pit_of_choices(
    law: ActionDistribution, actions: NDArray[Any], rng: np.random.Generator
) -> FloatArray:
    """Choices in the order of their claimed probability, which a claim too sharp makes uneven."""
    choices = all_actions(law.action_space)
    n = len(law)
    p = np.exp([law.log_prob(np.repeat(choice[None], n, axis=0)) for choice in choices]).T
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    same = np.reshape(actions, (n, 1, -1)) == np.reshape(choices, (1, len(choices), -1))
    taken = same.all(axis=2).argmax(axis=1)
    order = np.argsort(p, axis=1, kind="stable")
    below = np.take_along_axis(np.cumsum(np.take_along_axis(p, order, 1), axis=1), _rank(order), 1)
    row = np.arange(n)
    u: FloatArray = below[row, taken] - rng.random(n) * p[row, taken]
    return np.clip(u, 0.0, 1.0)[:, None]


def _rank(order: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(order, axis=1, kind="stable")


def _pit_of_box(
    law: ActionDistribution, space: spaces.Box, actions: NDArray[Any], rng: np.random.Generator
) -> FloatArray:
    """Dimensions are independent: one at a time, with the others where they are.

    The density is integrated numerically, over s with y = tanh(s), y in [-1, 1] from bound to
    bound: clipped and squashed normals are smooth in s.
    """
    low, high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
    half = 0.5 * (high - low)
    x = np.reshape(actions, (len(law), -1)).astype(np.float64)
    joint = law.log_prob(x)
    log_mass = -(x.shape[1] - 1) * joint
    u = np.empty(x.shape)
    for j in range(x.shape[1]):

        def density(at: FloatArray | float, j: int = j) -> FloatArray:
            points = x.copy()
            points[:, j] = at
            return np.exp(law.log_prob(points) - joint)

        end = np.arctanh(1.0 - _EDGE)
        middle = np.arctanh(np.clip((x[:, j] - low[j]) / half[j] - 1.0, _EDGE - 1.0, 1.0 - _EDGE))
        inside = []
        for start, stop in ((-end, middle), (middle, end)):
            s = 0.5 * (stop + start + (stop - start) * _NODES[:, None])
            values = [density(low[j] + half[j] * (1.0 + np.tanh(each))) for each in s]
            slope = half[j] / np.cosh(s) ** 2 * 0.5 * (stop - start)
            inside.append(_WEIGHTS @ (slope * np.array(values)))
        atoms = density(low[j]), density(high[j])
        total = atoms[0] + inside[0] + inside[1] + atoms[1]
        log_mass += np.log(total) + joint
        at_low, at_high = middle <= -end, middle >= end
        tie = rng.random(len(x))
        below = np.where(at_low, tie * atoms[0], atoms[0] + inside[0])
        u[:, j] = np.where(at_high, 1.0 - tie * atoms[1] / total, below / total)
    np.testing.assert_allclose(np.exp(log_mass), 1.0, rtol=0, atol=2e-3)
    return u


def all_actions(space: spaces.Space[Any]) -> NDArray[np.int64]:
    """Every choice of a discrete space, (n_choices,) or (n_choices, components)."""
    if isinstance(space, spaces.Discrete):
        return np.arange(space.n)
    sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [2] * space.n  # type: ignore[attr-defined]
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))
