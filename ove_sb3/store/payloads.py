"""Payloads of the index: a batch of whole episodes as a compressed Arrow IPC stream."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from .columns import Schema, arrow_schema
from .tables import BatchRow, damaged

_CODEC = "lz4"
_LARGEST = 1 << 30  # bytes that a payload may decompress to
LARGEST_BATCH = 1 << 26
"""Batches of more bytes go to a shard of their own."""


class Payload(NamedTuple):
    """Encoded batch, and the values of its row in the index."""

    codec: str
    raw_size: int
    content: pa.Buffer

    @property
    def crc(self) -> int:
        """CRC-32 of the content."""
        return zlib.crc32(self.content)


def encode(batch: pa.RecordBatch) -> Payload:
    """Payload of a batch; compressed, which is cheaper than having SQLite copy more bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    raw = sink.getvalue()
    return Payload(_CODEC, raw.size, pa.compress(raw, _CODEC))


def decode(row: BatchRow, content: bytes, schema: Schema, path: Path) -> pa.Table:
    """Batch of a row, checked before and after it is decoded."""
    place = f"the payload of batch {row.id}"
    if len(content) != row.size or zlib.crc32(content) != row.crc:
        raise damaged(path, f"{place} does not match its checksum", row=row.id)
    if not 0 < row.raw_size <= _LARGEST or row.codec != _CODEC:
        raise damaged(path, f"{place} declares {row.raw_size} bytes of {row.codec}", row=row.id)
    try:
        raw = pa.decompress(content, row.raw_size, _CODEC)
        table = pa.ipc.open_stream(raw).read_all()
        table.validate(full=True)
        fits = table.schema.equals(arrow_schema(schema)) and table.num_rows == row.steps
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, f"{place} cannot be decoded: {error}", row=row.id) from error
    if not fits:
        raise damaged(path, f"{place} does not have the declared columns and steps", row=row.id)
    return table
