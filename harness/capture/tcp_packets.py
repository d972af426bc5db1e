"""Reads the TCP fields of captured packets.

Common packets (Ethernet, Linux cooked, loopback, raw IP; IPv4 or IPv6 directly followed by TCP) are
read with two ``struct`` calls: a capture has millions of them, and every task reads them all.
Measured: 4 µs per packet, against 46 µs with an object for each layer. dpkt reads packets with
other headers before TCP (VLAN tags, IPv6 extension headers, PPP …)."""

import socket
import struct
import zlib
from collections import OrderedDict
from typing import NamedTuple, TypeAlias

import dpkt

from brokerproof.harness.capture.pcap_files import Captured
from brokerproof.harness.model.time import Instant

Endpoint: TypeAlias = tuple[bytes, int]
"""An address (4 or 16 bytes) and a port."""

FIN, SYN, RST, ACK = 1, 2, 4, 16

_NULL, _ETHERNET, _RAW, _LOOP, _SLL, _SLL2, _IPV4, _IPV6 = (
    0,
    1,
    (12, 14, 101),
    108,
    113,
    276,
    228,
    229,
)
_INTERNET = (b"\x08\x00", b"\x86\xdd")
_TCP = 6
_UNBROKEN = (b"\x40\x00", b"\x00\x00")
"""The flags and offset of an unfragmented packet."""
_IP4 = struct.Struct("!BBHHHBBH4s4s")
_IP6 = struct.Struct("!IHBB16s16s")
_SEGMENT = struct.Struct("!HHIIBB")
_MOST_FRAGMENTS = 1024
"""The maximum number of incomplete packets kept. Beyond that, the oldest are dropped."""


class Packet(NamedTuple):
    """One TCP segment. The capture truncated ``cut`` bytes at the end of its payload."""

    at: Instant
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int
    flags: int
    payload: bytes
    cut: int = 0


class Packets:
    """Reads packets. IPv4 fragments are reassembled if they arrive close together."""

    def __init__(self) -> None:
        self._fragments: OrderedDict[tuple[bytes, bytes, int], dict[int, tuple[bytes, bool]]] = (
            OrderedDict()
        )
        self.passed_over = 0
        """The number of packets that are not TCP or are too short."""

    def read(self, captured: Captured) -> Packet | None:
        at, link, data = captured
        start = _begin(link, data)
        packet = _unusual(at, link, data) if start is None else self._internet(at, data, start)
        self.passed_over += packet is None
        return packet

    def _internet(self, at: Instant, data: bytes, start: int) -> Packet | None:
        if len(data) < start + 20:
            return None
        version = data[start] >> 4
        if version == 4:
            head, _, length, number, part, _, protocol, _, source, target = _IP4.unpack_from(
                data, start
            )
            if protocol != _TCP:
                return None
            behind = start + (head & 15) * 4
            # A length of 0 means segmentation offload: the segment ends with the packet.
            end = start + length if length else len(data)
            if part & 0x3FFF:
                whole = self._whole((source, target, number), part, data[behind:end], end - behind)
                return None if whole is None else _segment(at, source, target, whole, 0, len(whole))
            return _segment(at, source, target, data, behind, end)
        if version != 6 or len(data) < start + 40:
            return None
        _, length, following, _, source, target = _IP6.unpack_from(data, start)
        behind = start + 40
        end = behind + length if length else len(data)
        if following != _TCP:
            return _unusual(at, _IPV6, data[start:])
        return _segment(at, source, target, data, behind, end)

    def _whole(
        self, key: tuple[bytes, bytes, int], part: int, data: bytes, size: int
    ) -> bytes | None:
        """Return the payload of a packet once all its fragments have arrived. It is never complete
        if the capture truncated one."""
        if len(data) < size:
            return None
        parts = self._fragments.setdefault(key, {})
        parts[(part & 0x1FFF) * 8] = data, bool(part & 0x2000)
        if len(self._fragments) > _MOST_FRAGMENTS:
            self._fragments.popitem(last=False)
        whole = b""
        for offset, (piece, more) in sorted(parts.items()):
            if offset > len(whole):
                return None
            whole = whole[:offset] + piece
            if not more:
                del self._fragments[key]
                return whole
        return None


def _begin(link: int, data: bytes) -> int | None:
    """Return the offset of the IP header; None if another header precedes it."""
    if link == _ETHERNET:
        kind, start = data[12:14], 14
    elif link == _SLL:
        kind, start = data[14:16], 16
    elif link == _SLL2:
        kind, start = data[0:2], 20
    elif link in (_NULL, _LOOP):
        return 4
    elif link in (*_RAW, _IPV4, _IPV6):
        return 0
    else:
        return None
    return start if kind in _INTERNET else None


_LAYERS = {_ETHERNET: dpkt.ethernet.Ethernet, _SLL: dpkt.sll.SLL, _SLL2: dpkt.sll2.SLL2}


def _unusual(at: Instant, link: int, data: bytes) -> Packet | None:
    """Return the packet that dpkt finds after VLAN tags, labels, tunnels and extension headers.
    ``link`` may also denote bare IPv6, without a link-layer header."""
    try:
        layer = dpkt.ip6.IP6(data) if link == _IPV6 else _LAYERS[link](data)
        while isinstance(layer, dpkt.Packet) and not isinstance(layer, (dpkt.ip.IP, dpkt.ip6.IP6)):
            layer = layer.data
    except (dpkt.Error, struct.error, IndexError, ValueError, KeyError):
        return None
    tcp = getattr(layer, "data", None)
    if not isinstance(tcp, dpkt.tcp.TCP):
        return None
    if isinstance(layer, dpkt.ip.IP):
        size = layer.len - layer.hl * 4
    else:
        size = layer.plen - sum(len(header) for header in layer.all_extension_headers)
    payload = bytes(tcp.data)
    cut = max(0, size - tcp.off * 4 - len(payload))
    return Packet(
        at,
        (layer.src, tcp.sport),
        (layer.dst, tcp.dport),
        tcp.seq,
        tcp.ack,
        tcp.flags,
        payload,
        cut,
    )


def _segment(
    at: Instant, source: bytes, target: bytes, data: bytes, start: int, end: int
) -> Packet | None:
    if len(data) < start + 14:
        return None
    here, there, seq, ack, offset, flags = _SEGMENT.unpack_from(data, start)
    begin = start + (offset >> 4) * 4
    if begin > end:
        return None
    payload = data[begin:end]
    return Packet(
        at, (source, here), (target, there), seq, ack, flags, payload, end - begin - len(payload)
    )


def part_of(packet: Packet, parts: int) -> int:
    """Return the part of a capture to which a packet belongs; both directions of a connection
    belong to the same part."""
    one, other = (address + port.to_bytes(2) for address, port in (packet.source, packet.target))
    return zlib.crc32(min(one, other) + max(one, other)) % parts


def glanced_at(captured: Captured, parts: int) -> int | None:
    """Like :func:`part_of`, but without parsing and only for common packets; None for others."""
    data = captured.data
    at = _begin(captured.link, data)
    if at is None or data[at : at + 1] != b"\x45" or data[at + 6 : at + 8] not in _UNBROKEN:
        return None
    one, other = (
        data[at + 12 : at + 16] + data[at + 20 : at + 22],
        data[at + 16 : at + 20] + data[at + 22 : at + 24],
    )
    return zlib.crc32(min(one, other) + max(one, other)) % parts


def text(endpoint: Endpoint) -> str:
    address, port = endpoint
    if len(address) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, address)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, address)}]:{port}"
