"""Registry of policy classes: distribution functions of users, and adapters of libraries.

Models are looked up, not their policies, because exploration belongs to the model: epsilon, action
noise, the warm-up. A class that is not known, or that overrides a method that decides on actions,
is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ove_sb3.errors import InvalidInputError, UnsupportedPolicyError

from .distribution import ActionDistribution
from .fingerprint import Part
from .observations import Observation, copy_observations
from .policy import NO_CONTEXT, Masks, Policy, PolicyContext
from .provenance import models_within
from .state import class_state, function_state, state_part

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecNormalize

REGISTER = "Register its action distribution with `ove_sb3.register_policy`."


class DistributionFunction(Protocol):
    """Type of the functions that `register_policy` takes."""

    def __call__(
        self,
        model: Any,
        observations: Any,
        *,
        action_masks: Masks | None,
        state: Any,
        episode_start: NDArray[np.bool_] | None,
    ) -> ActionDistribution:
        """Action distributions for a batch of observations."""


AdapterFunction = Callable[[Any, "VecNormalize | None"], Policy]


class _Adapter(NamedTuple):
    make: AdapterFunction
    acting: tuple[str, ...]
    without_exploration: AdapterFunction | None


_functions: dict[type, DistributionFunction] = {}
_adapters: dict[str, _Adapter] = {}


def register_policy(cls: type, function: DistributionFunction) -> None:
    """Register the action distribution of a class of models or policies.

    `log_prob`, `collect`, `evaluate` and the logging wrappers then accept its instances.

    Parameters
    ----------
    cls : type
        The class; it must have ``observation_space`` and ``action_space``. Subclasses are
        included, and it takes precedence over its base classes. Subclasses of the built-in
        policies are refused: they act by their own ``distribution``.
    function : callable
        ``function(model, observations, *, action_masks, state, episode_start)`` returns an
        `ActionDistribution` for a batch of observations. It must be the distribution of the
        executed action, depend on nothing but its arguments, and not change the model.

    Notes
    -----
    A wrapper that logs such a model compares its attributes, as `pickle` would store them, at the
    end of every episode: if one has changed, the log is marked as adaptive. Random generators do
    not count. A class can leave out what does not decide on actions, such as a cache, with
    ``__getstate__``.
    """
    if not isinstance(cls, type):
        raise InvalidInputError(f"`cls` must be a class, got {cls!r}.")
    if not callable(function):
        raise InvalidInputError(f"`function` must be callable, got {function!r}.")
    if issubclass(cls, Policy):
        raise InvalidInputError(
            f"`cls` must not be a policy of this package or a subclass of one, got "
            f"{cls.__qualname__}: its method `distribution` decides how it acts. Override this "
            "method, or register a class that holds such a policy as an attribute."
        )
    _functions[cls] = function


def register_adapter(
    *class_names: str,
    make: AdapterFunction,
    acting: tuple[str, ...] = (),
    without_exploration: AdapterFunction | None = None,
) -> None:
    """Register a function that turns instances of library classes into a `Policy`.

    Parameters
    ----------
    *class_names : str
        Qualified names, so that the library need not be installed.
    make : callable
        ``make(model, vec_normalize)`` returns the policy.
    acting : tuple of str
        Methods that decide on actions; subclasses that override one are refused.
    without_exploration : callable, optional
        Like `make`, without the exploration that the model adds to its policy.
    """
    for name in class_names:
        _adapters[name] = _Adapter(make, acting, without_exploration)


def resolve(
    model: Any, vec_normalize: VecNormalize | None = None, *, exploration: bool = True
) -> Policy:
    """`model` as a policy, by the most derived of its classes that is registered."""
    policy = _resolve(model, vec_normalize, exploration=exploration)
    policy.origins = (model, *policy.origins)
    return policy


def _resolve(model: Any, vec_normalize: VecNormalize | None, *, exploration: bool) -> Policy:
    for cls in type(model).__mro__:
        if cls in _functions:
            return RegisteredPolicy(model, _functions[cls])
        adapter = _adapters.get(f"{cls.__module__}.{cls.__qualname__}")
        if adapter is None:
            continue
        if vec_normalize is None and hasattr(model, "get_vec_normalize_env"):
            vec_normalize = model.get_vec_normalize_env()
        if not exploration and adapter.without_exploration is not None:
            return adapter.without_exploration(model, vec_normalize)
        refuse_overrides(model, cls, adapter.acting)
        return adapter.make(model, vec_normalize)
    raise UnsupportedPolicyError(
        f"`model` must be of a known class, got {type(model).__qualname__}. {REGISTER}"
    )


def registered_class(model: Any) -> type | None:
    """The most derived class of `model` that was registered by a user; None if there is none."""
    return next((cls for cls in type(model).__mro__[:-1] if cls in _functions), None)


def refuse_overrides(part: Any, known: type, acting: tuple[str, ...]) -> None:
    """Refuse a part of a model that does not act as the `known` class does."""
    cls = type(part)
    for name in acting:
        if name in vars(part) or getattr(cls, name, None) is not getattr(known, name, None):
            raise UnsupportedPolicyError(
                f"`model` must act as {known.__qualname__} does, but {cls.__qualname__} overrides "
                f"`{name}`. {REGISTER}"
            )


class RegisteredPolicy(Policy):
    """A model or policy whose action distribution is given by a registered function."""

    def __init__(self, model: Any, function: DistributionFunction) -> None:
        self.model, self.function = model, function
        self.observation_space, self.action_space = model.observation_space, model.action_space
        self.origins = tuple(models_within(model))

    @override
    def distribution(
        self, observations: Observation, context: PolicyContext = NO_CONTEXT
    ) -> ActionDistribution:
        return self.function(
            self.model,
            copy_observations(observations),  # it may change them
            action_masks=context.action_masks,
            state=context.state,
            episode_start=context.episode_start,
        )

    @override
    def fingerprint_parts(self) -> Iterator[Part]:
        yield None  # the code of the function
        yield from self.mutable_parts()

    @override
    def mutable_parts(self) -> Iterator[Part]:
        yield state_part(self.model, class_state(type(self.model)), function_state(self.function))
