"""stomp.py, the common STOMP client of Python, against the broker.

The client is the library itself. The same cases run over sockets with the library's own threads,
and in virtual time without them. The library chooses the frames it sends (STOMP instead of CONNECT,
sorted headers, content-length on every body, a heartbeat whenever it has been silent for the agreed
time), so these cases judge whether the broker serves a real client. An expectation sees a frame
only after the library has delivered it, but as it was on the wire.
"""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import (
    NS_PER_MS,
    Bench,
    CloseHow,
    case,
    listed,
    ms,
    over,
    seconds,
    shown,
)
from brokerproof.suites.api.stomp import MESSAGE, frame
from brokerproof.suites.clients.stomppy_steps import judge_beats, named, texts
from brokerproof.suites.steps.queues import (
    QUIET,
    bodies,
    collect,
    held,
    left_in,
    numbered,
    unsettled_comes_back,
)
from brokerproof.suites.steps.refusals import is_too_large
from brokerproof.suites.steps.traces import signs_of_life

CONNECTED_ANSWERS = {
    "1.0": ("STOMP10-CONNECT-02",),
    "1.1": ("STOMP11-CONNECT-01", "STOMP11-CONNECT-06"),
    "1.2": ("STOMP12-CONNECT-01", "STOMP12-CONNECT-04"),
}
SESSION_OR_VERSION = {
    "1.0": "STOMP10-CONNECT-03",
    "1.1": "STOMP11-CONNECTED-01",
    "1.2": "STOMP12-CONNECTED-01",
}
RECEIPT_ID = {
    "1.0": ("STOMP10-RECEIPT-02",),
    "1.1": ("STOMP11-RCPT-01", "STOMP11-RCPT-02"),
    "1.2": ("STOMP12-RCPT-02",),
}
ORDERLY_DISCONNECT = {
    "1.0": ("STOMP10-DISCONNECT-01",),
    "1.1": ("STOMP11-DISC-01",),
    "1.2": ("STOMP12-DISC-01", "STOMP12-RCPT-03"),
}
DELIVERED = {"1.0": "STOMP10-SUBSCRIBE-02", "1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
DESTINATION = {"1.0": "STOMP10-MESSAGE-01", "1.1": "STOMP11-MSG-01", "1.2": "STOMP12-MSG-01"}
MESSAGE_ID = {"1.0": "STOMP10-MESSAGE-02", "1.1": "STOMP11-MSG-02", "1.2": "STOMP12-MSG-03"}
FOURTH_SENTENCE = {"1.0": "STOMP10-MESSAGE-04", "1.1": "STOMP11-MSG-03", "1.2": "STOMP12-MSG-04"}
UNSUBSCRIBED = {
    "1.0": "STOMP10-UNSUBSCRIBE-02",
    "1.1": "STOMP11-UNSUB-02",
    "1.2": "STOMP12-UNSUB-03",
}
HEADER_TEXT = {
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
OF_THESE = {"1.1": "\n:\\", "1.2": "\r\n:\\"}
"""The escaped character that each further requirement of HEADER_TEXT is about, in the same
order."""
COLON_IN_VALUE = {"1.0": "STOMP10-FRAME-03"}
BODY = {
    "1.0": ("STOMP10-SEND-05",),
    "1.1": ("STOMP11-HDR-03", "STOMP11-HDR-10"),
    "1.2": ("STOMP12-HDR-03", "STOMP12-HDR-14"),
}
MODE_AUTO = {"1.0": "STOMP10-SUBSCRIBE-03", "1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"}
UNSETTLED_IS_KEPT = {
    "1.0": "STOMP10-SUBSCRIBE-05",
    "1.1": "STOMP11-ACK-05",
    "1.2": "STOMP12-ACK-04",
}
CUMULATIVE = {"1.1": "STOMP11-SUB-10", "1.2": "STOMP12-SUB-11"}
INDIVIDUAL_ACK = {"1.1": "STOMP11-SUB-11", "1.2": "STOMP12-SUB-13"}
INDIVIDUAL_NACK = {"1.1": "STOMP11-NACK-04", "1.2": "STOMP12-NACK-04"}
ATOMIC = {"1.0": "STOMP10-BEGIN-02", "1.1": "STOMP11-BEGIN-02", "1.2": "STOMP12-BEGIN-03"}
LATE_BEATS_BORNE = {"1.1": "STOMP11-HB-12", "1.2": "STOMP12-HB-12"}
ANY_BYTE_COUNTS = {"1.1": "STOMP11-HB-08", "1.2": "STOMP12-HB-08"}
TTL_OF_HEART_BEAT = "ARTEMIS-STOMP-ttl-3"
SERVER_BEATS = {"1.1": "STOMP11-HB-07", "1.2": "STOMP12-HB-07"}
NOTHING_RETURNS = "unsettled messages of a lost consumer should be redelivered"
AT_LEAST_EVERY = {"1.1": "STOMP11-HB-09", "1.2": "STOMP12-HB-09"}
BEATS_ARRIVE = {
    "1.1": ("STOMP11-HB-07", "STOMP11-HB-09"),
    "1.2": ("STOMP12-HB-07", "STOMP12-HB-09"),
}

PIECES = (b"\x00", b"\n", b"\r\n", b"\x00\n", b"\n\n", b"\xff", b"SEND\n\n\x00", "é𝄞".encode())


# --- connecting -----------------------------------------------------------------------------------


@case(CONNECTED_ANSWERS, SESSION_OR_VERSION)
def test_it_connects(target: Bench, version: str) -> None:
    """stomp.py connects and is answered with CONNECTED for its version; in 1.0 CONNECTED has a
    session id that no other session has."""
    first, second = (target.stomppy(version, proves=CONNECTED_ANSWERS[version]) for _ in range(2))
    assert first.connected is not None
    assert second.connected is not None
    if version == "1.0":
        sessions = first.connected.get("session"), second.connected.get("session")
        target.record_finding(
            SESSION_OR_VERSION[version],
            None not in sessions and sessions[0] != sessions[1],
            f"the session ids are {shown(sessions)}",
        )
    else:
        answered = first.connected.get("version")
        target.record_finding(
            SESSION_OR_VERSION[version],
            answered == version,
            f"version {version} was requested; CONNECTED says {answered}",
        )
    first.settle()


@case(RECEIPT_ID)
def test_every_call_that_asks_gets_its_receipt(target: Bench, version: str) -> None:
    """stomp.py sends each of its frames with a receipt header. Each is answered with RECEIPT. The
    transaction's message goes to a queue without a subscription, so none is in flight when the
    client unsubscribes."""
    queue, peer = target.destination(), target.stomppy(version)
    peer.publish(target.destination(), b"1", proves=RECEIPT_ID[version])
    peer.subscribe(queue, ack="client", proves=RECEIPT_ID[version])
    target.stomp(version).publish(queue, b"1")
    peer.ack(peer.message(), proves=RECEIPT_ID[version])
    if "transactions" in target.capabilities:
        kept, dropped = f"{peer.transaction}-kept", f"{peer.transaction}-dropped"
        peer.begin(kept, proves=RECEIPT_ID[version])
        # A server may delay a SEND, and its RECEIPT, until its transaction ends.
        peer.publish(target.destination(), b"2", {"transaction": kept}, receipt=False)
        peer.commit(kept, proves=RECEIPT_ID[version])
        peer.begin(dropped, proves=RECEIPT_ID[version])
        peer.abort(dropped, proves=RECEIPT_ID[version])
    peer.unsubscribe(proves=RECEIPT_ID[version])
    peer.disconnect(proves=RECEIPT_ID[version])


@case(ORDERLY_DISCONNECT)
def test_it_leaves_in_order(target: Bench, version: str) -> None:
    """stomp.py sends ten messages without receipts and then DISCONNECT with one. It gets the
    RECEIPT and no ERROR, and a consumer gets all ten messages."""
    queue, peer = target.destination(), target.stomppy(version)
    for body in numbered(10):
        peer.publish(queue, body, receipt=False)
    peer.disconnect(proves=ORDERLY_DISCONNECT[version])
    target.control(
        not peer.connection.is_connected(), "stomp.py should leave once its DISCONNECT is answered"
    )
    received = left_in(target, queue, version, 10)
    target.record_finding(
        ORDERLY_DISCONNECT[version],
        received == numbered(10),
        f"m0 to m9 were sent before DISCONNECT; {listed(received)} arrived",
    )


# --- messages -------------------------------------------------------------------------------------


@case(DELIVERED, DESTINATION, MESSAGE_ID, FOURTH_SENTENCE)
def test_what_one_sends_the_other_gets(target: Bench, version: str) -> None:
    """One stomp.py sends five messages to another in auto mode. They arrive in order, each with its
    destination, a unique message-id and the id of the subscription (in 1.0 with its body). One
    scenario: the requirements describe one frame."""
    queue = target.destination()
    consumer, producer = target.stomppy(version), target.stomppy(version)
    consumer.subscribe(queue, id="mine")
    for body in numbered(5):
        producer.publish(queue, body, receipt=False)
    messages = collect(target, consumer, 5)
    target.require(
        DELIVERED[version],
        bodies(messages) == numbered(5),
        f"m0 to m4 were sent; {listed(bodies(messages))} arrived",
    )
    names = {message.get("destination") for message in messages}
    target.record_finding(
        DESTINATION[version],
        None not in names,
        f"the MESSAGE frames have the destination {', '.join(map(str, names))}",
    )
    ids = [message.get("message-id") for message in messages]
    words = f"the message ids are {shown(ids)}"
    target.record_finding(MESSAGE_ID[version], None not in ids and len(set(ids)) == 5, words)
    if version == "1.0":
        target.record_held(
            FOURTH_SENTENCE[version], messages, f"the bodies are {listed(bodies(messages))}"
        )
    else:
        subscriptions = {message.get("subscription") for message in messages}
        target.record_finding(
            FOURTH_SENTENCE[version],
            subscriptions == {"mine"},
            f"the MESSAGE frames have the subscription {', '.join(map(str, subscriptions))}",
        )


@case(UNSUBSCRIBED)
def test_after_unsubscribe_nothing_comes(target: Bench, version: str) -> None:
    """stomp.py unsubscribes with a receipt after its first message. Messages sent later go to the
    next consumer."""
    queue, consumer = target.destination(), target.stomppy(version)
    consumer.subscribe(queue)
    consumer.publish(queue, b"before")
    consumer.message(body=b"before")
    consumer.unsubscribe()
    consumer.publish(queue, b"after")
    consumer.expect_nothing(
        for_=QUIET, of=MESSAGE, proves=UNSUBSCRIBED[version], why="it has unsubscribed"
    )
    left = left_in(target, queue, version, 1)
    # Not judged here: a broker may settle messages delivered in mode auto later, and then deliver
    # them to the next consumer too.
    target.control(
        left[-1:] == [b"after"],
        f"a message to a queue without a consumer should wait for one; {listed(left)} waited",
    )


@case(HEADER_TEXT)
@over(examples=40, text=texts(), name=st.sampled_from(["x-word", "слово", "naïve_𝄞"]))
def test_header_text_survives(target: Bench, version: str, text: str, name: str) -> None:
    """stomp.py sends a header value with every character that its version escapes. Another stomp.py
    gets the same value. One scenario: one header has every escape; further headers have one each
    and show which escape is wrong."""
    value = text.replace("a", "\r") + "\r>" if version == "1.2" else text
    queue = target.destination()
    consumer, producer = target.stomppy(version), target.stomppy(version)
    consumer.subscribe(queue)
    producer.publish(queue, b"control", {"x-plain": "value"})
    target.control(
        consumer.message(body=b"control").get("x-plain") == "value", "a plain header should arrive"
    )
    alone = {f"x-{number}": f"<{one}>" for number, one in enumerate(OF_THESE[version])}
    producer.publish(queue, b"body", {**alone, name: value}, receipt=False)
    message = consumer.message(body=b"body", proves=HEADER_TEXT[version])
    for escape, (header, sent) in zip(HEADER_TEXT[version][1:], alone.items(), strict=False):
        detail = f"{header}: {sent!r} arrived as {message.get(header)!r}"
        target.require(escape, message.get(header) == sent, detail)
    target.record_finding(
        HEADER_TEXT[version],
        message.get(name) == value,
        f"{name}: {value!r} arrived as {message.get(name)!r}",
    )


@case(COLON_IN_VALUE)
@over(
    examples=20,
    pieces=st.lists(st.sampled_from((":", "a", "b c", "/", "=", "::")), min_size=1, max_size=8),
)
def test_a_colon_belongs_to_a_1_0_value(target: Bench, version: str, pieces: list[str]) -> None:
    """stomp.py sends a 1.0 header value with colons. Another stomp.py gets the same value."""
    value = f"<{':'.join(pieces)}>"
    queue = target.destination()
    consumer, producer = target.stomppy(version), target.stomppy(version)
    consumer.subscribe(queue)
    producer.publish(queue, b"body", {"x-word": value})
    message = consumer.message(body=b"body", proves=COLON_IN_VALUE[version])
    target.record_finding(
        COLON_IN_VALUE[version],
        message.get("x-word") == value,
        f"{value!r} arrived as {message.get('x-word')!r}",
    )


@case(BODY)
@over(
    examples=40,
    pieces=st.lists(st.sampled_from(PIECES) | st.binary(max_size=40), max_size=10),
    large=st.sampled_from([0, 0, 0, 65_537]),
)
def test_bodies_of_any_octets_survive(
    target: Bench, version: str, pieces: list[bytes], large: int
) -> None:
    """stomp.py sends bodies of any bytes with content-length. Another stomp.py gets the same bytes,
    and the next message."""
    body = b"\x00" + b"".join(pieces) + "é𝄞\x00".encode() * (large // 7 + 1)
    queue = target.destination()
    consumer, producer = target.stomppy(version), target.stomppy(version)
    consumer.subscribe(queue)
    producer.publish(queue, body, receipt=False)
    producer.publish(queue, "text: é𝄞", receipt=False)
    arrived = bodies(collect(target, consumer, 2))
    expected = [body, "text: é𝄞".encode()]
    if not arrived and is_too_large(target, version, len(body)):
        target.record_not_applicable(BODY[version], f"it refuses a body of {len(body)} bytes")
        return
    target.record_finding(
        BODY[version],
        arrived == expected,
        f"{listed(arrived)} arrived; expected {listed(expected)}",
    )


# --- settling -------------------------------------------------------------------------------------


@case(MODE_AUTO)
def test_in_mode_auto_nothing_comes_again(target: Bench, version: str) -> None:
    """stomp.py gets three messages in auto mode and its connection is reset. The next consumer does
    not get them."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(3):
        consumer.publish(queue, body)
    held(target, consumer, queue, 3, "auto")
    consumer.settle()
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 0)
    target.record_finding(
        MODE_AUTO[version], not left, f"delivered again after mode auto: {listed(left)}"
    )


@case(UNSETTLED_IS_KEPT)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_what_is_not_acknowledged_comes_again(target: Bench, version: str, ack: str) -> None:
    """stomp.py gets three messages and acknowledges the first; its connection is reset. The next
    consumer gets the other two."""
    mode = ack if version != "1.0" else "client"
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(3):
        consumer.publish(queue, body)
    messages = held(target, consumer, queue, 3, mode)
    consumer.ack(messages[0])
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 2)
    target.record_finding(
        UNSETTLED_IS_KEPT[version],
        left == numbered(3)[1:],
        f"m0 of m0, m1, m2 was acknowledged; the next consumer got {listed(left)}",
    )


@case(CUMULATIVE)
@over(examples=20, last=st.integers(0, 4))
def test_in_mode_client_an_ack_covers_what_came_before(
    target: Bench, version: str, last: int
) -> None:
    """stomp.py gets five messages in client mode and acknowledges one; its connection is reset. The
    next consumer gets exactly the later messages."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(5):
        consumer.publish(queue, body, receipt=False)
    consumer.ack(held(target, consumer, queue, 5, "client")[last])
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 4 - last)
    target.record_finding(
        CUMULATIVE[version],
        left == numbered(5)[last + 1 :],
        f"m{last} of m0 to m4 was acknowledged; the next consumer got {listed(left)}",
    )


@case(INDIVIDUAL_ACK)
@over(examples=20, settled=st.sets(st.integers(0, 4), max_size=4).map(sorted), last=st.booleans())
def test_in_mode_client_individual_an_ack_covers_one(
    target: Bench, version: str, settled: list[int], last: bool
) -> None:
    """stomp.py gets five messages in client-individual mode and acknowledges some; its connection
    is reset. The next consumer gets exactly the remaining messages."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(5):
        consumer.publish(queue, body, receipt=False)
    messages = held(target, consumer, queue, 5, "client-individual")
    for number in reversed(settled) if last else settled:
        consumer.ack(messages[number])
    consumer.close_socket(CloseHow.RESET)
    others = [body for number, body in enumerate(numbered(5)) if number not in settled]
    left = left_in(target, queue, version, len(others))
    held_alone = sorted(left) == others
    target.control(
        held_alone or unsettled_comes_back(target, version, "client-individual"), NOTHING_RETURNS
    )
    target.record_finding(
        INDIVIDUAL_ACK[version],
        held_alone,
        f"of m0 to m4, {named(settled)} acknowledged; the next consumer got {listed(left)}",
    )


@case(INDIVIDUAL_NACK, needs={"nack"})
def test_a_nack_of_one_message_leaves_the_others(target: Bench, version: str) -> None:
    """stomp.py gets three messages in client-individual mode and refuses the second; its connection
    is reset. The next consumer gets the first and the third."""
    queue, consumer = target.destination(), target.stomppy(version)
    for body in numbered(3):
        consumer.publish(queue, body)
    consumer.nack(held(target, consumer, queue, 3, "client-individual")[1])
    consumer.close_socket(CloseHow.RESET)
    left = [body for body in left_in(target, queue, version, 2) if body != b"m1"]
    held_alone = sorted(left) == [b"m0", b"m2"]
    target.control(
        held_alone or unsettled_comes_back(target, version, "client-individual"), NOTHING_RETURNS
    )
    target.record_finding(
        INDIVIDUAL_NACK[version],
        held_alone,
        f"m1 of m0, m1, m2 was refused; of the others, the next consumer got {listed(left)}",
    )


@case(ATOMIC, needs={"transactions"})
def test_a_transaction_takes_effect_whole_or_not_at_all(target: Bench, version: str) -> None:
    """stomp.py sends three messages in a transaction. None arrives before COMMIT, all arrive after
    it. Three in an aborted transaction never arrive."""
    queue = target.destination()
    consumer, producer = target.stomppy(version), target.stomppy(version)
    consumer.subscribe(queue)
    kept, dropped = f"{producer.transaction}-kept", f"{producer.transaction}-dropped"
    producer.begin(kept)
    for body in numbered(3):
        producer.publish(queue, body, {"transaction": kept}, receipt=False)
    producer.settle()
    consumer.expect_nothing(
        for_=QUIET, of=MESSAGE, proves=ATOMIC[version], why="COMMIT has not been sent"
    )
    producer.commit(kept)
    received = bodies(collect(target, consumer, 3))
    target.record_finding(
        ATOMIC[version],
        received == numbered(3),
        f"m0, m1, m2 were committed; {listed(received)} arrived",
    )
    producer.begin(dropped)
    for body in numbered(3, "dropped"):
        producer.publish(queue, body, {"transaction": dropped}, receipt=False)
    producer.abort(dropped)
    producer.publish(queue, b"outside")
    received = bodies(collect(target, consumer, 1))
    target.record_finding(
        ATOMIC[version],
        received == [b"outside"],
        f"m0, m1, m2 were aborted, and 'outside' was sent; {listed(received)} arrived",
    )


# --- heartbeats ----------------------------------------------------------------------------------


@case(LATE_BEATS_BORNE, needs={"client-clocks", "heart-beat"})
@pytest.mark.parametrize("period", [500, 700])
def test_while_it_beats_the_session_lives(target: Bench, version: str, period: int) -> None:
    """stomp.py sends only its heartbeats, each slightly late, as timers usually are. After many
    agreed periods the session still works."""
    peer = target.stomppy(version, heart_beat=(period, 0))
    assert peer.connected is not None
    asked = int((peer.connected.get("heart-beat") or "0,0").partition(",")[2])
    agreed = ms(max(period, asked))
    since = target.now()
    target.advance(50 * agreed if target.virtual else min(10 * agreed, seconds(8)))
    alive = peer.ended is None
    late = target.margin((0, agreed), since) > agreed
    lasted = (target.now() - since) // NS_PER_MS
    target.record_finding(
        LATE_BEATS_BORNE[version],
        alive,
        f"stomp.py sent a heartbeat every {agreed // NS_PER_MS} ms for {lasted} ms;"
        f" {'the connection is still open' if alive else peer.instead()}",
        uncertain="the host was late by more than a period" if late else None,
    )
    if alive and peer.left is None:
        peer.settle()


@case(TTL_OF_HEART_BEAT, needs={"client-clocks", "heart-beat", "connection-ttl"})
@pytest.mark.parametrize("period", [500, 1000])
def test_when_it_stops_beating_the_session_ends(target: Bench, period: int) -> None:
    """stomp.py sends heartbeats for several times its TTL and then stops. The connection is closed
    within the interval of TTL and check interval."""
    peer = target.stomppy("1.2", heart_beat=(period, 0))
    expected = target.negotiated((period, 0))
    target.advance(3 * ms(expected.ttl_ms))
    words = f"while stomp.py sent heartbeats: {peer.instead()}"
    target.require(TTL_OF_HEART_BEAT, peer.ended is None, words)
    peer.stop_beating()
    bounds = target.silence_interval(expected.ttl_ms)
    target.wait_until(lambda: peer.ended is not None, ms(period) + bounds[1] + seconds(3))
    # Only now is the last heartbeat known: one may have been in flight when the loop was asked to
    # end.
    since = peer.spoke_at
    assert since is not None
    target.expect_interval(TTL_OF_HEART_BEAT, "close of the silent connection", since, bounds)
    if peer.ended is not None:
        target.judge_duration(
            TTL_OF_HEART_BEAT, "silence until the close", peer.ended.at - since, bounds, since
        )
    else:
        target.record_finding(
            TTL_OF_HEART_BEAT,
            False,
            f"the client was silent with a TTL of {expected.ttl_ms} ms, but not disconnected",
        )


@case(SERVER_BEATS, AT_LEAST_EVERY, needs={"client-clocks", "heart-beat"})
@pytest.mark.parametrize("period", [500, 800])
def test_it_is_content_with_the_beats_it_gets(target: Bench, version: str, period: int) -> None:
    """stomp.py asks for heartbeats, and closes a connection that is silent for one and a half
    intervals. Heartbeats arrive as agreed, and the connection stays open."""
    peer = target.stomppy(version, heart_beat=(2 * period, period))
    assert peer.connected is not None
    promised = int((peer.connected.get("heart-beat") or "0,0").partition(",")[0])
    interval = ms(max(promised, period))
    waited = 40 * interval if target.virtual else min(8 * interval, seconds(6))
    target.advance(waited)
    both = (SERVER_BEATS[version], AT_LEAST_EVERY[version])
    if interval > waited:
        target.record_not_applicable(both, f"no beat is due within the {promised} ms agreed on")
        return
    if promised == 0:
        beats = len(signs_of_life(target, peer)) - 1
        target.record_finding(
            SERVER_BEATS[version],
            beats == 0,
            f"the server promised no heartbeats (sx=0) and sent {beats}",
        )
        target.record_not_applicable(AT_LEAST_EVERY[version], "no heartbeats were agreed on")
        return
    on_time = judge_beats(target, peer, both, interval)
    target.control(
        peer.ended is None,
        f"stomp.py sends heartbeats, so the server should stay: {peer.instead()}",
    )
    if target.virtual:  # on a slow host stomp.py itself may be late and close without reason
        target.control(
            peer.left is None or not on_time,
            "the server sent heartbeats on time, yet stomp.py closed the connection",
        )
    if peer.left is None:
        peer.settle()


@case(ANY_BYTE_COUNTS, BEATS_ARRIVE, needs={"client-clocks", "heart-beat"})
def test_beats_and_messages_share_a_connection(target: Bench, version: str) -> None:
    """stomp.py and the server have agreed on heartbeats in both directions, and stomp.py sends
    messages to itself. Messages arrive whole between the heartbeats, and neither side closes the
    connection. stomp.py 9 drops bytes that it reads after two heartbeats in one read, which a slow
    host provokes, so one message is proof enough."""
    queue, peer = target.destination(), target.stomppy(version, heart_beat=(500, 500))
    assert peer.connected is not None
    promised = int((peer.connected.get("heart-beat") or "0,0").partition(",")[0])
    peer.subscribe(queue)
    rounds, since, received = 30 if target.virtual else 5, target.now(), 0
    for body in numbered(rounds):
        target.advance(ms(1300))
        if peer.left is not None or peer.ended is not None:
            break
        peer.publish(queue, body, receipt=False)
        received += peer.watch_for(frame("MESSAGE", body=body), within=seconds(2)) is not None
    if peer.left is None and peer.ended is None:
        target.control(
            received == rounds if target.virtual else received > 0,
            f"{received} of {rounds} messages reached stomp.py",
        )
    on_time = promised == 0 or judge_beats(
        target, peer, tuple(BEATS_ARRIVE[version]), ms(max(promised, 500))
    )
    late = "the host was late by a period" if target.margin((0, ms(500)), since) > ms(500) else None
    target.record_finding(
        ANY_BYTE_COUNTS[version],
        peer.ended is None,
        f"the server {'stayed' if peer.ended is None else 'left'}",
        uncertain=late,
    )
    if target.virtual:  # on a slow host stomp.py itself may be late and close without reason
        target.control(
            peer.left is None or not on_time,
            "the server sent heartbeats on time, yet stomp.py closed the connection",
        )
    if peer.left is None and peer.ended is None:
        peer.settle()
