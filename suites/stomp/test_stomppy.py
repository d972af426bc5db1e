"""stomp.py, the client that people use from Python, against the broker: connect, send, subscribe,
settle, beat, leave.

Here the client is the library itself: over sockets with its own threads, in virtual time without,
the same cases. What it puts on the wire is its own choice (STOMP instead of CONNECT, sorted
headers, content-length on every body, a heart-beat whenever it has been silent for the agreed
time), so these cases judge whether the broker serves a real client. An expectation sees a frame
only when the library has handed it out as it crossed the wire.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.clients.stomppy_peer import StompPyPeer
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant, ms, seconds
from brokerproof.harness.protocols.stomp.raw_peer import MESSAGE, frame
from brokerproof.harness.trace.events import FrameReceived, HeartBeatReceived
from brokerproof.suites.steps.queues import QUIET, bodies, collect, held, left_in, numbered

NEIGHBOURS = ("n", "c", "r", "t", "\\n", "\\c", "\\\\", " ", "é", "€", "𝄞", "a", "0", "/", "=")
"""What an escape could be mistaken for, and characters of one to four octets."""
OCTETS = (b"\x00", b"\n", b"\r\n", b"\x00\n", b"\n\n", b"\xff", b"SEND\n\n\x00", "é𝄞".encode())


# --- connecting -----------------------------------------------------------------------------------


@case(
    {
        "1.0": ("STOMP10-CONNECT-02", "STOMP10-CONNECT-03"),
        "1.1": ("STOMP11-CONNECT-01", "STOMP11-CONNECT-06", "STOMP11-CONNECTED-01"),
        "1.2": ("STOMP12-CONNECT-01", "STOMP12-CONNECT-04", "STOMP12-CONNECTED-01"),
    }
)
def test_it_connects(target: Bench, version: str) -> None:
    """stomp.py connects, from 1.1 on with a STOMP frame, and is answered by CONNECTED in its
    version. 1.0 wants a session id that no other session has."""
    first, second = (target.stomppy(version, proves=target.cited[:-1]) for _ in range(2))
    assert first.connected is not None
    assert second.connected is not None
    if version == "1.0":
        sessions = first.connected.get("session"), second.connected.get("session")
        target.record_finding(
            target.cited[-1],
            None not in sessions and sessions[0] != sessions[1],
            f"the session ids are {sessions}",
        )
    else:
        answered = first.connected.get("version")
        target.record_finding(
            target.cited[-1],
            answered == version,
            f"{version} was asked for, CONNECTED says {answered}",
        )
    first.settle()


@case(
    {
        "1.0": "STOMP10-RECEIPT-02",
        "1.1": ("STOMP11-RCPT-01", "STOMP11-RCPT-02"),
        "1.2": "STOMP12-RCPT-02",
    }
)
def test_every_call_that_asks_gets_its_receipt(target: Bench, version: str) -> None:
    """stomp.py sends, subscribes, acknowledges, begins, commits, aborts, unsubscribes and
    disconnects, each with a receipt header, and gets the RECEIPT of each."""
    queue, peer = target.destination(), target.stomppy(version)
    peer.publish(queue, b"1", proves=target.cited)
    peer.subscribe(queue, ack="client", proves=target.cited)
    peer.ack(peer.message(), proves=target.cited)
    if "transactions" in target.capabilities:
        peer.begin("t", proves=target.cited)
        # A server may hold a SEND to be processed, and confirm it, with its transaction.
        peer.publish(queue, b"2", {"transaction": "t"}, receipt=False)
        peer.commit("t", proves=target.cited)
        peer.begin("u", proves=target.cited)
        peer.abort("u", proves=target.cited)
    peer.unsubscribe(proves=target.cited)
    peer.disconnect(proves=target.cited)


@case(
    {
        "1.0": "STOMP10-DISCONNECT-01",
        "1.1": "STOMP11-DISC-01",
        "1.2": ("STOMP12-DISC-01", "STOMP12-RCPT-03"),
    }
)
def test_it_leaves_in_order(target: Bench, version: str) -> None:
    """stomp.py sends ten messages without receipts, then DISCONNECT with one. The RECEIPT comes
    without an ERROR, stomp.py closes, and a consumer finds all ten."""
    queue, peer = target.destination(), target.stomppy(version)
    for body in numbered(10):
        peer.publish(queue, body, receipt=False)
    peer.disconnect(proves=target.cited)
    target.control(
        not peer.connection.is_connected(), "stomp.py leaves once its DISCONNECT is answered"
    )
    came = left_in(target, queue, version, 10)
    target.record_finding(
        target.cited,
        came == numbered(10),
        f"10 messages were sent before DISCONNECT, {came!r} came",
    )


# --- messages -------------------------------------------------------------------------------------


@case(
    {
        "1.0": (
            "STOMP10-SUBSCRIBE-02",
            "STOMP10-MESSAGE-01",
            "STOMP10-MESSAGE-02",
            "STOMP10-MESSAGE-04",
        ),
        "1.1": ("STOMP11-SUB-02", "STOMP11-MSG-01", "STOMP11-MSG-02", "STOMP11-MSG-03"),
        "1.2": ("STOMP12-SUB-02", "STOMP12-MSG-01", "STOMP12-MSG-03", "STOMP12-MSG-04"),
    }
)
def test_what_one_sends_the_other_gets(target: Bench, version: str) -> None:
    """One stomp.py sends five messages, another is subscribed in mode auto. All five come in their
    order, each with the destination, a message-id of its own, and the id of the subscription (1.0:
    and the body that was sent)."""
    received, destination, identity, last = target.cited
    queue, consumer, producer = (
        target.destination(),
        target.stomppy(version),
        target.stomppy(version),
    )
    consumer.subscribe(queue, id="mine")
    for body in numbered(5):
        producer.publish(queue, body, receipt=False)
    messages = collect(target, consumer, 5)
    target.require(
        received, bodies(messages) == numbered(5), f"of five messages came {bodies(messages)!r}"
    )
    names = {each.get("destination") for each in messages}
    target.record_finding(
        destination, None not in names, f"the MESSAGE frames say destination {names}"
    )
    ids = [each.get("message-id") for each in messages]
    target.record_finding(
        identity, None not in ids and len(set(ids)) == 5, f"the message ids are {ids}"
    )
    if version == "1.0":
        target.record_finding(last, True, "the bodies are those that were sent")
    else:
        subscriptions = {each.get("subscription") for each in messages}
        target.record_finding(
            last, subscriptions == {"mine"}, f"the MESSAGE frames say subscription {subscriptions}"
        )


@case({"1.0": "STOMP10-UNSUBSCRIBE-02", "1.1": "STOMP11-UNSUB-02", "1.2": "STOMP12-UNSUB-03"})
def test_after_unsubscribe_nothing_comes(target: Bench, version: str) -> None:
    """stomp.py gets a message, unsubscribes with a receipt, and gets none of the messages sent from
    then on: the next consumer does."""
    queue, consumer = target.destination(), target.stomppy(version)
    consumer.subscribe(queue)
    consumer.publish(queue, b"before")
    consumer.message(body=b"before")
    consumer.unsubscribe()
    consumer.publish(queue, b"after")
    consumer.expect_nothing(for_=QUIET, of=MESSAGE, proves=target.cited, why="it has unsubscribed")
    left = left_in(target, queue, version, 1)
    # Not judged here: a broker may settle what it delivered in mode auto only later, and then give
    # it to the next one too.
    target.control(
        left[-1:] == [b"after"],
        f"a message to a queue without consumer should wait for one; {left!r} waited",
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Text around the characters that must be escaped, beginning and ending with a letter."""
    pieces = draw(st.lists(st.sampled_from(("\\", "\n", ":", *NEIGHBOURS)), max_size=8))
    return "<" + "".join(draw(st.permutations(["\\", "\n", ":", *pieces]))) + ">"


@case(
    {
        "1.1": (
            "STOMP11-MSG-06",
            "STOMP11-ENC-04",
            "STOMP11-ENC-05",
            "STOMP11-ENC-06",
            "STOMP11-ENC-08",
        ),
        "1.2": (
            "STOMP12-MSG-08",
            "STOMP12-ENC-04",
            "STOMP12-ENC-05",
            "STOMP12-ENC-06",
            "STOMP12-ENC-07",
            "STOMP12-ENC-09",
        ),
    }
)
@over(examples=40, text=texts(), name=st.sampled_from(["x-word", "слово", "naïve_𝄞"]))
def test_header_text_survives(target: Bench, version: str, text: str, name: str) -> None:
    """stomp.py sends a header whose value holds every character that the version escapes, beside
    text that looks like escapes or takes several octets. Another stomp.py is handed the same value
    under the same name."""
    value = text.replace("a", "\r") + "\r>" if version == "1.2" else text
    queue, consumer, producer = (
        target.destination(),
        target.stomppy(version),
        target.stomppy(version),
    )
    consumer.subscribe(queue)
    producer.publish(queue, b"control", {"x-plain": "value"})
    target.control(
        consumer.message(body=b"control").get("x-plain") == "value",
        "a plain header should come through",
    )
    producer.publish(queue, b"body", {name: value}, receipt=False)
    message = consumer.message(body=b"body", proves=target.cited)
    target.record_finding(
        target.cited,
        message.get(name) == value,
        f"{name}: {value!r} came back as {message.get(name)!r}",
    )


@case({"1.0": "STOMP10-FRAME-03"})
@over(
    examples=20,
    pieces=st.lists(st.sampled_from((":", "a", "b c", "/", "=", "::")), min_size=1, max_size=8),
)
def test_a_colon_belongs_to_a_1_0_value(target: Bench, version: str, pieces: list[str]) -> None:
    """1.0 has no escapes: the value of a header begins behind the first colon and may hold others.
    stomp.py sends one and another stomp.py is handed the same."""
    value = f"<{':'.join(pieces)}>"
    queue, consumer, producer = (
        target.destination(),
        target.stomppy(version),
        target.stomppy(version),
    )
    consumer.subscribe(queue)
    producer.publish(queue, b"body", {"x-word": value})
    message = consumer.message(body=b"body", proves=target.cited)
    target.record_finding(
        target.cited,
        message.get("x-word") == value,
        f"{value!r} came back as {message.get('x-word')!r}",
    )


@case(
    {
        "1.0": "STOMP10-SEND-05",
        "1.1": ("STOMP11-HDR-03", "STOMP11-HDR-10"),
        "1.2": ("STOMP12-HDR-03", "STOMP12-HDR-14"),
    }
)
@over(
    examples=40,
    pieces=st.lists(st.sampled_from(OCTETS) | st.binary(max_size=40), max_size=10),
    large=st.sampled_from([0, 0, 0, 65_537]),
)
def test_bodies_of_any_octets_survive(
    target: Bench, version: str, pieces: list[bytes], large: int
) -> None:
    """stomp.py sends bodies with NULs, ends of line, text that takes several octets, and what looks
    like frames, always with content-length. Another stomp.py is handed the same octets, and the
    message behind them too."""
    body = b"\x00" + b"".join(pieces) + "é𝄞\x00".encode() * (large // 7 + 1)
    queue, consumer, producer = (
        target.destination(),
        target.stomppy(version),
        target.stomppy(version),
    )
    consumer.subscribe(queue)
    producer.publish(queue, body, receipt=False)
    producer.publish(queue, "text: é𝄞", receipt=False)
    came = bodies(collect(target, consumer, 2))
    wanted = [body, "text: é𝄞".encode()]
    short = [each if len(each) < 80 else each[:80] + b"..." for each in came]
    target.record_finding(
        target.cited,
        came == wanted,
        f"a body of {len(body)} octets and a text were sent; {short!r} came",
    )


# --- settling -------------------------------------------------------------------------------------


@case({"1.0": "STOMP10-SUBSCRIBE-03", "1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"})
def test_in_mode_auto_nothing_comes_again(target: Bench, version: str) -> None:
    """stomp.py gets three messages in mode auto, acknowledges none, and is cut off. They have been
    received: the next consumer does not get them."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(3):
        consumer.publish(queue, body)
    held(target, consumer, queue, 3, "auto")
    consumer.settle()
    consumer.leave(CloseHow.RESET)
    left = left_in(target, queue, version, 0)
    target.record_finding(target.cited, not left, f"messages of mode auto came again: {left!r}")


@case({"1.0": "STOMP10-SUBSCRIBE-05", "1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"})
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_what_is_not_acknowledged_comes_again(target: Bench, version: str, ack: str) -> None:
    """stomp.py gets three messages, acknowledges the first with a receipt, and is cut off. The next
    consumer gets the other two."""
    mode = ack if version != "1.0" else "client"
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(3):
        consumer.publish(queue, body)
    messages = held(target, consumer, queue, 3, mode)
    consumer.ack(messages[0])
    consumer.leave(CloseHow.RESET)
    left = left_in(target, queue, version, 2)
    target.record_finding(
        target.cited,
        left == numbered(3)[1:],
        f"m0 of m0, m1, m2 was acknowledged; the next consumer got {left!r}",
    )


@case({"1.1": "STOMP11-SUB-10", "1.2": "STOMP12-SUB-11"})
@over(examples=20, last=st.integers(0, 4))
def test_in_mode_client_an_ack_covers_what_came_before(
    target: Bench, version: str, last: int
) -> None:
    """stomp.py gets five messages in mode client, acknowledges one, and is cut off. The next
    consumer gets exactly those behind it."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(5):
        consumer.publish(queue, body, receipt=False)
    consumer.ack(held(target, consumer, queue, 5, "client")[last])
    consumer.leave(CloseHow.RESET)
    left = left_in(target, queue, version, 4 - last)
    target.record_finding(
        target.cited,
        left == numbered(5)[last + 1 :],
        f"m{last} of m0 to m4 was acknowledged; {left!r} was left",
    )


@case({"1.1": "STOMP11-SUB-11", "1.2": "STOMP12-SUB-13"})
@over(examples=20, settled=st.sets(st.integers(0, 4), max_size=4).map(sorted), last=st.booleans())
def test_in_mode_client_individual_an_ack_covers_one(
    target: Bench, version: str, settled: list[int], last: bool
) -> None:
    """stomp.py gets five messages in mode client-individual, acknowledges some, in any order, and
    is cut off. The next consumer gets exactly the others."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(5):
        consumer.publish(queue, body, receipt=False)
    messages = held(target, consumer, queue, 5, "client-individual")
    for number in reversed(settled) if last else settled:
        consumer.ack(messages[number])
    consumer.leave(CloseHow.RESET)
    others = [body for number, body in enumerate(numbered(5)) if number not in settled]
    left = left_in(target, queue, version, len(others))
    target.record_finding(
        target.cited,
        left == others,
        f"numbers {settled} of m0 to m4 were acknowledged; {left!r} was left",
    )


@case({"1.1": "STOMP11-NACK-04", "1.2": "STOMP12-NACK-04"}, needs={"nack"})
def test_a_nack_of_one_message_leaves_the_others(target: Bench, version: str) -> None:
    """stomp.py gets three messages in mode client-individual, refuses the second with NACK, and is
    cut off. The first and the third are not settled by that: the next consumer gets them. Where the
    refused one goes is the server's choice."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(3):
        consumer.publish(queue, body)
    consumer.nack(held(target, consumer, queue, 3, "client-individual")[1])
    consumer.leave(CloseHow.RESET)
    left = [each for each in left_in(target, queue, version, 2) if each != b"m1"]
    target.record_finding(
        target.cited,
        sorted(left) == [b"m0", b"m2"],
        f"m1 of m0, m1, m2 was refused; of the others {left!r} was left",
    )


@case(
    {"1.0": "STOMP10-BEGIN-02", "1.1": "STOMP11-BEGIN-02", "1.2": "STOMP12-BEGIN-03"},
    needs={"transactions"},
)
def test_a_transaction_takes_effect_whole_or_not_at_all(target: Bench, version: str) -> None:
    """stomp.py sends three messages in a transaction: none comes before COMMIT, all come after it.
    Three more in one that is aborted never come, and what was sent outside does."""
    queue, consumer, producer = (
        target.destination(),
        target.stomppy(version),
        target.stomppy(version),
    )
    consumer.subscribe(queue)
    producer.begin("kept")
    for body in numbered(3):
        producer.publish(queue, body, {"transaction": "kept"}, receipt=False)
    producer.settle()
    consumer.expect_nothing(
        for_=QUIET, of=MESSAGE, proves=target.cited, why="COMMIT has not been sent"
    )
    producer.commit("kept")
    came = bodies(collect(target, consumer, 3))
    target.record_finding(
        target.cited, came == numbered(3), f"after COMMIT of three messages came {came!r}"
    )
    producer.begin("dropped")
    for body in numbered(3, "dropped"):
        producer.publish(queue, body, {"transaction": "dropped"}, receipt=False)
    producer.abort("dropped")
    producer.publish(queue, b"outside")
    came = bodies(collect(target, consumer, 1))
    target.record_finding(
        target.cited,
        came == [b"outside"],
        f"after ABORT of three messages and one outside came {came!r}",
    )


# --- heart-beats ----------------------------------------------------------------------------------


def signs_of_life(target: Bench, peer: StompPyPeer) -> list[Instant]:
    """When octets of the server arrived, from CONNECTED on. stomp.py counts fewer things as life
    than the wire has."""
    return [
        event.at_ns
        for event in target.events
        if isinstance(event, (HeartBeatReceived, FrameReceived)) and event.conn == peer.conn
    ]


def judge_beats(
    target: Bench,
    peer: StompPyPeer,
    requirements: tuple[str, ...],
    period: Duration,
    since: Instant,
) -> bool:
    """Judges the longest silence of the server while stomp.py was there; beats are agreed, so there
    should be some."""
    agreed, at_least = requirements
    until = target.now() if peer.left is None else peer.left.at
    if peer.ended is not None:
        until = min(until, peer.ended.at)
    marks = [*signs_of_life(target, peer), until]
    longest = max(later - earlier for earlier, later in pairwise(marks))
    target.record_finding(
        agreed, len(marks) > 2, f"{len(marks) - 2} signs of life behind CONNECTED"
    )
    return target.judge_duration(
        at_least,
        "longest silence of the server",
        longest,
        (0, period + target.punctuality(period)),
        since,
    )


@case(
    {"1.1": ("STOMP11-HB-06", "STOMP11-HB-08"), "1.2": ("STOMP12-HB-06", "STOMP12-HB-08")},
    needs={"heart-beat"},
)
@pytest.mark.parametrize("period", [500, 700])
def test_while_it_beats_the_session_lives(target: Bench, version: str, period: int) -> None:
    """stomp.py offers a beat every so many milliseconds and sends nothing else. After many agreed
    periods the session still works."""
    peer = target.stomppy(version, heart_beat=(period, 0))
    assert peer.connected is not None
    asked = int((peer.connected.get("heart-beat") or "0,0").partition(",")[2])
    agreed = ms(max(period, asked))
    since = target.now()
    target.advance(50 * agreed if target.virtual else min(10 * agreed, seconds(8)))
    alive = peer.ended is None
    late = target.margin((0, agreed), since) > agreed
    target.record_finding(
        target.cited,
        alive,
        f"stomp.py beat every {agreed // NS_PER_MS} ms for {(target.now() - since) // NS_PER_MS}"
        " ms, and the connection " + ("lives" if alive else f"ended: {peer.instead()}"),
        uncertain="the host was late by more than a period" if late else None,
    )
    if alive and peer.left is None:
        peer.settle()


@case("ARTEMIS-STOMP-ttl-3", needs={"heart-beat", "connection-ttl"})
@pytest.mark.parametrize("period", [500, 1000])
def test_when_it_stops_beating_the_session_ends(target: Bench, period: int) -> None:
    """stomp.py beats through several times the TTL that its heart-beat gives the connection, then
    its heart-beat loop stops. The connection is closed neither before nor after the interval that
    TTL and check interval give."""
    peer = target.stomppy("1.2", heart_beat=(period, 0))
    expected = target.negotiated((period, 0))
    target.advance(3 * ms(expected.ttl_ms))
    target.require(
        target.cited,
        peer.ended is None,
        f"while stomp.py beats the connection lives; {peer.instead()}",
    )
    peer.stop_beating()
    bounds = target.silence_interval(expected.ttl_ms)
    target.wait_until(lambda: peer.ended is not None, ms(period) + bounds[1] + seconds(3))
    # Only now is it known which beat was the last: one may have been on its way when the loop was
    # told to end.
    since = peer.spoke_at
    assert since is not None
    target.expect_interval(target.cited, "close of the silent connection", since, bounds)
    if peer.ended is not None:
        target.judge_duration(
            target.cited, "silence until the close", peer.ended.at - since, bounds, since
        )
    else:
        target.record_finding(
            target.cited, False, f"silent with a TTL of {expected.ttl_ms} ms, and not closed"
        )


@case(
    {"1.1": ("STOMP11-HB-07", "STOMP11-HB-09"), "1.2": ("STOMP12-HB-07", "STOMP12-HB-09")},
    needs={"heart-beat"},
)
@pytest.mark.parametrize("period", [500, 800])
def test_it_is_content_with_the_beats_it_gets(target: Bench, version: str, period: int) -> None:
    """stomp.py asks for a beat every so many milliseconds and beats itself half as often. It would
    give up a connection that is silent for half a period longer than was agreed; data comes as
    agreed, and it stays."""
    agreed, at_least = target.cited
    peer = target.stomppy(version, heart_beat=(2 * period, period))
    assert peer.connected is not None
    promised = int((peer.connected.get("heart-beat") or "0,0").partition(",")[0])
    each, since = ms(max(promised, period)), target.now()
    target.advance(40 * each if target.virtual else min(8 * each, seconds(6)))
    if promised == 0:
        beats = len(signs_of_life(target, peer)) - 1
        target.record_finding(
            agreed, beats == 0, f"the server says that it sends none (sx=0) and sent {beats}"
        )
        target.record_finding(at_least, True, "nothing was agreed, so nothing is due")
        return
    on_time = judge_beats(target, peer, target.cited, each, since)
    target.control(
        peer.ended is None, f"stomp.py beats and the server should not leave; {peer.instead()}"
    )
    if target.virtual:  # on a real host stomp.py may be late itself, and then gives up who was not
        target.control(
            peer.left is None or not on_time, "the server beat on time, yet stomp.py gave it up"
        )
    if peer.left is None:
        peer.settle()


@case(
    {
        "1.1": ("STOMP11-HB-08", "STOMP11-HB-07", "STOMP11-HB-09"),
        "1.2": ("STOMP12-HB-08", "STOMP12-HB-07", "STOMP12-HB-09"),
    },
    needs={"heart-beat"},
)
def test_beats_and_messages_share_a_connection(target: Bench, version: str) -> None:
    """stomp.py and the server have agreed on beats in both directions, and stomp.py sends itself a
    message now and then. Messages come whole between the beats, and neither side gives the other
    up.

    stomp.py 9 throws away what it reads behind two beats in one read, and a late host makes such
    reads: one message that it had is proof enough that beats and messages share the connection.
    """
    lives, *beats = target.cited
    queue, peer = target.destination(), target.stomppy(version, heart_beat=(500, 500))
    assert peer.connected is not None
    promised = int((peer.connected.get("heart-beat") or "0,0").partition(",")[0])
    peer.subscribe(queue)
    rounds, since, came = 30 if target.virtual else 5, target.now(), 0
    for body in numbered(rounds):
        target.advance(ms(1300))
        if peer.left is not None or peer.ended is not None:
            break
        peer.publish(queue, body, receipt=False)
        came += peer.watch_for(frame("MESSAGE", body=body), within=seconds(2)) is not None
    if peer.left is None and peer.ended is None:
        target.control(
            came == rounds if target.virtual else came > 0,
            f"{came} of {rounds} messages came to stomp.py",
        )
    on_time = promised == 0 or judge_beats(
        target, peer, tuple(beats), ms(max(promised, 500)), since
    )
    late = "the host was late by a period" if target.margin((0, ms(500)), since) > ms(500) else None
    target.record_finding(
        lives,
        peer.ended is None,
        f"the server {'stayed' if peer.ended is None else 'left'}",
        uncertain=late,
    )
    if target.virtual:  # on a real host stomp.py may be late itself, and then gives up who was not
        target.control(
            peer.left is None or not on_time, "the server beat on time, yet stomp.py gave it up"
        )
    if peer.left is None and peer.ended is None:
        peer.settle()
