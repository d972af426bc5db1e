"""One STOMP connection, from its first byte to its close.

Rules of this file
------------------
* Bytes and instants arrive through the constructor, ``receive``, ``pause_delivery``,
  ``on_peer_gone`` and deadlines; bytes go out through the outbox. Nothing else touches the world.
* A peer's mistake is a :class:`Refusal`, raised where it is noticed, caught here, answered once. It
  never propagates.
* What a *frame* does is in ``commands.py``, what a *version* allows is in ``grammar.py``; only
  states are here.

Theory
------
A connection has three states. OPENING waits for a CONNECT or STOMP frame, read by the opening
grammar. That frame chooses the version, and with it the grammar, the parser and the encoder for the
rest of the connection's life, and the state is SESSION. CLOSED is final: all later input is
ignored, whether after a fatal error or after DISCONNECT.

=============  ======================  ======================  ==========
input          OPENING                 SESSION                 CLOSED
=============  ======================  ======================  ==========
CONNECT STOMP  CONNECTED -> SESSION    ERROR -> CLOSED         ignored
other frames   ERROR -> CLOSED         commands.py             ignored
malformed      ERROR -> CLOSED         ERROR -> CLOSED         ignored
DISCONNECT     ERROR -> CLOSED         RECEIPT -> CLOSED       ignored
EOLs, parts    alive                   alive                   ignored
ttl            ERROR -> CLOSED         ERROR -> CLOSED         --
handshake      ERROR -> CLOSED         --                      --
beat           --                      one LF                  --
peer stalled   --                      no MESSAGE is sent      --
peer gone      CLOSED, nothing sent    CLOSED, nothing sent    ignored
=============  ======================  ======================  ==========

A SEND to an address that is full under BLOCK waits, with everything after it: the connection is not
read until there is room (ARTEMIS-FLOW-block-1), because STOMP has no other flow control for
producers. Meanwhile its subscriptions get messages and our heartbeats continue, but its own
heartbeats are not read: the TTL stops, and restarts when reading resumes. Its acknowledgements are
not read either, so slow consumers should send on a separate connection.

The same happens while the broker is short of memory or disk space (RABBITMQ-FLOW-conn-1), except
that the first SEND is executed, because only it shows that this client publishes; later input
waits.

Every ERROR closes the connection, in every version. 1.2 demands that (STOMP12-ERR-02), 1.1 demands
it for SEND and SUBSCRIBE (STOMP11-SEND-07, STOMP11-SUB-03) and allows it otherwise, and 1.0 leaves
it open.

Every close first undoes open transactions and takes the consumers out of their queues, then returns
all messages, then dispatches them. In this order no returned message is overtaken by a newer one.

Warts
-----
* CONNECT is read before its version is known. So an end of line may be CR LF there even if the
  version becomes 1.1, and leading spaces are stripped afterwards if it becomes 1.0.
* The host header is mandatory from 1.1 on (STOMP11-CONNECT-09, STOMP12-CONNECT-07), but ignored
  (ARTEMIS-STOMP-host-1). In RabbitMQ's family it names the virtual host, and may be absent.
"""

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from brokerproof.harness.model.enums import Outcome
from brokerproof.harness.model.time import Instant, ms
from brokerproof.reference_broker.kernel.connection_info import (
    BLOCKED,
    BLOCKING,
    RUNNING,
    Described,
)
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.large_body import LargeBodySlice
from brokerproof.reference_broker.kernel.liveness import NEVER, Beats
from brokerproof.reference_broker.kernel.message import Entry, Envelope
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.stomp import commands, grammar, opening, refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS, After, NoRoom, withheld
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Headers, Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import BY_TTL, HeartBeats
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser, Sink
from brokerproof.reference_broker.protocols.stomp.refusal import Fault, Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Delivery, Subscription
from brokerproof.reference_broker.settings.acceptor import Acceptor

SERVER = f"brokerproof/{RELEASE}"


class State(enum.Enum):
    OPENING = enum.auto()
    SESSION = enum.auto()
    CLOSED = enum.auto()


class StompConnection:
    """One STOMP connection. ``commands.py`` reads ``version``, ``encoder`` and the attributes after
    them."""

    def __init__(
        self,
        conn: int,
        acceptor: Acceptor,
        shared: BrokerContext,
        now: Instant,
        heartbeats: HeartBeats = BY_TTL,
    ) -> None:
        self.conn = conn
        self.acceptor = acceptor
        self.shared = shared
        self.version = Version.V1_2
        self.client_id: str | None = None
        self.user = ""
        self.encoder = FrameEncoder(None)
        self.subscriptions: dict[tuple[str | None, str | None], Subscription] = {}
        self.by_destination: dict[str, OrderedDict[tuple[str | None, str | None], None]] = {}
        self.deliveries: dict[str, Delivery] = {}
        self.transactions: dict[str, Transaction] = {}
        self.sending_transactions: set[str] = set()
        self.held = False
        self._paused = self._streams = False
        self._state = State.OPENING
        self._parser = FrameParser(grammar.OPENING, acceptor.stomp.limits)
        self._heartbeats = heartbeats
        self._negotiator = heartbeats.negotiator(acceptor, shared.settings)
        self._silence: Fault = refusal.SILENT
        self._ttl_ms = self._negotiator.initial_ttl_ms()
        self._liveness = shared.family.silence_monitor(
            shared.start, shared.check_interval, ms(self._ttl_ms), now
        )
        self._beats: Beats | None = None
        self.on_room = self._go_on
        self._unblock = partial(self._read_again, PauseReason.ALARM)
        self.spool: Callable[[bool], Sink | None] = lambda text: (
            None
            if shared.large is None
            else shared.large.begin(text=text, failed=self.on_store_failed)
        )
        self._waiting: Frame | None = None
        self.blocked = False
        """True while the connection waits for the end of an alarm, or for space."""
        self._unread = b""
        shared.outbox.watch(conn, self._streaming)
        self._handshake = shared.deadlines.timer(self._on_handshake_timeout, conn)
        self._silence_check = shared.deadlines.timer(self._on_silence_check, conn)
        self._next_beat = shared.deadlines.timer(self._on_beat, conn)
        self._watch()
        if acceptor.handshake_timeout_ms > 0:
            self._handshake.move(now + ms(acceptor.handshake_timeout_ms))

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._state is not State.CLOSED

    # --- input ------------------------------------------------------------------------------------

    def receive(self, now: Instant, data: bytes) -> None:
        """Read ``data``, or keep it if the connection is blocked."""
        self._liveness.on_bytes_received(now, data)
        if self._waiting is None and not self.blocked:
            self._read(now, data)
        else:
            self._unread += data  # input in transit when reading was stopped

    def _read(self, now: Instant, data: bytes | None, frame: Frame | None = None) -> None:
        """Handle ``frame``, if given, then the frames in ``data`` (None: after the last frame)."""
        try:
            if data is not None:
                self._parser.feed(data)
            if frame is not None:
                self._command(frame)
                if self._state is State.CLOSED or self._blocks(frame):
                    return
                frame = None
            while (frame := self._parser.next()) is not None:
                if self._state is State.SESSION:
                    self._command(frame)
                else:
                    self._connect(now, frame)
                if self._state is State.CLOSED or self._blocks(frame):
                    return
                frame = None
        except NoRoom as problem:
            self._wait(frame, problem)
        except Refusal as problem:
            if problem.receipt is None and frame is not None:
                problem.receipt = frame.get("receipt")
            self._refuse(problem, frame)

    # --- time -------------------------------------------------------------------------------------

    def _on_beat(self, now: Instant) -> None:
        if self._beats is not None:
            self.shared.outbox.send(self.conn, self._beats.beat(now))
            self._next_beat.move(self._beats.deadline)

    def _on_handshake_timeout(self, now: Instant) -> None:
        detail = (
            f"no CONNECT frame within {self.acceptor.handshake_timeout_ms} ms of the connection's"
            " opening"
        )
        self._refuse(Refusal(refusal.TOO_SLOW, self.version, detail))

    def _on_silence_check(self, now: Instant) -> None:
        if self._liveness.deadline() > now:
            self._watch()
        else:
            self._on_silence()

    def _on_silence(self) -> None:
        """Close, because the peer has been silent for too long."""
        requirement = self._heartbeats.ends_silently
        if requirement is not None:
            detail = (
                f"nothing arrived for two intervals of {self._ttl_ms} ms: closed without a frame"
            )
            self.shared.outbox.observe(self.conn, requirement, detail)
            self.close()
        else:
            detail = f"no data was received for the connection TTL of {self._ttl_ms} ms"
            self._refuse(Refusal(self._silence, self.version, detail))

    def _watch(self) -> None:
        """Move the silence check to the end of the current TTL."""
        deadline = self._liveness.deadline()
        if deadline >= NEVER:
            self._silence_check.cancel()
        else:
            self._silence_check.move(deadline)

    def _wait(self, frame: Frame | None, problem: NoRoom) -> None:
        """Keep ``frame`` and all bytes after it until there is room."""
        self._waiting = frame
        if frame is not None and isinstance(frame.body, LargeBodySlice):
            frame.body.whole.retain()
        self._unread = self._parser.rest()
        self.shared.outbox.stop_reading(self.conn, PauseReason.ROOM)
        self._silence_check.cancel()
        self.shared.outbox.observe(self.conn, "ARTEMIS-FLOW-block-1", str(problem))

    def _go_on(self) -> None:
        """Handle the waiting input as long as there is room."""
        now, frame, data = self.shared.clock.now, self._waiting, self._unread
        self._forget_waiting()
        self._read(now, data, frame)
        if self._waiting is None and self._state is not State.CLOSED:
            self.shared.outbox.resume_reading(self.conn, PauseReason.ROOM)
            self._liveness.last_heard = now
            self._watch()

    def _blocks(self, frame: Frame) -> bool:
        """Return True if nothing after ``frame`` may be read now, because it was a SEND and the
        broker is short of a resource."""
        alarms = self.shared.alarms
        if frame.head.command != "SEND" or not alarms.raised:
            return False
        self._stop(PauseReason.ALARM)
        alarms.wait(self._unblock)
        self.shared.outbox.observe(
            self.conn,
            "RABBITMQ-FLOW-conn-1",
            f"low on {' & '.join(alarms.raised)}: the connection is not read",
        )
        return True

    def _stop(self, reason: PauseReason) -> None:
        """Read nothing after the last frame until ``reason`` ends."""
        self.blocked = True
        self._unread = self._parser.rest()
        self.shared.outbox.stop_reading(self.conn, reason)
        self._silence_check.cancel()

    def _read_again(self, reason: PauseReason) -> None:
        now, data = self.shared.clock.now, self._unread
        self.blocked, self._unread = False, b""
        self.shared.outbox.resume_reading(self.conn, reason)
        self._liveness.last_heard = now
        self._watch()
        self._read(now, data)

    def _forget_waiting(self) -> None:
        frame, self._waiting, self._unread = self._waiting, None, b""
        if frame is not None and isinstance(frame.body, LargeBodySlice):
            frame.body.whole.drop()

    def submit(self, frame: Frame, envelope: Envelope, transaction: Transaction | None) -> After:
        """Handle a SEND, or make it wait for room."""
        return commands.submit(self, frame, envelope, transaction)

    def pause_delivery(self, paused: bool) -> None:
        """Deliver nothing while the peer does not read. Messages stay queued."""
        self._paused = paused
        self._update_pause()

    def _streaming(self, streams: bool) -> None:
        """Deliver nothing else while a large message is being sent, because it would only wait."""
        self._streams = streams
        self._update_pause()

    def _update_pause(self) -> None:
        held = self._paused or self._streams
        if held is self.held:
            return
        self.held = held
        subscriptions = list(self.subscriptions.values())
        for subscription in subscriptions:
            subscription.pause_delivery(held)
        if not held:
            for subscription in subscriptions:
                subscription.queue.dispatch()

    def on_peer_gone(self) -> None:
        """Release everything: the peer is gone, so nothing can be sent."""
        self._end()

    def on_store_failed(self, reason: str) -> None:
        """Close with an error: the peer's request cannot be stored."""
        self._refuse(Refusal(refusal.NOT_STORED, self.version, reason))

    def describe(self) -> Described | None:
        """Return the connection's description; None before it is open."""
        if self._state is not State.SESSION:
            return None
        return Described(
            protocol=f"STOMP {self.version.wire}",
            user=self.user,
            state=BLOCKED if self.blocked else BLOCKING if self.shared.alarms.raised else RUNNING,
            channels=1,
            client_properties={"product": "STOMP client"},
            channel_max=1,
            timeout_s=self._ttl_ms // 1000,
            direct=True,
        )

    def out(self) -> Iterator[tuple[Queue, Entry]]:
        """Yield deliveries that are not settled, with their queues."""
        return (
            (delivery.subscription.queue, delivery.entry) for delivery in self.deliveries.values()
        )

    # --- opening ----------------------------------------------------------------------------------

    def _connect(self, now: Instant, frame: Frame) -> None:
        """Handle CONNECT or STOMP, which are equivalent (STOMP11-CONNECT-06,
        STOMP12-CONNECT-04)."""
        first = frame.head.first
        version = self.version = opening.choose_version(first.get("accept-version"))
        if version is Version.V1_0:
            first = {name: value.lstrip(" ") for name, value in first.items()}
        elif "host" not in first and self.shared.family.virtual_host is None:
            raise Refusal(
                refusal.NO_HOST,
                version,
                f"{frame.head.command} needs a host header from version 1.1 on",
            )
        opening.check_login(
            self.shared, self.conn, version, first.get("login"), first.get("passcode")
        )
        if (host := self.shared.family.virtual_host) and first.get("host", host) != host:
            raise Refusal(
                refusal.UNKNOWN_HOST, version, f"virtual host {first['host']!r} access denied"
            )
        self.user = first.get("login") or self.shared.certified(self.conn) or ""
        self.client_id = first.get("client-id")
        agreement = self._negotiator.negotiate(first.get("heart-beat"), version)
        headers: list[tuple[str, str]] = []
        if "accept-version" in first:
            headers.append(("version", version.wire))
        headers.append(("session", f"{self.shared.session_seed}session-{self.conn}"))
        if not self.acceptor.stomp.disable_server_header:
            headers.append(("server", SERVER))
        if agreement.header is not None:
            headers.append(("heart-beat", agreement.header))
        self._state = State.SESSION
        rest = self._parser.rest()
        self._parser = FrameParser(grammar.GRAMMARS[version], self.acceptor.stomp.limits)
        smallest = self.acceptor.stomp.min_large_message_size
        if self.shared.large is not None and smallest >= 0:
            self._parser.spool_from(smallest, self.spool)
        self._parser.feed(rest)
        self.encoder = FrameEncoder(version)
        self.shared.outbox.send(self.conn, self.encoder.frame("CONNECTED", tuple(headers)))
        self._handshake.cancel()
        self._ttl_ms = agreement.ttl_ms
        self._liveness.agreed(now, ms(agreement.ttl_ms), ms(agreement.first_look_ms))
        self._silence = refusal.SILENT_WITH_BEATS if agreement.client_beats else refusal.SILENT
        self._watch()
        if agreement.beat_ms:
            self._beats = Beats(ms(agreement.beat_ms), now)
            self._next_beat.move(self._beats.deadline)

    # --- session ----------------------------------------------------------------------------------

    def _command(self, frame: Frame) -> None:
        head = frame.head
        after = COMMANDS[head.command](self, frame)
        receipt = head.first.get("receipt")
        if receipt is not None and after is not withheld:
            self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
        if after is not None:
            after()

    # --- the end ----------------------------------------------------------------------------------

    def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
        """Answer with ERROR and close."""
        self.tell(problem, frame)
        self.close()

    def tell(self, problem: Refusal, frame: Frame | None = None) -> None:
        where = "" if frame is None else f" in the {frame.head.command} frame"
        body = f"{problem.message}{where}: {problem.detail} ({problem.requirement})\n".encode(
            "utf-8", "backslashreplace"
        )
        headers: Headers = (
            ("message", problem.message),
            *problem.headers,
            ("content-type", "text/plain"),
            ("content-length", str(len(body))),
        )
        if problem.receipt is not None:
            headers = (*headers, ("receipt-id", problem.receipt))
        self.shared.outbox.observe(self.conn, problem.requirement, problem.detail)
        self.shared.outbox.send(self.conn, self.encoder.frame("ERROR", headers, body))

    def close(self) -> None:
        """Close after sending all pending output."""
        self.shared.outbox.close(self.conn)
        self._end()

    def _end(self) -> None:
        self._state = State.CLOSED
        self._parser.abandon()
        self._forget_waiting()
        for deadline in (self._silence_check, self._handshake, self._next_beat):
            deadline.cancel()
        self.shared.admission.forget(self.on_room)
        self.shared.alarms.forget(self._unblock)
        subscriptions = list(self.subscriptions.values())
        transactions = list(self.transactions.values())
        self.subscriptions.clear()
        self.by_destination.clear()
        self.transactions.clear()
        self.release(subscriptions, transactions)

    def release(
        self, subscriptions: Iterable[Subscription], transactions: Iterable[Transaction] = ()
    ) -> None:
        """End ``subscriptions`` and undo ``transactions``. Their messages return to the queues and
        are offered to other consumers."""
        back = [(subscription.queue, subscription.unsubscribe()) for subscription in subscriptions]
        queues: dict[Queue, None] = {}
        for transaction in transactions:
            queues.update(dict.fromkeys(transaction.undo()))
        for queue, entries in back:
            queue.settle(entries, Outcome.RELEASED)
            queues[queue] = None
        for queue in queues:
            queue.dispatch()
            self.shared.router.addresses.tidy(queue)
