"""Arrow columns: one row per step, plain numbers, nothing pickled.

========================  =======================================================================
``observation``           the observation; ``observation/<key>`` for a dict
``action``                the executed action
``log_prob``, ``reward``  float64
``done``                  0 within an episode; at its last step 1 terminated, 2 truncated, 3 both,
                          4 neither
``action_mask``           valid choices, where masks are logged
``episode/<name>``        a number of the episode, at its last step; 0 elsewhere
``final_observation``     at the last step of an episode, where logged; null elsewhere
========================  =======================================================================

A scalar is a plain column; an array is a fixed-size binary column (`final_observation` a binary
one), whose dtype and shape are in the schema.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
_LARGEST_ENTRY = 1 << 31


class Column(NamedTuple):
    """Name, dtype and shape of a column's entries: one per step, or per episode if `sparse`."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    sparse: bool = False

    @property
    def width(self) -> int:
        """Bytes of an entry."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the Arrow column."""
        if self.sparse:
            return pa.large_binary()
        if (self.dtype == np.bool_ and not self.shape) or not self.width:
            return pa.uint8()
        return pa.binary(self.width) if self.shape else pa.from_numpy_dtype(self.dtype)


Schema = tuple[Column, ...]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow schema of the columns."""
    return pa.schema([pa.field(c.name, c.arrow_type, nullable=c.sparse) for c in schema])


def schema_to_json(schema: Schema) -> str:
    """Text of a schema."""
    return json.dumps(
        [
            {"name": c.name, "dtype": c.dtype.str, "shape": list(c.shape), "sparse": c.sparse}
            for c in schema
        ]
    )


def schema_from_json(text: str) -> Schema:
    """Inverse of `schema_to_json`; raises ValueError unless all columns are numeric."""
    schema = []
    for entry in json.loads(text):
        dtype = np.dtype(str(entry["dtype"]))
        shape = tuple(int(size) for size in entry["shape"])
        column = Column(str(entry["name"]), dtype, shape, bool(entry["sparse"]))
        if dtype.kind not in "biuf" or dtype.names or min(shape, default=0) < 0:
            raise ValueError(f"column {column.name} must hold numbers, got {dtype} {shape}")
        if np.prod([dtype.itemsize, *map(float, shape)]) > _LARGEST_ENTRY:
            raise ValueError(f"entries of {column.name} are too large: {dtype} {shape}")
        schema.append(column)
    if not {"done", "log_prob", "reward"} <= {column.name for column in schema}:
        raise ValueError("the columns done, log_prob and reward are required")
    return tuple(schema)


def to_batch(columns: Arrays, sparse: Arrays) -> tuple[pa.RecordBatch, Schema]:
    """Encode columns with an entry per step, and sparse ones with an entry per episode.

    ``columns["done"]`` marks the last step of every episode; there must be at least one.
    """
    n_steps = len(columns["done"])
    ends = np.flatnonzero(columns["done"])
    schema, arrays = [], []
    for values in (columns, sparse):
        for name, entries in values.items():
            entries = _native(entries)
            column = Column(name, entries.dtype, entries.shape[1:], values is sparse)
            schema.append(column)
            arrays.append(
                _encode_sparse(column, entries, ends, n_steps)
                if column.sparse
                else _encode(column, entries)
            )
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(tuple(schema)))
    return batch, tuple(schema)


def to_arrays(table: pa.RecordBatch | pa.Table, schema: Sequence[Column]) -> Arrays:
    """Decode columns. Sparse ones come back with a row per episode."""
    return {column.name: _decode(table.column(column.name), column) for column in schema}


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """Contiguous, in the byte order of this machine."""
    values = np.ascontiguousarray(values)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _encode(column: Column, values: NDArray[Any]) -> pa.Array:
    if not column.width:
        values = np.zeros(len(values), np.uint8)
    # Not pa.array: that imports pandas.
    buffer = pa.py_buffer(values.reshape(-1).view(np.uint8))
    return pa.Array.from_buffers(column.arrow_type, len(values), [None, buffer])


def _encode_sparse(column: Column, values: NDArray[Any], at: NDArray[np.int64], n: int) -> pa.Array:
    present = np.zeros(n, dtype=np.bool_)
    present[at] = True
    offsets = np.zeros(n + 1, dtype=np.int64)
    offsets[at + 1] = column.width
    np.cumsum(offsets, out=offsets)
    buffers = [
        pa.py_buffer(np.packbits(present, bitorder="little")),
        pa.py_buffer(offsets),
        pa.py_buffer(values.reshape(-1).view(np.uint8)),
    ]
    return pa.Array.from_buffers(column.arrow_type, n, buffers)


def _decode(values: pa.Array | pa.ChunkedArray, column: Column) -> NDArray[Any]:
    if isinstance(values, pa.ChunkedArray):
        parts = [_decode(chunk, column) for chunk in values.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    dtype, shape, n = column.dtype, column.shape, len(values)
    if column.sparse:
        _, offsets, content = values.buffers()
        cuts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + n + 1]
        if (((sizes := np.diff(cuts)) != 0) & (sizes != column.width)).any():
            raise ValueError(f"entries of {column.name} must have {column.width} bytes")
        present = np.frombuffer(content or b"", np.uint8)[cuts[0] : cuts[-1]]
        return np.asarray(present.view(dtype).reshape(-1, *shape))
    if not column.width:
        return np.zeros((n, *shape), dtype)
    if shape:
        width = column.width
        raw = np.frombuffer(values.buffers()[1], np.uint8)
        raw = raw[values.offset * width : (values.offset + n) * width]
        return np.asarray(raw.view(dtype).reshape(n, *shape))
    return _numbers(values, dtype)


def _numbers(values: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers of a plain column, no copy. Not to_numpy: that imports pandas."""
    if values.null_count:
        raise ValueError("a column has missing entries")
    buffer = values.buffers()[1]
    content = np.frombuffer(b"" if buffer is None else buffer, dtype)
    return content[values.offset : values.offset + len(values)]


def count_episodes(table: pa.RecordBatch | pa.Table) -> int:
    """Number of episodes, from the column ``done``."""
    done = table.column("done")
    chunks = done.chunks if isinstance(done, pa.ChunkedArray) else [done]
    kind = np.dtype(str(done.type))  # not to_pandas_dtype: that imports pandas
    return sum(int(np.count_nonzero(_numbers(chunk, kind))) for chunk in chunks)
