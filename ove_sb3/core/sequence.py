"""Confidence sequences: bounds that hold simultaneously at every number of trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ove_sb3._escape import html_facts
from ove_sb3._validation import FloatArray, IntArray, check_flag, check_integer
from ove_sb3.errors import InvalidInputError

from .assumptions import Assumptions
from .inference import compute_interval, intersection, warn_without_support
from .interval import Interval, bounds_text
from .label import Evidence
from .methods.anytime import AnytimeBetting
from .quantities import Quantity, as_quantity
from .statistics import TrajectoryStatistics, check_statistics
from .under_way import under_way

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FIRST = 60  # trajectories: before, there is little more than the pilot
_GROWTH = 1.35  # of the number of trajectories from one entry to the next


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceSequence:
    """Bounds at several numbers of trajectories, which hold at all of them together.

    Attributes
    ----------
    n : ndarray of int64, (k,)
        Numbers of trajectories, increasing. Between two of them the bounds of the smaller hold.
    lower, upper : ndarray, (k,)
        Running intersection: no bound is wider than one before it.
    interval : Interval
        The last entry, with its label and assumptions. Its `delta` is the probability that any
        bound at any n misses.
    """

    n: IntArray
    lower: FloatArray
    upper: FloatArray
    interval: Interval

    @property
    def guaranteed(self) -> bool:
        """Whether the bounds are guaranteed to hold simultaneously at every n."""
        return self.interval.guaranteed

    def __len__(self) -> int:
        return int(self.n.size)

    def __str__(self) -> str:
        interval = self.interval
        return (
            f"{interval.quantity} {100 * (1 - interval.delta):g}% {interval.label} at every "
            f"n <= {self.n[-1]}: {bounds_text(interval.lower, interval.upper)}"
        )

    def __repr__(self) -> str:
        return f"<ConfidenceSequence: {self}>"

    def _repr_html_(self) -> str:
        """Bounds at some numbers of trajectories, for a notebook."""
        some = np.unique(np.linspace(0, len(self) - 1, 6).astype(np.int64))
        facts = {f"n = {self.n[k]}": bounds_text(self.lower[k], self.upper[k]) for k in some}
        return html_facts(str(self), facts)

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the bounds against the number of trajectories with matplotlib.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw into; by default those of a new figure.
        """
        from ove_sb3._figure import NotebookFigure, figure_of

        if ax is None:
            ax = NotebookFigure(figsize=(6.4, 4.0), layout="constrained").subplots()
        ax.fill_between(self.n, self.lower, self.upper, step="post", color="#0072B2", alpha=0.2)
        ax.step(self.n, self.lower, where="post", color="#0072B2")
        ax.step(self.n, self.upper, where="post", color="#0072B2")
        ax.set_xscale("log")
        ax.set_xlabel("episodes")
        ax.set_ylabel(f"{self.interval.quantity} of the return")
        confidence = f"{100 * (1 - self.interval.delta):g}%"
        ax.set_title(f"Bounds that hold at every n, {confidence} {self.interval.label}")
        return figure_of(ax)


def confidence_sequence(
    stats: TrajectoryStatistics,
    quantity: str | Quantity,
    *,
    reward_range: tuple[float, float] | str | None = None,
    return_range: tuple[float, float] | None = None,
    max_ratio: float | None = None,
    max_weight: float | None = None,
    delta: float = 0.05,
    target_n: int | None = None,
    adaptive: bool = False,
    n_envs: int = 1,
) -> ConfidenceSequence:
    """Bounds on a quantity of the candidate's return that hold simultaneously at every n.

    Evaluate as often as you like and stop whenever you like: the probability that any bound at any
    time misses is at most `delta`.

    Parameters
    ----------
    stats : TrajectoryStatistics
        Trajectories in an order fixed in advance, as those of `collect`, or in the order in which
        they ended. In the latter case with `overlaps` if several ran at the same time: those under
        way at any time are then accounted for.
    quantity : str or Quantity
        See `interval`.
    reward_range, return_range, max_ratio, max_weight
        Assumptions, see `interval`.
    delta : float
        Probability that any bound misses.
    target_n : int, optional
        Number of trajectories at which the bounds are to be tightest; they hold at every number.
    adaptive : bool
        The behavior was changed based on earlier trajectories.
    n_envs : int
        Number of environments, for `stats` with `overlaps`: as many trajectories are under way at
        any time, also when the last of `stats` ends.

    Returns
    -------
    ConfidenceSequence

    Examples
    --------
    >>> import numpy as np
    >>> import ove_sb3 as ove
    >>> rng = np.random.default_rng(0)
    >>> rewards, lengths = rng.random(2000), np.ones(2000, dtype=int)
    >>> stats = ove.trajectory_statistics(np.zeros(2000), rewards, lengths, gamma=1.0, horizon=1)
    >>> sequence = ove.confidence_sequence(stats, "mean", reward_range=(0, 1), max_weight=1.0)
    >>> bool(((sequence.lower < 0.5) & (sequence.upper > 0.5)).all())
    True
    """
    check_statistics(stats)
    what = as_quantity(quantity)
    n_envs = check_integer(n_envs, "n_envs", 1)
    if n_envs > 1 and stats.overlaps is None:
        raise InvalidInputError(
            f"`n_envs` must be 1 for `stats` without `overlaps`, got {n_envs}. Pass `overlaps` to "
            "trajectory_statistics: how many others ended while each trajectory was running."
        )
    if target_n is not None:
        target_n = check_integer(target_n, "target_n", 2)
    assumptions = Assumptions(
        gamma=stats.gamma,
        horizon=stats.horizon,
        reward_range=reward_range,
        return_range=return_range,
        max_ratio=max_ratio,
        max_weight=max_weight,
        delta=delta,
        evidence=stats.evidence | Evidence(adaptive=check_flag(adaptive, "adaptive")),
    )
    warn_without_support(stats)
    sizes = evaluation_sizes(len(stats))
    parts = (part_at(stats, int(n), target_n, n_envs) for n in sizes)
    intervals = [compute_interval(part, what, method, assumptions) for part, method in parts]
    running = list(accumulate(intervals, intersection))
    return ConfidenceSequence(
        n=sizes,
        lower=np.array([interval.lower for interval in running]),
        upper=np.array([interval.upper for interval in running]),
        interval=running[-1],
    )


def evaluation_sizes(n: int) -> IntArray:
    """Numbers of trajectories at which bounds are computed: a geometric series that ends at n."""
    return np.unique(np.append(geometric_sizes(n, _GROWTH), n))


def geometric_sizes(n: int, growth: float) -> IntArray:
    """Geometric series of numbers of trajectories, up to n; n alone if it is below the first."""
    sizes = [float(min(_FIRST, n))]
    while sizes[-1] * growth < n:
        sizes.append(sizes[-1] * growth)
    return np.unique(np.floor(sizes).astype(np.int64))


def part_at(
    stats: TrajectoryStatistics, n: int, target_n: int | None, n_envs: int = 1
) -> tuple[TrajectoryStatistics, AnytimeBetting]:
    """Statistics when n trajectories had ended, and the method whose bounds hold at every n."""
    part = stats if n == len(stats) else stats.select(np.arange(n))
    return part, AnytimeBetting(target_n, under_way(stats, n, n_envs))
