"""Metadata of a log: what is accepted, and that no entry is lost on the way to disk and back."""

from __future__ import annotations

from pathlib import Path

import pytest

import ove_sb3 as ove

from .test_storage import some


@pytest.mark.parametrize("read", [ove.Trajectories.load, ove.open_log])
def test_a_log_of_a_later_version_is_refused(
    read: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry this version does not know may be the reason against a guarantee."""
    assert callable(read)
    to_dict = ove.Metadata.to_dict
    with monkeypatch.context() as patch:
        patch.setattr(ove.Metadata, "to_dict", lambda self: {**to_dict(self), "novel": True})
        some(3).save(tmp_path)
    with pytest.raises(
        ove.errors.StorageError, match=r"\['novel'\].*by a later version of ove_sb3"
    ):
        read(tmp_path)


def test_entries_that_earlier_versions_did_not_write_have_defaults() -> None:
    assert ove.Metadata.from_stored({"env_id": "A-v0"}) == ove.Metadata(env_id="A-v0")
    with pytest.raises(ove.errors.StorageError, match="metadata of the log are damaged: `seed`"):
        ove.Metadata.from_stored({"seed": "x"})
    with pytest.raises(ove.errors.StorageError, match="metadata of the log are damaged"):
        ove.Metadata.from_stored([1])  # type: ignore[arg-type]
