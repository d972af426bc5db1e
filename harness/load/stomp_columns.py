"""STOMP frames as trace columns. Thousands of frames are decoded together, unusual ones one by
one."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.load.columns import (
    Bools,
    Frames,
    Ints,
    Rows,
    concatenate_rows,
    lengths,
    listed,
    lists,
)
from brokerproof.harness.load.wire_log import EOL, RECORDED_BYTES, LogSlice
from brokerproof.harness.protocols.stomp import codec

PROTOCOL = "STOMP"
UNREADABLE = "UNREADABLE"
"""The command for bytes that are not a frame; the header ``reason`` says why."""


def columns(stretch: LogSlice) -> dict[str, pa.Array]:
    """Return the columns of frames given without their NUL and the ends of line before them. An
    empty frame is a heartbeat, which has no NUL."""
    rows = Rows.of(stretch)
    count = len(rows.at)
    eol = rows.sizes >= EOL
    bare = rows.sizes - eol * EOL
    beats = rows.lengths == 0
    size = bare + ~beats + eol
    plain = _plain(rows.frames, carriage=b"\r" in rows.data)
    parts = []
    if plain.any():
        numbers = np.flatnonzero(plain)
        chosen = rows.frames if plain.all() else rows.frames.take(pa.array(numbers))
        quick = _quick(chosen, bare[numbers], size[numbers])
        if quick is None:
            plain[:] = False
        else:
            parts.append((numbers, quick))
    if not plain.all():
        numbers = np.flatnonzero(~plain)
        one_by_one = rows.frames.take(pa.array(numbers)).to_pylist()
        parts.append(
            (
                numbers,
                listed(
                    [
                        _slow(*row)
                        for row in zip(
                            one_by_one, bare[numbers].tolist(), size[numbers].tolist(), strict=True
                        )
                    ]
                ),
            )
        )
    return rows.batch(PROTOCOL, concatenate_rows(parts, count), beats)


def _plain(data: pa.Array, *, carriage: bool) -> Bools:
    """Return which frames have an end of headers and only lines ending in a bare LF. ``carriage``
    is true if some frames have a CR."""
    plain: Bools = pc.find_substring(data, "\n\n").to_numpy(zero_copy_only=False) >= 0
    if carriage:
        plain &= ~pc.match_substring(data, "\r").to_numpy(zero_copy_only=False)
    return plain


def _quick(data: pa.Array, bare: Ints, size: Ints) -> Frames | None:
    """Decode frames in bulk; return None if a line is not a header or not UTF-8."""
    count = len(data)
    halves = pc.split_pattern(data, pattern="\n\n", max_splits=1).values
    heads, body = (
        halves.take(pa.array(np.arange(0, 2 * count, 2))),
        halves.take(pa.array(np.arange(1, 2 * count, 2))),
    )
    lines = pc.split_pattern(heads, pattern="\n")
    begins = lines.offsets.to_numpy().astype(np.int64)
    flat = lines.values
    is_header = np.ones(len(flat), np.bool_)
    is_header[begins[:-1]] = False
    halves = pc.split_pattern(flat.filter(pa.array(is_header)), pattern=":", max_splits=1)
    headers = len(halves)
    if len(halves.values) != 2 * headers:
        return None
    try:
        command = flat.take(pa.array(begins[:-1])).cast(pa.string())
        names = halves.values.take(pa.array(np.arange(0, 2 * headers, 2))).cast(pa.string())
        values = halves.values.take(pa.array(np.arange(1, 2 * headers, 2))).cast(pa.string())
    except pa.ArrowInvalid:
        return None
    names, values = _unescaped(names), _unescaped(values)
    if names is None or values is None:
        return None
    offsets = begins - np.arange(count + 1)
    return Frames(
        command,
        lists(offsets, names, values),
        pc.binary_slice(body, 0, RECORDED_BYTES),
        bare - lengths(heads) - 2,
        size,
    )


def _unescaped(texts: pa.Array) -> pa.Array | None:
    if b"\\" not in memoryview(texts.buffers()[2] or b"").tobytes():
        return texts
    quoted = pc.match_substring(texts, "\\")
    try:
        plain = [codec.unescape(text, "1.2") for text in texts.filter(quoted).to_pylist()]
    except ValueError:
        return None
    return pc.replace_with_mask(texts, quoted, pa.array(plain, pa.string()))


def _slow(
    data: bytes, bare: int, size: int
) -> tuple[str, tuple[tuple[str, str], ...], bytes, int, int]:
    """Decode one frame with the harness's codec, which gets only the stored part of a truncated
    body."""
    head_end = min(
        (at for at in (data.find(b"\n\n"), data.find(b"\n\r\n")) if at >= 0), default=len(data)
    )
    head = data[:head_end]
    frame = next(iter(codec.Reader("1.2").feed(_without_length(head) + b"\n\n\0")), None)
    blank = 3 if data[head_end : head_end + 3] == b"\n\r\n" else 2
    body = data[head_end + blank :]
    if not isinstance(frame, codec.Frame):
        why = frame.reason if isinstance(frame, codec.Unreadable) else "no frame"
        return UNREADABLE, (("reason", why),), data, bare, size
    length = [part for part in head.split(b"\n") if part.startswith(b"content-length:")]
    headers = frame.headers
    if length:
        headers += (
            (
                "content-length",
                length[0].partition(b":")[2].strip(b"\r").decode("utf-8", "replace"),
            ),
        )
    return frame.command, headers, body, bare - head_end - blank, size


def _without_length(head: bytes) -> bytes:
    """Return the head without content-length, which is decoded separately."""
    return b"\n".join(part for part in head.split(b"\n") if not part.startswith(b"content-length:"))
