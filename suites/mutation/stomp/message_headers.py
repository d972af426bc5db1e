"""Faults of MESSAGE: wrong and missing headers."""

import re

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

message_headers = Group("message-headers")

DESTINATION = "STOMP10-MESSAGE-01 STOMP11-MSG-01 STOMP12-MSG-01"
ID = "STOMP10-MESSAGE-02 STOMP11-MSG-02 STOMP12-MSG-03"
SUBSCRIPTION = "STOMP10-SUBSCRIBE-09 STOMP11-MSG-03 STOMP12-MSG-04"
LENGTH = "STOMP10-MESSAGE-03 STOMP11-MSG-04 STOMP12-MSG-06 STOMP11-HDR-01 STOMP12-HDR-05"


def _rewritten(patch, reached, pattern, instead):
    """Replace the first match of ``pattern`` in the headers of MESSAGE frames."""
    compiled = re.compile(pattern)

    @patch.result(FrameEncoder, "message")
    def frameencoder_message(right, self, opening, message, ack, redelivered):
        head, end, body = right.partition(b"\n\n")
        return reached.instead(right, compiled.sub(instead, head, count=1) + end + body)


@message_headers.variant(_rewritten, rb"\ndestination:[^\n]*", b"")
@breaks("STOMP10-MESSAGE-01 STOMP11-MSG-01 STOMP12-MSG-01 STOMP12-FH-09")
def no_destination():
    """MESSAGE has no destination."""


@message_headers.result(FrameEncoder, "_headers", breaks="STOMP12-MSG-02")
def destination_in_small_letters(right, self, envelope):
    """The destination of MESSAGE is converted to lower case."""
    line = self.header("destination", envelope.destination)
    return line.lower() + right[len(line) :]


@message_headers.result(FrameEncoder, "_headers", breaks="STOMP12-MSG-02")
def destination_without_prefix(right, self, envelope):
    """The destination of MESSAGE is the broker's address, without the prefix that the sender
    wrote."""
    line = self.header("destination", envelope.destination)
    return self.header("destination", envelope.address) + right[len(line) :]


@message_headers.variant(_rewritten, rb"\nmessage-id:[^\n]*", b"", breaks=f"{ID} STOMP12-FH-09")
def no_message_id():
    """MESSAGE has no message-id."""


@message_headers.result(FrameEncoder, "message", breaks=ID)
def same_message_id(right, self, opening, message, ack, redelivered):
    """Every MESSAGE of a subscription has the same message-id."""
    number = b"%010d" % message.number
    return right.replace(number, b"0" * 10, 1)


@message_headers.result(FrameEncoder, "_headers", breaks="STOMP12-SUB-02")
def a_length_named_by_another_protocol(right, self, envelope):
    """A property content-length from another protocol becomes a header of MESSAGE."""
    forged = (self.header(*header) for header in envelope.headers if header[0] == "content-length")
    return right + b"".join(forged)


@message_headers.result(FrameEncoder, "opening", breaks="STOMP11-MSG-03 STOMP12-MSG-04")
def subscription_without_escapes(right, self, consumer, subscription):
    """The id of a subscription is sent without escapes."""
    return right.replace(b"\\n", b"\n").replace(b"\\\\", b"\\")


@message_headers.mutant(
    "STOMP11-ACK-01 STOMP11-ACK-02 STOMP12-ACK-01 STOMP12-MSG-05", recreates="ARTEMIS-4649"
)
def message_id_shared_by_subscriptions(patch, reached):
    """Message-id and ack name a message, not its delivery: two subscriptions of a connection get
    the same."""

    @patch.override(Subscription)
    def __init__(original, self, conn, number, *args):
        original(self, conn, 0, *args)

    @patch.override(Subscription)
    def deliver(original, self, entry):
        self._delivered = entry.message.number - 1
        before = len(self._deliveries)
        original(self, entry)
        reached(self.mode is not AckMode.AUTO and len(self._deliveries) == before)

    @patch.before(Subscription)
    def unsubscribe(self):
        for key in self._unsettled:
            self._deliveries.setdefault(key, self._unsettled[key])


def _of_the_sender(patch, reached, *names):
    """In MESSAGE frames, use the SEND's headers of these names instead of the broker's."""
    written: dict[int, list[tuple[str, str]]] = {}

    @patch.result(FrameEncoder, "message")
    def frameencoder_message(right, self, opening, message, ack, redelivered):
        lines = b"".join(self.header(*header) for header in written.get(message.number, ()))
        return reached.instead(right, right.replace(b"MESSAGE\n", b"MESSAGE\n" + lines, 1))

    @patch.before(COMMANDS, "SEND")
    def send(session, frame):
        theirs = [header for header in frame.head.headers if header[0] in names]
        written[session.shared.router._messages + 1] = theirs


@message_headers.variant(_of_the_sender, "message-id", breaks=ID, recreates="AMQ-2817")
def message_id_of_the_sender():
    """A message-id in SEND replaces the broker's in MESSAGE."""


@message_headers.variant(_of_the_sender, "subscription", "ack")
@breaks(f"{SUBSCRIPTION} STOMP12-MSG-05")
def subscription_and_ack_of_the_sender():
    """Headers subscription and ack of SEND replace the broker's in MESSAGE."""


@message_headers.result(FrameEncoder, "message")
@breaks("STOMP10-SEND-06 STOMP11-HDR-04 STOMP12-HDR-04")
def length_of_the_sender(right, self, opening, message, ack, redelivered):
    """The body of a text message is made UTF-8, but MESSAGE has the content-length of its SEND."""
    if ("amq-msg-type", "text") not in message.envelope.headers:
        return right
    text = message.body.decode(errors="replace").encode()
    return right.replace(message.body + b"\0", text + b"\0", 1)


@message_headers.result(FrameEncoder, "message")
@breaks("STOMP10-SEND-06 STOMP11-HDR-04 STOMP12-HDR-04")
def length_before_decompression(right, self, opening, message, ack, redelivered):
    """A body with a content-encoding is sent decoded and shorter, with a content-length that is too
    large by 1000 bytes."""
    if ("content-encoding", "gzip") not in message.envelope.headers:
        return right
    line = b"\ncontent-length:%d\n"
    return right.replace(line % len(message.body), line % (len(message.body) + 1000), 1)


@message_headers.result(FrameEncoder, "message")
@breaks(f"{DESTINATION} {ID} {SUBSCRIPTION} STOMP12-MSG-05")
def headers_named_by_another_protocol(right, self, opening, message, ack, redelivered):
    """Properties of another protocol displace headers of MESSAGE that have the same names."""
    ours = ("destination", "message-id", "subscription", "ack")
    forged = (self.header(*one) for one in message.envelope.headers if one[0] in ours)
    return right.replace(b"MESSAGE\n", b"MESSAGE\n" + b"".join(forged), 1)


@message_headers.result(FrameEncoder, "_headers", breaks=DESTINATION)
def a_prefix_named_by_the_sender(right, self, envelope):
    """A header _AMQ_PREFIX of SEND is prepended to the destination of MESSAGE."""
    prefix = dict(envelope.headers).get("_AMQ_PREFIX", "")
    return right.replace(b"destination:", b"destination:" + prefix.encode(), 1)


@message_headers.variant(_rewritten, rb"\nsubscription:[^\n]*", b"")
@breaks("STOMP10-SUBSCRIBE-09 STOMP11-MSG-03 STOMP12-MSG-04 STOMP12-FH-09")
def no_subscription():
    """MESSAGE has no subscription header."""


@message_headers.mutant(SUBSCRIPTION)
def subscription_of_the_first(patch, reached):
    """Every MESSAGE of a connection carries the id of the connection's first subscription."""
    patch.set(FrameEncoder, "first", None)

    @patch.override(FrameEncoder)
    def opening(original, self, consumer, subscription):
        if self.first is None:
            self.first = subscription
        return original(self, consumer, reached.instead(subscription, self.first))


@message_headers.mutant(SUBSCRIPTION)
def subscription_of_the_first_there(patch, reached):
    """MESSAGE carries the id of the first subscription to its topic."""
    first: dict[str, str | None] = {}

    @patch.override(Subscription)
    def __init__(original, self, conn, number, id, destination, *others):
        original(self, conn, number, id, destination, *others)
        if reached(first.setdefault(f"{conn} {destination}", id) != id):
            self._opening = self._encoder.opening(number, first[f"{conn} {destination}"])


@message_headers.variant(_rewritten, rb"\nack:[^\n]*", b"", breaks="STOMP12-MSG-05")
def no_ack():
    """MESSAGE has no header ack in the modes that need one."""


@message_headers.variant(_rewritten, rb"\ncontent-length:[^\n]*", b"")
@breaks(f"{LENGTH} STOMP11-HDR-02 STOMP12-HDR-06")
def no_length():
    """MESSAGE has no content-length, not even for a body with NULs."""


@message_headers.variant(_rewritten, rb"(\ncontent-type:text[^\0]*)\ncontent-length:\d+", rb"\1")
@breaks(f"{LENGTH} STOMP11-HDR-02 STOMP12-HDR-06")
def no_length_of_text():
    """MESSAGE has no content-length for text, not even for text with NULs."""


@message_headers.result(FrameEncoder, "message", recreates="ARTEMIS-234")
@breaks("STOMP10-MESSAGE-03")
def no_length_in_1_0(right, self, opening, message, ack, redelivered):
    """MESSAGE to a 1.0 client has no content-length although its SEND had one."""
    if self._length_always:
        return right
    return re.sub(rb"\ncontent-length:[^\n]*(?=\n\n)", b"", right, count=1)


@message_headers.result(FrameEncoder, "message")
@breaks(f"{LENGTH} STOMP11-HDR-02 STOMP12-HDR-06 STOMP11-HDR-03 STOMP12-HDR-03 STOMP10-SEND-05")
def length_in_characters(right, self, opening, message, ack, redelivered):
    """The content-length of MESSAGE counts characters instead of bytes."""
    characters = len(message.body.decode(errors="replace"))
    line = b"content-length:%d\n\n"
    return right.replace(line % len(message.body), line % characters, 1)


@message_headers.variant(_rewritten, rb"\ncontent-type:[^\n]*", b"", recreates="ARTEMIS-230")
@breaks(
    "STOMP11-MSG-05 STOMP12-MSG-07 STOMP11-HDR-05 STOMP12-HDR-07 STOMP11-SEND-06"
    " STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08 STOMP12-FH-13"
)
def content_type_lost():
    """MESSAGE lacks the content-type of SEND."""


def _dropping(patch, reached, drop):
    @patch.result(FrameEncoder)
    def _headers(right, self, envelope):
        kept = [
            header for number, header in enumerate(envelope.headers) if not drop(number, *header)
        ]  # type: ignore[operator]
        lines = [self.header("destination", envelope.destination)]
        return reached.instead(
            right, b"".join([*lines, *(self.header(*header) for header in kept)])
        )


@message_headers.through(
    _dropping,
    "STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08 STOMP12-FH-13"
    " STOMP10-FRAME-02 STOMP10-FRAME-03 STOMP12-REPEAT-02",
)
def users_headers_dropped(number, name, value):
    """MESSAGE lacks the application's headers."""
    return name.startswith("x")


@message_headers.through(
    _dropping,
    "STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08 STOMP12-FH-13"
    " STOMP10-FRAME-02 STOMP10-FRAME-03",
)
def only_ten_headers(number, name, value):
    """MESSAGE has at most ten headers of a SEND."""
    return number >= 10


@message_headers.through(
    _dropping,
    "STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08 STOMP12-FH-13"
    " STOMP11-FRAME-03 STOMP12-FRAME-05",
)
def empty_headers_dropped(number, name, value):
    """MESSAGE lacks headers without a value."""
    return not value


@message_headers.result(FrameEncoder, "_headers", breaks="STOMP12-REPEAT-02")
def repeated_headers_turned_round(right, self, envelope):
    """Repeated headers are reversed in MESSAGE, so that the last entry becomes the first."""
    lines = [self.header("destination", envelope.destination)]
    lines += [self.header(*header) for header in reversed(envelope.headers)]
    wrong = b"".join(lines)
    return wrong if len(dict(envelope.headers)) < len(envelope.headers) else right


@message_headers.override(FrameEncoder, "header")
@breaks(
    "STOMP11-SEND-06 STOMP12-SEND-06 STOMP11-MSG-06 STOMP12-MSG-08 STOMP12-FH-13 STOMP10-FRAME-03"
)
def numbers_normalised(original, reached, self, name, value):
    """A header value that looks like a number is read as one and written anew: 007 becomes 7."""
    right = original(self, name, value)
    if not (name.startswith("x") and value.isascii() and value.isdigit()):
        return right
    return reached.instead(right, original(self, name, str(int(value))))


@message_headers.variant(_rewritten, rb"\ndestination:", b"\n:extra\ndestination:")
@breaks("STOMP10-FRAME-02 STOMP11-FRAME-03 STOMP12-FRAME-04")
def a_header_without_name():
    """MESSAGE has a header line that begins with its colon."""


@message_headers.result(FrameEncoder, "message", breaks=ID)
def message_ids_come_again(right, self, opening, message, ack, redelivered):
    """The numbers in message-ids repeat after sixteen messages."""
    again = b"%010d" % (message.number % 16)
    return right.replace(b"%010d" % message.number, again, 1) if b"ack:" in ack else right
