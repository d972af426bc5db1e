"""AMQP 1.0 frames as trace columns. Transfers, dispositions and flows, which are nearly all frames,
are decoded in bulk: one field at a time, for all frames of a kind. The harness's codec decodes the
rest."""

from typing import NamedTuple

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
from brokerproof.harness.load.wire_log import RECORDED_BYTES, LogSlice
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10.tables import BY_CODE

PROTOCOL = "AMQP"
UNREADABLE = "UNREADABLE"
"""The command for bytes that are not a frame; the header ``reason`` says why."""
EMPTY = "empty"

TOGETHER = {code: BY_CODE[code].name for code in (0x13, 0x14, 0x15)}
"""The performatives that are decoded in bulk, by their code."""
_PADDING = bytes(64)
"""Padding after the last frame, so that nothing is read past the end."""

_NULL, _NUMBER, _FALSE, _TRUE, _BINARY, _REST = range(6)
_KIND = np.full(256, _REST, np.int8)
_WIDTH = np.zeros(256, np.int64)
"""The number of bytes after each constructor; meaningless for _BINARY and _REST."""
for _code, _kind, _width in (
    *(
        (0x40, _NULL, 0),
        (0x41, _TRUE, 0),
        (0x42, _FALSE, 0),
        (0x43, _NUMBER, 0),
        (0x44, _NUMBER, 0),
        (0x50, _NUMBER, 1),
    ),
    *(
        (0x52, _NUMBER, 1),
        (0x53, _NUMBER, 1),
        (0x60, _NUMBER, 2),
        (0x70, _NUMBER, 4),
        (0xA0, _BINARY, 0),
    ),
):
    _KIND[_code], _WIDTH[_code] = _kind, _width
Bytes = npt.NDArray[np.uint8]


def columns(stretch: LogSlice) -> dict[str, pa.Array]:
    rows = Rows.of(stretch)
    lengths = rows.lengths
    begins = np.cumsum(lengths) - lengths
    data = np.frombuffer(rows.data + _PADDING, np.uint8)
    start = begins + 4 * data[begins + 4].astype(np.int64)
    quick = (data[begins + 5] == codec.AMQP_FRAME) & (start + 4 < begins + lengths)
    quick &= (data[begins] != codec.PREFIX[0]) | (data[begins + 1] != codec.PREFIX[1])
    quick &= (data[start] == 0) & (data[start + 1] == 0x53)
    code = np.where(quick, data[start + 2], 0)
    parts: list[tuple[Ints, Frames]] = []
    left = np.ones(len(code), np.bool_)
    for descriptor in TOGETHER:
        numbers = np.flatnonzero(code == descriptor)
        if not len(numbers):
            continue
        regular = _together(
            descriptor,
            data,
            begins[numbers],
            start[numbers] + 3,
            lengths[numbers],
            rows.sizes[numbers],
        )
        if regular.fits.all():
            left[numbers] = False
            parts.append((numbers, regular.frames))
        elif regular.fits.any():
            chosen = pa.array(np.flatnonzero(regular.fits))
            some = regular.frames
            left[numbers[regular.fits]] = False
            command, headers, body = (
                column.take(chosen) for column in (some.command, some.headers, some.body)
            )
            sizes = some.body_size[regular.fits], some.size[regular.fits]
            parts.append((numbers[regular.fits], Frames(command, headers, body, *sizes)))
    if left.any():
        numbers = np.flatnonzero(left)
        raw = rows.frames.take(pa.array(numbers)).to_pylist()
        parts.append(
            (
                numbers,
                listed(
                    [_slow(*row) for row in zip(raw, rows.sizes[numbers].tolist(), strict=True)]
                ),
            )
        )
    beats = (lengths == codec.HEADER_SIZE) & (data[begins] != codec.PREFIX[0])
    return rows.batch(PROTOCOL, concatenate_rows(parts, len(code)), beats)


class _Found(NamedTuple):
    frames: Frames
    fits: Bools
    """The rows that could be decoded in bulk."""


def _together(code: int, data: Bytes, begins: Ints, at: Ints, lengths: Ints, sizes: Ints) -> _Found:
    """Decode frames with one performative, whose lists begin at ``at``."""
    rows = len(at)
    composite_type = BY_CODE[code]
    short = data[at] == 0xC0
    fits = short | (data[at] == 0xD0)
    count = np.where(short, data[at + 2], _number(data, at + 5, np.full(rows, 4)))
    end: Ints = np.where(
        short, at + 2 + data[at + 1], at + 5 + _number(data, at + 1, np.full(rows, 4))
    )
    ends = begins + lengths
    fits &= (end <= ends) & (count <= len(composite_type.fields))
    place = at + np.where(short, 3, 9)
    kept: list[tuple[str, Ints, pa.Array]] = [
        ("channel", np.arange(rows), _texts(_number(data, begins + 6, np.full(rows, 2))))
    ]
    for number, field in enumerate(composite_type.fields):
        there = np.flatnonzero(fits & (number < count) & (place < end))
        if not len(there):
            break
        values = _field(field.name, data, place[there], end[there])
        place[there] = values.after
        fits[there[~values.fits]] = False
        some = there[values.given]
        if len(some):
            kept.append((field.name, some, values.texts))
    body_size: Ints = sizes - (end - begins)
    return _Found(
        Frames(
            pa.repeat(pa.scalar(composite_type.name), rows),
            _headers(rows, kept),
            _slices(data, end, ends),
            body_size,
            sizes,
        ),
        fits,
    )


class _Field(NamedTuple):
    given: Bools
    texts: pa.Array
    """The texts of the present values."""
    after: Ints
    fits: Bools


def _field(name: str, data: Bytes, at: Ints, end: Ints) -> _Field:
    code = data[at]
    kind, width = _KIND[code], _WIDTH[code]
    texts = np.empty(len(at), object)
    after = at + 1 + width
    fits = np.ones(len(at), np.bool_)
    if (kind == _BINARY).any():
        some = np.flatnonzero(kind == _BINARY)
        size = data[at[some] + 1].astype(np.int64)
        after[some] = at[some] + 2 + size
        texts[some] = _tags(data, at[some] + 2, size)
    if (kind == _REST).any():
        some = np.flatnonzero(kind == _REST)
        cache: dict[bytes, tuple[str, int] | None] = {}
        for row in some.tolist():
            raw = data[at[row] : end[row]].tobytes()
            if raw not in cache:
                cache[raw] = _value(name, raw)
            value = cache[raw]
            fits[row] = value is not None
            texts[row], long = value or ("", 0)
            after[row] = at[row] + long
    role = name == "role"
    texts[kind == _TRUE] = "receiver" if role else "true"
    texts[kind == _FALSE] = "sender" if role else "false"
    plain = kind == _NUMBER
    given = kind != _NULL
    fits &= after <= end
    if plain.all():
        return _Field(given, _texts(_number(data, at + 1, width)), after, fits)
    if plain.any():
        texts[plain] = _texts(_number(data, at[plain] + 1, width[plain])).to_numpy(
            zero_copy_only=False
        )
    return _Field(given, pa.array(texts[given], pa.string()), after, fits)


def _number(data: Bytes, at: Ints, width: Ints) -> Ints:
    """Decode unsigned numbers of at most four bytes."""
    numbers = np.zeros(len(at), np.int64)
    for place in range(4):
        more = width > place
        numbers[more] = (numbers[more] << 8) | data[at[more] + place]
    return numbers


def _texts(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _tags(data: Bytes, at: Ints, size: Ints) -> npt.NDArray[np.object_]:
    tags = np.empty(len(at), object)
    tags[:] = [
        f"0x{data[begin : begin + length].tobytes().hex()}"
        for begin, length in zip(at.tolist(), size.tolist(), strict=True)
    ]
    return tags


def _value(name: str, data: bytes) -> tuple[str, int] | None:
    """Return a value that is neither a number nor bytes, in the trace's form, and its length; None
    for other values."""
    try:
        what, size = types.decode(data, 0)
    except types.Malformed:
        return None
    return codec.field_list({name: what}, 0)[1][1], size


def _headers(rows: int, kept: list[tuple[str, Ints, pa.Array]]) -> pa.ListArray:
    row = np.concatenate([some for _, some, _ in kept])
    field = np.repeat(np.arange(len(kept)), [len(some) for _, some, _ in kept])
    order = np.argsort(row * len(kept) + field, kind="stable")
    names = pa.array([name for name, _, _ in kept]).take(pa.array(field[order]))
    values = pa.concat_arrays([texts for _, _, texts in kept]).take(pa.array(order))
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=offsets[1:])
    return lists(offsets, names, values)


def _slices(data: Bytes, begin: Ints, end: Ints) -> pa.Array:
    size = np.clip(end - begin, 0, RECORDED_BYTES)
    offsets = np.zeros(len(size) + 1, np.int32)
    np.cumsum(size, out=offsets[1:])
    at = np.repeat(begin - offsets[:-1], size) + np.arange(int(offsets[-1]))
    return pa.Array.from_buffers(
        pa.binary(),
        len(size),
        [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data[at].tobytes())],
    )


def _slow(data: bytes, size: int) -> tuple[str, tuple[tuple[str, str], ...], bytes, int, int]:
    """Decode one frame with the harness's codec. The wire log truncates only the payload, whose
    size is known."""
    whole = data if data[:4] == codec.PREFIX else len(data).to_bytes(4) + data[4:]
    frame = next(iter(codec.Reader().feed(whole)), None)
    if isinstance(frame, codec.Frame):
        return (
            frame.name,
            frame.listed(),
            frame.payload,
            len(frame.payload) + size - len(data),
            size,
        )
    if isinstance(frame, codec.Empty):
        return EMPTY, (("channel", str(frame.channel)),), b"", 0, size
    why = frame.reason if isinstance(frame, codec.Unreadable) else "a frame was cut off"
    return UNREADABLE, (("reason", why),), data, size, size
