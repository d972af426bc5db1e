"""Drives a broker with a disk in memory by hand: bytes in, frames out, restarts, and a clock that
only the test advances."""

import heapq
from collections.abc import Callable, Iterable
from typing import Self

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    FileLoaded,
    Input,
    LoadFile,
    Report,
    ResumeReading,
    SendBytes,
    StopReading,
    StoreFiles,
    TimerFired,
)
from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.harness.model.time import NS_PER_MS, Instant, seconds
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.persistence.memory import DiskFaults, MemoryDisk
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.broker import Received

SMALL = StoreOptions(journaled=True, segment=4096, ballast=16 * 1024)
"""Small segments, so that a journal has many."""


def paging(max_size: int = 4000, page_size: int = 2048, **more: object) -> Settings:
    """Make every address page from ``max_size`` bytes on."""
    setting = AddressSetting(
        "#",
        max_size_bytes=max_size,
        address_full_policy=FullPolicy.PAGE,
        page_size_bytes=page_size,
        auto_delete_queues=False,
        default_address_routing_type=RoutingType.ANYCAST,
        **more,  # type: ignore[arg-type]
    )
    return Settings(address_settings=(setting,))


class StoringDriver:
    """A broker with a disk. If ``options`` is None, it has no journal."""

    prefix = ""
    """The prefix of a queue's name."""
    wide = "consumer-window-size:-1\n"
    """The header for a consumer without a limit."""

    def __init__(
        self,
        settings: Settings | None = None,
        options: StoreOptions | None = SMALL,
        seed: int = 0,
        faults: DiskFaults | None = None,
    ) -> None:
        self.settings = paging(-1) if settings is None else settings
        self.options = options
        self.disk = MemoryDisk(
            seed, DiskFaults(write=NS_PER_MS, read=NS_PER_MS) if faults is None else faults
        )
        self.now: Instant = 0
        self.reports: list[str] = []
        self.stores: list[StoreFiles] = []
        self.loads: list[LoadFile] = []
        self.conn = 0
        self._begin()

    def _begin(self) -> None:
        self._answers: list[tuple[Instant, int, Input]] = []
        self._order = 0
        self._got: dict[int, bytes] = {}
        self.closed: list[int] = []
        self.unread: set[int] = set()
        found = None if self.options is None else self.disk
        self.broker = create_broker(
            self.settings, start=self.now, store=store(self.settings, found, self.options)
        )
        self.feed(TimerFired())

    def feed(self, event: Input) -> Self:
        """Handle one input. The disk executes the requests; :meth:`settle` or :meth:`step` deliver
        its answers."""
        self._note(self.broker.handle(self.now, event))
        return self

    def _note(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendBytes(conn, data):
                    self._got[conn] = self._got.get(conn, b"") + data
                case Close(conn):
                    self.closed.append(conn)
                case StopReading(conn):
                    self.unread.add(conn)
                case ResumeReading(conn):
                    self.unread.discard(conn)
                case Report(sentence):
                    self.reports.append(sentence)
                case StoreFiles() | LoadFile():
                    (self.stores if isinstance(effect, StoreFiles) else self.loads).append(effect)  # type: ignore[arg-type]
                    at, answer = self.disk.carry(self.now, effect)
                    self._order += 1
                    heapq.heappush(self._answers, (at, self._order, answer))

    def step(self) -> bool:
        """Deliver the next answer of the disk; return False if none is due."""
        if not self._answers:
            return False
        at, _, answer = heapq.heappop(self._answers)
        self.now = max(self.now, at)
        self.feed(answer)
        return True

    def read_ahead(self) -> None:
        """Deliver all answers to reads, but not to writes: the reader may be faster than the
        writer."""
        while reads := [answer for answer in self._answers if isinstance(answer[2], FileLoaded)]:
            self._answers.remove(min(reads))
            heapq.heapify(self._answers)
            self.feed(min(reads)[2])

    def settle(self) -> None:
        """Deliver all answers of the disk."""
        while self.step():
            pass

    def wait(self, duration: int = seconds(1)) -> None:
        until = self.now + duration
        self.settle()
        while (due := self.broker.next_deadline()) is not None and due <= until:
            self.now = max(self.now, due)
            self.feed(TimerFired())
            self.settle()
        self.now = until

    # --- restarts ---------------------------------------------------------------------------------

    def power_loss(self) -> None:
        """Cut the power and start another broker with the content of the disk."""
        self.disk.power_loss(self.now)
        self._begin()

    def kill(self) -> None:
        """Kill the process and start another broker."""
        self.disk.killed(self.now)
        self._begin()

    def restart(self) -> None:
        """Shut the broker down cleanly and start another."""
        self._note(self.broker.end())
        while not self.broker.is_idle and self.step():
            pass
        self._begin()

    # --- peers ------------------------------------------------------------------------------------

    def connect(self, headers: str = "") -> int:
        self.conn += 1
        self.feed(Connected(self.conn, "stomp", "test"))
        self.say(self.conn, f"CONNECT\naccept-version:1.2\nhost:h\n{headers}\n\0")
        self.settle()
        self.take(self.conn)
        return self.conn

    def say(self, conn: int, frame: str) -> Self:
        return self.feed(BytesReceived(conn, frame.encode()))

    def take(self, conn: int) -> list[Received]:
        """Return and remove the frames received."""
        data = self._got.pop(conn, b"")
        return [Received(part.lstrip(b"\n")) for part in data.split(b"\0")[:-1]]

    def send(
        self, conn: int, *bodies: str, to: str = "q", persistent: bool = True, headers: str = ""
    ) -> Self:
        kept = "persistent:true\n" if persistent else ""
        head = f"SEND\ndestination:{self.prefix}{to}\n{kept}{headers}"
        return self.say(conn, "".join(f"{head}receipt:{body}\n\n{body}\0" for body in bodies))

    def receipts(self, conn: int) -> list[str]:
        return [frame["receipt-id"] for frame in self.take(conn) if frame.command == "RECEIPT"]

    def subscribe(
        self, conn: int, ack: str = "auto", to: str = "q", headers: str = ""
    ) -> list[Received]:
        self.say(
            conn, f"SUBSCRIBE\nid:{to}\ndestination:{self.prefix}{to}\nack:{ack}\n{headers}\n\0"
        )
        self.settle()
        return [frame for frame in self.take(conn) if frame.command == "MESSAGE"]

    def drain(self, to: str = "q") -> list[str]:
        """Return all messages in ``to``, read by a separate consumer that acknowledges nothing."""
        conn = self.connect()
        got = self.subscribe(conn, "client", to, self.wide)
        self.wait(1)
        got += [frame for frame in self.take(conn) if frame.command == "MESSAGE"]
        self.say(conn, "DISCONNECT\n\n\0")
        self.settle()
        return [frame.body.decode() for frame in got]


def numbered(count: int, name: Callable[[int], str] = str) -> list[str]:
    return [name(number) for number in range(count)]
