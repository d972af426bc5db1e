"""Faults in finding the address of a destination and its routing type."""

from dataclasses import replace

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.suites.mutation.mutant import Group, rewritten, without

routing = Group("routing")

HEADERS = "ARTEMIS-STOMP-routing-1"
DEFAULTS = "ARTEMIS-STOMP-routing-2"
NAME = "ARTEMIS-STOMP-routing-3"
PREFIX = "ARTEMIS-STOMP-routing-4"
NEW = "ARTEMIS-STOMP-routing-5"
MATCH = "ARTEMIS-STOMP-routing-6"
TYPES = {"SEND": "destination-type", "SUBSCRIBE": "subscription-type"}


def _typed(patch, change):
    """Pass each SEND and SUBSCRIBE to ``change`` first, with the name of its type header."""
    for command in ("SEND", "SUBSCRIBE"):

        @patch.override(COMMANDS, command)
        def handle(original, session, frame, header=TYPES[command]):
            return original(session, change(frame, header))


@routing.mutant("ARTEMIS-STOMP-routing-1 ARTEMIS-STOMP-routing-3")
def type_headers_ignored(patch, reached):
    """destination-type and subscription-type have no effect."""

    def change(frame: Frame, name: str) -> Frame:
        reached(frame.get(name) is not None)
        return without(frame, name)

    _typed(patch, change)


@routing.mutant(HEADERS)
def types_in_any_case(patch, reached):
    """The types are accepted in lower case too."""

    def change(frame: Frame, name: str) -> Frame:
        value = frame.get(name)
        if value is None or value == value.upper():
            return frame
        reached()
        return rewritten(frame, ((name, value.upper()), *without(frame, name).head.headers))

    _typed(patch, change)


@routing.mutant(HEADERS)
def unknown_types_ignored(patch, reached):
    """An unknown type is ignored."""

    def change(frame: Frame, name: str) -> Frame:
        value = frame.get(name)
        if value is None or value in RoutingType.__members__:
            return frame
        reached()
        return without(frame, name)

    _typed(patch, change)


@routing.mutant("ARTEMIS-STOMP-routing-1 ARTEMIS-STOMP-routing-5")
def send_type_ignored(patch, reached):
    """destination-type of SEND has no effect: a new destination is always a topic."""

    def change(frame: Frame, name: str) -> Frame:
        if frame.get(name) is None or name != TYPES["SEND"]:
            return frame
        reached()
        return without(frame, name)

    _typed(patch, change)


@routing.mutant("ARTEMIS-STOMP-routing-2 ARTEMIS-STOMP-routing-6")
def address_settings_ignored(patch, reached):
    """The default routing types of address-settings have no effect."""

    @patch.override(Router)
    def get_or_create(original, self, name, routing):
        if routing is None and name not in self._addresses:
            right = self._rules.of(name).default_address_routing_type
            routing = reached.instead(right, RoutingType.MULTICAST)
        return original(self, name, routing)

    @patch.before(Router)
    def subscription(self, name, routing, *rest):
        if routing is None:
            self.get_or_create(name, None)


@routing.override(Router, "get_or_create", breaks=DEFAULTS)
def anycast_by_default(original, reached, self, name, routing):
    """By default a new destination is a queue, whatever its address-setting says."""
    if routing is None and name not in self._addresses:
        right = self._rules.of(name).default_address_routing_type
        routing = reached.instead(right, RoutingType.ANYCAST)
    return original(self, name, routing)


@routing.override(Router, "get_or_create", breaks=MATCH)
def wildcards_match_parts_of_words(original, reached, self, name, routing):
    """The wildcard of an address-setting matches the rest of a word: anycast.# applies to
    anycastx."""
    if routing is None and name not in self._addresses:
        first = name.partition(self._rules._delimiter)[0]
        for known in ("anycast", "multicast"):
            if reached(first.startswith(known) and first != known):
                return original(self, name, RoutingType[known.upper()])
    return original(self, name, routing)


@routing.mutant(NAME)
def names_in_any_case(patch, reached):
    """Names that differ only in case are one address."""

    def change(frame: Frame, name: str) -> Frame:
        destination = frame.get("destination")
        if not destination or destination == destination.lower():
            return frame
        reached()
        return rewritten(
            frame,
            (("destination", destination.lower()), *without(frame, "destination").head.headers),
        )

    _typed(patch, change)


@routing.override(StompConnection, "__init__", breaks=PREFIX)
def prefixes_ignored(original, reached, self, conn, acceptor, shared, now):
    """anycastPrefix and multicastPrefix have no effect."""
    reached.instead(acceptor.anycast_prefix + acceptor.multicast_prefix, ())
    bare = replace(acceptor, anycast_prefix=(), multicast_prefix=())
    original(self, conn, bare, shared, now)


@routing.override(StompConnection, "__init__", breaks=PREFIX)
def prefixes_everywhere(original, reached, self, conn, acceptor, shared, now):
    """The prefixes queue/ and topic/ are known on every acceptor."""
    reached(not acceptor.anycast_prefix)
    known = replace(acceptor, anycast_prefix=("queue/",), multicast_prefix=("topic/",))
    original(self, conn, known, shared, now)


@routing.override(StompConnection, "_command", breaks=PREFIX)
def prefixes_stay_in_the_name(original, reached, self, frame):
    """A prefix determines the kind of a destination but stays part of its name."""
    header = TYPES.get(frame.head.command)
    destination = frame.get("destination")
    if header is not None and destination and frame.get(header) is None:
        for prefixes, kind in (
            (self.acceptor.anycast_prefix, "ANYCAST"),
            (self.acceptor.multicast_prefix, "MULTICAST"),
        ):
            if reached(prefixes and destination.startswith(prefixes)):
                frame = rewritten(frame, (*frame.head.headers, (header, kind)))
                whole = self.acceptor
                self.acceptor = replace(whole, anycast_prefix=(), multicast_prefix=())
                original(self, frame)
                self.acceptor = whole
                return
    original(self, frame)


@routing.override(StompConnection, "__init__", breaks=PREFIX)
def prefixes_turned_round(original, reached, self, conn, acceptor, shared, now):
    """The prefixes of queues and topics are swapped."""
    queues = acceptor.anycast_prefix
    topics = acceptor.multicast_prefix
    reached(queues or topics)
    turned = replace(acceptor, anycast_prefix=topics, multicast_prefix=queues)
    original(self, conn, turned, shared, now)


@routing.override(Router, "publish", breaks=f"{NEW} STOMP11-RCPT-01 STOMP12-RCPT-01")
def no_queue_on_demand(original, reached, self, message):
    """A SEND to a new queue creates only the address: the message is lost."""
    envelope = message.envelope
    address = self._addresses.get(envelope.address)
    if reached(
        envelope.routing is RoutingType.ANYCAST and (address is None or not address.anycast)
    ):
        return True
    return original(self, message)
