"""Faults of clients, each seeded into the small client.

A fault is a function that replaces one of the client's habits and gets the original as its first
argument. The function's docstring states the fault in one sentence. A fault violates requirements
of 1.2, or of the version in which it occurs.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from brokerproof.suites.mutation.clients.sans_io import SansIoClient
from brokerproof.suites.mutation.clients.small_client import Headers, SmallClient

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ClientFault:
    """One fault, and the requirements that it violates. One of them must be reported."""

    name: str
    client: type[SansIoClient]
    breaks: tuple[str, ...]
    sentence: str


HEARD = "STOMP12-HB-08 STOMP11-HB-08"

FAULTS: dict[str, ClientFault] = {}


def fault(
    habit: str, *, breaks: str, of: type[SansIoClient] = SmallClient
) -> Callable[[Function], Function]:
    """Register a client that does ``habit`` as the function does, and everything else like
    ``of``."""
    original = getattr(of, habit)

    def register(function: Function) -> Function:
        @functools.wraps(original)
        def replacement(self: SansIoClient, *arguments: Any, **options: Any) -> Any:
            return function(original, self, *arguments, **options)

        name = function.__name__.replace("_", "-")
        client = type(function.__name__, (of,), {habit: replacement})
        sentence = " ".join((function.__doc__ or "").split())
        FAULTS[name] = ClientFault(name, client, tuple(breaks.split()), sentence)
        return function

    return register


def without(headers: Headers, *names: str) -> Headers:
    return [(name, value) for name, value in headers if name not in names]


def _leaves_out(command: str, header: str, name: str, breaks: str) -> None:
    """Register a client whose frames of this command lack the header."""

    def send_frame(original, self, frame, headers, body=b""):
        original(self, frame, without(headers, header) if frame == command else headers, body)

    send_frame.__name__ = name
    send_frame.__doc__ = f"{command} has no {header}."
    fault("send_frame", breaks=breaks)(send_frame)


_leaves_out("CONNECT", "passcode", "leaves_out_the_passcode", "STOMP10-CONNECT-01")
_leaves_out(
    "CONNECT", "accept-version", "names_no_version", "STOMP12-CONNECT-06 STOMP11-CONNECT-08"
)
_leaves_out("CONNECT", "host", "names_no_host", "STOMP12-CONNECT-07 STOMP11-CONNECT-09")
_leaves_out(
    "SEND", "destination", "sends_nowhere", "STOMP12-SEND-01 STOMP11-SEND-01 STOMP10-SEND-01"
)
_leaves_out(
    "SEND", "content-length", "sends_no_length", "STOMP12-SEND-03 STOMP11-SEND-03 STOMP10-SEND-04"
)
_leaves_out("SEND", "content-type", "loses_the_content_type", "STOMP12-SEND-04 STOMP11-SEND-04")
_leaves_out("SUBSCRIBE", "id", "subscribes_without_id", "STOMP12-SUB-05 STOMP11-SUB-05")
_leaves_out(
    "COMMIT",
    "transaction",
    "commits_without_name",
    "STOMP12-COMMIT-01 STOMP11-COMMIT-01 STOMP10-COMMIT-01",
)
_leaves_out(
    "SEND",
    "transaction",
    "sends_outside_of_transactions",
    "STOMP12-BEGIN-01 STOMP11-BEGIN-01 STOMP10-BEGIN-01",
)
_leaves_out("DISCONNECT", "receipt", "asks_for_no_receipt", "STOMP12-DISC-01 STOMP11-DISC-01")


# --- the first frame ------------------------------------------------------------------------------


@fault("connect_headers", breaks="STOMP12-HB-01 STOMP11-HB-01")
def heart_beat_in_seconds(original, self):
    """The header heart-beat has fractions of seconds."""
    values = ",".join(str(number / 1000) for number in self.connecting["heart_beat"])
    return [*without(original(self), "heart-beat"), ("heart-beat", values)]


@fault("connect_headers", breaks="STOMP12-HB-03 STOMP11-HB-03")
def announces_one_number_twice(original, self):
    """The header heart-beat has the outgoing interval twice."""
    can = self.connecting["heart_beat"][0]
    return [*without(original(self), "heart-beat"), ("heart-beat", f"{can},{can}")]


@fault("connect_headers", breaks="STOMP12-HB-02 STOMP11-HB-02")
def announces_heart_beats_swapped(original, self):
    """The header heart-beat has the incoming interval first."""
    can, wanted = self.connecting["heart_beat"]
    return [*without(original(self), "heart-beat"), ("heart-beat", f"{wanted},{can}")]


@fault("connect_headers", breaks="STOMP12-NEGO-02 STOMP11-NEGO-02")
def lists_the_newest_first(original, self):
    """accept-version begins with the newest version."""
    return [
        (name, f"{value},1.0" if name == "accept-version" else value)
        for name, value in original(self)
    ]


@fault("connect_headers", breaks="STOMP12-ENC-03 STOMP11-ENC-03")
def escapes_connect(original, self):
    """The headers of CONNECT are escaped."""
    return [(name, self.escape(value)) for name, value in original(self)]


@fault("write", breaks="STOMP12-CONNECT-05 STOMP11-CONNECT-07")
def begins_with_stomp(original, self, data):
    """The first frame is STOMP."""
    original(self, re.sub(rb"^CONNECT\n", b"STOMP\n", data))


@fault("dialled", breaks="STOMP12-BODY-02 STOMP11-BODY-02 STOMP10-CONNECT-04")
def connect_has_a_body(original, self):
    """CONNECT has a body."""
    self.send_frame("CONNECT", self.connect_headers(), b"hello")


# --- heartbeats -----------------------------------------------------------------------------------


@fault("beat_due", breaks="STOMP12-HB-09 STOMP11-HB-09")
def never_beats(original, self):
    """The client sends no heartbeats."""
    return


@fault("beat_due", breaks="STOMP12-HB-09 STOMP11-HB-09")
def beats_too_late(original, self):
    """The client sends its heartbeats a fifth of the interval too late."""
    due = original(self)
    return None if due is None else due + self.sends_every // 5


@fault("agree", breaks="STOMP12-HB-06 STOMP11-HB-06")
def beats_by_its_own_interval(original, self, connected):
    """The client sends heartbeats at its own interval although the server wants them more often."""
    original(self, connected)
    self.sends_every = self.sends_every and 2 * self.sends_every


@fault("beat", breaks="STOMP12-HB-09 STOMP11-HB-09")
def beats_once(original, self):
    """The client's timer fires once and is never armed again."""
    original(self)
    self.sends_every = 0


@fault("beat_due", breaks="STOMP12-HB-09 STOMP11-HB-09")
def does_not_beat_while_its_listener_works(original, self):
    """The client's heartbeats wait for the listener."""
    return original(self) if self.works_until is None else None


@fault("agree", breaks="STOMP12-HB-06 STOMP11-HB-06")
def beats_unasked(original, self, connected):
    """The client sends heartbeats although the server wants none."""
    original(self, connected)
    self.sends_every = self.connecting["heart_beat"][0] * 1_000_000


@fault("agree", breaks="STOMP12-HB-06 STOMP11-HB-06")
def beats_where_it_said_zero(original, self, connected):
    """The client sends heartbeats although it announced that it cannot."""
    original(self, connected)
    self.sends_every = int(connected.get("heart-beat", "0,0").split(",")[1]) * 1_000_000


@fault("agree", breaks="STOMP12-HB-05 STOMP11-HB-05")
def assumes_heart_beats(original, self, connected):
    """A CONNECTED without heart-beat counts as one with the client's own numbers."""
    can, wanted = self.connecting["heart_beat"]
    original(self, {"heart-beat": f"{wanted},{can}", **connected})


@fault("take", breaks="STOMP12-HB-05 STOMP11-HB-05")
def waits_for_the_header_heart_beat(original, self, command, headers, body):
    """A CONNECTED without heart-beat is ignored."""
    if command != "CONNECTED" or "heart-beat" in self.as_mapping(headers):
        original(self, command, headers, body)


@fault("beat", breaks="STOMP12-HB-10 STOMP11-HB-10")
def beats_with_a_blank(original, self):
    """The client sends a blank as a heartbeat."""
    self.write(b" ")


@fault("beat", breaks="STOMP11-HB-10")
def beats_with_cr_lf(original, self):
    """The client sends CR LF as a heartbeat in 1.1 too."""
    self.write(b"\r\n")


@fault("heard", breaks=HEARD)
def counts_heart_beats_only(original, self, data):
    """Only line ends count as signs of life."""
    if not data.strip(b"\n"):
        original(self, data)


@fault("heard", breaks=HEARD)
def counts_whole_frames_only(original, self, data):
    """Part of a frame does not count as a sign of life."""
    if not data.strip(b"\n") or data.endswith(b"\0"):
        original(self, data)


@fault("heard", breaks=HEARD)
def counts_no_heart_beats(original, self, data):
    """Line ends do not count as signs of life."""
    if data.strip(b"\n"):
        original(self, data)


@fault("heard", breaks=HEARD)
def hears_nothing_while_its_listener_works(original, self, data):
    """Input while its listener works does not count as a sign of life."""
    if self.works_until is None:
        original(self, data)


@fault("leave_due", breaks="STOMP12-HB-12 STOMP11-HB-12")
def grants_no_margin(original, self):
    """The client leaves when nothing has arrived for a millisecond less than the interval."""
    due = original(self)
    return None if due is None else due - self.awaits_every - 1_000_000


@fault("agree", breaks="STOMP12-HB-03 STOMP11-HB-03")
def awaits_what_it_does_not_want(original, self, connected):
    """The client expects heartbeats although it announced that it wants none."""
    original(self, connected)
    self.awaits_every = int(connected.get("heart-beat", "0,0").split(",")[0]) * 1_000_000


# --- frames ---------------------------------------------------------------------------------------


@fault("length", breaks="STOMP12-HDR-06 STOMP11-HDR-02")
def sends_no_length_with_nuls(original, self, body):
    """SEND has no content-length although the body has a NUL."""
    return [] if b"\0" in body else original(self, body)


@fault("length", breaks="STOMP12-SEND-03 STOMP12-HDR-06 STOMP11-HDR-02")
def counts_characters(original, self, body):
    """content-length counts the characters of the body, plus one."""
    return [("content-length", str(len(body) - 1))]


@fault("do_send", breaks="STOMP12-ENC-01 STOMP12-HDR-14 STOMP11-ENC-01")
def writes_latin1(original, self, **fields):
    """Characters outside Latin-1 are replaced."""
    if isinstance(fields["body"], str):
        fields["body"] = fields["body"].encode("latin-1", "replace").decode("latin-1")
    original(self, **fields)


@fault("escape", breaks="STOMP12-ENC-02 STOMP11-ENC-02")
def escapes_nothing(original, self, text):
    """Headers are not escaped."""
    return text.replace("\n", " ").replace("\r", " ")


@fault("escape", breaks="STOMP12-ENC-02 STOMP12-ENC-09")
def escapes_as_older_versions(original, self, text):
    """CR is not escaped in 1.2."""
    return original(self, text).replace("\\r", "\r")


@fault("escape", breaks="STOMP12-ENC-09 STOMP11-ENC-08")
def escapes_backslashes_twice(original, self, text):
    """A backslash is escaped again."""
    return original(self, text.replace("\\", "\\\\"))


@fault("escape", breaks="STOMP12-ENC-10 STOMP11-ENC-09")
def trims_what_it_sends(original, self, text):
    """Blanks around the values of headers are not sent."""
    return original(self, text.strip(" "))


@fault("unescape", breaks="STOMP12-ENC-10 STOMP11-ENC-09")
def trims_what_it_reads(original, self, text):
    """Blanks around header values are not delivered."""
    return original(self, text).strip(" ")


@fault("unescape", breaks="STOMP12-ENC-06 STOMP11-ENC-05")
def reads_no_escapes(original, self, text):
    """Escapes are delivered undecoded."""
    return text


@fault("header", breaks="STOMP12-ENC-06 STOMP11-ENC-05")
def reads_escapes_in_values_only(original, self, command, line):
    """Escapes in header names are delivered undecoded."""
    return line.partition(":")[0], original(self, command, line)[1]


@fault("unescaped", breaks="STOMP12-ENC-08 STOMP11-ENC-07")
def keeps_unknown_escapes(original, self, known, letter):
    """An unknown escape is delivered unchanged."""
    return known.get(letter, f"\\{letter}")


@fault("receive", breaks="STOMP12-ENC-08 STOMP11-ENC-07")
def drops_messages_with_unknown_escapes(original, self, data):
    """A message with an unknown escape is silently dropped."""
    original(self, b"" if re.search(rb"(?<!\\)\\[^\\nrc]", data) else data)


@fault("as_mapping", breaks="STOMP12-REPEAT-02 STOMP11-REPEAT-02")
def takes_the_last_header(original, self, headers):
    """The last of repeated headers counts."""
    return dict(headers)


@fault("body_length", breaks="STOMP12-HDR-03 STOMP11-HDR-03")
def stops_at_a_nul(original, self, headers, rest):
    """A body ends at its first NUL, whatever content-length says."""
    return original(self, [], rest)


@fault("receive", breaks="STOMP12-FRAME-02 STOMP11-FRAME-01 STOMP10-FRAME-01")
def loses_what_is_in_pieces(original, self, data):
    """An incomplete frame is dropped when the next piece arrives."""
    if self.connected and len(data) < 20:
        self.pending = b""
    original(self, data)


@fault("receive", breaks="STOMP12-FRAME-02 STOMP11-FRAME-01 STOMP10-FRAME-01")
def reads_one_frame_a_piece(original, self, data):
    """Of several frames that arrive together, only the first is read."""
    first, end, _ = data.partition(b"\0")
    original(self, first + end)


@fault("split_head", breaks="STOMP12-FRAME-01")
def keeps_the_cr(original, self):
    """A CR before LF is part of a header's value."""
    head, rest = original(self)
    return (self.pending.partition(b"\n\r\n")[0], rest) if b"\r" in self.pending else (head, rest)


# --- sessions -------------------------------------------------------------------------------------


@fault("do_subscribe", breaks="STOMP12-SUB-06 STOMP11-SUB-05")
def subscribes_with_one_id(original, self, destination, id, ack):
    """All subscriptions have one id."""
    original(self, destination, "0", ack)


@fault("do_subscribe", breaks="STOMP12-SUB-07 STOMP11-SUB-06 STOMP10-SUBSCRIBE-04")
def subscribes_in_an_unknown_mode(original, self, destination, id, ack):
    """The mode of a subscription is in capitals."""
    original(self, destination, id, ack.upper())


@fault("do_unsubscribe", breaks="STOMP12-UNSUB-01 STOMP11-UNSUB-01")
def unsubscribes_by_destination(original, self, id, destination):
    """UNSUBSCRIBE has the destination instead of the id, in every version."""
    self.send_frame("UNSUBSCRIBE", [("destination", destination)])


@fault("naming", breaks="STOMP12-ACK-01 STOMP12-NACK-01")
def names_by_message_id(original, self, message):
    """ACK and NACK name a message by its message-id in 1.2 too."""
    return [("id", message["message-id"])]


@fault("naming", breaks="STOMP11-ACK-02 STOMP11-NACK-01")
def names_no_subscription(original, self, message):
    """ACK and NACK have no subscription in 1.1."""
    return without(original(self, message), "subscription")


@fault("settle", breaks="STOMP12-ACK-01 STOMP11-ACK-01 STOMP10-ACK-01")
def names_the_first_message(original, self, command, message, transaction):
    """Every ACK names the first message."""
    original(self, command, 1, transaction)


@fault("settle", breaks="STOMP12-ACK-01 STOMP11-ACK-01 STOMP10-ACK-01")
def names_the_newest_message(original, self, command, message, transaction):
    """Every ACK names the message that arrived last."""
    original(self, command, len(self.received), transaction)


@fault("do_nack", breaks="STOMP12-NACK-01 STOMP11-NACK-01 STOMP12-SUB-12")
def acknowledges_what_is_refused(original, self, message, transaction=None):
    """Messages that the application refuses are acknowledged."""
    self.settle("ACK", message, transaction)


@fault("do_ack", breaks="STOMP12-SUB-09 STOMP11-SUB-08 STOMP10-ACK-01")
def keeps_acknowledgements(original, self, message, transaction=None):
    """Acknowledgements are not sent."""
    return


@fault("do_abort", breaks="STOMP12-ABORT-01 STOMP11-ABORT-01 STOMP10-ABORT-01")
def commits_instead_of_aborting(original, self, transaction):
    """Transactions that the application aborts are committed."""
    self.send_frame("COMMIT", [("transaction", transaction)])


@fault("do_disconnect", breaks="STOMP12-DISC-01 STOMP11-DISC-01")
def does_not_wait_for_the_receipt(original, self):
    """The client closes immediately after DISCONNECT."""
    original(self)
    self.end()


@fault("do_disconnect", breaks="STOMP12-DISC-02 STOMP11-DISC-02")
def unsubscribes_behind_disconnect(original, self):
    """UNSUBSCRIBE follows DISCONNECT."""
    original(self)
    self.do_unsubscribe("s1", "/queue/a")


@fault("write", breaks="STOMP12-HDR-04 STOMP11-HDR-04 STOMP10-SEND-06")
def leaves_out_the_nul(original, self, data):
    """A SEND with content-length has no NUL after its body."""
    is_send = data.startswith(b"SEND")
    original(self, data[:-1] if is_send else data)
