"""The same TCP segments in other link layers, IPv6, extension headers and fragments."""

from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.suites.units.drivers.captured_packets import (
    COOKED,
    COOKED2,
    LOOPBACK,
    RAW,
    Plan,
    Segment,
    events_of,
    frames,
    pcap,
    read,
    session,
    written,
)


@pytest.mark.parametrize("link", [COOKED, COOKED2, LOOPBACK, RAW])
def test_every_link_layer_tells_the_same(tmp_path: Path, link: int) -> None:
    segments = session(Plan()).segments
    usual = events_of(written(tmp_path / "usual.pcap", segments))
    assert events_of(written(tmp_path / "other.pcap", segments, link=link)) == usual


def test_over_ipv6_and_with_extension_headers(tmp_path: Path) -> None:
    def moved(segment: Segment) -> Segment:
        return replace(
            segment,
            source=(b"\xfd" + bytes(11) + segment.source[0], segment.source[1]),
            target=(b"\xfd" + bytes(11) + segment.target[0], segment.target[1]),
        )

    segments = [moved(segment) for segment in session(Plan()).segments]
    six = events_of(written(tmp_path / "six.pcap", segments))
    assert frames(six) == frames(read(session(Plan()).segments))
    extended = []
    for segment in segments:
        data = segment.encode()
        # A hop-by-hop header of eight bytes that pads.
        head, rest = data[:54], data[54:]
        size = int.from_bytes(head[18:20]) + 8
        extended.append(
            (
                segment.at,
                head[:18]
                + size.to_bytes(2)
                + b"\x00"
                + head[21:]
                + b"\x06\x00\x01\x04"
                + bytes(4)
                + rest,
            )
        )
    (tmp_path / "extended.pcap").write_bytes(pcap(extended))
    assert events_of(tmp_path / "extended.pcap") == six


def test_fragments_are_put_together(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    packets = []
    for number, segment in enumerate(segments):
        data = segment.encode()
        link, head, rest = data[:14], data[14:34], data[34:]
        if len(rest) <= 64:
            packets.append((segment.at, data))
            continue
        for offset in range(0, len(rest), 64):
            part = rest[offset : offset + 64]
            flag = 0x2000 if offset + 64 < len(rest) else 0
            packets.append(
                (
                    segment.at,
                    link + head[:2] + (20 + len(part)).to_bytes(2) + number.to_bytes(2)
                    + (flag | offset // 8).to_bytes(2) + head[8:] + part,
                )
            )  # fmt: skip
    (tmp_path / "x.pcap").write_bytes(pcap(packets))
    assert events_of(tmp_path / "x.pcap") == read(segments)
