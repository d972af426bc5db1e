"""Faults in finding the address of a destination and its kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten, without
from brokerproof.suites.mutation.stomp.acks import commanded

routing = Group("routing")

HEADERS, DEFAULTS, NAME, PREFIX, NEW, MATCH = (
    f"ARTEMIS-STOMP-routing-{number}" for number in range(1, 7)
)
TYPES = {"SEND": "destination-type", "SUBSCRIBE": "subscription-type"}


def _typed(parts: Parts, change: Any) -> Parts:
    """SEND and SUBSCRIBE whose frame ``change`` has seen first, with the name of its type
    header."""

    def handler(command: str) -> Any:
        def handle(session: StompConnection, frame: Frame) -> After:
            return parts.commands[command](session, change(frame, TYPES[command]))

        return handle

    return commanded(parts, SEND=handler("SEND"), SUBSCRIBE=handler("SUBSCRIBE"))


@routing.mutant(f"{HEADERS} {NAME}")
def type_headers_ignored(parts: Parts, reached: Reached) -> Parts:
    """destination-type and subscription-type have no effect."""

    def change(frame: Frame, name: str) -> Frame:
        if frame.get(name) is not None:
            reached()
        return without(frame, name)

    return _typed(parts, change)


@routing.mutant(HEADERS)
def types_in_any_case(parts: Parts, reached: Reached) -> Parts:
    """The types are understood in small letters too."""

    def change(frame: Frame, name: str) -> Frame:
        value = frame.get(name)
        if value is None or value == value.upper():
            return frame
        reached()
        return rewritten(frame, ((name, value.upper()), *without(frame, name).head.headers))

    return _typed(parts, change)


@routing.mutant(HEADERS)
def unknown_types_ignored(parts: Parts, reached: Reached) -> Parts:
    """A type that does not exist is ignored."""

    def change(frame: Frame, name: str) -> Frame:
        value = frame.get(name)
        if value is None or value in RoutingType.__members__:
            return frame
        reached()
        return without(frame, name)

    return _typed(parts, change)


@routing.mutant(f"{HEADERS} {NEW}")
def send_type_ignored(parts: Parts, reached: Reached) -> Parts:
    """destination-type of SEND has no effect: a new destination is always a topic."""

    def change(frame: Frame, name: str) -> Frame:
        if frame.get(name) is None or name != TYPES["SEND"]:
            return frame
        reached()
        return without(frame, name)

    return _typed(parts, change)


@routing.mutant(f"{DEFAULTS} {MATCH}")
def address_settings_ignored(parts: Parts, reached: Reached) -> Parts:
    """The default routing types of address-settings have no effect."""

    class Faulty(Router):
        def ensure(self, name: str, routing: RoutingType | None) -> Any:
            if routing is None and name not in self._addresses:
                right = self._rules.of(name).default_address_routing_type
                routing = reached.instead(right, RoutingType.MULTICAST)
            return super().ensure(name, routing)

        def subscription(self, name: str, routing: RoutingType | None, *rest: Any) -> Queue:
            if routing is None:
                self.ensure(name, None)
            return super().subscription(name, routing, *rest)

    return replace(parts, router=Faulty)


@routing.mutant(DEFAULTS)
def anycast_by_default(parts: Parts, reached: Reached) -> Parts:
    """Where nobody says anything a new destination is a queue, whatever its address-setting
    says."""

    class Faulty(Router):
        def ensure(self, name: str, routing: RoutingType | None) -> Any:
            if routing is None and name not in self._addresses:
                right = self._rules.of(name).default_address_routing_type
                routing = reached.instead(right, RoutingType.ANYCAST)
            return super().ensure(name, routing)

    return replace(parts, router=Faulty)


@routing.mutant(MATCH)
def wildcards_match_parts_of_words(parts: Parts, reached: Reached) -> Parts:
    """The wildcard of an address-setting matches the rest of a word: anycast.# is found for
    anycastx."""

    class Faulty(Router):
        def _found(self, name: str) -> Any:
            first = name.partition(self._rules._delimiter)[0]
            for known in ("anycast", "multicast"):
                if first.startswith(known) and first != known:
                    reached()
                    return RoutingType[known.upper()]
            return None

        def ensure(self, name: str, routing: RoutingType | None) -> Any:
            return super().ensure(
                name, routing if name in self._addresses else routing or self._found(name)
            )

    return replace(parts, router=Faulty)


@routing.mutant(NAME)
def names_in_any_case(parts: Parts, reached: Reached) -> Parts:
    """Names that differ in case only are one address."""

    def change(frame: Frame, name: str) -> Frame:
        destination = frame.get("destination")
        if not destination or destination == destination.lower():
            return frame
        reached()
        return rewritten(
            frame,
            (("destination", destination.lower()), *without(frame, "destination").head.headers),
        )

    return _typed(parts, change)


class _OtherPrefixes(StompConnection):
    """A connection whose acceptor has other prefixes."""

    def __init__(
        self,
        conn: int,
        acceptor: Acceptor,
        shared: Shared,
        now: Instant,
        **prefixes: tuple[str, ...],
    ) -> None:
        super().__init__(conn, replace(acceptor, **prefixes), shared, now)


@routing.mutant(PREFIX)
def prefixes_ignored(parts: Parts, reached: Reached) -> Parts:
    """anycastPrefix and multicastPrefix have no effect."""

    class Faulty(_OtherPrefixes):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            reached.instead(acceptor.anycast_prefix + acceptor.multicast_prefix, ())
            super().__init__(conn, acceptor, shared, now, anycast_prefix=(), multicast_prefix=())

    return replace(parts, stomp=Faulty)


@routing.mutant(PREFIX)
def prefixes_everywhere(parts: Parts, reached: Reached) -> Parts:
    """The prefixes queue/ and topic/ are known on every acceptor."""

    class Faulty(_OtherPrefixes):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            if not acceptor.anycast_prefix:
                reached()
            super().__init__(
                conn,
                acceptor,
                shared,
                now,
                anycast_prefix=("queue/",),
                multicast_prefix=("topic/",),
            )

    return replace(parts, stomp=Faulty)


@routing.mutant(PREFIX)
def prefixes_stay_in_the_name(parts: Parts, reached: Reached) -> Parts:
    """A prefix decides the kind of a destination and stays part of its name."""

    class Faulty(StompConnection):
        def _command(self, frame: Frame) -> None:
            header = TYPES.get(frame.head.command)
            destination = frame.get("destination")
            if header is not None and destination and frame.get(header) is None:
                for prefixes, kind in (
                    (self.acceptor.anycast_prefix, "ANYCAST"),
                    (self.acceptor.multicast_prefix, "MULTICAST"),
                ):
                    if prefixes and destination.startswith(prefixes):
                        reached()
                        frame = rewritten(frame, (*frame.head.headers, (header, kind)))
                        whole = self.acceptor
                        self.acceptor = replace(whole, anycast_prefix=(), multicast_prefix=())
                        super()._command(frame)
                        self.acceptor = whole
                        return
            super()._command(frame)

    return replace(parts, stomp=Faulty)


@routing.mutant(PREFIX)
def prefixes_turned_round(parts: Parts, reached: Reached) -> Parts:
    """The prefix of queues makes a topic and that of topics a queue."""

    class Faulty(_OtherPrefixes):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            queues, topics = acceptor.anycast_prefix, acceptor.multicast_prefix
            if queues or topics:
                reached()
            super().__init__(
                conn, acceptor, shared, now, anycast_prefix=topics, multicast_prefix=queues
            )

    return replace(parts, stomp=Faulty)


@routing.mutant(f"{NEW} STOMP11-RCPT-01 STOMP12-RCPT-01")
def no_queue_on_demand(parts: Parts, reached: Reached) -> Parts:
    """A SEND to a new queue makes only the address: the message is kept for nobody."""

    class Faulty(Router):
        def publish(self, message: Any) -> bool:
            envelope = message.envelope
            address = self._addresses.get(envelope.address)
            if envelope.routing is RoutingType.ANYCAST and (address is None or not address.anycast):
                reached()
                return True
            return super().publish(message)

    return replace(parts, router=Faulty)
