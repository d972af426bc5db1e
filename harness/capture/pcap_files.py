"""Reads capture files: pcap (microseconds or nanoseconds, either byte order) and pcapng, plain or
gzipped.

Source: the IETF drafts draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. We parse containers
ourselves to get timestamps in whole nanoseconds, the lengths of truncated packets, and any number
of interfaces."""

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, cast

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.trace.read import UnreadableTrace

_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""The byte order, and the nanoseconds per unit of a timestamp's fraction."""
_SECTION = b"\x0a\x0d\x0d\x0a"
_GZIP = b"\x1f\x8b"
_BUFFER = 1 << 20
_LARGEST = 1 << 28
"""The maximum size of a packet or block in bytes. A longer one is treated as damaged."""
LATEST: Instant = (1 << 63) - 1
_INTERFACE, _PACKET, _SIMPLE, _ENHANCED = 1, 2, 3, 6
_RESOLUTION, _OFFSET = 9, 14
"""An interface's options for the resolution of timestamps and the seconds to add to them."""


class Captured(NamedTuple):
    """One packet: its instant of capture (ns since 1970), its link-layer type
    (https://www.tcpdump.org/linktypes.html), and the captured bytes."""

    at: Instant
    link: int
    data: bytes


@dataclass
class CaptureFile:
    """One capture file. Iterating over it reads it from the start; ``damage`` then states why
    reading stopped early."""

    path: Path
    damage: str = field(default="", init=False)

    def __iter__(self) -> Iterator[Captured]:
        """Yield the packets in file order. Raises :class:`UnreadableTrace` if the file is not a
        capture."""
        self.damage = ""
        try:
            with _opened(self.path) as file:
                magic = file.read(4)
                if magic in _PCAP:
                    yield from self._pcap(file, *_PCAP[magic])
                elif magic == _SECTION:
                    yield from self._pcapng(file)
                else:
                    raise UnreadableTrace(
                        f"{self.path}: neither pcap nor pcapng (it begins with {magic.hex()})"
                    )
        except BadInput as problem:
            raise UnreadableTrace(f"{self.path}: {problem}") from None
        except (OSError, EOFError, zlib.error) as problem:
            self.damage = f"{self.path}: cannot be read to its end ({problem})"

    def _pcap(self, file: IO[bytes], order: str, unit: int) -> Iterator[Captured]:
        head = file.read(20)
        if len(head) < 20:
            self.damage = f"{self.path}: ends within its header"
            return
        link = int(struct.unpack(order + "HHiIII", head)[5]) & 0xFFFF
        record = struct.Struct(order + "IIII")
        while len(head := file.read(16)) == 16:
            second, fraction, kept, _ = record.unpack(head)
            if kept > _LARGEST:
                self.damage = (
                    f"{self.path}: a packet says that it has {kept} bytes; what follows was not"
                    " read"
                )
                return
            data = file.read(kept)
            if len(data) < kept:
                break
            yield Captured(second * NS_PER_S + fraction * unit, link, data)
        else:
            if not head:
                return
        self.damage = f"{self.path}: ends in the middle of a packet"

    def _pcapng(self, file: IO[bytes]) -> Iterator[Captured]:
        order, interfaces, magic = "<", list[_Interface](), _SECTION
        while magic:
            head = file.read(4)
            if len(magic) < 4 or len(head) < 4:
                break
            rest = 0
            if magic == _SECTION:
                mark = file.read(4)
                order, interfaces, rest = ("<" if mark == b"\x4d\x3c\x2b\x1a" else ">"), [], 4
            kind, length = struct.unpack(order + "II", magic + head)
            if length < 12 + rest or length > _LARGEST or length % 4:
                self.damage = (
                    f"{self.path}: a block says that it has {length} bytes; what follows was not"
                    " read"
                )
                return
            block = file.read(length - 8 - rest)
            if len(block) < length - 8 - rest:
                break
            if magic != _SECTION:
                try:
                    captured = _block(kind, block[:-4], order, interfaces)
                except (struct.error, _BadBlock) as problem:
                    self.damage = (
                        f"{self.path}: the block of {length} bytes that ends at byte"
                        f" {file.tell()} is damaged ({problem}); what follows was not read"
                    )
                    return
                if captured is not None:
                    yield captured
            magic = file.read(4)
        else:
            return
        self.damage = f"{self.path}: ends in the middle of a block"


class _Interface(NamedTuple):
    link: int
    snap: int
    per_second: int
    offset: int

    def instant(self, high: int, low: int) -> Instant:
        return ((high << 32) | low) * NS_PER_S // self.per_second + self.offset * NS_PER_S


class _BadBlock(Exception):
    """A field of a block has an impossible value."""


def _block(kind: int, block: bytes, order: str, interfaces: list[_Interface]) -> Captured | None:
    if kind == _INTERFACE:
        link, _, snap = struct.unpack_from(order + "HHI", block)
        options = dict(_options(block[8:], order))
        resolution = options.get(_RESOLUTION, b"\x06")
        offset = options.get(_OFFSET)
        if len(resolution) != 1 or len(offset or bytes(8)) != 8:
            raise _BadBlock("one of its interface options has a wrong length")
        base = resolution[0]
        interfaces.append(
            _Interface(
                link,
                snap,
                1 << (base & 0x7F) if base & 0x80 else 10**base,
                (
                    0
                    if offset is None
                    else int.from_bytes(offset, "little" if order == "<" else "big", signed=True)
                ),
            )
        )
        return None
    if kind in (_ENHANCED, _PACKET):
        if kind == _ENHANCED:
            number, high, low, kept, _ = struct.unpack_from(order + "IIIII", block)
        else:
            number, _, high, low, kept, _ = struct.unpack_from(order + "HHIIII", block)
        if number >= len(interfaces):
            raise _BadBlock(f"it names interface {number}, but {len(interfaces)} are defined")
        if kept > len(block) - 20:
            raise _BadBlock(f"its packet has {kept} bytes, but the block only {len(block) - 20}")
        interface = interfaces[number]
        instant = interface.instant(high, low)
        if abs(instant) > LATEST:
            raise _BadBlock("its time stamp is beyond the year 2262")
        return Captured(instant, interface.link, block[20 : 20 + kept])
    # Packets without a timestamp (simple packet blocks) are ignored: their time is unknown.
    return None


def _options(block: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(block):
        code, length = struct.unpack_from(order + "HH", block, at)
        if code == 0:
            return
        yield code, block[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4


def _opened(path: Path) -> IO[bytes]:
    with os.fdopen(input_file.open_regular(path), "rb") as file:
        magic = file.read(2)
    return (
        cast(IO[bytes], gzip.open(path)) if magic == _GZIP else path.open("rb", buffering=_BUFFER)
    )


def is_capture(path: Path) -> bool:
    try:
        with _opened(path) as file:
            magic = file.read(4)
    except (BadInput, OSError, EOFError, zlib.error):
        return False
    return magic in _PCAP or magic == _SECTION
