"""The conductor: assigns parts of a plan to drivers, starts and ends them together, and sums their
reports."""

import secrets
import socket
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from brokerproof.harness.load import clocks
from brokerproof.harness.load.control_channel import ControlConnection, ControlListener
from brokerproof.harness.load.latencies import Latencies
from brokerproof.harness.load.plan import Plan
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary

COME_WITHIN: Duration = 300 * NS_PER_S
"""How long drivers may take to connect to the conductor, and then to open their connections."""
LONG: Instant = 2**62
"""No time limit: scribes convert the rest of the wire logs to segments, which may take as long as
the load."""
SETTLE: Duration = NS_PER_S
"""If nothing arrives for this long, nothing more is expected."""
FIRST = 1_000_000
"""The number of connection numbers reserved for each driver."""
_NUMBERS = (
    *(
        "sent",
        "sent_octets",
        "confirmed",
        "refused",
        "received",
        "received_octets",
        "settled",
        "redelivered",
    ),
    *("connections", "left", "waiting", "up", "credit", "held"),
)


class LoadFailed(Exception):
    """The load could not begin, or a driver was lost. The message is one sentence."""


class Drivers(Protocol):
    """A source of drivers: processes on this machine, or tasks of a cluster."""

    def host(self) -> str:
        """Return the address at which drivers reach this machine."""

    def start(self, address: str, token: str, drivers: int) -> None: ...

    def problem(self) -> str:
        """Return why a driver did not start or was lost; empty if unknown."""

    def stop(self) -> None:
        """End the drivers, and wait until they have ended."""


@dataclass(frozen=True)
class Terms:
    """Terms common to all drivers. ``record`` is where the trace writers write, or None."""

    endpoints: Mapping[str, tuple[str, int]]
    tls: Mapping[str, Mapping[str, Any]]
    record: Mapping[str, Any] | None


@dataclass
class Progress:
    """The sum of all drivers' latest reports. ``at`` and ``since`` are on the conductor's clock."""

    since: Instant
    at: Instant = 0
    numbers: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    delivery: Latencies = field(default_factory=Latencies)
    producing: bool = True
    ending: bool = False


@dataclass
class LoadOutcome:
    """A finished load. ``start_cpu_s`` is the drivers' processor time until they were connected,
    ``cpu_s`` that since then; ``scribes`` has each scribe's report. Instants are on our clock."""

    progress: Progress
    sent_until: Instant
    received_until: Instant
    delivery: Latencies
    confirmation: Latencies
    cpu_s: float
    start_cpu_s: float
    scribes: list[Mapping[str, Any]]
    clocks: list[Mapping[str, Any]]
    canary: tuple[Duration, Duration]


@dataclass(eq=False)
class _Seat:
    """The conductor's view of one driver."""

    number: int
    wire: ControlConnection
    host: str = ""
    same: bool = False
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    ready: bool = False
    failed: str = ""
    progress: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None


class Conductor:
    """Runs one load. As a context manager, it ends everything that it started."""

    def __init__(self, parts: Sequence[Plan], terms: Terms, crew: Drivers) -> None:
        self.world = RealWorld({}, Canary())
        self._parts, self._terms, self._crew = parts, terms, crew
        self._seats: list[_Seat] = []
        self._token = secrets.token_hex(16)
        self._door: ControlListener | None = None
        self.progress = Progress(0)

    def __enter__(self) -> Self:
        host = self._crew.host()
        self._door = ControlListener(self.world, host, self._on_connection)
        self._crew.start(f"{host}:{self._door.port}", self._token, len(self._parts))
        return self

    def __exit__(self, *_: object) -> None:
        for seat in self._seats:
            seat.wire.say(leave=True)
        self.world.close()
        self._crew.stop()

    # phases

    def begin(self) -> None:
        """Wait until all drivers are connected, then let them produce. Raises
        :class:`LoadFailed`."""
        deadline = self.world.now() + COME_WITHIN
        everybody = len(self._parts)
        self._wait(
            lambda: len(self._seats) == everybody and all(seat.ready for seat in self._seats),
            deadline,
        )
        if not all(seat.ready for seat in self._seats) or len(self._seats) < everybody:
            came = sum(seat.ready for seat in self._seats)
            raise LoadFailed(
                f"only {came} of {everybody} drivers were ready within {COME_WITHIN // NS_PER_S} s"
            )
        self.progress.since = go = self.world.now() + 50 * NS_PER_MS
        for seat in self._seats:
            seat.wire.say(
                go=go - (0 if seat.same or seat.before is None else seat.before["offset"])
            )

    def run(self, lasts: Duration | None, watch: Callable[[Progress], bool]) -> None:
        """Wait until everything is sent, ``lasts`` has passed, or ``watch``, which is called
        periodically, returns True."""
        begun = self.progress.since
        deadline = begun + (lasts if lasts is not None else 10**6 * NS_PER_S)
        stopped = False

        def over() -> bool:
            nonlocal stopped
            stopped = stopped or watch(self.progress)
            return stopped or (
                bool(self._seats) and all(seat.progress.get("done") for seat in self._seats)
            )

        self._wait(over, deadline, every=NS_PER_S // 4)

    def drain(self, patience: Duration, watch: Callable[[Progress], bool]) -> None:
        """Stop all producers, and wait until everything sent has arrived or nothing has changed for
        ``patience``."""
        for seat in self._seats:
            seat.wire.say(stop=True)
        self.progress.producing = False
        last: tuple[int, ...] = ()
        since = self.world.now()
        consumed = any(part.consumers for part in self._parts)

        def settled() -> bool:
            nonlocal last, since
            numbers = self.progress.numbers
            state = (
                numbers["confirmed"],
                numbers["received"],
                numbers["settled"],
                numbers["waiting"],
            )
            if state != last:
                last, since = state, self.world.now()
            complete = not numbers["waiting"] and (
                not consumed or numbers["received"] >= numbers["sent"]
            )
            quiet = self.world.now() - since
            return watch(self.progress) or quiet > (SETTLE if complete else patience)

        self._wait(settled, self.world.now() + 10**6 * NS_PER_S, every=NS_PER_S // 4)

    def end(self, watch: Callable[[Progress], bool]) -> LoadOutcome:
        """Let every driver disconnect, write its segments and report its result. Raises
        :class:`LoadFailed` if one fails."""
        for seat in self._seats:
            seat.wire.say(leave=True)
        self.progress.ending = True
        watch(self.progress)
        self._wait(lambda: all(seat.result is not None for seat in self._seats), LONG)
        results = [seat.result for seat in self._seats if seat.result is not None]
        if len(results) < len(self._seats):
            raise LoadFailed(
                f"{len(self._seats) - len(results)} drivers did not report their results"
            )
        self._add_up()
        delivery, confirmation = Latencies(), Latencies()
        for result in results:
            delivery.add(result["delivery"]["cells"], result["delivery"]["worst"])
            confirmation.add(result["confirmation"]["cells"], result["confirmation"]["worst"])
        return LoadOutcome(
            self.progress,
            max(result["sent_until"] for result in results),
            max(result["received_until"] for result in results),
            delivery,
            confirmation,
            sum(result["cpu_s"] for result in results),
            sum(result["start_cpu_s"] for result in results),
            [result["scribe"] for result in results if result.get("scribe")],
            [
                clocks.stated(seat.number, seat.host, seat.same, seat.before or {}, seat.after)
                for seat in self._seats
            ],
            (
                max(result["canary"]["p99_ns"] for result in results),
                max(result["canary"]["worst_ns"] for result in results),
            ),
        )

    def moved(self, endpoints: Mapping[str, tuple[str, int]]) -> None:
        """Send the drivers the broker's new endpoints."""
        for seat in self._seats:
            seat.wire.say(endpoints=endpoints)

    # Send the broker's new endpoints to the drivers.

    def _on_connection(self, connection: socket.socket) -> None:
        pending: list[_Seat] = []

        def on_message(message: dict[str, Any]) -> None:
            if pending:
                self._on_message(pending[0], message)
            elif message.get("hello") == self._token and len(self._seats) < len(self._parts):
                seat = _Seat(
                    len(self._seats),
                    wire,
                    message["host"],
                    bool(message["boot"]) and message["boot"] == clocks.boot(),
                )
                self._seats.append(seat)
                pending.append(seat)
                self._give_part(seat)
            else:
                wire.close()  # not one of our drivers

        def on_close() -> None:
            if pending and pending[0].result is None:
                pending[0].failed = (
                    pending[0].failed
                    or f"driver {pending[0].number} on {pending[0].host} ended unexpectedly"
                )

        wire = ControlConnection(self.world, connection, on_message, on_close)

    def _give_part(self, seat: _Seat) -> None:
        record = self._terms.record
        part = {
            "plan": self._parts[seat.number].data(),
            "endpoints": dict(self._terms.endpoints),
            "tls": dict(self._terms.tls),
            "first": seat.number * FIRST,
            "record": None if record is None else {**record, "tag": str(seat.number)},
        }
        seat.wire.say(part=part)

    def _on_message(self, seat: _Seat, message: dict[str, Any]) -> None:
        match message:
            case {"ping": asked}:
                seat.wire.say(pong=asked, at=self.world.now())
            case {"result": result, "clock": clock}:
                seat.result, seat.after = result, clock
                seat.progress = result
            case {"clock": clock}:
                seat.before = clock
                seat.same = seat.same and abs(clock["offset"]) <= clock["uncertainty"] + NS_PER_MS
                seat.wire.say(clock=0 if seat.same else clock["offset"])
            case {"ready": True}:
                seat.ready = True
            case {"failed": why}:
                seat.failed = why
            case {"progress": progress}:
                seat.progress = progress
                self._add_up()

    def _add_up(self) -> None:
        progress = self.progress
        progress.at = self.world.now()
        progress.numbers, progress.faults, progress.errors = Counter(), Counter(), Counter()
        progress.delivery = Latencies()
        for seat in self._seats:
            for name in _NUMBERS:
                progress.numbers[name] += seat.progress.get(name, 0)
            if "delivery" in seat.progress:
                progress.delivery.add(
                    seat.progress["delivery"]["cells"], seat.progress["delivery"]["worst"]
                )
            progress.faults.update(seat.progress.get("faults", {}))
            progress.errors.update(seat.progress.get("errors", {}))

    def _wait(
        self, ready: Callable[[], bool], deadline: Instant, *, every: Duration = 10 * NS_PER_S
    ) -> None:
        """Wait until ``ready()``. Raises :class:`LoadFailed` if a driver was lost or cannot do its
        part."""

        def troubled() -> str:
            return (
                next((seat.failed for seat in self._seats if seat.failed), "")
                or self._crew.problem()
            )

        while not ready() and self.world.now() < deadline:
            step = min(deadline, self.world.now() + every)
            self.world.wait_until(lambda: bool(troubled()) or ready(), step)
            if why := troubled():
                raise LoadFailed(why)
