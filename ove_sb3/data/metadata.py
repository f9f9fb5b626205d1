"""Metadata of a log, convertible to JSON."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np

from ove_sb3._validation import check_integer, check_range
from ove_sb3.core.stopping import Logging, LoggingRecord, latest_record
from ove_sb3.errors import InvalidInputError, StorageError

from .log_ids import check_log_ids, root_of
from .seeds import SeedRange, check_seeds, share_seeds

_FLAGS = (
    *("adaptive", "deterministic_actions", "shared_exploration", "assigned", "repeated_seeds"),
    *("repeated_episodes", "selected_episodes", "interrupted", "changing_environment"),
    "several_behaviors",
)
_KINDS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict")


@dataclass(frozen=True)
class Metadata:
    """Origin of a log, and facts that its evaluation depends on.

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
    n_envs : int or None
        Environments that `collect` ran at the same time; None if unknown.
    adaptive : bool
        The behavior depended on earlier episodes, as in the log of a training run.
    reward_range : (float, float) or None
        Smallest and largest reward the environment can give, if known in advance.
    begun : dict of str to LoggingRecord
        For every wrapper that logged: how many episodes it began, also those that were reset before
        their end or under way when logging stopped, in the order in which the wrappers started.
        Empty where the number of episodes was fixed in advance, as by `collect`.
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
    lost_episodes : int
        Episodes that were damaged and dropped by ``ove-sb3 repair``.
    components : tuple of dict
        Policies of a mixture that was drawn once per episode: ``weight``, ``policy`` (name of the
        class) and ``fingerprint`` of each. Empty for any other behavior.
    assigned : bool
        Episodes were assigned to these policies instead, as in an A/B test, and the weights are the
        realized shares, see `as_mixture`.
    repeated_seeds : bool
        Environments or policies were started from the same seed more than once: their episodes
        share random numbers. Found from `seeds` where logs are joined.
    repeated_episodes : bool
        Some episodes are in the log more than once.
    selected_episodes : bool
        Episodes were picked one by one after logging, perhaps by their outcome.
    interrupted : bool
        The environment raised an error while episodes of `collect` were under way, and these were
        run again.
    changing_environment : bool
        A wrapper of the environment makes an episode depend on earlier ones: by running statistics,
        or because an episode ends with a life of a game (EpisodicLifeEnv).
    several_behaviors : bool
        The episodes come from several fixed policies, one after the other.
    seeds : tuple of (str, str, int, int)
        Seeds that environments were started from: identifier of the log, kind, first and last seed.
        The kind is "reset" for seeds passed to ``reset`` (environment i of a VecEnv has seed + i),
        and "collect" for that of `collect`, which derives others from it. Entries of the kind
        "actions" hold the state, as a number, of the random generator from which the model of a
        wrapper had drawn its first action.
    """

    env_id: str | None = None
    horizon: int | None = None
    observation_space: Mapping[str, Any] | None = None
    action_space: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    n_envs: int | None = None
    adaptive: bool = False
    reward_range: tuple[float, float] | None = None
    begun: Mapping[str, LoggingRecord] = field(default_factory=dict)
    behavior: str | None = None
    fingerprint: str | None = None
    log_ids: tuple[str, ...] = ()
    deterministic_actions: bool = False
    shared_exploration: bool = False
    lost_episodes: int = 0
    components: tuple[Mapping[str, Any], ...] = ()
    assigned: bool = False
    repeated_seeds: bool = False
    repeated_episodes: bool = False
    selected_episodes: bool = False
    interrupted: bool = False
    changing_environment: bool = False
    several_behaviors: bool = False
    seeds: tuple[SeedRange, ...] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("env_id", "behavior", "fingerprint"):
            _check_kind(self, name, (str, type(None)), "a string or None")
        put(self, "versions", _check_versions(self.versions))
        _check_kind(self, "begun", (Mapping,), "a mapping of writers to records")
        for name in _FLAGS:
            _check_kind(self, name, (bool, np.bool_), "True or False")
            put(self, name, bool(getattr(self, name)))
        for name in ("observation_space", "action_space"):
            _check_space(getattr(self, name), name)
        if self.seed is not None:
            put(self, "seed", check_integer(self.seed, "seed", 0))
        for name in ("horizon", "n_envs"):
            if (count := getattr(self, name)) is not None:
                put(self, name, check_integer(count, name, 1))
        if self.reward_range is not None:
            put(self, "reward_range", check_range(self.reward_range, "reward_range"))
        put(self, "lost_episodes", check_integer(self.lost_episodes, "lost_episodes", 0))
        put(self, "log_ids", check_log_ids(self.log_ids))
        put(self, "seeds", check_seeds(self.seeds))
        put(self, "repeated_seeds", self.repeated_seeds or share_seeds(self.seeds))
        put(self, "components", _check_components(self.components))
        put(self, "begun", {_writer(k): _record(v) for k, v in self.begun.items()})

    @property
    def incomplete_fraction(self) -> float:
        """Fraction of the episodes that may have begun without being logged."""
        begun = sum(record.begun for record in self.begun.values())
        ended = sum(record.ended for record in self.begun.values())
        return 1.0 - ended / begun if begun else 0.0

    @property
    def logging(self) -> Logging | None:
        """How logging stopped; None if the number of episodes was fixed in advance."""
        if not self.begun:
            return None
        return Logging({int(writer): record for writer, record in self.begun.items()})

    @property
    def facts(self) -> dict[str, object]:
        """Origin of the log in words, for a reader."""
        return {
            "environment": self.env_id,
            "behavior": self.behavior,
            "behavior learned": "yes" if self.adaptive else None,
            "most steps of an episode": self.horizon,
            "range of rewards": self.reward_range,
            "seed": self.seed,
        }

    def marked(self, **flags: bool) -> Metadata:
        """The metadata with some flags set; those that are set already stay so."""
        new: dict[str, Any] = {name: True for name, value in flags.items() if value}
        return replace(self, **new) if new else self

    def with_record(self, writer: str, record: LoggingRecord) -> Metadata:
        """The metadata with the record of a writer alone; the rest is not checked again."""
        result = copy.copy(self)
        object.__setattr__(result, "begun", {_writer(writer): _record(record)})
        return result

    def to_dict(self) -> dict[str, Any]:
        """Plain dict that `json.dumps` accepts."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Metadata:
        """Inverse of `to_dict`; an entry that is not a field is an error."""
        if not isinstance(values, Mapping):
            raise InvalidInputError(
                f"`metadata` must be Metadata or a dict with its entries, got {values!r}."
            )
        known = [f.name for f in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise InvalidInputError(
                    f"`metadata` must have entries among {', '.join(known)}, got {name!r}.{hint}"
                )
        return cls(**values)

    @classmethod
    def from_stored(cls, values: Mapping[str, Any]) -> Metadata:
        """Inverse of `to_dict` for values read from a file, perhaps of another version.

        Entries that earlier versions did not write have their defaults. Entries that only a later
        version knows are refused, because they may say that the log gives no guarantee.
        """
        if isinstance(values, Mapping):
            unknown = sorted(str(name) for name in values if name not in _names(cls))
            if unknown:
                raise StorageError(
                    f"the metadata of the log must hold what this version knows, got {unknown}: "
                    "the log was written by a later version of ove_sb3. Upgrade ove_sb3 to read it."
                )
        try:
            return cls.from_dict(values)
        except InvalidInputError as error:
            raise StorageError(f"the metadata of the log are damaged: {error}") from error


def _check_components(values: Any) -> tuple[dict[str, Any], ...]:
    keys = {"weight", "policy", "fingerprint"}
    entries = tuple(values) if isinstance(values, (list, tuple)) else None
    if entries is None or not all(isinstance(v, Mapping) and set(v) == keys for v in entries):
        raise InvalidInputError(
            f"`components` must be a sequence of dicts with {sorted(keys)}, got {values!r}."
        )
    return tuple(dict(entry) for entry in entries)


def _names(cls: type[Metadata]) -> set[str]:
    return {f.name for f in fields(cls)}


def merge(parts: Sequence[Metadata]) -> Metadata:
    """Metadata of logs joined together, field by field, see `_MERGE_RULES`."""
    columns = zip(*map(_VALUES, parts), strict=True)
    merged = {}
    for name, values in zip(_MERGE_RULES, columns, strict=True):
        # Most values of the episodes of one writer are one object; no rule counts repetitions.
        distinct = dict(zip(map(id, values), values, strict=True))
        merged[name] = _MERGE_RULES[name](name, list(distinct.values()))
    return Metadata(**merged).marked(several_behaviors=_differ(parts))


def _differ(parts: Sequence[Metadata]) -> bool:
    """Whether the parts may be of different behaviors; data without a name may be of the same."""
    fingerprints = {part.fingerprint for part in parts} - {None}
    unknown = [part for part in parts if part.fingerprint is None]
    names = {part.behavior for part in parts} - {None}
    # A class alone does not tell which policy wrote a log.
    logs = {frozenset(map(root_of, part.log_ids)) for part in unknown if part.behavior is not None}
    return len(fingerprints) > 1 or (bool(unknown) and len(names) > 1) or len(logs) > 1


def _same_fact(name: str, values: Sequence[Any]) -> Any:
    """The one value of those parts that state it; different ones are refused."""
    stated = [value for value in values if value is not None]
    for value in stated[1:]:
        if value != stated[0]:
            raise InvalidInputError(
                f"`parts` must share the {name.replace('_', ' ')}, got {stated[0]!r} and "
                f"{value!r}. Only logs of one environment can be joined."
            )
    return stated[0] if stated else None


def _same_limit(name: str, values: Sequence[Any]) -> Any:
    """The one value; None if it is unknown for any part, whose episodes may exceed it."""
    stated = _same_fact(name, values)
    return None if None in values else stated


def _if_agreed(_name: str, values: Sequence[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else None


def _if_shared(_name: str, values: Sequence[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else ()


def _versions(name: str, values: Sequence[Any]) -> Any:
    return _if_agreed(name, values) or {}


def _any(_name: str, values: Sequence[Any]) -> bool:
    return any(values)


def _union(_name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple({entry: None for value in values for entry in value})


def _largest(_name: str, values: Sequence[Any]) -> int:
    return int(max(values))


def _widest(_name: str, values: Sequence[Any]) -> tuple[float, float] | None:
    ranges = [value for value in values if value is not None]
    return (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None


def _latest_records(_name: str, values: Sequence[Any]) -> dict[str, LoggingRecord]:
    by_writer: dict[str, list[LoggingRecord]] = {}
    for records in values:
        for writer, record in records.items():
            by_writer.setdefault(writer, []).append(record)
    return {writer: latest_record(records) for writer, records in by_writer.items()}


_MERGE_RULES: dict[str, Callable[[str, Sequence[Any]], Any]] = {
    "env_id": _same_fact,
    "horizon": _same_limit,
    "observation_space": _same_fact,
    "action_space": _same_fact,
    "versions": _versions,
    "seed": _if_agreed,
    "n_envs": _if_agreed,
    "reward_range": _widest,
    "begun": _latest_records,
    "behavior": _if_agreed,
    "fingerprint": _if_agreed,
    "log_ids": _union,
    "seeds": _union,
    "lost_episodes": _largest,
    "components": _if_shared,
    **dict.fromkeys(_FLAGS, _any),
}
"""How the values of a field are joined. No reason against a guarantee may be lost."""
_VALUES = attrgetter(*_MERGE_RULES)


def stored_metadata(
    parts: Sequence[Mapping[str, Any]], info: Mapping[str, Any], n_episodes: int
) -> Metadata:
    """Joint metadata of several writers, with the facts about the whole log in the index."""
    metadata = Metadata.from_stored(merge_dicts(parts))
    lost = max(metadata.lost_episodes, int(info.get("lost_episodes", 0)))
    begun = dict(metadata.begun)
    plan = info.get("plan", {})
    missing = int(plan.get("n_episodes", 0)) - n_episodes - lost
    if missing > 0:  # an interrupted collection: one episode was under way in every environment
        n_envs = int(plan["n_envs"])
        begun["0"] = LoggingRecord(n_episodes + min(n_envs, missing), n_episodes, n_envs)
    return replace(metadata, lost_episodes=lost, begun=begun)


def merge_dicts(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Joint metadata of several files, as plain values; `begun` keeps the order of the files."""
    texts = dict.fromkeys(json.dumps(part) for part in parts)
    return merge([Metadata.from_stored(json.loads(text)) for text in texts]).to_dict()


def _check_kind(metadata: Metadata, name: str, kinds: tuple[type, ...], rule: str) -> None:
    value = getattr(metadata, name)
    if not isinstance(value, kinds):
        raise InvalidInputError(f"`{name}` must be {rule}, got {value!r}.")


def _check_versions(values: object) -> dict[str, str]:
    if not isinstance(values, Mapping) or not all(
        isinstance(text, str) for entry in values.items() for text in entry
    ):
        raise InvalidInputError(
            "`versions` must be a mapping of names of libraries to versions, both strings, got "
            f"{values!r}."
        )
    return dict(values)


def _check_space(value: object, name: str) -> None:
    """Refuse anything but None and what `describe_space` returns."""
    if value is None:
        return
    if not isinstance(value, Mapping) or value.get("type") not in _KINDS:
        raise InvalidInputError(
            f"`{name}` must be a description of a space, got {value!r}. Use "
            "ove_sb3.data.metadata.describe_space(space)."
        )


def _writer(name: object) -> str:
    text = str(name)
    if not (text.isdecimal() and int(text) < 1 << 31):
        raise InvalidInputError(
            f"`begun` must have numbers of writers below 2^31 as keys, got {name!r}."
        )
    return text


def _record(value: object) -> LoggingRecord:
    if isinstance(value, LoggingRecord):
        return value
    known = {f.name for f in fields(LoggingRecord)}
    if not isinstance(value, Mapping) or not {"begun"} <= set(value) <= known:
        raise InvalidInputError(
            f"`begun` must hold records with entries among {', '.join(sorted(known))}, got "
            f"{value!r}."
        )
    return LoggingRecord(**value)


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
