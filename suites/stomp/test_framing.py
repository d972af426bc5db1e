"""The grammar of frames: where a frame begins and ends, how its lines end, and that TCP's pieces
mean nothing.

A stream may reach a broker in any pieces. Whatever they are, the same octets must get the same
answers.
"""

from __future__ import annotations

import re

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import HeadersLike
from brokerproof.harness.protocols.stomp.raw_peer import Destination, StompPeer, frame
from brokerproof.suites.stomp.error_recovery_steps import MOMENT, fate
from brokerproof.suites.stomp.octets import (
    Cut,
    RawFrame,
    cuts,
    raw_frame,
    raw_frames,
    raw_line,
    tap,
    write_in_pieces,
    write_octet_by_octet,
)

GRAMMAR = {"1.0": "STOMP10-FRAME-01", "1.1": "STOMP11-FRAME-01", "1.2": "STOMP12-FRAME-02"}
BINARY = b"\x00MESSAGE\n\n\x00\xff"
LINE_ENDS = {"1.0": [b"\n"], "1.1": [b"\n"], "1.2": [b"\n", b"\r\n"]}


def conversation(version: str, to: Destination) -> bytes:
    """Everything a client may say in one breath once it is connected; :func:`judge_answers` knows
    what must come back."""

    def octets(command: str, headers: HeadersLike, body: bytes = b"") -> bytes:
        return codec.encode(command, headers, body, version=version)

    name = ("destination", to.name)
    text = {"1.0": "plain", "1.1": "é a:b\\c\nd", "1.2": "é a:b\\c\nd\re"}[version]
    frames = [
        octets(
            "SUBSCRIBE",
            (("id", "0"), name, ("ack", "auto"), *to.subscribe_headers, ("receipt", "subscribed")),
        ),
        octets(
            "SEND",
            (name, *to.send_headers, ("x-text", text), ("receipt", "sent")),
            b"until the NUL",
        ),
        octets("BEGIN", {"transaction": "t", "receipt": "begun"}),
        octets(
            "SEND",
            (name, *to.send_headers, ("transaction", "t"), ("receipt", "in transaction")),
            b"committed",
        ),
        octets("COMMIT", {"transaction": "t", "receipt": "committed"}),
        octets(
            "SEND",
            (name, *to.send_headers, ("content-length", len(BINARY)), ("receipt", "binary")),
            BINARY,
        ),
        octets("UNSUBSCRIBE", {"id": "0", "receipt": "unsubscribed"}),
    ]
    ends = LINE_ENDS[version]
    # Nothing follows the sixth frame, so that its last octet has to be enough.
    return b"".join(
        each + ends[number % len(ends)] * ((number + 1) % 3) for number, each in enumerate(frames)
    )


RECEIPTS = ("subscribed", "sent", "binary", "begun", "in transaction", "committed")
BODIES = (b"until the NUL", BINARY, b"committed")


def judge_answers(peer: StompPeer, proves: str) -> None:
    """Each receipt and each body must come; which of them first is the broker's affair."""
    for receipt in RECEIPTS:
        peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=proves)
    for body in BODIES:
        peer.expect(frame("MESSAGE", body=body), proves=proves)


def speak(target: Bench, version: str, where: tuple[Cut, ...] | None) -> StompPeer:
    """Connects and has the conversation, cut ``where`` (None: after every octet). UNSUBSCRIBE waits
    for the messages."""
    peer = target.peer(version)
    to = target.destination()
    connect = codec.encode("CONNECT", target.connect_headers(version), version=version)
    said = conversation(version, to)
    last = said.rindex(b"UNSUBSCRIBE")

    def write(data: bytes) -> None:
        if where is None:
            write_octet_by_octet(target, peer, data)
        else:
            write_in_pieces(target, peer, data, where)

    write(connect)
    peer.expect(frame("CONNECTED"), proves=GRAMMAR[version])
    write(said[:last])
    judge_answers(peer, GRAMMAR[version])
    write(said[last:])
    peer.expect(frame("RECEIPT", {"receipt-id": "unsubscribed"}), proves=GRAMMAR[version])
    return peer


@case(GRAMMAR)
@over(examples=30, where=cuts())
def test_any_split_of_a_conversation_gets_the_same_answers(
    target: Bench, version: str, where: tuple[Cut, ...]
) -> None:
    """A valid conversation (CONNECT, SUBSCRIBE, three SENDs, a transaction, UNSUBSCRIBE) arrives in
    pieces that end anywhere: inside commands, escapes, characters, bodies, between a NUL and what
    follows. Every receipt and every message comes as it does when the octets arrive in one
    piece."""
    speak(
        target, version, ()
    )  # the same conversation, whole: when this fails, the pieces are not to blame
    speak(target, version, where)


@case(GRAMMAR)
def test_a_conversation_octet_by_octet_gets_the_same_answers(target: Bench, version: str) -> None:
    """The same conversation, every octet in a piece of its own."""
    speak(target, version, None)


@case(
    {
        "1.0": ("STOMP10-FRAME-01", "STOMP10-FRAME-04"),
        "1.1": "STOMP11-FRAME-01",
        "1.2": "STOMP12-FRAME-02",
    }
)
@over(
    examples=20, count=st.integers(2, 60), gaps=st.lists(st.integers(0, 5), min_size=1, max_size=6)
)
def test_frames_may_follow_each_other_at_once_or_after_ends_of_line(
    target: Bench, version: str, count: int, gaps: list[int]
) -> None:
    """Many SENDs are written in one go, between them none, one or several ends of line. Each is
    receipted and each message arrives."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    ends = LINE_ENDS[version]
    said = b""
    for number in range(count):
        headers = (("destination", to.name), *to.send_headers, ("receipt", f"n{number}"))
        said += codec.encode("SEND", headers, b"body %d" % number, version=version)
        said += b"".join(ends[(number + i) % len(ends)] for i in range(gaps[number % len(gaps)]))
    producer = target.stomp(version)
    producer.write(said)
    for number in range(count):
        producer.expect(frame("RECEIPT", {"receipt-id": f"n{number}"}), proves=target.cited)
    for number in range(count):
        consumer.message(body=b"body %d" % number, proves=target.cited)


@case("STOMP12-FRAME-01")
@over(examples=20, carriage=st.lists(st.booleans(), min_size=1, max_size=12))
def test_each_line_of_a_frame_may_end_with_cr_lf(target: Bench, carriage: list[bool]) -> None:
    """In 1.2 each line of SEND and SUBSCRIBE ends with LF or with CR LF, mixed as drawn. The CR is
    no part of the line: the destination, the receipt id and the user's header are what stands
    before it."""
    peer, to = target.stomp("1.2"), target.destination()
    consumer = target.stomp("1.2")
    subscribe = [
        ("id", "0"),
        ("destination", to.name),
        *to.subscribe_headers,
        ("receipt", "subscribed"),
    ]
    consumer.write(mixed("SUBSCRIBE", subscribe, carriage))
    consumer.expect(frame("RECEIPT", {"receipt-id": "subscribed"}), proves=target.cited)
    headers = [("destination", to.name), *to.send_headers, ("x-word", "value"), ("receipt", "sent")]
    peer.write(mixed("SEND", headers, carriage, b"body"))
    peer.expect(frame("RECEIPT", {"receipt-id": "sent"}), proves=target.cited)
    consumer.expect(frame("MESSAGE", {"x-word": "value"}, body=b"body"), proves=target.cited)


@case("STOMP12-FRAME-01")
def test_connect_may_end_its_lines_with_cr_lf(target: Bench) -> None:
    """A 1.2 client ends every line of CONNECT with CR LF. CONNECTED comes, for version 1.2."""
    target.stomp("1.2")
    peer = target.peer("1.2")
    peer.send("CONNECT", target.connect_headers("1.2"), eol=b"\r\n")
    peer.expect(frame("CONNECTED", {"version": "1.2"}), proves=target.cited)


@case("STOMP12-FRAME-01")
def test_connect_may_mix_its_line_ends(target: Bench) -> None:
    """Some lines of CONNECT end with LF and some with CR LF: the command alone with the one, and
    alone with the other. CONNECTED comes, for version 1.2."""
    target.stomp("1.2")
    headers = list(target.connect_headers("1.2"))
    peers = {}
    for first in (True, False):
        peers[first] = target.peer("1.2")
        peers[first].write(mixed("CONNECT", headers, [first, *[not first] * (len(headers) + 1)]))
    for first, peer in peers.items():
        came = peer.watch_for(frame("CONNECTED", {"version": "1.2"})) is not None
        ends = "CR LF, the others LF" if first else "LF, the others CR LF"
        said = "was answered CONNECTED" if came else f"was not answered CONNECTED: {peer.instead()}"
        target.record_finding(
            target.cited, came, f"CONNECT whose first line ends with {ends} {said}"
        )


def mixed(
    command: str, headers: list[tuple[str, str]], carriage: list[bool], body: bytes = b""
) -> bytes:
    """A 1.2 frame whose lines end as ``carriage`` says (True: CR LF), repeated as long as there are
    lines."""
    escaped = "1.0" if command == "CONNECT" else "1.2"
    lines = [command.encode(), *(raw_line(name, value, escaped) for name, value in headers), b""]
    ended = (
        line + (b"\r\n" if carriage[i % len(carriage)] else b"\n") for i, line in enumerate(lines)
    )
    return b"".join(ended) + body + b"\x00"


@case("STOMP11-FRAME-04")
def test_a_cr_before_lf_belongs_to_the_line_in_1_1(target: Bench) -> None:
    """A 1.1 SEND has a header line x-word:value CR LF. Only LF ends lines in 1.1, so the MESSAGE
    carries the CR as part of the value; 1.1 has no escape for it."""
    consumer, to = target.stomp("1.1"), target.destination()
    heard = tap(consumer)
    consumer.subscribe(to)
    producer = target.stomp("1.1")
    producer.publish(to, b"control", {"x-word": "value"})
    consumer.message(body=b"control")
    lines = [raw_line(*each, "1.1") for each in (("destination", to.name), *to.send_headers)]
    producer.write(raw_frame("SEND", [*lines, b"x-word:value\r", b"receipt:sent"], b"with a CR"))
    came = producer.watch_for(frame("RECEIPT", {"receipt-id": "sent"}))
    target.require(
        target.cited, came is not None, f"a CR at the end of a value: {producer.instead()}"
    )
    # The case looks at the octets themselves: what a broker makes of the CR may be no frame of 1.1
    # at all.
    target.wait_until(lambda: b"with a CR\x00" in heard, MOMENT * 10)
    found = re.findall(rb"\nx-word:([^\n]*)\n", bytes(heard))
    target.control(len(found) >= 1, "the control message has its header")
    target.record_finding(
        target.cited, found[1:] == [b"value\r"], f"x-word:value CR came back as {found[1:]!r}"
    )


CASES = {"1.1": "STOMP11-FRAME-02", "1.2": "STOMP12-FRAME-03"}


@case(CASES)
@over(examples=20, wrong=st.sampled_from(["send", "Send", "sEND"]), where=cuts(4))
def test_a_command_in_other_case_is_not_that_command(
    target: Bench, version: str, wrong: str, where: tuple[Cut, ...]
) -> None:
    """A frame that is a SEND but for the case of its command. Whatever the broker does with it, it
    publishes nothing: the message of a proper SEND arrives, the other does not."""
    judge_no_send(target, version, wrong, where)


@case(CASES)
@over(examples=10, where=cuts(4))
def test_a_command_with_one_small_letter_is_not_that_command(
    target: Bench, version: str, where: tuple[Cut, ...]
) -> None:
    """The same, when only the last letter is a small one: SENd."""
    judge_no_send(target, version, "SENd", where)


def judge_no_send(target: Bench, version: str, wrong: str, where: tuple[Cut, ...]) -> None:
    """``wrong`` stands where SEND should: its message must not arrive."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    offender = target.stomp(version)
    offender.publish(to, b"before")
    consumer.message(body=b"before")
    data = codec.encode(
        wrong, (("destination", to.name), *to.send_headers), b"not sent", version=version
    )
    write_in_pieces(target, offender, data, where)
    seen = fate(target, offender)
    target.stomp(version).publish(to, b"after")
    consumer.message(body=b"after")
    why = f"{wrong} is not SEND; {seen}"
    consumer.expect_nothing(
        for_=MOMENT, of=frame("MESSAGE", body=b"not sent"), proves=target.cited, why=why
    )


@case("STOMP10-FRAME-06")
def test_every_command_of_1_0_is_known(target: Bench) -> None:
    """A 1.0 client uses each of its commands once, in a sensible order. Each is receipted, none
    gets ERROR."""
    peer, to = target.stomp("1.0"), target.destination()
    proves = target.cited
    peer.subscribe(to, ack="client", proves=proves)
    peer.publish(to, b"one", proves=proves)
    peer.request("ACK", peer.naming(peer.message(body=b"one", proves=proves)), proves=proves)
    for last in ("COMMIT", "ABORT"):
        peer.request("BEGIN", {"transaction": last}, proves=proves)
        peer.request(last, {"transaction": last}, proves=proves)
    peer.request("UNSUBSCRIBE", {"id": "0", "destination": to.name}, proves=proves)
    peer.request("DISCONNECT", proves=proves)


HEADER_LINE = {
    "1.0": re.compile(rb"[^\n:]+:[^\n]*"),
    "1.1": re.compile(rb"(?:[^\n:\\]|\\[nc\\])+:(?:[^\n:\\]|\\[nc\\])*"),
    "1.2": re.compile(rb"(?:[^\r\n:\\]|\\[rnc\\])+:(?:[^\r\n:\\]|\\[rnc\\])*"),
}
"""What a line of a server's frame may be, CONNECTED apart. In 1.0 an empty value is let pass: the
habit is universal."""
UNESCAPED_LINE = re.compile(rb"[^\n:]+:[^\n]*")


def wrong_line(sent: RawFrame, version: str) -> bytes | None:
    """The first header line of ``sent`` that breaks the grammar of ``version``."""
    allowed = UNESCAPED_LINE if sent.command == b"CONNECTED" else HEADER_LINE[version]
    return next((line for line in sent.lines if allowed.fullmatch(line) is None), None)


@case(
    {
        "1.0": ("STOMP10-FRAME-02", "STOMP10-FRAME-03", "STOMP10-FRAME-05", "STOMP10-FRAME-07"),
        "1.1": ("STOMP11-FRAME-03", "STOMP11-ENC-02"),
        "1.2": ("STOMP12-FRAME-04", "STOMP12-FRAME-05", "STOMP12-ENC-02"),
    }
)
def test_what_the_server_sends_obeys_the_grammar(target: Bench, version: str) -> None:
    """Every octet of the server's side of a conversation is looked at: each header line of
    CONNECTED, RECEIPT, MESSAGE and ERROR has a name, a colon and a value, and no octet in them that
    this version keeps out of headers, although the client's own headers and receipt ids ask for
    every one of them."""
    peer = target.peer(version)
    heard = tap(peer)
    peer.connect(target.connect_headers(version))
    to = target.destination()
    text = {"1.0": "a b c", "1.1": "a:b\\c\nd", "1.2": "a:b\\c\nd\re"}[version]
    peer.subscribe(to, "0")
    receipt = f"receipt {text}"
    peer.send(
        "SEND",
        (("destination", to.name), *to.send_headers, ("x-word", text), ("receipt", receipt)),
        b"body",
    )
    peer.watch_for(frame("RECEIPT", {"receipt-id": receipt}))
    peer.watch_for(frame("MESSAGE", body=b"body"))
    peer.send(
        "ABORT", {"transaction": f"never begun: {text}" if version != "1.0" else "never begun"}
    )
    seen = fate(target, peer)
    frames = list(raw_frames(heard))
    commands = [each.command.decode(errors="replace") for each in frames]
    target.control(
        commands[:1] == ["CONNECTED"] and "MESSAGE" in commands,
        f"the server sent {commands}; {seen}",
    )
    wrong = next((line for each in frames if (line := wrong_line(each, version)) is not None), None)
    grammar = target.cited[:2] if version == "1.0" else target.cited
    target.record_finding(
        grammar,
        wrong is None,
        f"of {len(frames)} frames, a header line was {wrong!r}"
        if wrong
        else f"every header line of {len(frames)} frames is well formed",
    )
    if version == "1.0":
        known = commands.count("CONNECTED") == 1 and set(commands) <= {
            "CONNECTED",
            "RECEIPT",
            "MESSAGE",
            "ERROR",
        }
        target.record_finding(
            "STOMP10-FRAME-07", known, f"the server's commands were {', '.join(commands)}"
        )
        heads = b"".join(line for each in frames for line in each.lines)
        target.record_finding(
            "STOMP10-FRAME-05",
            heads.isascii(),
            f"the headers of {len(frames)} frames hold only ASCII",
        )
