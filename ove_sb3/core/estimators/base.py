"""Estimators and their registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ove_sb3._validation import FloatArray
from ove_sb3.core.registry import Registry, load_plugins
from ove_sb3.core.statistics import TrajectoryStatistics
from ove_sb3.core.steps import Column
from ove_sb3.errors import InvalidInputError

from .smooth import SmoothStatistic


@dataclass(frozen=True)
class Estimator:
    """A point estimator of one quantity.

    Attributes
    ----------
    name : str
        Short name, such as ``"crossfit"``.
    quantity : str
        Kind of quantity it estimates, such as ``"variance"``.
    estimate : callable
        From `TrajectoryStatistics` to a float.
    influence : callable or None
        From `TrajectoryStatistics` to the influence of every trajectory on the estimate, (n,):
        values of mean about 0 such that the estimate's error is about their average. The bootstrap
        and normal intervals use it.
    smooth : callable or None
        Exact form for resampling, in place of the influence.
    unbiased : bool
        Whether its expectation is exact at every n.
    columns : tuple of Column
        Columns it needs beyond the built-in ones.
    parametric : bool
        For a kind of quantities with a parameter, such as the p of a quantile: `estimate`,
        `influence` and `smooth` take it as a second argument, until `bind` fixes it.
    link : callable or None
        For an estimate that is not a smooth function of averages, such as a quantile: increasing
        map from statistics and a value of the smooth statistic to one of the quantity.
    columns_of : callable or None
        Further columns that depend on the parameter, for a parametric estimator.
    """

    name: str
    quantity: str
    estimate: Callable[..., float]
    influence: Callable[..., FloatArray] | None = None
    smooth: Callable[..., SmoothStatistic] | None = None
    unbiased: bool = False
    columns: tuple[Column, ...] = ()
    parametric: bool = False
    link: Callable[[TrajectoryStatistics, float], float] | None = None
    columns_of: Callable[[float], tuple[Column, ...]] | None = None

    def bind(self, parameter: float | None) -> Estimator:
        """The estimator of the quantity with this parameter; itself if it takes none."""
        if not self.parametric or parameter is None:
            return self

        def bound(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
            return None if function is None else lambda stats: function(stats, parameter)

        return replace(
            self,
            estimate=lambda stats: self.estimate(stats, parameter),
            influence=bound(self.influence),
            smooth=bound(self.smooth),
            columns=self.columns + (self.columns_of(parameter) if self.columns_of else ()),
            parametric=False,
        )

    def linked(
        self, stats: TrajectoryStatistics, bounds: tuple[float, float]
    ) -> tuple[float, float]:
        """Bounds on the quantity from bounds on the smooth statistic; infinite ones stay."""
        if self.link is None:
            return bounds
        low, high = (self.link(stats, b) if math.isfinite(b) else b for b in bounds)
        return low, high

    @property
    def can_be_resampled(self) -> bool:
        """Whether bootstrap and normal intervals are possible."""
        return self.smooth is not None or self.influence is not None

    def smooth_statistic(self, stats: TrajectoryStatistics) -> SmoothStatistic:
        """The estimator as a smooth function of averages, exactly or to first order."""
        if self.smooth is not None:
            return self.smooth(stats)
        if self.influence is None:
            raise InvalidInputError(
                f"`estimator` {self.name!r} has no influence function, which approximate intervals "
                "need. Register it with register_estimator(..., influence=...), or choose another."
            )
        values = self.estimate(stats) + self.influence(stats)
        return SmoothStatistic(values, np.zeros_like(values), split=False)


_REGISTRIES: dict[str, Registry[Estimator]] = {}


def add(estimator: Estimator, *, replace: bool = False) -> Estimator:
    """Put an estimator into the registry of its quantity."""
    registry = _REGISTRIES.setdefault(estimator.quantity, Registry("estimator"))
    return registry.add(estimator.name, estimator, replace=replace)


def estimator_names(quantity: str) -> tuple[str, ...]:
    """Names of the estimators of a quantity, in the order of registration."""
    return tuple(_REGISTRIES.get(quantity, ()))


def find_estimator(quantity: str, name: object) -> Estimator:
    """Estimator of a quantity by name."""
    if quantity not in _REGISTRIES:
        load_plugins()
    if quantity not in _REGISTRIES:
        raise InvalidInputError(
            f"`quantity` must have a registered estimator, got {quantity!r}. Register one with "
            "register_estimator."
        )
    return _REGISTRIES[quantity].get(name, "estimator")


def register_estimator(
    name: str,
    quantity: str,
    estimate: Callable[..., float],
    *,
    influence: Callable[..., FloatArray] | None = None,
    unbiased: bool = False,
    columns: Sequence[Column] = (),
    parametric: bool = False,
    replace: bool = False,
) -> Estimator:
    """Register an estimator, to be used by name wherever an estimator is taken.

    Parameters
    ----------
    name : str
        Short name.
    quantity : str
        Kind of quantity it estimates: ``"mean"``, ``"variance"``, or that of a registered one.
    estimate : callable
        From `TrajectoryStatistics` to a float.
    influence : callable, optional
        From `TrajectoryStatistics` to an array (n,), the influence of every trajectory. Needed for
        bootstrap and normal intervals.
    unbiased : bool
        Whether its expectation is exact at every n.
    columns : sequence of Column
        Columns it needs beyond the built-in ones.
    parametric : bool
        `estimate` and `influence` take the parameter of the quantity, such as the p of a quantile,
        as a second argument.
    replace : bool
        Replace an estimator of that name.

    Returns
    -------
    Estimator
    """
    estimator = Estimator(
        name, quantity, estimate, influence, None, unbiased, tuple(columns), parametric
    )
    return add(estimator, replace=replace)
