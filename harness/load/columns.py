"""Builds trace columns from many frames together: the part that the modules of all protocols
share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.load.wire_log import RECORDED_BYTES, SENT, LogSlice
from brokerproof.harness.trace.columns import SCHEMA

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

HEADERS: pa.ListType = SCHEMA.field("headers").type
STRUCT: pa.StructType = HEADERS.value_type
_KINDS = pa.array(["FrameReceived", "FrameSent", "HeartBeatReceived", "HeartBeatSent"])


@dataclass(frozen=True)
class Frames:
    command: pa.Array
    headers: pa.ListArray
    body: pa.Array
    body_size: Ints
    size: Ints


@dataclass(frozen=True)
class Rows:
    """The values of each frame in a log slice, except its bytes."""

    at: Ints
    conn: Ints
    sent: Bools
    sizes: Ints
    lengths: Ints
    data: bytes
    frames: pa.Array

    @classmethod
    def of(cls, stretch: LogSlice) -> Self:
        heads = np.concatenate([block.heads for block in stretch.blocks])
        at, conn, direction, count = (heads[:, column] for column in range(heads.shape[1]))
        lengths = np.concatenate([block.lengths for block in stretch.blocks])
        data = b"".join([block.data for block in stretch.blocks])
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)]
        return cls(
            np.repeat(at + stretch.offset, count),
            np.repeat(conn, count),
            np.repeat(direction == SENT, count),
            np.concatenate([block.sizes for block in stretch.blocks]).astype(np.int64),
            lengths.astype(np.int64),
            data,
            pa.Array.from_buffers(pa.binary(), len(lengths), buffers),
        )

    def batch(self, protocol: str, frames: Frames, beats: Bools) -> dict[str, pa.Array]:
        """Return the trace columns of these frames. ``beats`` tells which of them are
        heartbeats."""
        columns = {
            "command": frames.command,
            "headers": frames.headers,
            "body": frames.body,
            "body_size": pa.array(frames.body_size),
        }
        if beats.any():
            place = pa.array(np.arange(len(beats)), mask=beats)
            columns = {name: column.take(place) for name, column in columns.items()}
        return {
            "at_ns": pa.array(self.at),
            "conn": pa.array(self.conn),
            "kind": _KINDS.take(pa.array(self.sent.astype(np.int8) + 2 * beats.astype(np.int8))),
            "protocol": same(protocol, len(self.at)),
            **columns,
            "size": pa.array(frames.size),
        }


def same(value: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), rows)


def structs(names: pa.Array, values: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([names, values], fields=list(STRUCT))


def lists(offsets: Ints, names: pa.Array, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), structs(names, values), type=HEADERS
    )


def concatenate_rows(parts: Sequence[tuple[Ints, Frames]], rows: int) -> Frames:
    """Merge parts of the rows, each with its row numbers, in order."""
    if len(parts) == 1 and len(parts[0][0]) == rows:
        return parts[0][1]
    place = np.empty(rows, np.int64)
    place[np.concatenate([numbers for numbers, _ in parts])] = np.arange(rows)
    order = pa.array(place)

    def taken(column: str) -> pa.Array:
        return pa.concat_arrays([getattr(part, column) for _, part in parts]).take(order)

    def numbers(column: str) -> Ints:
        values: Ints = np.concatenate([getattr(part, column) for _, part in parts])[place]
        return values

    return Frames(
        taken("command"), taken("headers"), taken("body"), numbers("body_size"), numbers("size")
    )


def listed(frames: Sequence[tuple[str, Sequence[tuple[str, str]], bytes, int, int]]) -> Frames:
    """Return the columns of frames decoded one by one: command, headers, body, body size, frame
    size."""
    headers: list[list[dict[str, Any]]] = [
        [{"name": name, "value": value} for name, value in frame[1]] for frame in frames
    ]
    return Frames(
        pa.array([frame[0] for frame in frames], pa.string()),
        pa.array(headers, HEADERS),
        pa.array([frame[2][:RECORDED_BYTES] for frame in frames], pa.binary()),
        np.array([frame[3] for frame in frames], np.int64),
        np.array([frame[4] for frame in frames], np.int64),
    )


def lengths(column: pa.Array) -> Ints:
    sizes: Ints = pc.binary_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes
