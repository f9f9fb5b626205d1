"""Errors about the files of a log directory."""

from __future__ import annotations

import errno
import socket
import sqlite3
from os import PathLike
from pathlib import Path

from ove_sb3.errors import EmptyLogError, InvalidInputError, LogChangedError, StorageError

from .tables import damaged

_EARLIER = ("manifest.json", "shards.jsonl")


def no_log(index: Path) -> StorageError:
    """Error about a directory without an index."""
    directory = index.parent
    if any((directory / name).exists() for name in _EARLIER):
        return StorageError(
            f"`{directory}` must be a log of this version of ove_sb3, but it was written by an "
            f"earlier one ({index.name} does not exist). Log again, or read it with the version "
            "that wrote it.",
            path=directory,
        )
    if directory.is_dir() and any(directory.glob("part-*.parquet")):
        return missing_index(directory, index)
    return StorageError(
        f"`{directory}` must be a directory of logged episodes, but {index} does not exist. Check "
        "the path.",
        path=directory,
    )


def missing_index(directory: Path, index: Path) -> StorageError:
    """Error about shards without an index."""
    return StorageError(
        f"`{index}` must be there: {directory} holds shards of a log without it. Restore it from a "
        "copy.",
        path=index,
    )


def refuse_leftovers(directory: Path, index: Path) -> None:
    """Refuse to begin a log in a directory that holds the remains of another."""
    if any((directory / name).exists() for name in _EARLIER):
        raise no_log(index)
    if any(directory.glob("part-*.parquet")):
        raise missing_index(directory, index)


def empty(directory: str | PathLike[str]) -> EmptyLogError:
    """Error about a directory without episodes."""
    return EmptyLogError(
        f"`{directory}` must hold at least one complete episode, got none. Episodes are written "
        "when `flush_every` of them are complete, after a few seconds, or when the logger is "
        "closed.",
        path=directory,
    )


def unfinished(directory: str | PathLike[str], n: int) -> StorageError:
    """Error about a log elsewhere whose index still holds episodes."""
    return StorageError(
        f"`{directory}` must hold all episodes in shards to be read from another file system, but "
        f"{n} are in its index. Close the writers, or run `ove-sb3 compact`, and copy it again.",
        path=directory,
    )


def too_large(directory: str | PathLike[str], size: int) -> StorageError:
    """Error about a log that cannot be loaded into memory."""
    return StorageError(
        f"`{directory}` must fit into memory to be loaded, but one of its columns declares {size} "
        "bytes. Use `open_log`, which reads chunks, and check the log with `ove-sb3 inspect "
        "--verify`.",
        path=directory,
    )


def overwritten(directory: str | PathLike[str]) -> LogChangedError:
    """Error about a log that was replaced after it was opened."""
    return LogChangedError(
        f"`{directory}` must stay as it was when the log was opened, but these episodes have been "
        "replaced since. Open the log again.",
        path=directory,
    )


def vanished(file: str | PathLike[str]) -> LogChangedError:
    """Error about a missing shard."""
    return LogChangedError(
        f"`{file}` must be there until the log is read, but on {socket.gethostname()} it is not. "
        "If it was removed after the log was opened, restore it or open the log again; on a "
        "cluster, every worker must see the log under the same path.",
        path=file,
    )


def from_sqlite(path: Path, error: sqlite3.Error) -> StorageError:
    """`StorageError` for an error of SQLite."""
    text = str(error)
    if "locked" in text:
        rule, remedy = "be free for writing within two minutes", "End the process that holds it"
    elif "full" in text:
        rule, remedy = "have room to grow", "Free some space; what was written before is intact"
    elif "readonly" in text or "read-only" in text:
        rule, remedy = "be writable", "Check the permissions of the file and its directory"
    elif "unable to open" in text:
        rule, remedy = "be a file that can be opened", "Check the path and the permissions"
    elif "disk I/O" in text:
        rule, remedy = "be read and written without errors", "Free some space, or check the disk"
    else:
        return damaged(path, f"SQLite reports: {text}")
    return StorageError(f"`{path}` must {rule}: {text}. {remedy}.", path=path)


def from_os(path: str | PathLike[str], error: OSError) -> StorageError:
    """`StorageError` for an error of the operating system."""
    what = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        remedy = "Free some space; what was written before is intact"
    else:
        remedy = "Check the path and the permissions"
    return StorageError(f"`{path}` must be accessible: {what}. {remedy}.", path=path)


def bad_durability(durability: object) -> InvalidInputError:
    """Error about an unknown durability."""
    return InvalidInputError(
        f'`durability` must be "full" (survives power loss) or "normal" (survives the end of the '
        f"process), got {durability!r}."
    )
