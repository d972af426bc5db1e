"""Time and memory that ``brokerproof judge`` needs for a large capture. This benchmark writes the
capture.

``python benchmarks/capture_scale.py [--size 1.2e9] [--body 16000] [--scratch DIR] [--json]``. Pairs
of a producer and a consumer, each with its own connection, speak STOMP; every message appears
twice, once in each direction. One message is not delivered, and the judge must find this loss. The
judge runs in its own process, whose process tree is watched (``judge_scale.py``). The capture is
removed at the end.
"""

import argparse
import json
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from judge_scale import watched

from brokerproof.harness.trace.stamp import stamp

PAIRS = 16
BEGAN_US = 1_790_000_000 * 10**6
STEP_US = 100
BROKER = (bytes((10, 0, 0, 1)), 61613)
SYN, ACK, PUSH = 2, 16, 8


@dataclass
class Line:
    """One connection. ``client`` is True if the client writes."""

    file: BinaryIO
    clock: Iterator[int]
    port: int

    def __post_init__(self) -> None:
        self._next = [1000, 2000]
        self._packet(True, SYN, b"", 1)
        self._packet(False, SYN | ACK, b"", 1)
        self._packet(True, ACK, b"", 0)

    def say(self, client: bool, data: bytes) -> None:
        """Write ``data`` as one packet, as if a network card had merged its segments."""
        self._packet(client, ACK | PUSH, data, len(data))

    def _packet(self, client: bool, flags: int, data: bytes, taken: int) -> None:
        ends = ((bytes((10, 0, 0, 2)), self.port), BROKER)
        (source, sport), (target, dport) = ends if client else ends[::-1]
        seq, ack = (self._next[0], self._next[1]) if client else (self._next[1], self._next[0])
        tcp = struct.pack(
            "!HHIIBBHHH", sport, dport, seq % 2**32, ack % 2**32, 5 << 4, flags, 65535, 0, 0
        )
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0, source, target)
        at, size = next(self.clock), 54 + len(data)
        self.file.write(struct.pack("<IIII", at // 10**6, at % 10**6, size, size))
        self.file.write(b"\x02" * 12 + b"\x08\x00" + ip + tcp + data)
        self._next[0 if client else 1] += taken


def frame(command: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [command, *(f"{name.replace('_', '-')}:{value}" for name, value in headers.items())]
    return "\n".join(lines).encode() + b"\n\n" + body + b"\x00"


def write(path: Path, size: int, body: int) -> int:
    """Write a capture of about ``size`` bytes, with bodies of ``body`` bytes; return the number of
    messages sent."""
    count = max(PAIRS * 4, size // (2 * body))
    lost = count // 2
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        clock = iter(range(BEGAN_US, BEGAN_US + 20 * (count + PAIRS) * STEP_US, STEP_US))
        lines = [Line(file, clock, 40_000 + number) for number in range(2 * PAIRS)]
        for number, line in enumerate(lines):
            line.say(True, frame("CONNECT", accept_version="1.2"))
            line.say(False, frame("CONNECTED", version="1.2"))
            if number >= PAIRS:
                line.say(
                    True,
                    frame("SUBSCRIBE", id="s", destination=f"/queue/{number - PAIRS}", ack="auto"),
                )
        filler = b"." * body
        for number in range(count):
            pair, of_pair = number % PAIRS, number // PAIRS
            text = (stamp(pair, of_pair) + filler)[:body]
            named = {"destination": f"/queue/{pair}", "content_length": str(len(text))}
            lines[pair].say(True, frame("SEND", text, **named, receipt=f"r{of_pair}"))
            lines[pair].say(False, frame("RECEIPT", receipt_id=f"r{of_pair}"))
            if number != lost:
                fields = {"subscription": "s", "message_id": f"m{number}"}
                lines[PAIRS + pair].say(False, frame("MESSAGE", text, **named, **fields))
    return count


_JUDGED = """
import json, sys
from click.testing import CliRunner
from brokerproof.reports.judge_command import judge

asked = [sys.argv[1], "--complete", "--json", "--master", "local[2]"]
said = json.loads(CliRunner().invoke(judge, asked, standalone_mode=False).stdout)
print(json.dumps({"found": {anomaly["kind"]: anomaly["count"] for anomaly in said["wrong"]}}))
"""


def main() -> None:
    """Print a line, or JSON; exit with 1 unless exactly the lost message was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", default="1.2e9", help="approximate size of the capture")
    parser.add_argument("--body", type=int, default=16_000, help="bytes of a message, up to 65,000")
    parser.add_argument(
        "--scratch", type=Path, help="folder to write it to; a temporary one by default"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="brokerproof-capture-", dir=asked.scratch) as folder:
        path = Path(folder) / "load.pcap"
        messages = write(path, int(float(asked.size)), asked.body)
        size = path.stat().st_size
        row = watched([sys.executable, "-c", _JUDGED, str(path)], Path(folder)) | {
            "octets": size,
            "messages": messages,
        }
    right = row["found"] == {"lost": 1}
    if asked.json:
        print(json.dumps({**row, "right": right}))
    else:
        print(
            f"{size / 2**30:.2f} GiB, {messages:,} messages: {row['seconds']:.1f} s,"
            f" {row['processor']:.1f} s of the processor, {row['memory'] / 10**6:,.0f} MB at most;"
            f" found {row['found']}"
        )
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
