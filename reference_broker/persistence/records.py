"""Files of records: how they are written, and how a possibly damaged one is read.

::

mark (2) | number (4) | length (4) | crc (4) | payload (length bytes)

All numbers are big-endian. ``number`` counts the records of a file from 0. Record 0 is the *head*:
it names the format and the file itself (the path below the data folder, which contains kind,
address and number), and has details of some kinds of files. The crc is CRC-32 of the payload, with
an initial value that depends on number and length and, except for the head, on the path. So no
record is accepted at another place or in another file.

A file may end anywhere, since power may fail at any moment, and any of its bytes may have changed:

* Unreadable bytes are skipped up to the next readable record. The numbers of the surrounding
  records show which records are missing.
* Unreadable bytes without a good record after them are the *tail*. The caller decides from the
  journal whether the tail is an unfinished write or a loss.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

FORMAT = 2
"""The format of all files. In format 1, a record's crc did not depend on its file, and large bodies
had no crc."""
HEAD = struct.Struct(">HIII")
"""The bytes in front of each payload."""
_MARK = 0xB7A6
_MARK_BYTES = _MARK.to_bytes(2)
_MASK = 0xFFFF_FFFF
_SPREAD = 0x9E37_79B1
_MAGIC = b"brokerproof\0"
_IDENTITY = struct.Struct(">HH")
_TEXT = ("utf-8", "surrogatepass")


class OtherFormat(Exception):
    """A file of another version of the broker."""


class Gap(NamedTuple):
    """The records from ``first`` up to, but not including, ``next`` are damaged or missing between
    the bytes ``begin`` and ``end``."""

    begin: int
    end: int
    first: int
    next: int


def seed(path: str) -> int:
    """Return the initial value for the crc of every record of the file ``path``."""
    return zlib.crc32(path.encode(*_TEXT))


def frame(number: int, payload: bytes, seed: int) -> bytes:
    """Return ``payload`` (under 4 GiB) as record ``number`` (1 to 2^32 - 1) of that seed's file."""
    return frame_head(number, payload, seed) + payload


def frame_head(number: int, payload: bytes | memoryview, seed: int) -> bytes:
    """Return the bytes that precede ``payload``."""
    length = len(payload)
    crc = zlib.crc32(payload, (number * _SPREAD ^ length ^ seed) & _MASK)
    return HEAD.pack(_MARK, number, length, crc)


def payload_at(data: bytes, at: int, number: int, seed: int) -> bytes | None:
    """Return the payload of record ``number``, which begins at ``at``; None if the record is
    missing or damaged."""
    if at + HEAD.size > len(data):
        return None
    mark, here, length, crc = HEAD.unpack_from(data, at)
    payload = data[at + HEAD.size : at + HEAD.size + length]
    if mark != _MARK or here != number or len(payload) != length:
        return None
    start = (number * _SPREAD ^ length ^ seed) & _MASK
    return payload if zlib.crc32(payload, start) == crc else None


def head(path: str, detail: bytes = b"") -> bytes:
    """Return record 0 of the file ``path``; readers find ``detail`` in it."""
    name = path.encode(*_TEXT)
    return frame(0, b"".join((_MAGIC, _IDENTITY.pack(FORMAT, len(name)), name, detail)), 0)


@dataclass(slots=True)
class Scan:
    """The good records of a file with these ``data``.

    ``records`` has the number, begin and end of the payload of each good record but the head, in
    order; ``end`` is the byte after the last good record, and ``next`` is the number that would
    follow; ``gaps`` were skipped before ``end``. ``detail`` is the head's, or None if the head is
    unreadable. ``other`` is the path in the head if it is another file's; in that case there are no
    records.
    """

    data: bytes
    records: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    next: int = 0
    gaps: list[Gap] = field(default_factory=list)
    detail: bytes | None = None
    other: str | None = None

    def payloads(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number and payload of each good record but the head."""
        for number, begin, end in self.records:
            yield number, self.data[begin:end]


def scan(data: bytes, path: str) -> Scan:
    """Return all good records of the file ``path``. Raises :class:`OtherFormat`."""
    scanned = Scan(data)
    own = seed(path)
    view, limit, size = memoryview(data), len(data), HEAD.size
    unpack, crc32 = HEAD.unpack_from, zlib.crc32

    def end_of(at: int) -> int:
        """Return the end of the good record that begins at ``at``; 0 if there is none."""
        if at + size > limit:
            return 0
        mark, number, length, crc = unpack(data, at)
        end: int = at + size + length
        # Zeros after a mark would be an empty head with a correct crc. No head is empty.
        if mark != _MARK or end > limit or not (number or length):
            return 0
        start = number * _SPREAD ^ length ^ (own if number else 0)
        return end if crc32(view[at + size : end], start & _MASK) == crc else 0

    at = 0
    bad: int | None = None
    while at + size <= limit:
        end = end_of(at)
        number = int(unpack(data, at)[1])
        if end and number >= scanned.next:
            if bad is not None or number > scanned.next:
                scanned.gaps.append(Gap(at if bad is None else bad, at, scanned.next, number))
                bad = None
            if number == 0:
                scanned.detail, scanned.other = _identity(data[at + size : end], path)
                if scanned.other is not None:
                    return scanned
            else:
                scanned.records.append((number, at + size, end))
            scanned.next, scanned.end, at = number + 1, end, end
            continue
        if bad is None:
            bad = at
        # If only the payload of a record is damaged, the record is skipped as a whole, because a
        # payload may contain what looks like a record. If its length is damaged, nothing is known:
        # a record that begins there must have the next number.
        behind = end or at + size + int(unpack(data, at)[2])
        if end or (end_of(behind) and int(unpack(data, behind)[1]) - 1 in (number, scanned.next)):
            at = behind
            continue
        at = data.find(_MARK_BYTES, at + 1)
        if at < 0:
            break
    return scanned


def _identity(payload: bytes, path: str) -> tuple[bytes, str | None]:
    """Return the detail in a head, and the path if it differs from ``path``."""
    written, length = 1, 0
    if payload.startswith(_MAGIC):
        written, length = _IDENTITY.unpack_from(payload, len(_MAGIC))
    if written != FORMAT:
        raise OtherFormat(
            f"{path}: has format {written}, and this broker reads format {FORMAT}; empty the queues"
            " with the broker that wrote it, or name another folder"
        )
    begin = len(_MAGIC) + _IDENTITY.size
    name = payload[begin : begin + length].decode(*_TEXT)
    return payload[begin + length :], None if name == path else name
