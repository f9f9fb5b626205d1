"""A forged index with valid checksums: its file names never lead outside the directory."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import ove_sb3 as ove
from ove_sb3.data.writer import EpisodeWriter, compact
from ove_sb3.errors import OveError
from ove_sb3.store.index import reading, writing
from ove_sb3.store.tables import ShardRow
from ove_sb3.store.verify import repair, verify

from .test_storage import some

NAMES = [
    "../outside.parquet",
    "../part-00000000000000000000-000000000000.parquet",
    "{outside}",
    "part-00000000000000000000-000000000000.parquet/../../outside.parquet",
    "./outside.parquet",
    "log.sqlite",
    "damaged-x",
    "part-00000000000000000000-000000000000.parquet\n",
    "",
    ".",
    "..",
]


CHANGES: dict[str, Callable[[Path], object]] = {
    "compact": compact,
    "repair": repair,
    "overwrite": lambda log: some(6).save(log, overwrite=True),
}


def forge(log: Path, name: str) -> None:
    """Rename the shard in the index, with the checksums that belong to it."""
    with reading(log) as index:
        (row,) = index.rows(ShardRow)
    with writing(log) as change:
        change.replace(row, row._replace(name=name))


@pytest.mark.parametrize("name", NAMES)
def test_names_do_not_leave_the_directory(tmp_path: Path, name: str) -> None:
    data, log = some(6), tmp_path / "log"
    data.save(log)
    (shard,) = log.glob("part-*")
    outside = tmp_path / "outside.parquet"
    for target in (outside, tmp_path / "part-00000000000000000000-000000000000.parquet"):
        target.write_bytes(shard.read_bytes())
    name = name.format(outside=outside)
    forge(log, name)
    before = {file: file.read_bytes() for file in tmp_path.glob("*.parquet")}
    with pytest.raises(ove.StorageError, match="not the name of a shard") as caught:
        ove.open_log(log)
    assert caught.value.path == log / "log.sqlite"
    assert len(verify(log).problems) == 1
    for name_, change in CHANGES.items():
        copy = tmp_path / name_ / "log"
        shutil.copytree(log, copy)
        for file, content in before.items():
            (copy.parent / file.name).write_bytes(content)
        writer = EpisodeWriter(copy, data.metadata)
        writer.add(data)
        writer.flush()
        with suppress(OveError):
            change(copy)
        assert sorted(os.listdir(copy.parent)) == sorted(["log", *(file.name for file in before)])
        assert all((copy.parent / file.name).read_bytes() == before[file] for file in before)
        assert (copy / "log.sqlite").exists()
        assert outside.exists()


def test_sql_in_a_name_is_a_name(tmp_path: Path) -> None:
    data = some(3)
    data.save(tmp_path)
    forge(tmp_path, "x'; DROP TABLE shards; --")
    with pytest.raises(ove.StorageError, match="DROP TABLE"):
        ove.open_log(tmp_path)
    connection = sqlite3.connect(tmp_path / "log.sqlite")
    assert connection.execute("SELECT count(*) FROM shards").fetchone() == (1,)
    connection.close()
