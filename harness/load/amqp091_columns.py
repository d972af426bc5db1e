"""AMQP 0-9-1 methods and contents as trace columns, equal to those of
:mod:`brokerproof.harness.protocols.amqp091.trace_recorder`. Publishes, deliveries and
acknowledgements, which are nearly all frames, are decoded in bulk; the harness's codec decodes the
rest."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from brokerproof.harness.load.columns import (
    Bools,
    Frames,
    Ints,
    Rows,
    concatenate_rows,
    listed,
    lists,
)
from brokerproof.harness.load.wire_log import EOL, LogSlice
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.tables import BASIC, BY_NAME

PROTOCOL = "AMQP091"
UNREADABLE = "UNREADABLE"
"""The command for bytes that are not a frame; the header ``reason`` says why."""
TOGETHER = ("basic.publish", "basic.deliver", "basic.ack")
_PADDING = bytes(64)
_PAYLOAD = 11
"""The offset of a method's fields in its frame."""
_CONTENT_HEADER = 22
"""The size of a content header's frame without properties, in bytes."""
_CHUNK = {"short": 2, "longlong": 8}

Bytes = npt.NDArray[np.uint8]


def columns(stretch: LogSlice) -> dict[str, pa.Array]:
    """Return the columns of methods (with the stored part of their contents), heartbeats and
    protocol headers."""
    rows = Rows.of(stretch)
    lengths = rows.lengths
    begins = np.cumsum(lengths) - lengths
    data = np.frombuffer(rows.data + _PADDING, np.uint8)
    broken = rows.sizes >= EOL
    sizes = rows.sizes - broken * EOL
    number = sum(data[begins + 7 + at].astype(np.int64) << (24 - 8 * at) for at in range(4))
    is_method = (data[begins] == codec.METHOD) & ~broken
    parts: list[tuple[Ints, Frames]] = []
    left = np.ones(len(lengths), np.bool_)
    for name in TOGETHER:
        table = BY_NAME[name]
        mine = np.flatnonzero(is_method & (number == (table.class_id << 16 | table.method_id)))
        if not len(mine):
            continue
        fits, frames = _together(name, rows, data, begins[mine], lengths[mine], sizes[mine])
        if frames is not None:
            left[mine[fits]] = False
            parts.append((mine[fits], frames))
    if left.any():
        mine = np.flatnonzero(left)
        raw = rows.frames.take(pa.array(mine)).to_pylist()
        entries = zip(raw, sizes[mine].tolist(), broken[mine].tolist(), strict=True)
        parts.append((mine, listed([_slow(*row) for row in entries])))
    beats = data[begins] == codec.HEARTBEAT
    plain = Rows(rows.at, rows.conn, rows.sent, sizes, lengths, rows.data, rows.frames)
    return plain.batch(PROTOCOL, concatenate_rows(parts, len(lengths)), beats)


def _together(
    name: str, rows: Rows, data: Bytes, begins: Ints, lengths: Ints, sizes: Ints
) -> tuple[Bools, Frames | None]:
    """Decode the regular frames of one method; return their indices."""
    table = BY_NAME[name]
    count = len(begins)
    ends = begins + _number(data, begins + 3, 4) + codec.OVERHEAD
    whole = begins + lengths
    fits = ends + (_CONTENT_HEADER if table.content else 0) <= whole
    place = begins + _PAYLOAD
    names = ["channel"]
    values: list[Sequence[str] | pa.Array] = [_texts(_number(data, begins + 1, 2))]
    bit = 0
    for field, kind in table.fields:
        names.append(field)
        if kind != "bit" and bit:
            place, bit = place + 1, 0
        if kind == "bit":
            on = data[np.minimum(place, len(data) - 1)] >> bit & 1
            values.append(pa.array(np.where(on, "true", "false")))
            bit += 1
        elif kind == "shortstr":
            size = data[np.minimum(place, len(data) - 1)].astype(np.int64)
            begin, place = place + 1, place + 1 + size
            fits &= place <= ends
            values.append(_strings(rows.data, begin, np.where(fits, place, begin)))
        else:
            values.append(_texts(_number(data, np.minimum(place, len(data) - 9), _CHUNK[kind])))
            place = place + _CHUNK[kind]
    fits &= place + (bit > 0) + 1 == ends  # plus the end byte
    body_begin, body_size = ends, np.zeros(count, np.int64)
    if table.content:
        head = np.minimum(ends, len(data) - 32)
        fits &= (data[head] == codec.HEADER) & (_number(data, head + 3, 4) == 14)
        fits &= (_number(data, head + 7, 4) == BASIC << 16) & (_number(data, head + 19, 2) == 0)
        body_size = _number(data, head + 11, 8)
        body_begin = ends + _CONTENT_HEADER
    if not fits.all():
        keep = pa.array(np.flatnonzero(fits))
        if not len(keep):
            return fits, None
        values = [pa.array(value, pa.string()).take(keep) for value in values]
    bodies = [
        rows.data[at:to]
        for at, to in zip(body_begin[fits].tolist(), whole[fits].tolist(), strict=True)
    ]
    frames = Frames(
        pa.repeat(pa.scalar(name, pa.string()), len(bodies)),
        _headers(names, [pa.array(value, pa.string()) for value in values]),
        pa.array(bodies, pa.binary()),
        body_size[fits],
        sizes[fits],
    )
    return fits, frames


def _number(data: Bytes, at: Ints, width: int) -> Ints:
    numbers = np.zeros(len(at), np.int64)
    for place in range(width):
        numbers = (numbers << 8) | data[at + place]
    return numbers


def _texts(numbers: Ints) -> pa.Array:
    return pa.array(numbers.view(np.uint64)).cast(pa.string())


def _strings(data: bytes, begins: Ints, ends: Ints) -> list[str]:
    """Read short strings that have few distinct values."""
    known: dict[bytes, str] = {}
    strings = []
    for at, to in zip(begins.tolist(), ends.tolist(), strict=True):
        raw = data[at:to]
        text = known.get(raw)
        if text is None:
            text = known[raw] = raw.decode("utf-8", "backslashreplace")
        strings.append(text)
    return strings


def _headers(names: Sequence[str], values: Sequence[pa.Array]) -> pa.ListArray:
    """Make the headers of rows that all have the same header names."""
    rows, width = len(values[0]), len(names)
    order = np.arange(rows * width).reshape(width, rows).T.ravel()
    return lists(
        np.arange(rows + 1) * width,
        pa.array(np.tile(np.array(names, object), rows), pa.string()),
        pa.concat_arrays(list(values)).take(pa.array(order)),
    )


def _slow(data: bytes, size: int, broken: bool) -> tuple[str, codec.FieldList, bytes, int, int]:
    """Decode one method with the harness's codec. The stored part of a body has no frame
    headers."""
    end = _frames_end(data)
    frames: list[codec.Frame] = []
    for item in codec.Reader().feed(data[:end]):
        if not isinstance(item, codec.Frame):
            return UNREADABLE, (("reason", item.reason),), data, len(data), size
        frames.append(item)
    first, body = frames[0], data[end:]
    if first.name == codec.HEART_BEAT:
        return first.name, (), b"", 0, size
    contents, promised = codec.Contents(), 0
    decoded = list(contents.feed(first))
    for header in frames[1:]:
        promised = header.fields["body-size"]
        kept = promised if broken else len(body)
        decoded += contents.feed(
            dataclasses.replace(header, fields={**header.fields, "body-size": kept})
        )
    if body:
        decoded += contents.feed(
            codec.Frame(codec.CONTENT_BODY, {}, body, first.channel, codec.BODY)
        )
    if broken:
        decoded += contents.feed(
            codec.Frame("channel.flow-ok", {"active": True}, channel=first.channel)
        )
    method = decoded[0]
    whole = len(method.body) if broken or not promised else promised
    return method.name, method.listed(), method.body, whole, size


def _frames_end(data: bytes) -> int:
    """Return the end of the method's frame, or of the content header's frame after it."""
    if data.startswith(codec.PREFIX):
        return codec.OVERHEAD
    end = codec.OVERHEAD + int.from_bytes(data[3:7])
    if data[0] == codec.METHOD and data[end : end + 1] == bytes((codec.HEADER,)):
        end += codec.OVERHEAD + int.from_bytes(data[end + 3 : end + 7])
    return end
