"""Runs tcpdump on the loopback interface during a case, and compares the capture with the harness's
own recording."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from brokerproof.harness.capture.conversion import Converter, Recorded
from brokerproof.harness.capture.packet_order import Series
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import seconds
from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.oracles.expectations import Expectations, expectations_of
from brokerproof.harness.trace.events import ConnectionOpened, Event, FrameReceived, FrameSent
from brokerproof.reports.judging import amqp

KEEP = "BROKERPROOF_CAPTURES"
"""A folder for keeping captures, if the environment names one."""


@dataclass
class Capture:
    """A capture file, and the events of both recordings once the case's connections have ended."""

    path: Path
    live: list[Event] = field(default_factory=list)
    passive: list[Event] = field(default_factory=list)


@contextmanager
def captured(target: Bench, name: str, acceptor: str) -> Iterator[Capture]:
    """Capture the acceptor's traffic. The block must close every connection that it opens."""
    target.control(shutil.which("tcpdump") is not None, "tcpdump is installed")
    probe = target.peer(acceptor=acceptor)
    port = probe.channel.remote.rpartition(":")[2]
    probe.close_socket(CloseHow.EOF)
    began = len(target.events)
    with tempfile.TemporaryDirectory() as folder:
        kept = os.environ.get(KEEP)
        capture = Capture(Path(kept or folder) / f"{name}-{target.target.identity.name}.pcap")
        with _tcpdump(capture.path, port):
            yield capture
            capture.live = [event for event in target.events[began:] if event.conn is not None]
            opened = sum(isinstance(event, ConnectionOpened) for event in capture.live)

            def whole() -> bool:
                capture.passive = events(capture.path)
                return sum(type(event).__name__ in _ENDS for event in capture.passive) >= opened

            target.control(
                target.wait_until(whole, seconds(10)),
                f"{opened} connections begin and end in the capture",
            )


_ENDS = ("ConnectionClosed", "ConnectionAbandoned")


@contextmanager
def _tcpdump(path: Path, port: str) -> Iterator[None]:
    command = [
        "tcpdump",
        "-i",
        "lo",
        "--immediate-mode",
        "-U",
        "-s",
        "0",
        "-Z",
        "root",
        "-w",
        str(path),
        f"tcp port {port}",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listening on" in line:
                break
        else:
            raise AssertionError(f"tcpdump did not start; it needs root: {' '.join(command)}")
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def events(*paths: Path) -> list[Event]:
    series, converter = Series(list(paths)), Converter()
    return [
        recorded.event for recorded in chain(converter.events(series), _rest(converter, series))
    ]


def _rest(converter: Converter, series: Series) -> Iterator[Recorded]:
    yield from converter.finish(series.last)


def spoken(recorded: Sequence[Event]) -> list[list[tuple[object, ...]]]:
    """Return the frames of each side of each connection, with the connections in the order in which
    they were opened."""
    by_connection: dict[int, list[tuple[object, ...]]] = {}
    for event in recorded:
        if event.conn is not None and isinstance(event, (FrameSent, FrameReceived)):
            words = (
                type(event).__name__,
                event.protocol,
                event.command,
                event.headers,
                event.body,
                event.body_size,
            )
            by_connection.setdefault(event.conn, []).append(words)
    # Two frames that cross may be seen in a different order elsewhere.
    return [
        sorted(by_connection[conn], key=lambda entry: str(entry[0]))
        for conn in sorted(by_connection)
    ]


def verdicts(recorded: Sequence[Event], held_against: Expectations) -> list[tuple[str, bool]]:
    """Return the anomalies, each with its uncertainty."""
    anomalies = [*recorded_anomalies.find_anomalies(recorded, held_against)]
    for life in connection_lifetimes.lifetimes(recorded).values():
        anomalies += connection_lifetimes.find_anomalies(life, held_against)
    amqp_lines = {
        event.conn for event in recorded if getattr(event, "protocol", "") in ("AMQP", "AMQP091")
    }
    for conn in sorted(amqp_line for amqp_line in amqp_lines if amqp_line is not None):
        own = [event for event in recorded if event.conn == conn]
        anomalies += [wrong for wrong, _ in amqp.connection_anomalies(own, conn)]
    return sorted((anomaly.kind, anomaly.uncertain) for anomaly in anomalies)


def told(recorded: Sequence[Event], held_against: Expectations) -> dict[str, object]:
    """Return a summary of a recording and its judgement, to compare later with a kept capture."""
    frames = [
        [
            [str(kind).removeprefix("Frame"), protocol, command, size]
            for kind, protocol, command, _, _, size in connection
        ]
        for connection in spoken(recorded)
    ]
    return {
        "profile": held_against.name,
        "frames": frames,
        "verdicts": [list(verdict) for verdict in verdicts(recorded, held_against)],
    }


def keep(capture: Capture, held_against: Expectations) -> None:
    """Write the harness's recording next to the kept capture."""
    if os.environ.get(KEEP):
        text = json.dumps(told(capture.live, held_against))
        capture.path.with_suffix(".json").write_text(text + "\n", "utf-8")


def of_family(target: Bench) -> Expectations:
    return expectations_of(target.profile.name, target.profile.parameters)
