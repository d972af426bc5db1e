"""How a file of records is written, and how one is read that may be damaged.

::

    mark (2) | number (4) | length (4) | crc (4) | payload (length octets)

``number`` counts the records of a file from 0; big-endian all. The crc is CRC-32 of the payload,
begun with a value that depends on number and length, so that it guards these too. A file may end
anywhere, since power may be lost at any moment, and any octet of it may have changed:

* What cannot be read is passed over up to the next record that can be: a place where mark, length
  and crc fit together. The numbers behind it tell how many records are missing.
* What cannot be read and has no good record behind it is the *tail*. Whether it was torn while it
  was being written or is a loss depends on what else is known of the file, and is for the reader to
  say.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

HEAD = struct.Struct(">HIII")
"""Octets in front of each payload."""
_MARK = 0xB7A6
_MARK_OCTETS = _MARK.to_bytes(2)
_MASK = 0xFFFF_FFFF
_SPREAD = 0x9E37_79B1


def frame(number: int, payload: bytes) -> bytes:
    """``payload`` (below 4 GiB) as record ``number`` (below 2^32) of its file."""
    length = len(payload)
    crc = zlib.crc32(payload, (number * _SPREAD ^ length) & _MASK)
    return HEAD.pack(_MARK, number, length, crc) + payload


@dataclass(slots=True)
class Scan:
    """What a file of these ``octets`` held.

    ``records`` are number, begin and end of the payload of each good record, in the order of the
    file; ``end`` is the octet behind the last of them; ``damages`` are begin and end of what had to
    be passed over before ``end``.
    """

    octets: bytes
    records: list[tuple[int, int, int]] = field(default_factory=list)
    end: int = 0
    damages: list[tuple[int, int]] = field(default_factory=list)

    def payloads(self) -> Iterator[tuple[int, bytes]]:
        """Number and payload of each good record."""
        for number, begin, end in self.records:
            yield number, self.octets[begin:end]


def scan(octets: bytes) -> Scan:
    """All good records of a file. Never raises."""
    found = Scan(octets)
    records, view = found.records, memoryview(octets)
    unpack, size, crc32 = HEAD.unpack_from, HEAD.size, zlib.crc32
    at, limit = 0, len(octets)
    damaged: int | None = None
    while at + size <= limit:
        mark, number, length, crc = unpack(octets, at)
        begin = at + size
        fits = mark == _MARK and begin + length <= limit
        if fits and crc32(view[begin : begin + length], (number * _SPREAD ^ length) & _MASK) == crc:
            if damaged is not None:
                found.damages.append((damaged, at))
                damaged = None
            at = begin + length
            records.append((number, begin, at))
            continue
        if damaged is None:
            damaged = at
        at = octets.find(_MARK_OCTETS, at + 1)
        if at < 0:
            break
    found.end = records[-1][2] if records else 0
    return found
