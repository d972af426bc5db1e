"""A broker, peers that send it anything, a bystander, and the invariants. Events are data, so a
scene can be replayed and shortened. The invariants:

* no exception leaves ``Broker.handle``;
* no input takes more than :data:`MOST_NS` of processor time, and none :data:`HANGS_S`, which
  reveals a read loop that makes no progress;
* nothing is sent to a connection after its close;
* the bystander, which only uses its own address, is served between any two events;
* its RECEIPT for a persistent SEND does not leave before the batch is stored;
* once the peers are gone, only their messages are left.
"""

import gc
import signal
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    Connected,
    Effect,
    FileEffect,
    Input,
    LimitsSet,
    LoadFile,
    PeerGone,
    ResourcesRead,
    SendBytes,
    StoreFiles,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow, FullPolicy
from brokerproof.harness.model.time import NS_PER_MS, Instant, seconds
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.config.activemq import connector
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.reference_broker.persistence.memory import MemoryDisk
from brokerproof.reference_broker.persistence.store import StoreOptions
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers import activemq

MOST_NS = 250 * NS_PER_MS
HANGS_S = 5.0
BYSTANDER = 0
LARGE = 2000
"""Bodies with at least this many bytes get their own file, if there are files."""
_OPTIONS = StoreOptions(journaled=True, segment=4096, ballast=16 * 1024)
_USED = 1 << 29
"""The memory use in bytes that a broker of the RabbitMQ family reads."""

FAMILIES = ("artemis", "rabbitmq", "activemq")


@dataclass(frozen=True)
class Setting:
    """The broker of a scene. ``full`` is the policy of a small address ("" if there is none);
    ``stored`` gives the broker a disk."""

    family: str
    stored: bool
    full: str = ""


@dataclass(frozen=True)
class Open:
    conn: int
    acceptor: str


@dataclass(frozen=True)
class Data:
    """Bytes that a peer sends."""

    conn: int
    data: bytes


@dataclass(frozen=True)
class Gone:
    conn: int


@dataclass(frozen=True)
class Pause:
    """A peer stops reading, or reads again."""

    conn: int
    paused: bool


@dataclass(frozen=True)
class Advance:
    """Time passes; deadlines fire."""

    ms: int


@dataclass(frozen=True)
class Disk:
    count: int


@dataclass(frozen=True)
class Alarm:
    """Memory becomes short, or sufficient again, on a broker that reads memory use."""

    short: bool


Event = Open | Data | Gone | Pause | Advance | Disk | Alarm


class Broken(Exception):
    """An invariant does not hold."""


class Hangs(BaseException):
    """The broker has not finished with an input. No ``except Exception`` may catch this."""


def settings(setting: Setting) -> Settings:
    if setting.family == "rabbitmq":
        return rabbitmq_conf.default()
    if setting.family == "activemq":
        policy = activemq.policy(
            "queue://q", memory_limit=3000, cursor=Cursor.STORE, max_page_size=3,
            producer_flow_control=bool(setting.full),
        )  # fmt: skip
        made = activemq.settings(activemq.configured(policy))
        openwire = connector.acceptor("openwire", ("OPENWIRE",))
        return replace(made, acceptors=(*made.acceptors, openwire))
    every = tuple(
        AddressSetting(
            name,
            max_size_bytes=20_000 if setting.full else -1,
            address_full_policy=FullPolicy[setting.full or "PAGE"],
            page_size_bytes=4096,
        )
        for name in ("q", "t")
    )
    acceptors = tuple(
        with_parameters(
            Acceptor(name, protocols=spoken),
            stomp_min_large_message_size=LARGE,
            amqp_min_large_message_size=LARGE,
        )
        for name, spoken in (("all", ("CORE", "AMQP", "STOMP")), ("amqp", ("AMQP",)))
    )
    return Settings(acceptors=acceptors, address_settings=every)


_KEPT: dict[Setting, Settings] = {}


class Scene:
    """``slowest`` is the processor time of the slowest input so far, in ns."""

    def __init__(self, setting: Setting, seed: int = 0) -> None:
        self.setting = setting
        if setting not in _KEPT:
            _KEPT[setting] = settings(setting)
        made = _KEPT[setting]
        self._disk = MemoryDisk(seed) if setting.stored else None
        store_ = store(made, self._disk, _OPTIONS) if self._disk is not None else None
        self.broker = create_broker(made, store=store_)
        self.now: Instant = 0
        self.slowest = 0
        self._requests: deque[FileEffect] = deque()
        self._sent = bytearray()
        self._received: dict[int, bytes] = {}
        self._closed: set[int] = set()
        self._short = setting.family == "rabbitmq"
        self._number = 0
        self.feed(TimerFired())
        self.feed(ResourcesRead(_USED, 2 * _USED, None, 1 << 40))
        self.alarm(False)
        acceptor = {"artemis": "all"}.get(setting.family, "stomp")
        self.queue = {"artemis": "bystander", "rabbitmq": "/queue/bystander"}.get(
            setting.family, "/queue/bystander"
        )
        self.feed(Connected(BYSTANDER, acceptor, "bystander"))
        self._say("CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")
        self._say(f"SUBSCRIBE\nid:0\ndestination:{self.queue}\n{self._kind('subscription')}\n\0")
        self.settle()
        self._sent.clear()

    def _kind(self, of: str) -> str:
        return f"{of}-type:ANYCAST\n" if self.setting.family == "artemis" else ""

    def received(self, conn: int) -> bytes:
        """Return what was sent to ``conn`` since the last call, or how it ended."""
        return self._received.pop(conn, b"")

    def is_closed(self, conn: int) -> bool:
        return conn in self._closed

    # --- events -----------------------------------------------------------------------------------

    def play(self, event: Event) -> None:
        """Let ``event`` happen. Raises :class:`Broken`, :class:`Hangs`, or the broker's errors."""
        match event:
            case Data(conn, data):
                self.feed(BytesReceived(conn, data))
            case Open(conn, acceptor):
                self._closed.discard(conn)
                self.feed(Connected(conn, acceptor, "peer"))
            case Gone(conn):
                self.feed(PeerGone(conn, CloseHow.RESET))
            case Pause(conn, paused):
                self.feed(WritePaused(conn) if paused else WriteResumed(conn))
            case Advance(ms):
                self.advance(ms * NS_PER_MS)
            case Disk(count):
                for _ in range(count):
                    self._answer()
            case Alarm(short):
                self.alarm(short)

    def feed(self, event: Input) -> None:
        """Pass one input to the broker; check the effects."""
        signal.setitimer(signal.ITIMER_PROF, HANGS_S)
        began = time.thread_time_ns()
        try:
            effects = self.broker.handle(self.now, event)
        finally:
            took = time.thread_time_ns() - began
            signal.setitimer(signal.ITIMER_PROF, 0)
        self.slowest = max(self.slowest, took)
        self._check(effects)
        if took > MOST_NS:
            raise Broken(f"slow: an input took {took // NS_PER_MS} ms of processor time")

    def _check(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendBytes(conn, data):
                    if conn in self._closed:
                        raise Broken(f"sent: bytes for connection {conn} behind its close")
                    if conn == BYSTANDER:
                        self._sent += data
                    else:
                        self._received[conn] = self._received.get(conn, b"")[-4096:] + data
                case Close(conn):
                    self._closed.add(conn)
                case StoreFiles() | LoadFile():
                    self._requests.append(effect)

    def _answer(self) -> bool:
        if not self._requests or self._disk is None:
            return False
        self.feed(self._disk.carry(self.now, self._requests.popleft())[1])
        return True

    def settle(self) -> None:
        """Let the disk answer everything."""
        for _ in range(100_000):
            if not self._answer():
                return
        raise Broken("files: the broker never stops asking for files")

    def advance(self, duration: int) -> None:
        """Let time pass."""
        until = self.now + duration
        for _ in range(100_000):
            due = self.broker.next_deadline()
            if due is None or due > until:
                self.now = until
                return
            self.now = max(self.now, due)
            self.feed(TimerFired())
        raise Broken("timer: 100,000 deadlines within one step of time")

    def alarm(self, short: bool) -> None:
        """Tell a RabbitMQ-like broker that memory is short, or that it is sufficient again."""
        if self.setting.family == "rabbitmq" and short is not self._short:
            self._short = short
            self.feed(LimitsSet(memory=_USED - 1 if short else _USED + 1))

    # --- the bystander ----------------------------------------------------------------------------

    def _say(self, frame: str) -> None:
        self.feed(BytesReceived(BYSTANDER, frame.encode()))

    def check_bystander(self) -> None:
        """Check that the bystander sends and gets a message, and gets the receipt only once the
        message is stored."""
        self.alarm(False)
        self.settle()
        self._number += 1
        self._sent.clear()
        name = f"still-here-{self._number}"
        kind = self._kind("destination")
        head = f"SEND\ndestination:{self.queue}\npersistent:true\nreceipt:{name}\n{kind}"
        self._say(f"{head}\n{name}\0")
        if self._requests and b"receipt-id" in self._sent:
            raise Broken("early: a RECEIPT left before its batch was stored")
        self.settle()
        for what in (f"receipt-id:{name}", f"\n\n{name}\0"):
            if what.encode() not in self._sent:
                raise Broken(f"bystander: no {what.strip()!a} ({bytes(self._sent[:200])!r})")

    def end(self, conns: Iterable[int]) -> None:
        """Let all peers leave. Only their messages may remain."""
        for conn in conns:
            self.feed(PeerGone(conn, CloseHow.RESET))
        self.check_bystander()
        for _ in range(4):
            self.advance(seconds(12))
            self.check_bystander()
        if left := self._left():
            raise Broken(f"left: {left}")

    def _left(self) -> dict[str, Any]:
        broker: Any = self.broker
        outbox = broker._outbox
        places = {
            "connections": broker._connections,
            "choked": broker._choked,
            "arrivals": broker._shared.arrivals,
            "certificates": broker._shared.certificates,
            "held": outbox._held,
            "waiting": outbox._waits_for,
            "unread": outbox._unread,
            "layers": outbox._layers,
            "lines": outbox.streams.lines,
            "paused": outbox.streams._paused,
            "watchers": outbox.streams.watchers,
        }
        left = {
            name: conns for name, place in places.items() if (conns := set(place) - {BYSTANDER})
        }
        queues = [
            name
            for name, known in broker._shared.router.addresses._queues.items()
            if "bystander" not in name and any(queue.has_consumers for queue in known)
        ]
        return {**left, "consumers": queues} if queues else left


def _hangs(*_: object) -> None:
    raise Hangs(f"an input took more than {HANGS_S:.0f} s")


def problem_of(setting: Setting, events: Sequence[Event]) -> str:
    """Play ``events``; return the problem as one line that begins with its kind, or else ""."""
    signal.signal(signal.SIGPROF, _hangs)
    try:
        scene = Scene(setting)
        for event in events:
            scene.play(event)
        scene.check_bystander()
        scene.end({event.conn for event in events if isinstance(event, Open)})
    except (Exception, Hangs) as problem:
        return words(problem)
    return ""


def words(problem: BaseException) -> str:
    """Return one line about ``problem``; problems of one cause share the text before the colon."""
    if isinstance(problem, Broken):
        return str(problem)
    frame = problem.__traceback__
    place = "?"
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        if "reference_broker" in file:
            place = f"{file.rpartition('reference_broker/')[2]}:{frame.tb_lineno}"
        frame = frame.tb_next
    if isinstance(problem, Hangs):
        return f"hangs: at {place}"
    return f"{type(problem).__name__} at {place}: {str(problem)[:150]}".replace("\n", " ")


def kind(problem: str) -> str:
    """Return the part of a line that distinguishes findings."""
    return problem.partition(": ")[0]


def shorter(setting: Setting, events: Sequence[Event], problem: str) -> list[Event]:
    """Return fewer events that still end in a problem of the same kind."""
    kept = list(events)
    size = max(1, len(kept) // 2)
    tries = 300
    while tries and kept:
        at = 0
        smaller = False
        while at < len(kept) and tries:
            tries -= 1
            without = kept[:at] + kept[at + size :]
            if kind(problem_of(setting, without)) == kind(problem):
                kept = without
                smaller = True
            else:
                at += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    gc.collect()
    return kept
