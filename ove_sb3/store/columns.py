"""Arrow columns: one row per step, numbers as they are, nothing pickled.

========================  =======================================================================
``observation``           the observation; ``observation/<key>`` for a dict
``action``                the executed action
``log_prob``, ``reward``  float64
``done``                  0 within an episode; at its last step 1 terminated, 2 truncated, 3 both,
                          4 neither, plus 8 times the number of overlapping episodes
``action_mask``           valid choices, where masks are logged
``final_observation``     at the last step of an episode, where logged; null elsewhere
========================  =======================================================================

A scalar is a plain column; an array is a fixed-size binary column (`final_observation` a binary
one), whose dtype and shape are in the metadata of the field.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def to_batch(columns: Arrays, sparse: Arrays) -> pa.RecordBatch:
    """Encode columns with an entry per step, and sparse ones with an entry per episode.

    ``columns["done"]`` marks the last step of every episode; there must be at least one.
    """
    n_steps = len(columns["done"])
    ends = np.flatnonzero(columns["done"])
    fields, arrays = [], []
    for name, values in columns.items():
        array = _encode(values)
        fields.append(_field(name, array.type, values))
        arrays.append(array)
    for name, values in sparse.items():
        array = _encode_sparse(values, ends, n_steps)
        fields.append(_field(name, array.type, values))
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def to_arrays(columns: pa.RecordBatch | pa.Table) -> Arrays:
    """Decode the columns of a batch or table. Sparse columns come back with a row per episode."""
    return {field.name: _decode(columns.column(i), field) for i, field in enumerate(columns.schema)}


def field_kind(field: pa.Field) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Dtype and shape of the entries of a column."""
    text = field.metadata[b"shape"].decode()
    shape = tuple(int(size) for size in text.split(",")) if text else ()
    return np.dtype(field.metadata[b"dtype"].decode()), shape


def _field(name: str, kind: pa.DataType, values: NDArray[Any]) -> pa.Field:
    shape = ",".join(map(str, values.shape[1:]))
    return pa.field(name, kind, metadata={"dtype": values.dtype.str, "shape": shape})


def _encode(values: NDArray[Any]) -> pa.Array:
    values = np.ascontiguousarray(values)
    if values.ndim == 1:
        return pa.array(values.view(np.uint8) if values.dtype == np.bool_ else values)
    width = values.itemsize * int(np.prod(values.shape[1:]))
    buffer = pa.py_buffer(values.reshape(-1).view(np.uint8))
    return pa.Array.from_buffers(pa.binary(width), len(values), [None, buffer])


def _encode_sparse(values: NDArray[Any], at: NDArray[np.int64], n: int) -> pa.Array:
    values = np.ascontiguousarray(values)
    width = values.itemsize * int(np.prod(values.shape[1:]))
    present = np.zeros(n, dtype=np.bool_)
    present[at] = True
    offsets = np.concatenate([[0], np.cumsum(present) * width]).astype(np.int64)
    buffers = [
        pa.py_buffer(np.packbits(present, bitorder="little")),
        pa.py_buffer(offsets),
        pa.py_buffer(values.reshape(-1).view(np.uint8)),
    ]
    return pa.Array.from_buffers(pa.large_binary(), n, buffers)


def _decode(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> NDArray[Any]:
    if isinstance(column, pa.ChunkedArray):
        parts = [_decode(chunk, field) for chunk in column.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    dtype, shape = field_kind(field)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        raw = np.frombuffer(column.buffers()[1], np.uint8)
        raw = raw[column.offset * width : (column.offset + len(column)) * width]
        return np.asarray(raw.view(dtype).reshape(len(column), *shape))
    if pa.types.is_large_binary(column.type):
        _, offsets, raw_values = column.buffers()
        cuts = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        present = np.frombuffer(raw_values or b"", np.uint8)[cuts[0] : cuts[-1]]
        return np.asarray(present.view(dtype).reshape(-1, *shape))
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    return np.asarray(values.view(np.bool_) if dtype == np.bool_ else values.astype(dtype))
