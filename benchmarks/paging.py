"""Millions of messages through page files: ``python benchmarks/paging.py``.

For each depth a broker of its own gets that many messages of 1 KiB on one queue whose address pages
from 10 MiB on, and then one consumer takes all of them and looks at their order. Rates are beside
what the same disk does in the same run when one file is written with an fsync at its end and read
again. Memory is that of the broker's process, looked at ten times a second.

``--durable`` sends persistent messages to brokers that keep a journal; ``--depths``, ``--size``
and ``--no-artemis`` make it smaller; ``--json`` prints one JSON object. ``--activemq`` looks at the
reference broker of the other kind instead, whose queues have 4 MiB of memory: what is not
persistent is spooled, and with ``--durable`` it is left in the store.
"""

import argparse
import json
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from brokers import Broker, Memory, Place, cpu_s, started_reference

from brokerproof.harness.targets.artemis.broker import ArtemisProcess
from brokerproof.harness.targets.failure import SetUpFailed

DEPTHS = (10_000, 100_000, 1_000_000, 5_000_000)
ARTEMIS_MOST = 1_000_000
"""The largest depth that Artemis is asked for too."""
AT_ONCE = 64
STUCK_S = 300
MIB = 1024 * 1024
CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>paging</name><persistence-enabled>true</persistence-enabled><security-enabled>false</security-enabled>
<journal-type>NIO</journal-type><paging-directory>{data}/paging</paging-directory>
<journal-directory>{data}/journal</journal-directory><bindings-directory>{data}/bindings</bindings-directory>
<large-messages-directory>{data}/large</large-messages-directory>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:0?protocols=STOMP;connectionTtl=36000000</acceptor></acceptors>
<address-settings><address-setting match="#"><max-size-bytes>10M</max-size-bytes><page-size-bytes>10M</page-size-bytes>
<address-full-policy>PAGE</address-full-policy></address-setting></address-settings></core></configuration>
"""  # noqa: E501
ACTIVEMQ = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="paging">
<destinationPolicy><policyMap><policyEntries><policyEntry queue=">" memoryLimit="4mb"/></policyEntries></policyMap>
</destinationPolicy>
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:0"/></transportConnectors></broker>
"""  # noqa: E501
ADDRESS, QUEUE = b"destination:deep\ndestination-type:ANYCAST\n", b"destination:/queue/deep\n"
"""Headers that name the place, in the words of either family."""


@dataclass
class Figures:
    """One depth on one broker. Seconds, MiB, microseconds of the broker's processor time per
    message."""

    broker: str
    depth: int
    size: int
    in_s: float
    out_s: float
    in_cpu_us: float
    out_cpu_us: float
    before_mib: float
    most_in_mib: float
    most_out_mib: float
    pages_mib: float
    misplaced: int


class Peer:
    """A STOMP session; frames are told apart by their NULs, which no body has."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), STUCK_S)
        self._rest = b""
        self.say(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        self.read()

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> list[bytes]:
        """At least one whole frame."""
        frames: list[bytes] = []
        while not frames:
            data = self.socket.recv(MIB)
            if not data:
                raise SystemExit("the broker closed the connection")
            *frames, self._rest = (self._rest + data).split(b"\0")
        return frames

    def close(self) -> None:
        self.socket.close()


def fill(port: int, to: bytes, depth: int, size: int, durable: bool) -> float:
    """Seconds until the receipt of the last message."""
    peer = Peer(port)
    kept = b"persistent:true\n" if durable else b""
    head = b"SEND\n%b%bcontent-length:%d\n" % (to, kept, size)
    rest = b"x" * (size - 8)
    began = time.perf_counter()
    for start in range(0, depth, AT_ONCE):
        numbers = range(start, min(depth, start + AT_ONCE))
        last = b"receipt:last\n" if numbers[-1] == depth - 1 else b""
        frames = [b"%b\n%08d%b\0" % (head, number, rest) for number in numbers[:-1]]
        peer.say(b"".join((*frames, b"%b%b\n%08d%b\0" % (head, last, numbers[-1], rest))))
    answer = peer.read()[0]
    if not answer.lstrip(b"\n").startswith(b"RECEIPT"):
        raise SystemExit(f"no receipt, but {answer[:200]!r}")
    took = time.perf_counter() - began
    peer.close()
    return took


def drain(port: int, to: bytes, depth: int, size: int) -> tuple[float, int]:
    """Seconds until as many messages as went in have arrived, and how many of them did not come
    right behind the one before."""
    peer = Peer(port)
    began = time.perf_counter()
    where = to.replace(b"destination-type", b"subscription-type")
    peer.say(b"SUBSCRIBE\nid:0\n%back:auto\n\n\0" % where)
    arrived, due, misplaced = 0, 0, 0
    while arrived < depth:
        for frame in peer.read():
            if not frame.lstrip(b"\n").startswith(b"MESSAGE"):
                raise SystemExit(f"no message, but {frame[:200]!r}")
            number = int(frame[-size:][:8])
            misplaced += number != due
            arrived, due = arrived + 1, number + 1
    took = time.perf_counter() - began
    peer.close()
    return took, misplaced


def disk(folder: Path, length: int) -> tuple[float, float]:
    """MiB a second that one file is written with, fsync included, and read with, not from
    memory."""
    path, chunk = folder / "sequential", os.urandom(MIB) * 4
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(max(1, length // len(chunk))):
            file.write(chunk)
        os.fdatasync(file.fileno())
        written = time.perf_counter() - began
    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        while file.read(len(chunk)):
            pass
        read = time.perf_counter() - began
    path.unlink()
    return size / MIB / written, size / MIB / read


@contextmanager
def reference(folder: Path, durable: bool) -> Iterator[Broker]:
    """The reference broker. Without ``durable`` it has no journal, only pages."""
    text = CONFIGURATION.format(data="data")
    config = folder / "broker.xml"
    config.write_text(text if durable else text.replace("enabled>true", "enabled>false"))
    with ExitStack() as stack:
        ready = started_reference(
            Place(stack, folder), "--config", str(config), "--data", str(folder)
        )
        yield Broker("reference", ready["version"], ready["pid"], ready["stomp"])


@contextmanager
def artemis(folder: Path, durable: bool) -> Iterator[Broker]:
    """A real Artemis with the same address settings."""
    config = folder / "artemis.xml"
    config.write_text(CONFIGURATION.format(data="data"))
    with ArtemisProcess(config, None, folder / "instance") as running:
        yield Broker("Artemis", running.version, running.pid, running.ports["stomp"])


@contextmanager
def activemq(folder: Path, durable: bool) -> Iterator[Broker]:
    """The reference broker of ActiveMQ's kind, with ``--data`` if ``durable``."""
    config = folder / "activemq.xml"
    config.write_text(ACTIVEMQ)
    data = ("--data", str(folder)) if durable else ()
    with ExitStack() as stack:
        ready = started_reference(
            Place(stack, folder), "--profile", "activemq", "--config", str(config), *data
        )
        yield Broker("as ActiveMQ", ready["version"], ready["pid"], ready["stomp"])


def one(broker: Broker, to: bytes, folder: Path, depth: int, size: int, durable: bool) -> Figures:
    memory = Memory(broker.pid, every_s=0.1)
    cpu = cpu_s(broker.pid)
    in_s = fill(broker.port, to, depth, size, durable)
    in_cpu, most_in = cpu_s(broker.pid) - cpu, memory.most()
    pages = sum(path.stat().st_size for path in folder.rglob("*.page")) / MIB
    cpu = cpu_s(broker.pid)
    out_s, misplaced = drain(broker.port, to, depth, size)
    out_cpu, most_out = cpu_s(broker.pid) - cpu, memory.most()
    memory.end()
    per = 1e6 / depth
    of = f"{broker.name} {broker.version}", depth, size
    spent = in_s, out_s, in_cpu * per, out_cpu * per
    return Figures(*of, *spent, memory.before, most_in, most_out, pages, misplaced)


def _line(run: Figures, write: float, read: float) -> str:
    volume = run.depth * run.size / MIB
    into, out = volume / run.in_s, volume / run.out_s
    return (
        f"{run.broker:20} {run.depth:>9,} | in {run.depth / run.in_s:>7,.0f}/s {into:6.1f}"
        f" MiB/s ({into / write:4.0%} of the disk) {run.in_cpu_us:5.1f} us | out"
        f" {run.depth / run.out_s:>7,.0f}/s {out:6.1f} MiB/s ({out / read:4.0%})"
        f" {run.out_cpu_us:5.1f} us | memory {run.before_mib:4.0f}, in {run.most_in_mib:4.0f},"
        f" out {run.most_out_mib:4.0f} MiB | pages {run.pages_mib:6.0f} MiB"
        + (f" | {run.misplaced} OUT OF ORDER" if run.misplaced else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--depths", type=int, nargs="+", default=list(DEPTHS), metavar="N")
    parser.add_argument("--size", type=int, default=1024, help="of a body, from 8")
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--no-artemis", action="store_true")
    parser.add_argument("--activemq", action="store_true", help="the reference as ActiveMQ, alone")
    parser.add_argument("--artemis-most", type=int, default=ARTEMIS_MOST, help="its largest depth")
    parser.add_argument("--folder", type=Path, help="for the files, on the disk that is meant")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="brokerproof-paging-", dir=options.folder) as scratch:
        write, read = disk(Path(scratch), MIB * 1024)
        out = sys.stderr if options.json else sys.stdout
        print(f"{platform.platform()}, {os.cpu_count()} processors", file=out)
        print(
            f"disk: {write:,.0f} MiB/s written in one file with an fsync at its end, {read:,.0f}"
            " MiB/s read",
            file=out,
        )
        makers = [activemq] if options.activemq else [reference, artemis]
        if options.no_artemis:
            del makers[1:]
        to = QUEUE if options.activemq else ADDRESS
        for depth in options.depths:
            for make in makers:
                if make is artemis and depth > options.artemis_most:
                    continue
                folder = Path(scratch) / f"{make.__name__}-{depth}"
                folder.mkdir()
                try:
                    with make(folder, options.durable) as broker:
                        figures.append(
                            one(broker, to, folder, depth, options.size, options.durable)
                        )
                except SetUpFailed as problem:
                    print(f"{make.__name__}: {problem}", file=out, flush=True)
                    continue
                print(_line(figures[-1], write, read), file=out, flush=True)
    if options.json:
        rows = [asdict(figure) for figure in figures]
        print(json.dumps({"write_mib_s": write, "read_mib_s": read, "figures": rows}))
    if any(figure.misplaced for figure in figures if figure.broker.startswith("reference")):
        sys.exit("the reference broker delivered messages out of order")


if __name__ == "__main__":
    main()
