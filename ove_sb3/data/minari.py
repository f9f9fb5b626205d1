"""Exchange with Minari."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ove_sb3._progress import tracked
from ove_sb3.errors import PLACE, InvalidInputError

from .arrays import EPISODE_COUNTS
from .beginnings import counts_missing
from .infos import LOG_PROB, MASK, InfoNames, find, missing_info
from .metadata import Metadata, describe_space, make_space
from .trajectories import Trajectories, join_parts

if TYPE_CHECKING:
    from minari import MinariDataset

COLUMN = "column."  # before the name of a kept column
METADATA = "ove_sb3"
"""Key of the metadata of the dataset, and of a per-step info that marks that there are some.

Minari drops the former when it combines datasets, but not the latter.
"""
_SLASH = "%2F"  # a slash in a name would make a group of HDF5


def to_minari(
    data: Trajectories, dataset_id: str, *, progress: bool | None = None, **details: Any
) -> MinariDataset:
    """Store `data` as a local Minari dataset.

    Parameters
    ----------
    data : Trajectories
        With final observations, which Minari requires, and the spaces in its metadata.
    dataset_id : str
        Such as ``"cartpole/uniform-v0"``.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.
    **details
        Passed to ``minari.create_dataset_from_buffers``: author, description, ...

    Returns
    -------
    MinariDataset
        The behavior's log-probability is the per-step info ``"log_prob"``, masks are
        ``"action_mask"``, a kept column x is ``"column.x"``; numbers per episode, such as
        ``"overlaps"``, are repeated at every step.
        Infos hold one entry more than there are steps, as Minari stores one for the reset: the
        entry of step t belongs to the action of step t, the last is padding. All metadata are in
        ``dataset.storage.metadata["ove_sb3"]``, as JSON.
    """
    minari = _import_minari()
    if not len(data):
        raise InvalidInputError("`data` must hold at least one episode, got 0.")
    if data.final_observations is None:
        raise InvalidInputError(
            "`data` must have final observations to become a Minari dataset, which stores one "
            "observation more than actions. Log with ove_sb3.collect, or without a VecNormalize."
        )
    spaces = data.metadata.observation_space, data.metadata.action_space
    if spaces[0] is None or spaces[1] is None:
        raise InvalidInputError(
            "`data` must have its spaces in the metadata to become a Minari dataset. Pass "
            "metadata={'observation_space': ove_sb3.data.metadata.describe_space(...), ...} to "
            "from_arrays."
        )
    buffers = []
    for episode in tracked(data, progress, total=len(data), unit="episode"):
        infos: dict[str, Any] = {LOG_PROB: _padded(episode.log_probs)}
        if episode.action_masks is not None:
            infos[MASK] = _padded(episode.action_masks)
        for name, column in episode.columns.items():
            infos[COLUMN + name.replace("/", _SLASH)] = _padded(column)
        n = episode.n_steps
        infos[METADATA] = np.ones(n + 1, dtype=np.int8)
        for name in EPISODE_COUNTS:
            if (counts := getattr(episode, name)) is not None:
                infos[name] = np.full(n + 1, counts[0])
        ends = np.arange(n) == n - 1
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                observations=_append(episode.observations, episode.final_observations),
                actions=np.array(episode.actions),
                rewards=np.array(episode.rewards),
                terminations=ends & episode.terminated[0],
                truncations=ends & episode.truncated[0],
                infos=infos,
            )
        )
    if _is_registered(data.metadata.env_id):
        details.setdefault("env", data.metadata.env_id)
    if "jpeg_encoding" in inspect.signature(minari.create_dataset_from_buffers).parameters:
        details.setdefault("jpeg_encoding", False)  # the default is lossy
    elif _has_images(data.observations):
        raise InvalidInputError(
            "`data` must not have observations of dtype uint8, because Minari before 0.5.4 "
            "compresses them as images, with loss. Upgrade minari (it needs Python 3.11), or use "
            "data.save(path)."
        )
    dataset: MinariDataset = minari.create_dataset_from_buffers(
        dataset_id,
        buffers,
        observation_space=make_space(spaces[0]),
        action_space=make_space(spaces[1]),
        **details,
    )
    dataset.storage.update_metadata({METADATA: json.dumps(data.metadata.to_dict())})
    return dataset


def _has_images(observations: Any) -> bool:
    """Whether Minari before 0.5.4 takes some observations for images."""
    parts = observations.values() if isinstance(observations, Mapping) else [observations]
    return any(part.dtype == np.uint8 and part.ndim > 1 for part in parts)


def from_minari(
    dataset: MinariDataset | str,
    *,
    infos: Mapping[str, str] | None = None,
    reset_info: bool | None = None,
    progress: bool | None = None,
) -> Trajectories:
    """Trajectories from a Minari dataset with the behavior's log-probabilities.

    Parameters
    ----------
    dataset : MinariDataset or str
        A dataset, or the id of a local one, written by `to_minari` or with the behavior's
        log-probabilities among its infos.
    infos : dict of str to str, optional
        For a dataset of other origin, names in its infos by field: ``"log_prob"``, or
        ``"propensity"`` for a probability, ``"action_mask"``, and any other name for a column to
        keep. By default ``{"log_prob": "log_prob"}``. A slash leads into a dict within the infos.
    reset_info : bool, optional
        Minari stores one info more than there are steps. True: the first one is that of the reset,
        as Minari's DataCollector stores it, and the info of a step is the one returned with it.
        False: the last one is padding. Required for a dataset of other origin with such infos.
    progress : bool, optional
        Show a progress bar. By default in a terminal or notebook, after two seconds.

    Notes
    -----
    Some of the episodes of a dataset, as by ``filter_episodes`` or ``split_dataset``, have
    approximate intervals only: they may have been picked by their outcomes. Use
    `Trajectories.split`.
    """
    minari = _import_minari()
    if isinstance(dataset, str):
        dataset = minari.load_dataset(dataset)
    if _is_compressed(dataset):
        raise InvalidInputError(
            "`dataset` must hold the observations as the behavior saw them, got images that Minari "
            "compressed with loss: a policy acts differently on these. Store them with "
            "jpeg_encoding=False (minari>=0.5.4)."
        )
    stored = dataset.storage.metadata.get(METADATA)
    if stored is not None and not (infos is None and reset_info is None):
        raise InvalidInputError(
            "`infos` and `reset_info` must be left out for a dataset that to_minari wrote, got "
            f"{infos!r} and {reset_info!r}: its infos are known."
        )
    names = InfoNames.of(infos)
    metadata = _foreign(dataset) if stored is None else Metadata.from_stored(json.loads(stored))
    if metadata.adaptive and (np.diff(dataset.episode_indices) < 0).any():
        raise InvalidInputError(
            "`dataset` must hold its episodes in the order of logging, because the behavior "
            "learned, got a dataset that was shuffled. Use Trajectories.split instead of "
            "minari.split_dataset."
        )
    parts = []
    episodes = tracked(
        dataset.iterate_episodes(), progress, total=len(dataset.episode_indices), unit="episode"
    )
    for k, episode in enumerate(episodes):
        stored_infos = episode.infos or {}
        if stored is None and METADATA in stored_infos:
            raise InvalidInputError(
                "`dataset` must have the metadata that to_minari wrote, got none: Minari drops "
                "them when it combines datasets, and with them what the guarantee depends on. Use "
                "from_minari on every dataset, and join the logs by Trajectories.concat."
            )
        n = len(episode.rewards)
        if stored is None:
            fields = _read_foreign(stored_infos, names, n, reset_info, k)
        else:
            fields = _read_own(stored_infos, n)
        observations, final = _split_last(episode.observations, n)
        parts.append(
            Trajectories.from_arrays(
                observations=observations,
                actions=episode.actions,
                rewards=np.asarray(episode.rewards, dtype=np.float64),
                lengths=[n],
                terminated=[bool(episode.terminations[-1])],
                truncated=[bool(episode.truncations[-1])],
                final_observations=final,
                metadata=metadata,
                **fields,
            )
        )
    if not parts:
        raise InvalidInputError("`dataset` must hold at least one episode, got 0.")
    data = join_parts(parts)
    index = np.asarray(dataset.episode_indices)
    shuffled = bool((np.diff(index) < 0).any())
    fewer = index.size != dataset.storage.total_episodes  # such as by filter_episodes
    counted = counts_missing(data.begins, data.metadata.begun)
    flags = {
        "selected_episodes": shuffled or (fewer and not counted),
        "repeated_episodes": np.unique(index).size < index.size,
    }
    return replace(data, metadata=data.metadata.marked(**flags))


def _is_compressed(dataset: MinariDataset) -> bool:
    """Whether Minari stored observations as JPEG images, its default."""
    from gymnasium import spaces
    from minari.dataset.minari_storage import is_image_space

    space = dataset.storage.observation_space
    parts = space.values() if isinstance(space, spaces.Dict) else [space]
    if hasattr(dataset.storage, "jpeg_encoding"):
        return bool(dataset.storage.jpeg_encoding) and any(is_image_space(part) for part in parts)
    return any(part.dtype == np.uint8 and part.shape for part in parts)


def _read_own(infos: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Fields that `to_minari` stored as infos."""
    masks = infos.get(MASK)
    return {
        "log_probs": np.asarray(infos[LOG_PROB], dtype=np.float64)[:n],
        "action_masks": None if masks is None else np.asarray(masks, dtype=np.bool_)[:n],
        "columns": {
            name[len(COLUMN) :].replace(_SLASH, "/"): np.asarray(values)[:n]
            for name, values in infos.items()
            if name.startswith(COLUMN)
        },
        **{name: np.asarray(infos[name])[:1] for name in EPISODE_COUNTS if name in infos},
    }


def _read_foreign(
    infos: Mapping[str, Any], names: InfoNames, n: int, reset_info: bool | None, episode: int
) -> dict[str, Any]:
    """Fields from the infos of another writer."""
    arrays = {}
    for name in names.wanted:
        if (values := find(infos, name)) is None:
            raise missing_info(name, infos, episode=episode)
        rows = np.asarray(values)
        if len(rows) == n + 1:
            if reset_info is None:
                raise InvalidInputError(
                    f"`reset_info` must be given, because info {name!r} has {n + 1} entries for "
                    f"{n} actions at {PLACE}. Pass True if the first one is that of the reset, as "
                    "Minari's DataCollector stores it, or False if the last one is padding.",
                    episode=episode,
                )
            rows = rows[1:] if reset_info else rows[:n]
        if len(rows) != n:
            raise InvalidInputError(
                f"info {name!r} must have an entry for each of {n} actions, got {len(rows)} at "
                f"{PLACE}.",
                episode=episode,
            )
        arrays[name] = rows
    return names.fields(arrays, episode)


def _foreign(dataset: MinariDataset) -> Metadata:
    """Metadata of a dataset that `to_minari` did not write."""
    spec = dataset.spec.env_spec
    return Metadata(
        env_id=getattr(spec, "id", None),
        horizon=getattr(spec, "max_episode_steps", None),
        observation_space=describe_space(dataset.observation_space),
        action_space=describe_space(dataset.action_space),
        log_ids=(f"minari-{dataset.spec.dataset_id.replace('/', ':')}",),
    )


def _is_registered(env_id: str | None) -> bool:
    """Whether Minari can look up the environment."""
    import gymnasium

    return env_id is not None and env_id in gymnasium.registry


def _import_minari() -> Any:
    try:
        import minari
        import minari.data_collector
    except ImportError as error:
        raise InvalidInputError(
            "`to_minari` and `from_minari` need Minari, which is not installed: "
            "pip install 'minari[hdf5]'."
        ) from error
    return minari


def _padded(rows: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([rows, np.zeros_like(rows[:1])])


def _append(rows: Any, last: Any) -> Any:
    if isinstance(rows, Mapping):
        return {key: _append(rows[key], last[key]) for key in rows}
    return np.concatenate([rows, last])


def _split_last(rows: Any, n: int) -> tuple[Any, Any]:
    if isinstance(rows, Mapping):
        pairs = {key: _split_last(rows[key], n) for key in rows}
        return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}
    return rows[:n], rows[n : n + 1]
