"""Tests of whether actions follow a claimed distribution, by the probability integral transform.

If action a_t was drawn from the claimed distribution F_t, which may depend on everything before t,
then u_t = F_t(a_t-) + V_t F_t({a_t}) are independent and uniform (Rosenblatt, 1952; V_t uniform).
This holds while a model learns from the same actions, so that it can be tested there too. That
`log_prob`, the number that is logged, belongs to F_t is checked as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from scipy import stats

from ove_sb3.policies.bounds import BoxBounds
from ove_sb3.policies.distribution import ActionDistribution, Mixture

FloatArray = NDArray[np.float64]
FALSE_ALARMS = 1e-3  # probability that a correct distribution fails in one call
_BINS = 20


def check_distribution(
    distribution: ActionDistribution, draws: NDArray[Any], n_envs: int = 1
) -> None:
    """The distribution has mass 1, and `draws`, (n_steps * n_envs, ...), follow it row by row."""
    assert np.isfinite(distribution.log_prob(draws)).all(), "an action of probability 0 was drawn"
    check_uniform(
        pit(distribution, draws, np.random.default_rng(11)).reshape(
            -1, n_envs, columns(distribution)
        )
    )


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
    """Transforms that keep uniforms uniform, each sensitive to different errors."""
    yield "ranks", u
    yield "distances from the middle", np.abs(2.0 * u - 1.0)  # a wrong spread
    for axis, name in enumerate(("steps", "environments", "columns")):  # dependence
        if u.shape[axis] > 1:
            yield f"differences between {name}", np.diff(u, axis=axis) % 1.0


def columns(distribution: ActionDistribution) -> int:
    """Number of uniforms that `pit` gives a row."""
    space = distribution.action_space
    return int(np.prod(space.shape)) if isinstance(space, spaces.Box) else 1


def pit(
    distribution: ActionDistribution, actions: NDArray[Any], rng: np.random.Generator
) -> FloatArray:
    """Randomized probability integral transform of one action a row, (n, columns)."""
    if isinstance(distribution.action_space, spaces.Box):
        return _pit_of_box(distribution, distribution.action_space, actions, rng)
    return _pit_of_choices(distribution, actions, rng)


def _pit_of_choices(
    distribution: ActionDistribution, actions: NDArray[Any], rng: np.random.Generator
) -> FloatArray:
    """Order choices by claimed probability, so that an overconfident claim is uneven."""
    choices = all_actions(distribution.action_space)
    n = len(distribution)
    p = np.exp([distribution.log_prob(np.repeat(choice[None], n, axis=0)) for choice in choices]).T
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
    distribution: ActionDistribution,
    space: spaces.Box,
    actions: NDArray[Any],
    rng: np.random.Generator,
) -> FloatArray:
    """Dimensions are independent: one uniform for each. The mass of an action is spread evenly."""
    box = BoxBounds(space)
    x = np.reshape(actions, (len(distribution), -1)).astype(np.float64)
    at_low, at_high = x <= box.low_edge, x >= box.high_edge
    below, above = _tails(distribution, np.clip(x, box.low_edge, box.high_edge))
    np.testing.assert_allclose(below + above, 1.0, rtol=0, atol=1e-12)
    _check_density(distribution, box, x)
    tie, (low, high) = rng.random(x.shape), _atoms(distribution, x.shape)
    return np.where(at_low, tie * low, np.where(at_high, 1.0 - tie * high, below))


def _check_density(distribution: ActionDistribution, box: BoxBounds, x: FloatArray) -> None:
    """`log_prob` is the slope of the tails inside, and the tails themselves at the bounds."""
    step = 1e-7 * (box.high - box.low)
    inner = np.clip(x, box.low + 1e4 * step, box.high - 1e4 * step)
    (below, above), (before, _), (after, _) = (
        _tails(distribution, inner + k * step) for k in (0, -1, 1)
    )
    at_low, at_high = x <= box.low_edge, x >= box.high_edge
    inside = (x == inner) & (np.minimum(below, above) > 1e-3)  # where rounding does no harm
    atoms = _atoms(distribution, x.shape)
    density = np.where(
        at_low, atoms[0], np.where(at_high, atoms[1], (after - before) / (2.0 * step))
    )
    checked = (inside | at_low | at_high).all(axis=1)
    assert checked.any()
    expected = density[checked].prod(axis=1)
    np.testing.assert_allclose(np.exp(distribution.log_prob(x)[checked]), expected, rtol=1e-4)


def _tails(distribution: Any, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mass at or below, and at or above, `x` in every dimension, (n, d)."""
    if isinstance(distribution, Mixture):
        weights = np.exp(distribution.log_weights).T[:, :, None]
        tails = np.array([_tails(component, x) for component in distribution.components])
        return (weights * tails[:, 0]).sum(axis=0), (weights * tails[:, 1]).sum(axis=0)
    shape = (len(distribution), x.shape[-1])
    with np.errstate(divide="ignore"):  # of a squashed Gaussian beyond its bounds
        below, above = np.exp(distribution._log_below(x)), np.exp(distribution._log_above(x))
    return np.broadcast_to(below, shape), np.broadcast_to(above, shape)


def _atoms(distribution: Any, shape: tuple[int, ...]) -> FloatArray:
    """Mass of the lower and upper bound in every dimension, (2, n, d)."""
    if isinstance(distribution, Mixture):
        weights = np.exp(distribution.log_weights).T[:, None, :, None]
        parts = [_atoms(component, shape) for component in distribution.components]
        mixed: FloatArray = (weights * np.array(parts)).sum(axis=0)
        return mixed
    return np.exp([np.broadcast_to(atom, shape) for atom in distribution._log_atoms()])


def all_actions(space: spaces.Space[Any]) -> NDArray[np.int64]:
    """Every choice of a discrete space, (n_choices,) or (n_choices, components)."""
    if isinstance(space, spaces.Discrete):
        return np.arange(space.n)
    sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else [2] * space.n  # type: ignore[attr-defined]
    return np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(sizes))
