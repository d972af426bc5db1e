"""Faults of OpenWire: what is negotiated and answered, windows of producers, prefetch, signs of
life, what is no command."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.activemq.inactivity import NEVER, InactivityMonitor
from brokerproof.reference_broker.kernel.java_fields import Malformed, int32
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.openwire import codes
from brokerproof.reference_broker.protocols.openwire.client import Client, Wanted
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer, Prefetch
from brokerproof.reference_broker.protocols.openwire.encoding import Command, CommandParser, Fields
from brokerproof.reference_broker.protocols.openwire.keepalive import Signs
from brokerproof.reference_broker.protocols.openwire.message import said_of
from brokerproof.reference_broker.protocols.openwire.producer import Producer
from brokerproof.reference_broker.protocols.openwire.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached

openwire = Group("openwire", "reference-activemq")

BEGINS, SPOKEN = "OPENWIRE-NEG-1", "OPENWIRE-NEG-2"
SAME, PLAIN = "OPENWIRE-ENC-1", "OPENWIRE-ENC-2"
ANSWERED, REFUSED = "OPENWIRE-RESP-1", "OPENWIRE-RESP-2"
TAKEN, ONLY = "OPENWIRE-ACK-1", "OPENWIRE-ACK-2"
BOUND, MORE, PULL = (f"OPENWIRE-PREFETCH-{each}" for each in (1, 2, 3))
CLOSED, SIGNS, LEAST, OFF, KEPT = (f"OPENWIRE-INACT-{each}" for each in (1, 2, 3, 4, 5))
SIZES, TYPES, LIMIT = "OPENWIRE-CMD-1", "OPENWIRE-CMD-2", "OPENWIRE-SIZE-1"


# --- negotiation ----------------------------------------------------------------------------------


@openwire.mutant(BEGINS)
def it_begins_with_other_letters(parts: Parts, reached: Reached) -> Parts:
    """The broker's WireFormatInfo has other letters than ActiveMQ."""

    class Faulty(OpenWireConnection):
        def send(self, octets: bytes) -> None:
            if octets[4] == codes.WIRE_FORMAT:
                reached()
            super().send(octets.replace(b"ActiveMQ", b"ActivemQ", 1))

    return replace(parts, openwire=Faulty)


@openwire.mutant(SPOKEN)
def the_newest_version_is_spoken(parts: Parts, reached: Reached) -> Parts:
    """What the broker sends has the fields of its own version, whatever the client said."""

    class Faulty(OpenWireConsumer):
        def _send(self, entry: Entry) -> None:
            client = self._client
            said = client.connection.version
            client.connection.version = reached.instead(said, codes.NEWEST)
            super()._send(entry)
            client.connection.version = said

    return replace(parts, openwire_consumer=Faulty)


# --- the encoding ---------------------------------------------------------------------------------


@openwire.mutant(SAME)
def properties_are_lost(parts: Parts, reached: Reached) -> Parts:
    """A message is dispatched without its properties."""

    class Faulty(OpenWireConsumer):
        def deliver(self, entry: Entry) -> None:
            said = said_of(entry.message)
            if said.properties:
                reached()
                said.properties = None
            super().deliver(entry)

    return replace(parts, openwire_consumer=Faulty)


@openwire.mutant(SAME)
def groups_begin_anew(parts: Parts, reached: Reached) -> Parts:
    """A message is dispatched as the first of its group."""

    class Faulty(OpenWireConsumer):
        def deliver(self, entry: Entry) -> None:
            said = said_of(entry.message)
            said.group_sequence = reached.instead(said.group_sequence, 1)
            super().deliver(entry)

    return replace(parts, openwire_consumer=Faulty)


@openwire.mutant(f"{PLAIN} {REFUSED}")
def exceptions_have_their_stack(parts: Parts, reached: Reached) -> Parts:
    """An exception is followed by a stack trace, if an empty one, that nobody asked for."""

    class Faulty(OpenWireConnection):
        def send(self, octets: bytes) -> None:
            if octets[4] == codes.EXCEPTION_RESPONSE:
                reached()
                octets = int32(len(octets) - 4 + 3) + octets[4:] + bytes(3)
            super().send(octets)

    return replace(parts, openwire=Faulty)


# --- responses ------------------------------------------------------------------------------------


@openwire.mutant(ANSWERED)
def answers_whoever_asks_for_nothing(parts: Parts, reached: Reached) -> Parts:
    """A command that wants no response gets one."""

    class Faulty(OpenWireConnection):
        def answer(self, wanted: Wanted) -> None:
            wanted.response = reached.instead(wanted.response, True)
            super().answer(wanted)

    return replace(parts, openwire=Faulty)


@openwire.mutant(ANSWERED)
def the_first_response_is_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The message that asks for a response first on a connection never gets one."""

    class Faulty(Client):
        forgot = False

        def publish(self, type: int, fields: Fields, wanted: Wanted) -> None:
            super().publish(type, fields, wanted)
            if wanted.response and not self.forgot:
                reached()
                self.forgot = wanted.withheld = True

    return replace(parts, openwire_client=Faulty)


@openwire.mutant(ANSWERED)
def responses_name_the_command_before(parts: Parts, reached: Reached) -> Parts:
    """A response to a flush names the number before."""

    class Faulty(Client):
        def flush(self, fields: Fields, wanted: Wanted) -> None:
            if wanted.number > 10:
                reached()
                wanted.number -= 1

    return replace(parts, openwire_client=Faulty)


@openwire.mutant(REFUSED)
def what_cannot_be_done_is_answered_well(parts: Parts, reached: Reached) -> Parts:
    """A refusal is answered like what was done."""

    class Faulty(OpenWireConnection):
        def refuse(self, wanted: Wanted, problem: Refusal) -> None:
            reached()
            self.answer(wanted)

    return replace(parts, openwire=Faulty)


@openwire.mutant(REFUSED)
def nobody_is_told_without_a_response(parts: Parts, reached: Reached) -> Parts:
    """What fails without asking for a response fails in silence."""

    class Faulty(OpenWireConnection):
        def refuse(self, wanted: Wanted, problem: Refusal) -> None:
            if wanted.response:
                super().refuse(wanted, problem)
            else:
                reached()

    return replace(parts, openwire=Faulty)


@openwire.mutant(REFUSED)
def a_refusal_ends_the_connection(parts: Parts, reached: Reached) -> Parts:
    """Behind an exception the connection is closed."""

    class Faulty(OpenWireConnection):
        def refuse(self, wanted: Wanted, problem: Refusal) -> None:
            super().refuse(wanted, problem)
            reached()
            self.close_behind()

    return replace(parts, openwire=Faulty)


# --- windows of producers -------------------------------------------------------------------------


@openwire.mutant(ONLY)
def everybody_has_a_window(parts: Parts, reached: Reached) -> Parts:
    """A producer without a window is told of what was taken."""

    class Faulty(Producer):
        @property
        def windowed(self) -> bool:
            return bool(reached.instead(self.window > 0, True))

    return replace(parts, openwire_producer=Faulty)


@openwire.mutant(TAKEN)
def messages_without_their_head(parts: Parts, reached: Reached) -> Parts:
    """A ProducerAck counts the content and the properties alone."""

    class Faulty(Producer):
        def acknowledge(self, octets: int) -> None:
            reached()
            super().acknowledge(octets - 1024)

    return replace(parts, openwire_producer=Faulty)


@openwire.mutant(f"{TAKEN} {ONLY}")
def told_twice(parts: Parts, reached: Reached) -> Parts:
    """Each message is told of twice."""

    class Faulty(Producer):
        def acknowledge(self, octets: int) -> None:
            reached()
            super().acknowledge(octets)
            super().acknowledge(octets)

    return replace(parts, openwire_producer=Faulty)


@openwire.mutant(ONLY)
def told_of_what_was_answered(parts: Parts, reached: Reached) -> Parts:
    """A message that has a response is in a ProducerAck too."""

    class Faulty(Producer):
        def taken(self, octets: int, *, answered: bool) -> None:
            super().taken(octets, answered=bool(reached.instead(answered, False)))

    return replace(parts, openwire_producer=Faulty)


@openwire.mutant(TAKEN)
def only_what_fills_the_window_is_told(parts: Parts, reached: Reached) -> Parts:
    """ProducerAcks are put together until they make a window, and what does not is never told."""

    class Faulty(Producer):
        kept = 0

        def acknowledge(self, octets: int) -> None:
            self.kept += octets
            if self.kept >= self.window:
                super().acknowledge(self.kept)
                self.kept = 0
            else:
                reached()

    return replace(parts, openwire_producer=Faulty)


# --- prefetch -------------------------------------------------------------------------------------


@openwire.mutant(BOUND)
def one_more_than_the_limit(parts: Parts, reached: Reached) -> Parts:
    """A consumer may have one message more than its limit."""

    class Faulty(Prefetch):
        def has_room(self, out: int) -> bool:
            room = super().has_room(out)
            return room or (
                self.limit > 0 and bool(reached.instead(room, out == self.limit + self.extension))
            )

    return replace(parts, openwire_prefetch=Faulty)


@openwire.mutant(MORE)
def one_less_than_the_limit(parts: Parts, reached: Reached) -> Parts:
    """A consumer with a limit above 1 never has as many messages as that."""

    class Faulty(Prefetch):
        def has_room(self, out: int) -> bool:
            room = super().has_room(out)
            return bool(reached.instead(room, room and (self.limit < 2 or out + 1 < self.limit)))

    return replace(parts, openwire_prefetch=Faulty)


@openwire.mutant(BOUND)
def acknowledgements_widen_the_limit(parts: Parts, reached: Reached) -> Parts:
    """What is acknowledged counts as if it had only been seen: the limit grows by it."""

    class Faulty(Prefetch):
        def acknowledged(self, count: int) -> None:
            if count:
                reached()
                self.seen(count)

    return replace(parts, openwire_prefetch=Faulty)


@openwire.mutant(MORE)
def nothing_more_until_all_is_acknowledged(parts: Parts, reached: Reached) -> Parts:
    """A consumer gets more only when it has acknowledged all that it has."""

    class Faulty(Prefetch):
        draining = False

        def has_room(self, out: int) -> bool:
            self.draining = out > 0 and (self.draining or out >= self.limit)
            room = super().has_room(out)
            return bool(reached.instead(room, room and not self.draining))

    return replace(parts, openwire_prefetch=Faulty)


@openwire.mutant(PULL)
def without_a_limit_everything_is_pushed(parts: Parts, reached: Reached) -> Parts:
    """A limit of 0 is taken for none."""

    class Faulty(Prefetch):
        def has_room(self, out: int) -> bool:
            room = super().has_room(out)
            return bool(reached.instead(room, room or self.limit == 0))

    return replace(parts, openwire_prefetch=Faulty)


@openwire.mutant(PULL)
def a_pull_brings_all(parts: Parts, reached: Reached) -> Parts:
    """Who has pulled once is pushed everything."""

    class Faulty(Prefetch):
        def dispatched(self) -> None:
            if self.pulled:
                reached()

    return replace(parts, openwire_prefetch=Faulty)


# --- silence --------------------------------------------------------------------------------------


@openwire.mutant(CLOSED)
def the_silent_live_for_ever(parts: Parts, reached: Reached) -> Parts:
    """Nobody is closed for being silent."""

    class Faulty(InactivityMonitor):
        def deadline(self) -> Instant:
            return int(reached.instead(super().deadline(), NEVER))

    return replace(parts, inactivity=Faulty)


@openwire.mutant(CLOSED)
def the_first_look_closes(parts: Parts, reached: Reached) -> Parts:
    """Who has said nothing for a tenth of the duration is closed."""

    class Faulty(InactivityMonitor):
        def deadline(self) -> Instant:
            right = super().deadline()
            return int(
                reached.instead(
                    right,
                    right if self.ttl <= 0 else max(self._first, self.last_heard) + self.ttl // 10,
                )
            )

    return replace(parts, inactivity=Faulty)


@openwire.mutant(f"{CLOSED} {LEAST}")
def a_look_too_many(parts: Parts, reached: Reached) -> Parts:
    """The peer is given up one look later."""

    class Faulty(InactivityMonitor):
        def deadline(self) -> Instant:
            right = super().deadline()
            return int(reached.instead(right, right + 2 * self.ttl if self.ttl > 0 else right))

    return replace(parts, inactivity=Faulty)


@openwire.mutant(LEAST)
def the_broker_s_duration_counts(parts: Parts, reached: Reached) -> Parts:
    """What the client says of its duration is taken no notice of, unless it is 0."""

    class Faulty(InactivityMonitor):
        def agreed(self, now: Instant, ttl: Duration, first: Duration) -> None:
            super().agreed(now, int(reached.instead(ttl, 30_000_000_000)), first)

    return replace(parts, inactivity=Faulty)


@openwire.mutant(KEPT)
def signs_of_life_do_not_count(parts: Parts, reached: Reached) -> Parts:
    """KeepAliveInfo does not keep a connection."""

    class Faulty(OpenWireConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            before = self._liveness.last_heard
            super().receive(now, data)
            if data[4:5] == bytes((codes.KEEP_ALIVE,)):
                reached()
                self._liveness.last_heard = before

    return replace(parts, openwire=Faulty)


@openwire.mutant(KEPT)
def signs_of_life_are_not_answered(parts: Parts, reached: Reached) -> Parts:
    """KeepAliveInfo that asks for an answer gets none."""

    class Faulty(OpenWireConnection):
        def send(self, octets: bytes) -> None:
            if octets[4] == codes.KEEP_ALIVE:
                reached()
            else:
                super().send(octets)

    return replace(parts, openwire=Faulty)


@openwire.mutant(SIGNS)
def no_signs_of_life(parts: Parts, reached: Reached) -> Parts:
    """The broker sends no KeepAliveInfo."""

    class Faulty(Signs):
        def wanted(self, now: Instant) -> bool:
            return bool(reached.instead(super().wanted(now), False))

    return replace(parts, openwire_signs=Faulty)


@openwire.mutant(SIGNS)
def signs_of_life_are_too_rare(parts: Parts, reached: Reached) -> Parts:
    """The broker looks for its own silence once a duration, and so may be silent for nearly two."""

    class Faulty(Signs):
        @property
        def rhythm(self) -> Duration:
            return int(reached.instead(super().rhythm, self.duration))

    return replace(parts, openwire_signs=Faulty)


@openwire.mutant(OFF)
def a_duration_of_zero_is_the_broker_s(parts: Parts, reached: Reached) -> Parts:
    """A client that says 0 is looked after with the broker's own duration."""

    class Faulty(OpenWireConnection):
        def _watch(self, now: Instant, said: dict[str, object]) -> None:
            duration = said.get("MaxInactivityDuration")
            if isinstance(duration, int) and duration <= 0:
                reached()
                said = {**said, "MaxInactivityDuration": 30_000}
            super()._watch(now, said)

    return replace(parts, openwire=Faulty)


# --- what is no command ---------------------------------------------------------------------------


@openwire.mutant(TYPES)
def unknown_types_are_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A command of an unknown type is as if it had not come."""

    class Faulty(OpenWireConnection):
        def _command(self, came: Command) -> None:
            try:
                super()._command(came)
            except Malformed:
                reached()

    return replace(parts, openwire=Faulty)


@openwire.mutant(SIZES)
def negative_sizes_are_passed_over(parts: Parts, reached: Reached) -> Parts:
    """The four octets of a negative size are taken away, and reading goes on."""

    class Parser(CommandParser):
        def next(self) -> Command | None:
            while len(self._waiting) >= 4 and self._waiting[0] > 127:
                reached()
                del self._waiting[:]
            return super().next()

    class Faulty(OpenWireConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            if type(self._parser) is CommandParser:
                self._parser = Parser(self._parser.most)
            super().receive(now, data)

    return replace(parts, openwire=Faulty)


@openwire.mutant(LIMIT)
def the_largest_frame_is_too_large(parts: Parts, reached: Reached) -> Parts:
    """maxFrameSize itself is too much."""

    return _with_limit(parts, reached, -1)


@openwire.mutant(LIMIT)
def a_frame_may_be_larger_by_one(parts: Parts, reached: Reached) -> Parts:
    """maxFrameSize is exceeded by an octet before anybody minds."""

    return _with_limit(parts, reached, 1)


def _with_limit(parts: Parts, reached: Reached, more: int) -> Parts:
    class Faulty(OpenWireConnection):
        def _negotiate(self, now: Instant, came: Command) -> None:
            before = self._parser.most
            super()._negotiate(now, came)
            if self._parser.most < before:
                reached()
                self._parser.most += more

    return replace(parts, openwire=Faulty)
