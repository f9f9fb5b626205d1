"""What is known about a log besides its numbers, in a form that JSON can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from ove_sb3._validation import check_integer, check_range
from ove_sb3.errors import InvalidInputError

from .log_ids import check_log_ids

_FLAGS = {
    "adaptive": "the behavior was changed based on earlier episodes",
    "deterministic_actions": "the actions were not drawn from the logged distribution",
    "shared_exploration": "the behavior decided once for several environments whether to explore",
}


@dataclass(frozen=True)
class Metadata:
    """Where a log comes from and what may be assumed about it.

    Attributes
    ----------
    env_id : str or None
        Gymnasium id of the environment.
    horizon : int or None
        Largest number of steps an episode can have (``max_episode_steps``); None if unknown.
    observation_space, action_space : dict or None
        Descriptions of the spaces, see `describe_space`.
    versions : dict
        Versions of the libraries that logged.
    seed : int or None
        Seed of the collection.
    adaptive : bool
        The behavior depended on earlier episodes, as in the log of a training run.
    reward_range : (float, float) or None
        Smallest and largest reward the environment can give, where known beforehand.
    unfinished : dict of str to (int, int)
        For every wrapper that logged: episodes that may have begun without being logged (reset
        before their end, or under way when logging stopped), and episodes logged. Empty where the
        number of episodes was fixed in advance, as by `collect`.
    behavior : str or None
        Name of the behavior policy's class.
    fingerprint : str or None
        Digest of everything the behavior's action distribution depends on. A candidate with the
        same digest is the behavior itself.
    log_ids : tuple of str
        Identifiers of the logs that the episodes come from, see `log_ids`. A model that was trained
        on a log, or selected by one, carries them too.
    deterministic_actions : bool
        Executed actions are the most probable ones more often than their logged probabilities
        allow, as with ``predict(..., deterministic=True)``.
    shared_exploration : bool
        The behavior decided once for several environments whether to explore, as DQN does: their
        episodes are dependent.
    """

    env_id: str | None = None
    horizon: int | None = None
    observation_space: Mapping[str, Any] | None = None
    action_space: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    adaptive: bool = False
    reward_range: tuple[float, float] | None = None
    unfinished: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    behavior: str | None = None
    fingerprint: str | None = None
    log_ids: tuple[str, ...] = ()
    deterministic_actions: bool = False
    shared_exploration: bool = False

    def __post_init__(self) -> None:
        if self.horizon is not None:
            object.__setattr__(self, "horizon", check_integer(self.horizon, "horizon", 1))
        if self.reward_range is not None:
            pair = check_range(self.reward_range, "reward_range")
            object.__setattr__(self, "reward_range", pair)
        for name, meaning in _FLAGS.items():
            flag = getattr(self, name)
            if not isinstance(flag, (bool, np.bool_)):
                raise InvalidInputError(
                    f"`{name}` must be True or False, got {flag!r}. Pass True if {meaning}."
                )
            object.__setattr__(self, name, bool(flag))
        object.__setattr__(self, "log_ids", check_log_ids(self.log_ids))
        counts = {str(k): (int(v[0]), int(v[1])) for k, v in self.unfinished.items()}
        object.__setattr__(self, "unfinished", counts)

    @property
    def incomplete_fraction(self) -> float:
        """Fraction of the episodes that may have begun without being logged."""
        missing = sum(missing for missing, _ in self.unfinished.values())
        logged = sum(logged for _, logged in self.unfinished.values())
        return missing / (missing + logged) if missing else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain dict that `json.dumps` accepts."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Metadata:
        """Inverse of `to_dict`; entries of later versions are ignored."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})


def merge(parts: Sequence[Metadata]) -> Metadata:
    """Metadata of logs joined together: what all agree on, and the worst of what they warn of."""
    first = parts[0]
    for part in parts[1:]:
        for name in ("observation_space", "action_space"):
            ours, theirs = getattr(first, name), getattr(part, name)
            if ours is not None and theirs is not None and ours != theirs:
                raise InvalidInputError(
                    f"`parts` must share the {name.replace('_', ' ')}, got {ours} and {theirs}. "
                    "Only logs of one environment can be joined."
                )
    agreed: dict[str, Any] = {
        f.name: getattr(first, f.name)
        if all(getattr(part, f.name) == getattr(first, f.name) for part in parts)
        else None
        for f in fields(Metadata)
    }
    agreed["versions"] = agreed["versions"] or {}
    for name in _FLAGS:
        agreed[name] = any(getattr(part, name) for part in parts)
    agreed["log_ids"] = {log_id for part in parts for log_id in part.log_ids}
    agreed["unfinished"] = _merge_unfinished(parts)
    return Metadata(**agreed)


def merge_dicts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Joint metadata of several files, as plain values."""
    texts = {json.dumps(part, sort_keys=True) for part in parts}
    return merge([Metadata.from_dict(json.loads(text)) for text in sorted(texts)]).to_dict()


def _merge_unfinished(parts: Sequence[Metadata]) -> dict[str, tuple[int, int]]:
    """Counts only grow: of the same wrapper, the largest are the last."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        for writer, (missing, logged) in part.unfinished.items():
            before = found.get(writer, (0, 0))
            found[writer] = max(before[0], missing), max(before[1], logged)
    return found


def describe_space(space: Any) -> dict[str, Any]:
    """Description of a gymnasium space in plain numbers, strings and lists.

    Box, Discrete, MultiDiscrete, MultiBinary and Dict of these.
    """
    kind = type(space).__name__
    if kind == "Box":
        return {
            "type": "Box",
            "low": _bounds(space.low),
            "high": _bounds(space.high),
            "shape": [int(size) for size in space.shape],
            "dtype": str(space.dtype),
        }
    if kind == "Discrete":
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if kind == "MultiDiscrete":
        nvec = np.asarray(space.nvec)
        start = np.asarray(getattr(space, "start", np.zeros_like(nvec)))
        return {"type": "MultiDiscrete", "nvec": nvec.tolist(), "start": start.tolist()}
    if kind == "MultiBinary":
        return {"type": "MultiBinary", "n": np.asarray(space.n).tolist()}
    if kind == "Dict":
        entries = {name: describe_space(entry) for name, entry in space.spaces.items()}
        return {"type": "Dict", "spaces": entries}
    raise InvalidInputError(
        "`space` must be a Box, Discrete, MultiDiscrete, MultiBinary or Dict of these, got "
        f"{kind}. Wrap the environment so that it uses one of them (gymnasium.spaces.flatten)."
    )


def make_space(description: Mapping[str, Any]) -> Any:
    """Gymnasium space from its description."""
    from gymnasium import spaces

    kind = description["type"]
    if kind == "Box":
        shape, dtype = tuple(description["shape"]), np.dtype(description["dtype"])
        low, high = (_unbounds(description[end], shape, dtype) for end in ("low", "high"))
        return spaces.Box(low, high, shape=shape, dtype=dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(description["n"], start=description["start"])
    if kind == "MultiDiscrete":
        nvec, start = (np.asarray(description[name]) for name in ("nvec", "start"))
        if start.any():
            return spaces.MultiDiscrete(nvec, start=start)
        return spaces.MultiDiscrete(nvec)
    if kind == "MultiBinary":
        return spaces.MultiBinary(description["n"])
    entries = {name: make_space(entry) for name, entry in description["spaces"].items()}
    return spaces.Dict(entries)


def _bounds(values: Any) -> Any:
    """One number if all bounds agree (images), else a list; infinities as strings for JSON."""
    array = np.asarray(values)
    if array.size and (array == array.flat[0]).all():
        return _plain(array.flat[0])
    return [_plain(value) for value in array.ravel()]


def _plain(value: Any) -> float | int | str:
    number = value.item()
    return number if np.isfinite(number) else str(number)


def _unbounds(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if isinstance(values, list):
        return np.array([float(value) for value in values]).reshape(shape).astype(dtype)
    return np.full(shape, float(values)).astype(dtype)
