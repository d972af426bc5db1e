"""Processor seconds and greatest resident size of turning captured packets into a trace.

    python benchmarks/capture_speed.py [--megabytes 32]

Two captures are made, one four times the other, of producers and consumers of STOMP: connections
one after the other, of messages of 64 and of 1,024 bytes. Each is read by a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

from brokerproof.harness.capture.conversion import Converter
from brokerproof.harness.capture.packet_order import Series
from brokerproof.harness.model.time import seconds
from brokerproof.suites.units.drivers.captured_packets import ETHERNET, Plan, Wire, pcap, session

SIZES = (64, 1024)


def make(path: Path, total: int, size: int) -> None:
    """A capture of about so many bytes."""
    unit = session(Plan(count=60, size=size), Wire())
    packets = [(segment, segment.encode(ETHERNET)) for segment in unit.segments]
    length = unit.now - unit.segments[0].at + seconds(1)
    with path.open("wb") as file:
        file.write(pcap([]))
        written, turn = 0, 0
        while written < total:
            # Another port each time, at its place in the Ethernet, IPv4 and TCP headers; nobody
            # checks sums here.
            some = []
            for segment, data in packets:
                at = 34 if segment.source[1] != 61613 else 36
                port = int.from_bytes(data[at : at + 2]) + 2 * turn
                some.append(
                    (
                        segment.at + turn * length,
                        data[:at] + (port % 20_000 + 40_000).to_bytes(2) + data[at + 2 :],
                    )
                )
            block = pcap(some)[24:]
            file.write(block)
            written, turn = written + len(block), turn + 1


def read(path: Path) -> None:
    """Read one capture and print what it took."""
    began = time.process_time()
    series, converter = Series([path]), Converter()
    count = sum(1 for _ in chain(converter.events(series), converter.finish(series.last)))
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"events": count, "seconds": took, "mebibytes": peak}))


def main() -> None:
    """Make the files, read them, print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=32)
    parser.add_argument("--read", type=Path)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read)
        return
    print("| body (bytes) | capture (MB) | events | CPU (s) | MB/s | events/s | memory (MiB) |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            for megabytes in (arguments.megabytes // 4, arguments.megabytes):
                path = Path(folder) / "x.pcap"
                make(path, megabytes * 1_000_000, size)
                output = subprocess.run(
                    [sys.executable, __file__, "--read", str(path)],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                judgement = json.loads(output)
                big, took = path.stat().st_size / 1e6, judgement["seconds"]
                print(
                    f"| {size} | {big:.0f} | {judgement['events']:,} | {took:.1f} |"
                    f" {big / took:.1f} |"
                    f" {judgement['events'] / took:,.0f} | {judgement['mebibytes']:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
