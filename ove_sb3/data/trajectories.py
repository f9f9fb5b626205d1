"""Logged episodes as one frozen value: flat arrays over all steps, and the episodes' lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ove_sb3._escape import html_facts
from ove_sb3._validation import (
    FloatArray,
    IntArray,
    as_array,
    as_counts,
    as_flags,
    as_float_vector,
    as_generator,
    as_lengths,
    bad_step,
    check_path,
    check_progress,
    check_real,
    check_same_size,
)
from ove_sb3.core.stopping import UNKNOWN_BEGIN
from ove_sb3.errors import PLACE, InvalidInputError

from .arrays import (
    ARRAYS,
    EPISODE_COUNTS,
    check_columns,
    check_rows,
    check_vector,
    map_rows,
    read_only,
)
from .beginnings import BegunPart, counts_missing, split_begun
from .columns import from_columns, to_columns
from .frames import to_pandas, to_table
from .joining import check_parts, joined_fields
from .log_ids import content_log_id, digest_of, split_log_ids
from .metadata import Metadata, merge, stored_metadata
from .places import Places, Taken, may_repeat, places_of
from .table import read_steps

if TYPE_CHECKING:
    import pandas as pd

    from ove_sb3.store.directory import Contents
    from ove_sb3.store.writer import Batch

Observations = NDArray[Any] | dict[str, NDArray[Any]]
DISCRETE_KINDS = ("Discrete", "MultiDiscrete", "MultiBinary")


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """n logged episodes of one environment, with the behavior's log-probabilities.

    All arrays are read-only; steps are stored episode after episode.

    Attributes
    ----------
    observations : ndarray, (n_steps, ...), or dict of such
        Observations before each action, as the environment returned them (not normalized).
    actions : ndarray, (n_steps, ...)
        Actions as executed, in the units of the environment.
    log_probs : ndarray of float64, (n_steps,)
        log beta(a|s) of the executed action, at the moment it was drawn.
    rewards : ndarray of float64, (n_steps,)
    lengths : ndarray of int64, (n,)
        Number of steps of every episode.
    terminated, truncated : ndarray of bool, (n,)
        How every episode ended.
    action_masks : ndarray of bool, (n_steps, n_choices), or None
        Which choices were valid, for policies that are masked.
    final_observations : ndarray, (n, ...), dict of such, or None
        Observation after the last action of every episode.
    overlaps : ndarray of int64, (n,), or None
        In a log of several environments: how many other episodes ended while each was under way;
        None if episodes followed one another.
    begins : ndarray of int64, (n,), or None
        For logs whose number of episodes was not fixed in advance: 2^32 times the number of the
        writer, plus the number of episodes it had begun before. `Metadata.begun` counts all begun
        episodes: the numbers that are missing are those of episodes that never ended.
    columns : dict of str to ndarray, (n_steps, ...)
        Further values per step, such as the candidate's propensity or a cost.
    metadata : Metadata
    places : Places or None
        Where in other logs in memory the episodes come from; set by slices, splits and joins.
    """

    observations: Observations
    actions: NDArray[Any]
    log_probs: FloatArray
    rewards: FloatArray
    lengths: IntArray
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    action_masks: NDArray[np.bool_] | None = None
    final_observations: Observations | None = None
    overlaps: IntArray | None = None
    begins: IntArray | None = None
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)
    places: Places | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.metadata, Metadata):
            raise InvalidInputError(f"`metadata` must be Metadata, got {self.metadata!r}.")
        put(self, "log_probs", as_float_vector(self.log_probs, "log_probs"))
        put(self, "rewards", as_float_vector(self.rewards, "rewards"))
        check_same_size(self.log_probs, self.rewards, ("log_probs", "rewards"))
        n_steps = self.rewards.size
        put(self, "lengths", as_lengths(self.lengths, n_steps, fewest=0))
        for name in ("observations", "actions"):
            put(self, name, check_rows(getattr(self, name), name, n_steps, "logged step"))
        for name in ("terminated", "truncated"):
            flags = check_vector(as_flags(getattr(self, name), name), name)
            put(self, name, check_rows(flags, name, self.lengths.size, "episode"))
        if self.action_masks is not None:
            masks = as_flags(self.action_masks, "action_masks")
            put(self, "action_masks", check_rows(masks, "action_masks", n_steps, "logged step"))
        if self.final_observations is not None:
            name = "final_observations"
            rows = check_rows(self.final_observations, name, self.lengths.size, "episode")
            put(self, name, rows)
        if self.overlaps is not None:
            put(self, "overlaps", as_counts(self.overlaps, "overlaps", self.lengths.size))
        if self.begins is not None:
            begins = check_rows(self.begins, "begins", self.lengths.size, "episode")
            put(self, "begins", np.ascontiguousarray(begins, dtype=np.int64))
        put(self, "columns", check_columns(self.columns, n_steps))
        self._check_values()
        for name in ARRAYS:
            put(self, name, map_rows(read_only, getattr(self, name)))
        if not self.metadata.log_ids and self.n_steps:
            log_id = content_log_id(*self._identifying)
            put(self, "metadata", replace(self.metadata, log_ids=(log_id,)))
        if self.places is not None and len(self.places) != len(self):
            put(self, "places", None)  # other episodes

    @property
    def _identifying(self) -> tuple[NDArray[Any], ...]:
        """Arrays that tell these episodes from others."""
        return self.log_probs, self.rewards, self.lengths, self.actions

    @property
    def _density(self) -> bool:
        """Whether actions are continuous, so that log-probabilities may exceed 0."""
        kind = (self.metadata.action_space or {}).get("type")
        if kind is None:
            return self.actions.dtype.kind not in "iub"
        return kind not in DISCRETE_KINDS

    def _check_values(self) -> None:
        bad = ~np.isfinite(self.log_probs)
        if not self._density:
            bad |= self.log_probs > 1e-6  # rounding of a probability of 1
        if bad.any():
            rule = "finite" if self._density else "finite and at most 0 for discrete actions"
            raise bad_step(
                f"`log_probs` must be {rule}",
                self.log_probs,
                bad,
                self.lengths,
                "If these are probabilities, pass np.log(p); an action that was taken has a "
                "positive one.",
            )
        if (bad := ~np.isfinite(self.rewards)).any():
            raise bad_step(
                "`rewards` must be finite",
                self.rewards,
                bad,
                self.lengths,
                "Drop or repair the broken episodes.",
            )
        horizon = self.metadata.horizon
        if horizon is not None and self.lengths.size and int(self.lengths.max()) > horizon:
            raise InvalidInputError(
                f"`lengths` must be at most the horizon {horizon}, got {self.lengths.max()} at "
                f"{PLACE}. Pass the environment's max_episode_steps.",
                episode=int(self.lengths.argmax()),
            )

    @classmethod
    def from_arrays(
        cls,
        *,
        observations: Observations,
        actions: ArrayLike,
        log_probs: ArrayLike,
        rewards: ArrayLike,
        lengths: ArrayLike,
        terminated: ArrayLike | None = None,
        truncated: ArrayLike | None = None,
        action_masks: ArrayLike | None = None,
        final_observations: Observations | None = None,
        overlaps: ArrayLike | None = None,
        begins: ArrayLike | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
        metadata: Metadata | Mapping[str, Any] | None = None,
    ) -> Trajectories:
        """Trajectories from flat arrays of any origin.

        Parameters are the attributes of the class. Without `terminated` and `truncated`, all
        episodes count as terminated. `metadata` may be a dict with the entries of `Metadata`.
        """
        ended = None if terminated is None else as_flags(terminated, "terminated")
        cut = None if truncated is None else as_flags(truncated, "truncated")
        if cut is None:
            cut = (
                np.zeros(as_array(lengths, "lengths").shape, np.bool_) if ended is None else ~ended
            )
        if ended is None:
            ended = ~cut
        if metadata is None:
            metadata = Metadata()
        elif not isinstance(metadata, Metadata):
            metadata = Metadata.from_dict(metadata)
        return cls(
            observations=observations,
            actions=actions,  # type: ignore[arg-type]
            log_probs=log_probs,  # type: ignore[arg-type]
            rewards=rewards,  # type: ignore[arg-type]
            lengths=lengths,  # type: ignore[arg-type]
            terminated=ended,
            truncated=cut,
            action_masks=action_masks,  # type: ignore[arg-type]
            final_observations=final_observations,
            overlaps=overlaps,  # type: ignore[arg-type]
            begins=begins,  # type: ignore[arg-type]
            columns={} if columns is None else columns,  # type: ignore[arg-type]
            metadata=metadata,
        )

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        episode: str | None = "episode_id",
        step: str | None = "step",
        propensity: str = "p_old",
        reward: str = "reward",
        action: str | Sequence[str] | None = None,
        observations: str | Sequence[str] = (),
        density: bool = False,
        keep: Sequence[str] = (),
        terminated: str | None = "terminated",
        truncated: str | None = "truncated",
        metadata: Metadata | Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> Trajectories:
        """Trajectories from a table with one row per step.

        Parameters
        ----------
        table : DataFrame, Arrow table or path
            A path names a ``.csv``, ``.parquet`` or ``.feather`` file.
        episode : str or None
            Column that names the episode of every row: whole numbers or strings. None: every row
            is an episode of one step, as in the log of a bandit. A column `step` whose numbers vary
            is then refused.
        step : str or None
            Column that numbers the steps of an episode from 0, or from 1. Rows may then be in any
            order. None: the rows of an episode follow one another in the order of its steps.
        propensity : str
            Column with the probability of the logged action under the behavior, in (0, 1].
        reward : str
        action : str or sequence of str, optional
            Column of the action, or columns of its components. Required to evaluate a policy, but
            not for a candidate given by its propensities.
        observations : str or sequence of str
            Columns of the observation, in the order in which a policy expects them. One name in
            place of a sequence: the observation is a number, as for a Discrete space.
        density : bool
            The propensity is the probability density of a continuous action and may exceed 1.
        keep : sequence of str
            Numeric columns to keep as they are, see `columns`.
        terminated, truncated : str or None
            Columns that are true in the last row of an episode that ended by itself, or was cut
            off. They need not be there: without both, all episodes count as complete.
        metadata : Metadata or dict, optional
            Facts about a table of your own. Leave it out for a table written by `to_table`, which
            holds the metadata of its log.
        progress : bool, optional
            Show a progress bar. By default in a terminal or notebook, after two seconds.

        Returns
        -------
        Trajectories
            Episodes in the order of their names. Those of a behavior that learned must be numbered
            in the order of logging.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> import ove_sb3 as ove
        >>> table = pd.DataFrame(
        ...     {
        ...         "user": ["ann", "bob", "ann"],
        ...         "visit": [0, 0, 1],
        ...         "p_old": [0.5, 0.25, 0.5],
        ...         "p_new": [0.9, 0.1, 0.9],
        ...         "clicked": [0, 1, 1],
        ...     }
        ... )
        >>> data = ove.Trajectories.from_table(
        ...     table, episode="user", step="visit", reward="clicked", keep=["p_new"]
        ... )
        >>> data.lengths, data.rewards, data.columns["p_new"]
        (array([2, 1]), array([0., 1., 1.]), array([0.9, 0.9, 0.1]))
        """
        fields = read_steps(
            table,
            episode=episode,
            step=step,
            propensity=propensity,
            reward=reward,
            action=action,
            observations=observations,
            density=density,
            keep=keep,
            terminated=terminated,
            truncated=truncated,
            metadata=metadata,
            progress=progress,
        )
        return cls.from_arrays(**fields)

    @property
    def n_trajectories(self) -> int:
        """Number of episodes, n."""
        return int(self.lengths.size)

    @property
    def n_steps(self) -> int:
        """Number of steps of all episodes together."""
        return int(self.rewards.size)

    @property
    def starts(self) -> IntArray:
        """Index of every episode's first step."""
        return np.cumsum(self.lengths) - self.lengths

    def signal(self, name: str) -> FloatArray:
        """Kept column `name` as one number per step, (n_steps,), to be evaluated like a reward."""
        if name not in self.columns:
            known = ", ".join(map(repr, self.columns)) or "none"
            raise InvalidInputError(
                f"`reward` must be a kept column, got {name!r}, but the log has {known}. Log it: "
                f"collect(..., columns=[{name!r}]), or keep it: from_table(..., keep=[{name!r}])."
            )
        return as_float_vector(self.columns[name], name)

    def returns(self, gamma: float = 1.0) -> FloatArray:
        """Discounted return of every episode, (n,)."""
        gamma = check_real(gamma, "gamma", 0.0, 1.0)
        time = np.arange(self.n_steps) - np.repeat(self.starts, self.lengths)
        return np.add.reduceat(self.rewards * gamma**time, self.starts)

    def __len__(self) -> int:
        return self.n_trajectories

    def __iter__(self) -> Iterator[Trajectories]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int | slice | ArrayLike) -> Trajectories:
        """The episodes named by an integer, a slice, or an array of indices or booleans.

        A slice or range is assumed to be chosen in advance. An array may pick episodes by their
        outcomes, so its intervals are approximate, unless it names all episodes in order. The same
        holds if it names an episode more than once, and for single episodes that do not follow one
        another and are joined. If every episode that was begun has a
        number (`begins`), those left out are counted at their worst instead.
        """
        episodes = np.arange(len(self))
        try:
            chosen = np.atleast_1d(episodes[index if isinstance(index, slice) else np.array(index)])
            if chosen.ndim != 1 or isinstance(index, (bool, np.bool_)):
                raise IndexError
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            message = f"`index` must name some of the {len(self)} episodes, got {index!r}."
            if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
                raise IndexError(message) from error
            raise InvalidInputError(message) from error
        if self.metadata.adaptive and (np.diff(chosen) <= 0).any():
            raise InvalidInputError(
                "`index` must keep the order of logging, because the behavior of this log learned, "
                f"got {index!r}. Sort the indices, and name none of them twice."
            )
        counted = counts_missing(self.begins, self.metadata.begun)
        flags = {
            "selected_episodes": not isinstance(index, (int, np.integer, slice, range))
            and not (counted or np.array_equal(chosen, episodes)),
            "repeated_episodes": bool((np.diff(chosen) <= 0).any())
            and np.unique(chosen).size < chosen.size,
        }
        one = isinstance(index, (int, np.integer)) and not counted
        return self._take(
            chosen,
            metadata=self.metadata.marked(**flags),
            places=places_of(self).take(chosen, one_by_one=one),
        )

    def _take(self, chosen: IntArray, **changes: Any) -> Trajectories:
        """The episodes with these indices, with further fields changed."""
        lengths = self.lengths[chosen]
        # Step k of the selection comes from step k + shift, with one shift per episode.
        shift = self.starts[chosen] - (np.cumsum(lengths) - lengths)
        contiguous = bool((np.diff(chosen) == 1).all())
        steps: slice | IntArray
        if contiguous and chosen.size:
            steps = slice(int(self.starts[chosen[0]]), int(self.starts[chosen[0]] + lengths.sum()))
        else:
            steps = np.arange(int(lengths.sum())) + np.repeat(shift, lengths)
        by_step = ("observations", "actions", "log_probs", "rewards", "action_masks", "columns")
        by_episode = ("lengths", "terminated", "truncated", "final_observations", *EPISODE_COUNTS)
        rows: dict[str, Any] = dict.fromkeys(by_step, steps) | dict.fromkeys(by_episode, chosen)
        picked = {
            name: map_rows(lambda array, at=at: array[at], getattr(self, name))  # type: ignore[misc]
            for name, at in rows.items()
        }
        if self.begins is not None and (np.diff(chosen) <= 0).any():
            # Out of order: it is no longer known which episodes had ended when another began.
            picked["begins"] = np.full(chosen.size, UNKNOWN_BEGIN)
        return replace(self, **(picked | changes))

    def split(
        self, fraction: float, *, rng: int | np.random.Generator | None = None
    ) -> tuple[Trajectories, Trajectories]:
        """Two disjoint parts, the first with `fraction` of the episodes, rounded.

        In the order of logging, or in an order shuffled by `rng` if that is given. A model that
        was trained on one part, or selected by it, can be evaluated on the other with a guarantee.
        If the number of episodes was not fixed in advance (`begins`), a coin decides for every
        episode that was begun; the log of a behavior that learned is cut in order, and its parts
        have approximate intervals only.
        """
        fraction = check_real(fraction, "fraction", 0.0, 1.0)
        first, second = self._parts(fraction, rng)
        name = f"{fraction:g}-{digest_of(*self._identifying, first.episodes)}"
        log_ids = split_log_ids(self.metadata.log_ids, name)
        one, other = (
            self._take(
                part.episodes,
                begins=part.begins,
                metadata=replace(self.metadata, log_ids=ids, begun=part.begun),
                places=places_of(self).take(part.episodes, one_by_one=False),
            )
            for part, ids in zip((first, second), log_ids, strict=True)
        )
        return one, other

    def _parts(
        self, fraction: float, rng: int | np.random.Generator | None
    ) -> tuple[BegunPart, BegunPart]:
        begins, begun = self.begins, self.metadata.begun
        if begins is not None and counts_missing(begins, begun):
            generator = as_generator(0 if rng is None else rng)
            in_order = self.metadata.adaptive
            return split_begun(begins, begun, fraction, in_order=in_order, rng=generator)
        order = np.arange(len(self))
        if rng is not None:
            order = as_generator(rng).permutation(order)
        cut = round(fraction * len(self))
        first, second = (
            BegunPart(episodes, None if begins is None else begins[episodes], begun)
            for episodes in (np.sort(order[:cut]), np.sort(order[cut:]))
        )
        return first, second

    @classmethod
    def concat(cls, parts: Sequence[Trajectories]) -> Trajectories:
        """Join several logs of one environment, in order.

        Episodes that are joined twice have approximate intervals only. Logs that were loaded apart
        are compared if they have an identifier in common (``metadata.log_ids``). Slices of one log
        whose behavior learned are joined in the order of logging.
        """
        logs = check_parts(parts, cls)
        # An episode that is a log of its own has no place in another one.
        longer = [log for log in logs if log.places is not None or len(log) > 1]
        taken = Taken("parts")
        for log in longer:
            taken.add(log)
        taken.repeated |= len(set(map(id, logs))) < len(logs) or may_repeat(longer)
        complete = len(longer) == len(logs)
        return cls(
            **joined_fields(logs),
            metadata=merge([log.metadata for log in logs]).marked(**taken.flags),
            places=Places.join([places_of(log) for log in logs]) if complete else None,
        )

    def to_batch(self) -> Batch:
        """All steps as Arrow columns, and their schema; there must be at least one episode."""
        from ove_sb3.store.columns import to_batch

        return to_batch(*to_columns(self._fields))

    def save(
        self,
        path: str | PathLike[str],
        *,
        overwrite: bool = False,
        progress: bool | None = None,
    ) -> None:
        """Write to the directory `path` as Parquet; `load` reads it back.

        For `progress` see `from_table`.
        """
        if not len(self):
            raise InvalidInputError("`data` must hold at least one episode to be saved, got 0.")
        from ove_sb3.store.writer import write_log

        metadata = self.metadata.to_dict()
        directory, progress = check_path(path), check_progress(progress)
        write_log(self.to_batch(), metadata, directory, overwrite=overwrite, progress=progress)

    @classmethod
    def load(cls, path: str | PathLike[str], *, progress: bool | None = None) -> Trajectories:
        """Read a directory written by `save` or by a logging wrapper, even one that was killed.

        For URIs see `open_log`, for `progress` see `from_table`.
        """
        from ove_sb3.store.directory import load_all
        from ove_sb3.store.location import Location

        contents, columns = load_all(Location.of(check_path(path, uri=True)), progress=progress)
        return cls.from_contents(contents, columns)

    @classmethod
    def from_contents(cls, contents: Contents, columns: Mapping[str, NDArray[Any]]) -> Trajectories:
        """All episodes of an opened directory, from their columns."""
        metadata = stored_metadata(contents.headers, contents.info, contents.n_episodes)
        return cls(**from_columns(columns), metadata=metadata)

    def to_pandas(self, *, progress: bool | None = None) -> pd.DataFrame:
        """One row per step, indexed by episode and step.

        Vectors are spread over columns ``observation_0``, ``observation_1``, ...; arrays of more
        dimensions are flattened first. Numbers per episode are repeated at every step. Final
        observations are left out. The metadata are in ``frame.attrs["metadata"]``. Files like CSV
        do not keep those: write `to_table`, which `from_table` reads. For `progress` see there.
        """
        frame = to_pandas(self._fields, progress=progress)
        frame.attrs["metadata"] = self.metadata.to_dict()
        return frame

    def to_table(self, *, progress: bool | None = None) -> pd.DataFrame:
        """One row per step, in the columns that `from_table` takes by default.

        ``episode_id``, ``step``, ``p_old``, ``reward``, ``action``, ``terminated`` and
        ``truncated`` at the last step of an episode, ``observation`` (with a number for every
        component), and the kept columns under their names.

        Columns whose names begin with ``ove_`` hold the metadata, masks and numbers per episode,
        which the evaluation depends on. They survive any file format and any order of the rows.
        `from_table` reads them, and refuses a table from which some of its rows are missing, or
        which was joined with another one. Final observations are left out.

        For `progress` see `from_table`.
        """
        frame = to_table(self._fields, self.metadata, density=self._density, progress=progress)
        frame.attrs["metadata"] = self.metadata.to_dict()
        return frame

    @property
    def _fields(self) -> dict[str, Any]:
        """All arrays by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    def _repr_html_(self) -> str:
        """Size and origin for a notebook."""
        size: dict[str, object] = {"episodes": len(self), "steps": self.n_steps}
        if len(self):
            size["mean return"] = f"{self.returns().mean():.6g}"
        return html_facts("Trajectories", size | self.metadata.facts)

    def __repr__(self) -> str:
        env = f" of {self.metadata.env_id}" if self.metadata.env_id else ""
        if not len(self):
            return f"Trajectories: 0 episodes{env}"
        adaptive = ", adaptive" if self.metadata.adaptive else ""
        noun = "episode" if len(self) == 1 else "episodes"
        return (
            f"Trajectories: {len(self)} {noun}{env}, {self.n_steps} steps, mean return "
            f"{self.returns().mean():.6g}{adaptive}"
        )


def join_parts(parts: Sequence[Trajectories]) -> Trajectories:
    """Join parts of logs that are known to have no episode in common."""
    logs = check_parts(parts, Trajectories)
    return Trajectories(**joined_fields(logs), metadata=merge([log.metadata for log in logs]))
