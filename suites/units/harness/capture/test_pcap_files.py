"""Capture files: pcap, pcapng, compressed, several in a row, truncated, and other files."""

import gzip
from pathlib import Path

import pytest

from brokerproof.harness.model.time import ms
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.suites.units.drivers.captured_packets import (
    Plan,
    events_of,
    frames,
    pcap,
    pcapng,
    read,
    session,
    written,
)


def test_tags_compression_and_pcapng_tell_the_same(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    usual = events_of(written(tmp_path / "usual.pcap", segments))
    (tmp_path / "tagged.pcap").write_bytes(
        pcap([(segment.at, segment.encode(tag=True)) for segment in segments])
    )
    (tmp_path / "small.pcap.gz").write_bytes(gzip.compress((tmp_path / "usual.pcap").read_bytes()))
    assert events_of(tmp_path / "tagged.pcap") == events_of(tmp_path / "small.pcap.gz") == usual
    # dpkt writes microseconds as a floating-point number.
    (tmp_path / "new.pcapng").write_bytes(
        pcapng([(segment.at, segment.encode()) for segment in segments])
    )
    again = events_of(tmp_path / "new.pcapng")
    assert frames(again) == frames(usual)
    assert max(abs(one.at_ns - other.at_ns) for one, other in zip(again, usual, strict=True)) < ms(
        1
    )


def test_a_connection_goes_on_in_the_next_file(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    whole = events_of(written(tmp_path / "whole.pcap", segments))
    parts = [
        written(tmp_path / f"{at}.pcap", segments[at::3][:0] or segments[at * 20 : at * 20 + 20])
        for at in range(9)
    ]
    assert events_of(*parts[::-1]) == whole


def test_what_is_no_capture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(b"hello")
    with pytest.raises(UnreadableTrace, match=r"x\.pcap: neither pcap nor pcapng"):
        events_of(tmp_path / "x.pcap")


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    data = written(tmp_path / "x.pcap", segments).read_bytes()
    (tmp_path / "x.pcap").write_bytes(data[:-10])
    assert frames(events_of(tmp_path / "x.pcap")) == frames(read(segments))
    (tmp_path / "x.pcap").write_bytes(data[:30])
    assert events_of(tmp_path / "x.pcap") == []
