"""ERROR: what it reports about the offending frame, and what happens to the connection.

The specifications leave it mostly to the server which frames are errors, so each case provokes
errors in several ways and judges every ERROR it receives. At least one is always due: from 1.1 on,
a SEND that cannot be processed must be answered with an ERROR.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import HeaderList
from brokerproof.suites.api import PATIENCE, RECONFIGURABLE, Bench, case, either, over, shown
from brokerproof.suites.api.stomp import CONNECTED, ERROR, Frame, StompPeer, frame
from brokerproof.suites.steps.refusals import bystander, error_from
from brokerproof.suites.stomp.byte_steps import length_in_words

MAY_SEND_ERROR = {"1.0": "STOMP10-ERROR-01", "1.1": "STOMP11-ERR-01", "1.2": "STOMP12-ERR-01"}
CLOSE_AFTER_ERROR = "STOMP12-ERR-02"
RECEIPTS = "STOMP12-HDR-17"
IN_PIECES = "STOMP12-FRAME-02"
SHORT_MESSAGE = {
    "1.0": ("STOMP10-ERROR-02",),
    "1.1": ("STOMP11-ERR-02",),
    "1.2": ("STOMP12-ERR-03", "STOMP12-FH-11"),
}
RECEIPT_ID = {"1.1": "STOMP11-ERR-05", "1.2": "STOMP12-ERR-06"}
POINTS_TO_FRAME = {"1.1": ("STOMP11-ERR-04",), "1.2": ("STOMP12-ERR-05", "STOMP12-FH-14")}
BODY_LENGTH = {"1.0": "STOMP10-ERROR-04", "1.1": "STOMP11-ERR-06", "1.2": "STOMP12-ERR-07"}
BODY_OPTIONAL = {"1.0": "STOMP10-ERROR-03", "1.1": "STOMP11-ERR-03", "1.2": "STOMP12-ERR-04"}
CONTENT_TYPE = {"1.1": "STOMP11-ERR-07", "1.2": "STOMP12-ERR-08"}
MIME_TYPE = {"1.1": "STOMP11-HDR-06", "1.2": "STOMP12-HDR-08"}
OTHERS_SERVED = {"1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
MISTAKE_ENDS = {"1.1": ("STOMP11-SEND-07",), "1.2": ("STOMP12-SEND-07", "STOMP12-ERR-02")}

MIME = r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+"


@dataclass(frozen=True)
class Mistake:
    """A frame that should fail. ``behaviour`` records whether an ERROR answers the frame."""

    words: str
    behaviour: str
    command: str
    headers: HeaderList = ()
    body: bytes = b""


MISTAKES = (
    Mistake(
        "SEND without a destination",
        "stomp.send-to-nowhere",
        "SEND",
        (("content-length", "4"),),
        b"lost",
    ),
    Mistake(
        "SUBSCRIBE without a destination", "stomp.subscribe-to-nowhere", "SUBSCRIBE", (("id", "a"),)
    ),
    Mistake(
        "COMMIT of a transaction that was never begun",
        "stomp.commit-of-nothing",
        "COMMIT",
        (("transaction", "none"),),
    ),
    Mistake(
        "UNSUBSCRIBE of a subscription that never was",
        "stomp.unsubscribe-of-nothing",
        "UNSUBSCRIBE",
        (("id", "none"),),
    ),
    Mistake("ACK without a header", "stomp.ack-of-nothing", "ACK"),
    Mistake("a command that does not exist", "stomp.unlisted-command-error", "HELLO"),
)


@dataclass(frozen=True)
class Answer:
    """An ERROR, the mistake that caused it, and the connection."""

    mistake: Mistake
    receipt: str | None
    error: Frame
    peer: StompPeer

    def has_ended(self) -> bool:
        return self.peer.ended is not None


def answers(target: Bench, version: str, *, receipts: bool) -> Iterator[Answer]:
    """Make every mistake on its own connection and yield the ERRORs that answer it."""
    for mistake in MISTAKES:
        peer = target.stomp(version)
        receipt = peer.next_receipt() if receipts else None
        asking = () if receipt is None else (("receipt", receipt),)
        peer.send(mistake.command, (*mistake.headers, *asking), mistake.body)
        error = error_from(peer)
        target.record_note(f"{mistake.words}: {'no ERROR' if error is None else error.brief()}")
        target.record_behaviour(mistake.behaviour, "no-error" if error is None else "error")
        if error is not None:
            yield Answer(mistake, receipt, error, peer)
    stranger = target.peer(version)
    stranger.send("CONNECT", target.connect_headers(version, {"accept-version": "0.9,9.9"}))
    error = stranger.watch_for(either(ERROR, CONNECTED))
    if error is not None and ERROR.accepts(error):
        unspoken = Mistake("CONNECT with unknown versions only", "", "CONNECT")
        yield Answer(unspoken, None, error, stranger)


@case(MAY_SEND_ERROR)
def test_mistakes_are_answered_with_error(target: Bench, version: str) -> None:
    """Frames that cannot be processed may get ERROR; other connections are still served."""
    with bystander(target, version):
        received = [answer.mistake.words for answer in answers(target, version, receipts=True)]
    detail = f"{len(received)} of {len(MISTAKES) + 1} mistakes got an ERROR: {', '.join(received)}"
    target.record_finding(MAY_SEND_ERROR[version], bool(received), detail)


@case(CLOSE_AFTER_ERROR)
def test_the_connection_ends_right_after_error(target: Bench) -> None:
    """After an ERROR that answers a frame, the server sends nothing more and closes."""
    with bystander(target, "1.2"):
        answered = list(answers(target, "1.2", receipts=False))
        target.wait_until(lambda: all(answer.has_ended() for answer in answered), PATIENCE)
        for answer in answered:
            closed = answer.has_ended()
            target.record_behaviour("stomp.after-error", "closes" if closed else "stays-open")
            later = [
                received.brief() for received in answer.peer.inbox if received.command != "ERROR"
            ]
            target.record_finding(
                CLOSE_AFTER_ERROR,
                closed and not later,
                f"after the ERROR for {answer.mistake.words}, the connection"
                f" {'ended' if closed else 'stayed open for 10 s'}"
                + (f", and {shown(later)} arrived" if later else ""),
            )


@case(SHORT_MESSAGE)
def test_an_error_has_a_short_message(target: Bench, version: str) -> None:
    """Frames that cannot be processed get an ERROR whose message header is one non-empty line."""
    for answer in answers(target, version, receipts=True):
        message = answer.error.get("message")
        target.record_finding(
            SHORT_MESSAGE[version],
            bool(message and message.strip()) and "\n" not in (message or "").strip(),
            f"the ERROR for {answer.mistake.words} has the message {message!r}",
        )


@case(RECEIPT_ID, POINTS_TO_FRAME)
def test_an_error_points_to_the_frame_that_caused_it(target: Bench, version: str) -> None:
    """When a frame that asks for a receipt fails, its ERROR has the requested value as receipt-id,
    or another header that repeats part of the frame."""
    for answer in answers(target, version, receipts=True):
        if answer.receipt is None:
            continue
        answered_value = answer.error.get("receipt-id")
        words = (
            f"expected receipt-id:{answer.receipt} in the ERROR for {answer.mistake.words}, got"
            f" {answer.error.brief()}"
        )
        target.record_finding(RECEIPT_ID[version], answered_value == answer.receipt, words)
        target.record_behaviour("stomp.error-names", "receipt" if answered_value else "no-receipt")
        telling = {
            answer.receipt,
            answer.mistake.command,
            *(value for _, value in answer.mistake.headers),
        }
        helps = any(
            value in telling for name, value in answer.error.headers if name != "content-length"
        )
        target.record_finding(POINTS_TO_FRAME[version], helps, words)


@case(BODY_LENGTH, BODY_OPTIONAL)
def test_an_error_with_a_body_has_a_content_length(target: Bench, version: str) -> None:
    """Frames that cannot be processed get an ERROR with or without a body. An ERROR with a body has
    a content-length that counts its bytes."""
    for answer in answers(target, version, receipts=True):
        value, size = answer.error.get("content-length"), len(answer.error.body)
        words = (
            f"the ERROR for {answer.mistake.words} has a body of {size} bytes and"
            f" {length_in_words(value)}"
        )
        target.record_held(BODY_OPTIONAL[version], answer.error, words)
        target.record_behaviour("stomp.error-body", "has-one" if size else "empty")
        if size or value is not None:
            length = "no-length" if value is None else "length"
            target.record_behaviour("stomp.error-content-length", length)
            target.record_finding(BODY_LENGTH[version], value == str(size), words)
        else:
            target.record_not_applicable(BODY_LENGTH[version], "the ERROR has no body")


@case(CONTENT_TYPE)
def test_an_error_with_a_body_has_a_content_type(target: Bench, version: str) -> None:
    """Frames that cannot be processed get an ERROR. An ERROR with a body has a content-type."""
    for answer in answers(target, version, receipts=True):
        value = answer.error.get("content-type")
        words = f"the ERROR for {answer.mistake.words} has content-type {value!r}"
        if answer.error.body:
            target.record_finding(CONTENT_TYPE[version], bool(value), words)
        else:
            target.record_not_applicable(CONTENT_TYPE[version], "the ERROR has no body")


@case(MIME_TYPE)
def test_the_content_type_of_an_error_is_a_mime_type(target: Bench, version: str) -> None:
    """Frames that cannot be processed get an ERROR. Its content-type, if any, is a MIME type."""
    for answer in answers(target, version, receipts=True):
        value = answer.error.get("content-type")
        words = f"the ERROR for {answer.mistake.words} has content-type {value!r}"
        if value is not None:
            is_mime = re.match(MIME + r"\s*(;|$)", value) is not None
            target.record_finding(MIME_TYPE[version], is_mime, words)
        else:
            target.record_not_applicable(MIME_TYPE[version], "the ERROR has no content-type")


@case(OTHERS_SERVED, MISTAKE_ENDS)
def test_a_mistake_ends_only_its_own_connection(target: Bench, version: str) -> None:
    """Two connections subscribe to one queue, and one makes a mistake that ends it. The other
    receives all later messages."""
    queue, offender = target.destination(), target.stomp(version)
    offender.subscribe(queue, ack="client")
    with bystander(target, version) as other:
        other.publish(queue, b"held by the offender")
        offender.message(body=b"held by the offender")
        other.subscribe(queue, "0", ack="auto")
        offender.send("SEND", {}, b"no destination")
        gone = target.wait_until(lambda: offender.ended is not None, PATIENCE)
        stayed = f"the broker did not close the connection within 10000 ms; {offender.instead()}"
        target.record_finding(
            MISTAKE_ENDS[version],
            gone,
            "the broker closed the connection that made the mistake" if gone else stayed,
        )
        if not gone:
            offender.close_socket()
        for body in (b"one", b"two"):
            other.publish(queue, body)
        for body in (b"one", b"two"):
            other.message(body=body, proves=OTHERS_SERVED[version])


@case(CLOSE_AFTER_ERROR, needs={"stomp-1.2", RECONFIGURABLE})
@over(examples=4, always=lambda target: [{"behind": 2}], behind=st.integers(1, 4))
def test_nothing_follows_an_error(target: Bench, behind: int) -> None:
    """A frame that will be refused and later SENDs with receipts are sent in one write. Nothing
    follows the ERROR but the close."""
    peer, to = target.stomp("1.2"), target.destination()
    headers = [("destination", to.name), *to.send_headers]
    wrong = codec.encode("SUBSCRIBE", {"destination": to.name, "id": "0", "ack": "wrong"})
    sends = [
        codec.encode("SEND", [*headers, ("receipt", f"behind-{number}")], b"behind")
        for number in range(behind)
    ]
    peer.write(b"".join([wrong, *sends]))
    target.wait_until(lambda: peer.ended is not None, PATIENCE)
    commands = [received.command for received in peer.inbox]
    target.control("ERROR" in commands, f"a wrong ack mode was answered with {shown(commands)}")
    follows = commands[commands.index("ERROR") + 1 :]
    detail = f"{', '.join(follows) or 'nothing'} arrived after the ERROR"
    target.record_finding(CLOSE_AFTER_ERROR, not follows, detail)


@case(RECEIPTS, IN_PIECES, needs={"stomp-1.2"})
@over(examples=6, always=lambda target: [{"cut": 0}, {"cut": 20}], cut=st.integers(0, 60))
def test_what_is_behind_connect_is_read(target: Bench, cut: int) -> None:
    """CONNECT, a SEND, and up to 60 bytes of another SEND are sent in one write; the rest follows
    later. Both SENDs are confirmed, the first one before the rest is sent."""
    to, peer = target.destination(), target.peer("1.2")
    headers = [("destination", to.name), *to.send_headers]
    first, second = (
        codec.encode("SEND", [*headers, ("receipt", name)], b"body") for name in ("first", "second")
    )
    connect = codec.encode("CONNECT", target.connect_headers("1.2"))
    peer.write(connect + first + second[:cut])
    peer.expect(CONNECTED)
    peer.expect(frame("RECEIPT", {"receipt-id": "first"}), proves=RECEIPTS)
    peer.write(second[cut:])
    peer.expect(frame("RECEIPT", {"receipt-id": "second"}), proves=IN_PIECES)
