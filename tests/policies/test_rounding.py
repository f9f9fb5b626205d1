"""Probabilities of rounded actions, near bounds and for narrow Gaussians, by SB3's own draws."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from scipy.stats import norm

import ove_sb3 as ove
from ove_sb3.errors import UncoveredActionWarning
from ove_sb3.policies.bounds import BoxBounds
from ove_sb3.policies.rounding import FloatGrid

from .fixed_gaussians import OneStep, cell_p_value, clipped, deviation, executed, ratios, squashed
from .toys import make_model

N_DRAWS = 100_000
BOXES = [(0.0, 0.2), (0.0, 3.0), (-1.0, 1.0), (-2.0, 2.0), (1000.0, 1001.0), (-0.3, 1.7), (-1, 3)]
ALGORITHMS = ("SAC", "TQC", "CrossQ")
MEANS = (0.0, 1.0, 2.0, 4.0, 6.0, 7.0, 7.2, 8.0, 9.0, 10.0, 12.0)
STDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

SATURATED = [
    ("SAC", (0.0, 0.2), 7.0, 0.5, 1),
    ("SAC", (0.0, 0.2), 7.2, 0.1, 1),
    ("SAC", (0.0, 3.0), 7.0, 0.2, 1),
    ("SAC", (-1.0, 1.0), 9.0, 0.2, -1),
    ("SAC", (1000.0, 1001.0), 4.0, 0.2, -1),
    ("TQC", (0.0, 0.2), -7.0, 0.5, -1),
    ("TQC", (-2.0, 2.0), 8.0, 1.0, -1),
    ("TQC", (1000.0, 1001.0), 0.5, 0.05, 1),
    ("CrossQ", (-0.3, 1.7), 7.2, 0.1, -1),
    ("CrossQ", (0.0, 3.0), 8.0, 0.05, 1),
    ("CrossQ", (-1.0, 3.0), -9.0, 0.5, 1),
    ("CrossQ", (-1.0, 1.0), 0.0, 2.0, 1),
]
# Every mean with every standard deviation; algorithms, boxes and sides take turns.
FULL = [
    (ALGORITHMS[k % 3], BOXES[k % 7], mean * (-1) ** (k // 5), std, (-1) ** (k // 2))
    for k, (mean, std) in enumerate(itertools.product(MEANS, STDS))
]


def check_squashed(
    algorithm: str, box: tuple[float, float], mean: float, std: float, side: int, n: int
) -> None:
    """Ratios against a candidate one standard deviation away, and the cells one by one."""
    env = OneStep(*box)
    behavior = squashed(algorithm, env, mean, std, seed=3)
    candidate = squashed(algorithm, env, mean + side * std, std)
    actions = executed(behavior, n)
    rho = ratios(candidate, behavior, actions)
    assert abs(deviation(rho)) < 4.0, f"mean ratio {rho.mean()}"
    space: Any = env.action_space
    single = float(np.float32(mean)), float(np.exp(np.float32(np.log(std))))
    assert cell_p_value(actions, space, *single) > 1e-6


@pytest.mark.parametrize(("algorithm", "box", "mean", "std", "side"), SATURATED)
def test_squashed_actions(
    algorithm: str, box: tuple[float, float], mean: float, std: float, side: int
) -> None:
    check_squashed(algorithm, box, mean, std, side, N_DRAWS)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "box", "mean", "std", "side"), FULL + SATURATED)
def test_squashed_actions_at_full_size(
    algorithm: str, box: tuple[float, float], mean: float, std: float, side: int
) -> None:
    check_squashed(algorithm, box, mean, std, side, 1_000_000)


@pytest.mark.parametrize("algorithm", ["PPO", "TD3"])
@pytest.mark.parametrize("box", [(0.0, 0.2), (0.0, 3.0), (-1.0, 1.0), (1000.0, 1001.0)])
@pytest.mark.parametrize("relative_std", [1e-3, 1e-6, 1e-7])
def test_clipped_actions(algorithm: str, box: tuple[float, float], relative_std: float) -> None:
    """Inside and at both bounds, however narrow; drawn by SB3 and drawn by `sample`."""
    env, (low, high) = OneStep(*box), box
    std = relative_std * (high - low)
    if std < 0.6 * np.spacing(np.float32(high)):  # a draw would not differ from the mean
        std = 0.6 * float(np.spacing(np.float32(high)))
    np.random.seed(1)  # noqa: NPY002 (SB3 draws its noise from the global state)
    for mean, side in ((low + 0.31 * (high - low), 1), (low + std, 1), (high - std, -1)):
        behavior = clipped(algorithm, env, mean, std)
        candidate = clipped(algorithm, env, mean + side * std, std)
        torch.manual_seed(1)
        own = ove.action_distribution(behavior, np.zeros((N_DRAWS // 5, 1), np.float32)).sample(1)
        for actions in (executed(behavior, N_DRAWS // 5), own):
            rho = ratios(candidate, behavior, actions)
            assert abs(deviation(rho)) < 4.0, f"mean ratio {rho.mean()} at mean {mean}"


def make_policy(name: str, env: OneStep) -> Any:
    space: Any = env.action_space
    low, high = float(space.low[0]), float(space.high[0])
    middle, half = 0.5 * (high + low), 0.5 * (high - low)
    makers: dict[str, Callable[[], Any]] = {
        "saturated": lambda: squashed("SAC", env, 7.0, 0.5),
        "more saturated": lambda: squashed("TQC", env, 7.5, 0.5),
        "squashed": lambda: squashed("SAC", env, 1.0, 0.8),
        "PPO": lambda: clipped("PPO", env, middle + 0.9 * half, 0.3 * half),
        "TD3": lambda: clipped("TD3", env, middle + 0.8 * half, 0.2 * half),
        "uniform": lambda: ove.UniformPolicy(space),
    }
    return makers[name]()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("make", [squashed, clipped])
def test_boxes_of_other_precision(dtype: Any, make: Any) -> None:
    """Drawn by SB3, in single precision, and drawn by `sample`."""
    env = OneStep(0.0, 0.2)
    env.action_space = spaces.Box(dtype(0.0), dtype(0.2), (1,), dtype)
    name, mean, std = ("SAC", 7.0, 0.5) if make is squashed else ("PPO", 0.19, 0.02)
    behavior, candidate = make(name, env, mean, std), make(name, env, mean + std, std)
    own = ove.action_distribution(behavior, np.zeros((N_DRAWS, 1), np.float32)).sample(1)
    for actions in (executed(behavior, N_DRAWS), own):
        rho = ratios(candidate, behavior, actions)
        assert abs(deviation(rho)) < 4.0, f"mean ratio {rho.mean()}"


@pytest.mark.parametrize("box", [(0.0, 0.2), (0.0, 3.0), (1000.0, 1001.0)])
@pytest.mark.parametrize(
    ("names", "candidate_name"),
    [
        (("saturated", "PPO", "uniform"), "more saturated"),
        (("saturated", "PPO", "uniform"), "PPO"),
        (("saturated", "TD3", "uniform"), "TD3"),
        (("saturated", "uniform"), "uniform"),
        (("squashed", "PPO"), "TD3"),
        (("PPO", "uniform"), "squashed"),
    ],
)
def test_ratios_between_families(
    names: tuple[str, ...], candidate_name: str, box: tuple[float, float]
) -> None:
    """All families share a base measure, also near a bound."""
    env = OneStep(*box)
    behavior = ove.MixturePolicy(
        [make_policy(name, env) for name in names], np.full(len(names), 1 / len(names))
    )
    observations = np.zeros((N_DRAWS, 1), np.float32)
    actions = ove.action_distribution(behavior, observations).sample(2)
    rho = ratios(make_policy(candidate_name, env), behavior, actions)
    assert abs(deviation(rho)) < 4.0, f"mean ratio {rho.mean()}"


def test_a_bound_that_the_behavior_never_reaches_is_noticed() -> None:
    env = OneStep(0.0, 0.2)
    behavior, candidate = squashed("SAC", env, 1.0, 0.8), make_policy("PPO", env)
    actions = executed(behavior, N_DRAWS)
    with pytest.warns(UncoveredActionWarning):
        rho = ratios(candidate, behavior, actions)
    missing = norm.sf(0.1 / 0.3)  # beyond the bound
    assert abs(rho.mean() - (1.0 - missing)) < 4.0 * rho.std() / np.sqrt(rho.size)


def boxes(n: int) -> list[spaces.Box]:
    """Boxes of all scales and offsets."""
    rng = np.random.default_rng(4)
    made: list[spaces.Box] = []
    while len(made) < n:
        offset = float(rng.choice([0.0, 1.0])) * rng.normal() * 10.0 ** rng.uniform(-3, 3)
        low = np.float32(offset)
        high = np.float32(low + 10.0 ** rng.uniform(-3, 3))
        if high - low > 1e3 * np.spacing(max(abs(low), abs(high))):
            made.append(spaces.Box(low, high, (1,), np.float32))
    return made


@pytest.mark.parametrize("space", boxes(30), ids=str)
def test_the_cells_of_squashed_actions(space: spaces.Box) -> None:
    """Every float32 number near a bound, and some others, lie in the cell of their action."""
    grid = BoxBounds(space).squashed_grid
    steps = np.arange(1, 400)
    near = 1.0 - steps * 2.0**-24
    others = np.linspace(0.05, 0.99, 200)
    a = np.concatenate([-near, near, -others, others]).astype(np.float32)
    y = space.low + (0.5 * (a + 1.0) * (space.high - space.low))
    np.testing.assert_array_equal(grid.scale(a), y)
    # In `learn`, off-policy algorithms scale an action back and forth once more: no change here.
    back = 2.0 * ((y - space.low) / (space.high - space.low)) - 1.0
    np.testing.assert_array_equal(
        grid.scale(np.asarray(back, np.float32))[: 2 * steps.size], y[: 2 * steps.size]
    )
    zeros = np.zeros(a.size, np.int64)
    low, high = grid.cell(y.astype(np.float64), zeros)
    unit_low, unit_high = (
        (edge - float(space.low[0])) / (0.5 * (float(space.high[0]) - float(space.low[0]))) - 1.0
        for edge in (low, high)
    )
    assert ((unit_low <= a) & (a <= unit_high)).all()
    # The edges are where the action changes.
    inside = (unit_low > -1.0) & (unit_high < 1.0)
    for edge, direction in ((unit_low, 1), (unit_high, -1)):
        step = 1e-9 * direction * np.abs(edge)
        within, beyond = (
            grid.scale((edge + sign * step).astype(np.float32), zeros) for sign in (1, -1)
        )
        assert (within == y)[inside].all()
        assert (beyond != y)[inside].all()


def test_the_cells_of_floats() -> None:
    grid = FloatGrid(np.float32)
    y = np.array([0.0, 1.0, -1000.0, 0.3])
    low, high = grid.cell(y, np.zeros(4, np.int64))
    assert (np.nextafter(low, np.inf).astype(np.float32) == y.astype(np.float32)).all()
    assert (np.nextafter(high, np.inf).astype(np.float32) > y.astype(np.float32)).all()
    np.testing.assert_array_equal(
        grid.edge_above(np.array([1.0, 0.3])), [1.0 + 2.0**-24, high[3] - 2.0**-25]
    )


def test_numbers_that_a_squashed_policy_never_executes() -> None:
    """A number in the cell of a bound, where other policies act, has probability 0."""
    env = OneStep(0.0, 0.2)
    policy = squashed("SAC", env, -9.0, 0.5)
    actions: NDArray[Any] = np.array([[0.0], [1e-12], [0.1]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_bound, never, inside = ove.log_prob(policy, np.zeros((3, 1), np.float32), actions)
    assert np.log(0.4) < at_bound < 0.0
    assert never == -np.inf
    assert np.isfinite(inside)


@pytest.mark.parametrize("case", ["PPO-box", "SAC-box", "TQC-box", "CrossQ-box", "SAC-dict"])
@pytest.mark.parametrize("log_std", [-4.5, -9.0])
def test_narrow_gaussians_do_not_depend_on_the_batch_size(case: str, log_std: float) -> None:
    model = make_model(case, policy_kwargs={"net_arch": [64, 64]})
    with torch.no_grad():
        if case.startswith("PPO"):
            model.policy.log_std.fill_(log_std)
        else:
            model.policy.actor.log_std.weight.mul_(1e-3)
            model.policy.actor.log_std.bias.fill_(log_std)
    model.observation_space.seed(1)
    batch = as_batch([model.observation_space.sample() for _ in range(200)], model)
    actions = ove.action_distribution(model, batch).sample(1)
    whole = ove.log_prob(model, batch, actions)
    for batch_size in (1, 7, 33, 100):
        parts = ove.log_prob(model, batch, actions, batch_size=batch_size)
        np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-9)
    assert np.isfinite(whole).all()


def as_batch(observations: list[Any], model: Any) -> Any:
    if isinstance(model.observation_space, spaces.Dict):
        return {key: np.stack([row[key] for row in observations]) for key in observations[0]}
    return np.stack(observations)
