"""The grammar of frames: where a frame begins and ends, how lines end, and TCP segmentation.

TCP may split a stream anywhere; the same bytes must always get the same answers.
"""

import re

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp import codec
from brokerproof.suites.api import PATIENCE, Bench, case, ms, over
from brokerproof.suites.api.stomp import Destination, HeadersLike, StompPeer, frame
from brokerproof.suites.stomp.byte_steps import (
    Cut,
    RawFrame,
    cuts,
    raw_frame,
    raw_frames,
    raw_line,
    tap,
    write_byte_by_byte,
    write_in_pieces,
)
from brokerproof.suites.stomp.error_recovery_steps import MOMENT, fate

FRAME_ENDS = {
    "1.0": ("STOMP10-FRAME-01", "STOMP10-FRAME-04"),
    "1.1": ("STOMP11-FRAME-01",),
    "1.2": ("STOMP12-FRAME-02",),
}
CR_LF = "STOMP12-FRAME-01"
CR_IN_LINE = "STOMP11-FRAME-04"
ESCAPED_AS_THEY_CAME = "STOMP11-ENC-08"
COMMANDS_1_0 = "STOMP10-FRAME-06"
ACK_1_0 = "STOMP10-ACK-01"

GRAMMAR = {"1.0": "STOMP10-FRAME-01", "1.1": "STOMP11-FRAME-01", "1.2": "STOMP12-FRAME-02"}
BINARY = b"\x00MESSAGE\n\n\x00\xff"
LINE_ENDS = {"1.0": [b"\n"], "1.1": [b"\n"], "1.2": [b"\n", b"\r\n"]}
MANY_ENDS = 2**22 + 2**18
"""More octets than RabbitMQ accepts in one frame: seven weeks of heartbeats, one per second."""
OCTETS_PER_MS = 200
"""A busy broker, even if it reads byte by byte, should read this many bytes in a millisecond."""
MOST_MIXED = 5
"""The longest run of line ends that mixes LF and CR LF, in versions that allow CR LF."""


def conversation(version: str, to: Destination, transaction: str) -> bytes:
    """Return everything that a client may send in one write, whose answers :func:`judge_answers`
    checks."""

    def encoded(command: str, headers: HeadersLike, body: bytes = b"") -> bytes:
        return codec.encode(command, headers, body, version=version)

    name = ("destination", to.name)
    text = {"1.0": "plain", "1.1": "é a:b\\c\nd", "1.2": "é a:b\\c\nd\re"}[version]
    frames = [
        encoded(
            "SUBSCRIBE",
            (("id", "0"), name, ("ack", "auto"), *to.subscribe_headers, ("receipt", "subscribed")),
        ),
        encoded(
            "SEND",
            (name, *to.send_headers, ("x-text", text), ("receipt", "sent")),
            b"until the NUL",
        ),
        encoded("BEGIN", {"transaction": transaction, "receipt": "begun"}),
        encoded(
            "SEND",
            (name, *to.send_headers, ("transaction", transaction), ("receipt", "in transaction")),
            b"committed",
        ),
        encoded("COMMIT", {"transaction": transaction, "receipt": "committed"}),
        encoded(
            "SEND",
            (name, *to.send_headers, ("content-length", len(BINARY)), ("receipt", "binary")),
            BINARY,
        ),
        encoded("UNSUBSCRIBE", {"id": "0", "receipt": "unsubscribed"}),
    ]
    ends = LINE_ENDS[version]
    # Nothing follows the sixth frame, so its last byte must suffice.
    return b"".join(
        part + ends[number % len(ends)] * ((number + 1) % 3) for number, part in enumerate(frames)
    )


RECEIPTS = ("subscribed", "sent", "binary", "begun", "in transaction", "committed")
BODIES = (b"until the NUL", BINARY, b"committed")


def judge_answers(peer: StompPeer, proves: str) -> None:
    """Judge whether each receipt and each body arrives, in any order."""
    for receipt in RECEIPTS:
        peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=proves)
    for body in BODIES:
        peer.expect(frame("MESSAGE", body=body), proves=proves)


def speak(target: Bench, version: str, where: tuple[Cut, ...] | None) -> StompPeer:
    """Connect and send the conversation, cut ``where`` (None means after every byte)."""
    peer = target.peer(version)
    to = target.destination()
    connect = codec.encode("CONNECT", target.connect_headers(version), version=version)
    sent_bytes = conversation(version, to, peer.transaction)
    last = sent_bytes.rindex(b"UNSUBSCRIBE")

    def write(data: bytes) -> None:
        if where is None:
            write_byte_by_byte(target, peer, data)
        else:
            write_in_pieces(target, peer, data, where)

    write(connect)
    peer.expect(frame("CONNECTED"), proves=GRAMMAR[version])
    write(sent_bytes[:last])
    judge_answers(peer, GRAMMAR[version])
    write(sent_bytes[last:])
    peer.expect(frame("RECEIPT", {"receipt-id": "unsubscribed"}), proves=GRAMMAR[version])
    return peer


@case(GRAMMAR)
@over(examples=30, where=cuts())
def test_any_split_of_a_conversation_gets_the_same_answers(
    target: Bench, version: str, where: tuple[Cut, ...]
) -> None:
    """A valid conversation is split anywhere: inside commands, escapes, characters or bodies. Every
    RECEIPT and MESSAGE is the same as for the conversation in one piece."""
    speak(
        target, version, ()
    )  # the same conversation in one piece: if this fails, the pieces are not to blame
    speak(target, version, where)


@case(GRAMMAR)
def test_a_conversation_octet_by_octet_gets_the_same_answers(target: Bench, version: str) -> None:
    """A valid conversation sent byte by byte gets the same answers as in one piece."""
    speak(target, version, None)


@case(FRAME_ENDS)
@over(
    examples=20,
    always=lambda target: [{"count": 2, "gaps": [MANY_ENDS, 0]}],
    count=st.integers(2, 60),
    gaps=st.lists(st.integers(0, MOST_MIXED), min_size=1, max_size=6),
)
def test_frames_may_follow_each_other_at_once_or_after_ends_of_line(
    target: Bench, version: str, count: int, gaps: list[int]
) -> None:
    """SENDs are sent in one write with zero, one, several or very many line ends between them, more
    than a frame may have bytes. Each gets its RECEIPT and each message arrives."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    ends = LINE_ENDS[version]
    data = b""
    for number in range(count):
        headers = (("destination", to.name), *to.send_headers, ("receipt", f"n{number}"))
        data += codec.encode("SEND", headers, b"body %d" % number, version=version)
        gap = gaps[number % len(gaps)]
        mixed = min(gap, MOST_MIXED)
        data += b"".join(ends[(number + i) % len(ends)] for i in range(mixed))
        data += b"\n" * (gap - mixed)
    producer = target.stomp(version)
    producer.write(data)
    within = PATIENCE + ms(len(data) // OCTETS_PER_MS)
    for number in range(count):
        receipt = frame("RECEIPT", {"receipt-id": f"n{number}"})
        producer.expect(receipt, within=within, proves=FRAME_ENDS[version])
    for number in range(count):
        consumer.message(body=b"body %d" % number, proves=FRAME_ENDS[version])


@case(CR_LF)
@over(
    examples=20,
    always=lambda target: [{"carriage": [True], "pieces": True}],
    carriage=st.lists(st.booleans(), min_size=1, max_size=12),
    pieces=st.booleans(),
)
def test_each_line_of_a_frame_may_end_with_cr_lf(
    target: Bench, carriage: list[bool], pieces: bool
) -> None:
    """In 1.2 the lines of SEND and SUBSCRIBE end with a mixture of LF and CR LF, in some examples
    with a cut after every byte. The frames are processed, and no CR becomes part of a value."""
    peer, to = target.stomp("1.2"), target.destination()
    consumer = target.stomp("1.2")
    subscribe = [
        ("id", "0"),
        ("destination", to.name),
        *to.subscribe_headers,
        ("receipt", "subscribed"),
    ]
    consumer.write(mixed("SUBSCRIBE", subscribe, carriage))
    consumer.expect(frame("RECEIPT", {"receipt-id": "subscribed"}), proves=CR_LF)
    headers = [("destination", to.name), *to.send_headers, ("x-word", "value"), ("receipt", "sent")]
    data = mixed("SEND", headers, carriage, b"body")
    if pieces:
        # A broker that cannot read a split frame is judged by GRAMMAR, not by its line ends.
        write_byte_by_byte(target, peer, mixed("SEND", headers, [False], b"body"))
        peer.expect(frame("RECEIPT", {"receipt-id": "sent"}))
        consumer.message(body=b"body")
        write_byte_by_byte(target, peer, data)
    else:
        peer.write(data)
    peer.expect(frame("RECEIPT", {"receipt-id": "sent"}), proves=CR_LF)
    consumer.expect(frame("MESSAGE", {"x-word": "value"}, body=b"body"), proves=CR_LF)


@case(CR_LF)
def test_connect_may_end_its_lines_with_cr_lf(target: Bench) -> None:
    """A 1.2 CONNECT whose lines all end with CR LF is answered with CONNECTED for version 1.2."""
    target.stomp("1.2")
    peer = target.peer("1.2")
    peer.send("CONNECT", target.connect_headers("1.2"), eol=b"\r\n")
    peer.expect(frame("CONNECTED", {"version": "1.2"}), proves=CR_LF)


@case(CR_LF)
def test_connect_may_mix_its_line_ends(target: Bench) -> None:
    """A CONNECT whose first line ends with LF and all further lines with CR LF, or the reverse, is
    answered with CONNECTED for version 1.2."""
    target.stomp("1.2")
    headers = list(target.connect_headers("1.2"))
    peers = {}
    for first in (True, False):
        peers[first] = target.peer("1.2")
        peers[first].write(mixed("CONNECT", headers, [first, *[not first] * (len(headers) + 1)]))
    for first, peer in peers.items():
        answered = peer.watch_for(frame("CONNECTED", {"version": "1.2"})) is not None
        ends = "CR LF and the others with LF" if first else "LF and the others with CR LF"
        answer = (
            "was answered with CONNECTED"
            if answered
            else f"was not answered with CONNECTED; {peer.instead()}"
        )
        detail = f"a CONNECT that ends its first line with {ends} {answer}"
        target.record_finding(CR_LF, answered, detail)


def mixed(
    command: str, headers: list[tuple[str, str]], carriage: list[bool], body: bytes = b""
) -> bytes:
    """Return a 1.2 frame whose line ends follow ``carriage`` (True means CR LF), repeated."""
    escaped = "1.0" if command == "CONNECT" else "1.2"
    lines = [command.encode(), *(raw_line(name, value, escaped) for name, value in headers), b""]
    ended = (
        line + (b"\r\n" if carriage[i % len(carriage)] else b"\n") for i, line in enumerate(lines)
    )
    return b"".join(ended) + body + b"\x00"


@case(CR_IN_LINE, ESCAPED_AS_THEY_CAME)
def test_a_cr_before_lf_belongs_to_the_line_in_1_1(target: Bench) -> None:
    """A 1.1 SEND has a header line that ends with CR LF. MESSAGE has the CR as part of the value,
    unescaped: 1.1 has no escape for it."""
    consumer, to = target.stomp("1.1"), target.destination()
    raw = tap(consumer)
    consumer.subscribe(to)
    producer = target.stomp("1.1")
    producer.publish(to, b"control", {"x-word": "value"})
    consumer.message(body=b"control")
    lines = [raw_line(*header, "1.1") for header in (("destination", to.name), *to.send_headers)]
    producer.write(raw_frame("SEND", [*lines, b"x-word:value\r", b"receipt:sent"], b"with a CR"))
    answer = producer.watch_for(frame("RECEIPT", {"receipt-id": "sent"}))
    words = f"a CR at the end of a value: {producer.instead()}"
    target.require(CR_IN_LINE, answer is not None, words)
    # The case reads raw bytes: a broker may turn the CR into something that is not a valid 1.1
    # frame.
    target.wait_until(lambda: b"with a CR\x00" in raw, MOMENT * 10)
    before, _, later = bytes(raw).partition(b"control\x00")
    target.control(b"\nx-word:" in before, "the control message should have its header")
    received = re.findall(rb"\nx-word:([^\n]*)\n", later)[
        :1
    ]  # the first of repeated headers counts
    detail = f"x-word:value CR arrived as {', '.join(map(repr, received)) or 'nothing'};"
    detail += " expected the CR to belong to the value"
    has_a_cr = target.record_finding(CR_IN_LINE, received in ([b"value\r"], [b"value\\r"]), detail)
    if has_a_cr:
        target.record_finding(ESCAPED_AS_THEY_CAME, received == [b"value\r"], detail)
    else:
        target.record_not_applicable(ESCAPED_AS_THEY_CAME, detail)


COMMANDS_HAVE_CASE = {"1.1": "STOMP11-FRAME-02", "1.2": "STOMP12-FRAME-03"}


@case(COMMANDS_HAVE_CASE)
@over(examples=20, wrong=st.sampled_from(["send", "Send", "sEND"]), where=cuts(4))
def test_a_command_in_other_case_is_not_that_command(
    target: Bench, version: str, wrong: str, where: tuple[Cut, ...]
) -> None:
    """A frame whose command is send, Send or sEND publishes nothing; a valid SEND does."""
    judge_no_send(target, version, wrong, where)


@case(COMMANDS_HAVE_CASE)
@over(examples=10, where=cuts(4))
def test_a_command_with_one_small_letter_is_not_that_command(
    target: Bench, version: str, where: tuple[Cut, ...]
) -> None:
    """A frame whose command is SENd publishes nothing. Valid SENDs before and after it do."""
    judge_no_send(target, version, "SENd", where)


def judge_no_send(target: Bench, version: str, wrong: str, where: tuple[Cut, ...]) -> None:
    """Judge whether a message does not arrive if the command of its frame is ``wrong`` instead of
    SEND."""
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
    why = f"{wrong} is not the command SEND; {seen}"
    consumer.expect_nothing(
        for_=MOMENT,
        of=frame("MESSAGE", body=b"not sent"),
        proves=COMMANDS_HAVE_CASE[version],
        why=why,
    )


@case(COMMANDS_1_0, ACK_1_0)
def test_every_command_of_1_0_is_known(target: Bench) -> None:
    """A 1.0 client uses each of its commands once, and gets each RECEIPT and no ERROR."""
    peer, to = target.stomp("1.0"), target.destination()
    peer.subscribe(to, ack="client", proves=COMMANDS_1_0)
    peer.publish(to, b"one", proves=COMMANDS_1_0)
    message = peer.message(body=b"one", proves=COMMANDS_1_0)
    peer.request("ACK", peer.naming(message), proves=ACK_1_0)
    for last in ("COMMIT", "ABORT"):
        named = {"transaction": f"{peer.transaction}-{last}"}
        peer.request("BEGIN", named, proves=COMMANDS_1_0)
        peer.request(last, named, proves=COMMANDS_1_0)
    peer.request("UNSUBSCRIBE", {"id": "0", "destination": to.name}, proves=COMMANDS_1_0)
    peer.request("DISCONNECT", proves=COMMANDS_1_0)


HEADER_LINE = {
    "1.0": re.compile(rb"[^\n:]+:[^\n]*"),
    "1.1": re.compile(rb"(?:[^\n:\\]|\\[nc\\])+:(?:[^\n:\\]|\\[nc\\])*"),
    "1.2": re.compile(rb"(?:[^\r\n:\\]|\\[rnc\\])+:(?:[^\r\n:\\]|\\[rnc\\])*"),
}
"""Valid header lines of a server's frames other than CONNECTED. An empty value is allowed in 1.0
too, because every broker sends some."""
UNESCAPED_LINE = re.compile(rb"[^\n:]+:[^\n]*")


def wrong_line(sent: RawFrame, version: str) -> bytes | None:
    """Return the first header line of ``sent`` that breaks the grammar of ``version``."""
    allowed = UNESCAPED_LINE if sent.command == b"CONNECTED" else HEADER_LINE[version]
    return next((line for line in sent.lines if allowed.fullmatch(line) is None), None)


HEADER_GRAMMAR = {
    "1.0": ("STOMP10-FRAME-02", "STOMP10-FRAME-03"),
    "1.1": ("STOMP11-FRAME-03", "STOMP11-ENC-02"),
    "1.2": ("STOMP12-FRAME-04", "STOMP12-FRAME-05", "STOMP12-ENC-02"),
}
ASCII_HEADERS = {"1.0": "STOMP10-FRAME-05"}
SERVER_COMMANDS = {"1.0": "STOMP10-FRAME-07"}


@case(HEADER_GRAMMAR, ASCII_HEADERS, SERVER_COMMANDS)
def test_what_the_server_sends_obeys_the_grammar(target: Bench, version: str) -> None:
    """A client provokes CONNECTED, RECEIPT, MESSAGE and ERROR with every special character in its
    headers and receipt ids. Each header line of the answers follows the grammar of the version. One
    scenario: the requirements describe the same bytes."""
    peer = target.peer(version)
    received = tap(peer)
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
    frames = list(raw_frames(received))
    commands = [message.command.decode(errors="replace") for message in frames]
    detail = f"the server sent {', '.join(commands)}; {seen}"
    target.control(commands[:1] == ["CONNECTED"] and "MESSAGE" in commands, detail)
    wrong = next((line for part in frames if (line := wrong_line(part, version)) is not None), None)
    target.record_finding(
        HEADER_GRAMMAR[version],
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
        detail = f"the server's commands were {', '.join(commands)}"
        target.record_finding(SERVER_COMMANDS[version], known, detail)
        heads = b"".join(line for part in frames for line in part.lines)
        held = "only ASCII" if heads.isascii() else "more than ASCII"
        words = f"the headers of {len(frames)} frames contain {held}"
        target.record_finding(ASCII_HEADERS[version], heads.isascii(), words)
