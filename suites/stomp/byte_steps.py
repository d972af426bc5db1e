"""Byte-level access: the stream exactly as received, and writes split at any byte."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp import codec
from brokerproof.suites.api import Bench, Instant, ms
from brokerproof.suites.api.stomp import StompPeer


def tap(peer: StompPeer) -> bytearray:
    """Return everything that ``peer`` receives from now on; the buffer grows as data arrives."""
    received = bytearray()
    decode = peer.decode

    def both(at: Instant, data: bytes) -> None:
        received.extend(data)
        decode(at, data)

    peer.decode = both  # type: ignore[method-assign]
    return received


def length_in_words(value: str | None) -> str:
    return "no content-length" if value is None else f"content-length {value}"


@dataclass(frozen=True)
class RawFrame:
    """A server frame before unescaping: its lines without their line ends."""

    command: bytes
    lines: tuple[bytes, ...]
    body: bytes


def raw_frames(received: bytes | bytearray) -> Iterator[RawFrame]:
    """Split ``received`` into complete frames: line ends, head, empty line, body, NUL."""
    rest = bytes(received)
    while rest := rest.lstrip(b"\r\n"):
        ends = [(rest.find(blank), len(blank)) for blank in (b"\n\n", b"\n\r\n") if blank in rest]
        if not ends:
            return
        end, size = min(ends)
        head, rest = rest[:end], rest[end + size :]
        command, *lines = (line.removesuffix(b"\r") for line in head.split(b"\n"))
        length = next(
            (int(line[15:]) for line in lines if line.startswith(b"content-length:")),
            rest.find(b"\x00"),
        )
        if not 0 <= length < len(rest):
            return
        yield RawFrame(command, tuple(lines), rest[:length])
        rest = rest[length + 1 :]


def raw_line(name: str, value: str, version: str) -> bytes:
    """Return a header line as this version writes it, without its line end."""
    return f"{codec.escape(name, version)}:{codec.escape(value, version)}".encode()


def raw_frame(
    command: str, lines: Iterable[bytes], body: bytes = b"", *, eol: bytes = b"\n"
) -> bytes:
    """Return a frame whose lines are written unchanged."""
    return eol.join([command.encode(), *lines, b"", b""]) + body + b"\x00"


@dataclass(frozen=True)
class Cut:
    """Where a stream is cut: near the ``nth`` byte of a kind (modulo their number), or anywhere."""

    near: int | None
    nth: int
    offset: int

    def of(self, data: bytes) -> int:
        """Return the position in ``data``, between 0 and its length."""
        places = (
            range(len(data))
            if self.near is None
            else [i for i, byte in enumerate(data) if byte == self.near]
        )
        if not places:
            return 0
        return min(max(places[self.nth % len(places)] + self.offset, 0), len(data))


_DELIMITERS = (0x00, 0x0A, 0x0D, ord(":"), ord("\\"), 0xC3, None)
"""Cuts fall near these bytes, where parsers keep state; 0xC3 begins a two-byte character."""


def cuts(most: int = 8) -> st.SearchStrategy[tuple[Cut, ...]]:
    """Draw some cuts, most of them one byte before, at or after a delimiter."""
    one = st.builds(Cut, st.sampled_from(_DELIMITERS), st.integers(0, 2000), st.integers(-1, 2))
    return st.lists(one, max_size=most).map(tuple)


def write_in_pieces(target: Bench, peer: StompPeer, data: bytes, where: Iterable[Cut]) -> None:
    """Write ``data``, cut ``where``, with pauses so that the pieces arrive separately."""
    positions = sorted({0, len(data), *(cut.of(data) for cut in where)})
    for start, end in itertools.pairwise(positions):
        peer.write(data[start:end])
        target.advance(ms(1))


def write_byte_by_byte(target: Bench, peer: StompPeer, data: bytes) -> None:
    for byte in data:
        peer.write(bytes([byte]))
        target.advance(ms(1))
