"""RECEIPT: which frames get one, and what it promises."""

from collections.abc import Callable

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp.codec import HeaderList, encode
from brokerproof.suites.api import Bench, CloseHow, RoutingType, case, listed, ms, over
from brokerproof.suites.api.stomp import Destination, StompPeer, frame
from brokerproof.suites.steps.queues import (
    QUIET,
    bodies,
    collect,
    expected_arrivals,
    expected_remainder,
    held,
    left_in,
    numbered,
)
from brokerproof.suites.steps.refusals import bystander, offend

ANSWERED = {"1.0": "STOMP10-RECEIPT-02", "1.1": "STOMP11-HDR-13", "1.2": "STOMP12-HDR-17"}
ANY_FRAME = {"1.0": "STOMP10-RECEIPT-01", "1.1": "STOMP11-HDR-12", "1.2": "STOMP12-HDR-16"}
SAME_ID = {"1.1": "STOMP11-RCPT-02", "1.2": "STOMP12-RCPT-02"}
NO_BODY = {"1.0": "STOMP10-RECEIPT-03", "1.1": "STOMP11-RCPT-03", "1.2": "STOMP12-FH-10"}
RECEIPT_ID = {
    "1.0": ("STOMP10-RECEIPT-02",),
    "1.1": ("STOMP11-HDR-13", "STOMP11-RCPT-02"),
    "1.2": ("STOMP12-HDR-17", "STOMP12-RCPT-02"),
}
ONLY_PROCESSED = {"1.1": "STOMP11-RCPT-01", "1.2": "STOMP12-RCPT-01"}
CONFIRMS_EARLIER = "STOMP12-RCPT-03"
PROCESSED_TO_THE_END = "STOMP12-RCPT-04"

RECEIPT = frame("RECEIPT")
HELD = "SEND in a transaction"

identifiers = st.one_of(
    st.sampled_from(
        [
            "0",
            "message-12345",
            "r",
            "-",
            "a b",
            "[]{}()<>@,;/?=!#$%&'*+^`|~",
            "x" * 1000,
            "receipt",
            "null",
        ]
    ),
    st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=":\\"),
        min_size=1,
        max_size=30,
    ),
)


def asking(
    target: Bench, peer: StompPeer
) -> list[tuple[str, Callable[[], tuple[str, HeaderList, bytes]]]]:
    """Return every client frame that can ask for a receipt, in an order in which all succeed."""
    queue = target.destination()

    def subscribed() -> HeaderList:
        return (
            ("id", "0"),
            ("destination", queue.name),
            ("ack", _individual(peer)),
            *queue.subscribe_headers,
        )

    def next_message() -> HeaderList:
        return peer.naming(peer.message())

    other = f"{peer.transaction}-other"
    frames: list[tuple[str, Callable[[], tuple[str, HeaderList, bytes]]]] = [
        ("SUBSCRIBE", lambda: ("SUBSCRIBE", subscribed(), b"")),
        ("SEND", lambda: ("SEND", _sending(queue), b"one")),
        ("ACK", lambda: ("ACK", next_message(), b"")),
        ("SEND", lambda: ("SEND", _sending(queue), b"two")),
        ("BEGIN", lambda: ("BEGIN", (("transaction", peer.transaction),), b"")),
        (HELD, lambda: ("SEND", (*_sending(queue), ("transaction", peer.transaction)), b"three")),
        ("COMMIT", lambda: ("COMMIT", (("transaction", peer.transaction),), b"")),
        ("BEGIN", lambda: ("BEGIN", (("transaction", other),), b"")),
        ("ABORT", lambda: ("ABORT", (("transaction", other),), b"")),
        ("UNSUBSCRIBE", lambda: ("UNSUBSCRIBE", (("id", "0"),), b"")),
        ("DISCONNECT", lambda: ("DISCONNECT", (), b"")),
    ]
    if peer.version != "1.0" and "nack" in target.capabilities:
        frames.insert(4, ("NACK", lambda: ("NACK", next_message(), b"")))
    return frames


def _individual(peer: StompPeer) -> str:
    return "client" if peer.version == "1.0" else "client-individual"


def _sending(queue: Destination) -> HeaderList:
    return (("destination", queue.name), *queue.send_headers)


@case(ANSWERED, ANY_FRAME, SAME_ID, NO_BODY, needs={"transactions"})
def test_every_kind_of_frame_is_answered_with_one_receipt(target: Bench, version: str) -> None:
    """Each client frame after CONNECT asks for a receipt and gets exactly one RECEIPT with that
    receipt-id and no body. The RECEIPT of a SEND in a transaction may arrive with that of COMMIT.
    One scenario: the requirements describe one answer."""
    peer = target.stomp(version)
    asked = []
    later: list[str] = []
    for number, (words, make) in enumerate(asking(target, peer)):
        command, headers, body = make()
        receipt = f"{number}-{command.lower()}"
        asked.append(receipt)
        peer.send(command, (*headers, ("receipt", receipt)), body)
        target.record_note(f"{words} with receipt:{receipt}")
        if (
            words == HELD
            and peer.watch_for(frame("RECEIPT", {"receipt-id": receipt}), within=QUIET) is None
        ):
            later.append(receipt)
        elif words != HELD:
            answer = peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=target.cited)
            detail = f"the RECEIPT of {words} has the body {answer.body!r}"
            target.record_finding(NO_BODY[version], not answer.body, detail)
        while command == "COMMIT" and later:
            peer.expect(frame("RECEIPT", {"receipt-id": later.pop()}), proves=target.cited)
    target.wait_until(lambda: peer.ended is not None, QUIET)
    surplus = [received.brief() for received in peer.inbox if received.command == "RECEIPT"]
    target.record_finding(
        ANSWERED[version],
        not surplus,
        f"{len(asked)} frames asked for receipts; besides these {listed(map(str, surplus))}"
        " arrived",
    )


@case(RECEIPT_ID, needs={"transactions"})
@over(examples=60, asked=st.lists(identifiers, min_size=1, max_size=8, unique=True))
def test_any_value_comes_back_as_receipt_id(target: Bench, version: str, asked: list[str]) -> None:
    """BEGINs and SENDs ask for receipts with arbitrary values. Each value is returned once,
    unchanged."""
    queue, peer = target.destination(), target.stomp(version)
    data = b""
    for number, receipt in enumerate(asked):
        if number % 3:
            data += encode(
                "SEND", (*_sending(queue), ("receipt", receipt)), b"body", version=version
            )
        else:
            transaction = f"{peer.transaction}-{number}"
            data += encode(
                "BEGIN", {"transaction": transaction, "receipt": receipt}, version=version
            )
    peer.write(data)
    for receipt in asked:
        peer.expect(frame("RECEIPT", {"receipt-id": receipt}), proves=RECEIPT_ID[version])
    peer.settle()
    surplus = [
        received.get("receipt-id") for received in peer.inbox if received.command == "RECEIPT"
    ]
    target.record_finding(
        RECEIPT_ID[version],
        not surplus,
        f"{len(asked)} receipts were requested; besides these, {listed(map(str, surplus))} arrived",
    )


@case(RECEIPT_ID, needs={"transactions"})
def test_a_connection_gets_receipts_without_an_end(target: Bench, version: str) -> None:
    """One connection begins and aborts two hundred transactions. Each BEGIN gets its receipt."""
    peer = target.stomp(version)
    for number in range(200):
        named = {"transaction": f"{peer.transaction}-{number}"}
        peer.request("BEGIN", named, proves=RECEIPT_ID[version])
        peer.send("ABORT", named)


@case(ONLY_PROCESSED, needs={"transactions"})
def test_a_frame_that_does_not_ask_gets_no_receipt(target: Bench, version: str) -> None:
    """SUBSCRIBE, SEND, BEGIN, COMMIT and UNSUBSCRIBE without a receipt header get no RECEIPT. A
    later frame that asks for one does."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue, receipt=False)
    peer.publish(queue, b"one", receipt=False)
    peer.message(body=b"one")
    peer.send("BEGIN", {"transaction": peer.transaction})
    peer.send("COMMIT", {"transaction": peer.transaction})
    peer.send("UNSUBSCRIBE", {"id": "0"})
    last = {"transaction": f"{peer.transaction}-last"}
    peer.request("BEGIN", last, proves=ONLY_PROCESSED[version])
    target.advance(QUIET)
    surplus = [received.brief() for received in peer.inbox if received.command == "RECEIPT"]
    words = f"RECEIPTs that nobody requested: {', '.join(surplus) or 'none'}"
    target.record_finding(ONLY_PROCESSED[version], not surplus, words)


@case(ONLY_PROCESSED)
def test_when_the_receipt_of_a_send_comes_the_message_is_there(target: Bench, version: str) -> None:
    """The producer resets its connection after the RECEIPT of its SEND. A later consumer gets the
    message."""
    queue, producer = target.destination(), target.stomp(version)
    for body in numbered(3):
        producer.publish(queue, body, proves=ONLY_PROCESSED[version])
    producer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 3)
    target.record_finding(
        ONLY_PROCESSED[version],
        sorted(left) == numbered(3),
        f"m0, m1, m2 were confirmed; a consumer got {listed(left)}",
        expectation=expected_remainder(numbered(3), "in any order"),
    )


@case(ONLY_PROCESSED, needs={"multicast"})
def test_when_the_receipt_of_a_subscribe_comes_the_subscription_stands(
    target: Bench, version: str
) -> None:
    """As soon as a SUBSCRIBE to a topic is confirmed by RECEIPT, another connection sends. The
    subscriber gets the message."""
    for _ in range(5):
        topic, consumer, producer = (
            target.destination(RoutingType.MULTICAST),
            target.stomp(version),
            target.stomp(version),
        )
        consumer.subscribe(topic, proves=ONLY_PROCESSED[version])
        producer.publish(topic, b"now")
        consumer.message(body=b"now", proves=ONLY_PROCESSED[version])


@case(ONLY_PROCESSED)
def test_a_frame_that_failed_gets_no_receipt(target: Bench, version: str) -> None:
    """A SEND without a destination asks for a receipt and gets no RECEIPT. The same frame with a
    destination gets one first."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.publish(target.destination(), b"good", proves=ONLY_PROCESSED[version])
        receipt = offend(peer, "SEND", {}, b"bad")
        target.wait_until(lambda: peer.ended is not None or bool(peer.inbox), within=ms(2000))
        target.wait_until(lambda: peer.ended is not None, QUIET)
        confirmed = peer.take(frame("RECEIPT", {"receipt-id": receipt}))
        target.record_finding(
            ONLY_PROCESSED[version],
            confirmed is None,
            f"the failed SEND was {'confirmed' if confirmed else 'not confirmed'}",
            expectation=peer.unwanted(frame("RECEIPT", {"receipt-id": receipt})),
        )


@case(CONFIRMS_EARLIER, ANSWERED["1.2"])
@over(examples=20, count=st.integers(1, 60), size=st.sampled_from([0, 1, 100, 2000]))
def test_a_receipt_confirms_all_frames_before_it(target: Bench, count: int, size: int) -> None:
    """Of many SENDs only the last asks for a receipt. After its RECEIPT all messages arrive."""
    queue, producer, consumer = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    consumer.subscribe(queue)
    sent = [body.ljust(size, b".") for body in numbered(count)]
    for body in sent:
        producer.publish(queue, body, receipt=False)
    producer.publish(queue, b"last", proves=ANSWERED["1.2"])
    received = bodies(collect(target, consumer, count + 1, quiet=0))
    target.record_finding(
        CONFIRMS_EARLIER,
        sorted(received) == sorted([*sent, b"last"]),
        f"{count} messages were sent before the receipt; {len(received) - 1} arrived",
        expectation=expected_arrivals(consumer, received, [*sent, b"last"], "in any order"),
    )


@case(PROCESSED_TO_THE_END, ANSWERED["1.2"])
def test_frames_that_were_received_are_processed_although_the_client_left(target: Bench) -> None:
    """A client sends messages, an ACK and DISCONNECT in one write, and waits for the close. All
    messages are confirmed and arrive, and the acknowledged message is not delivered again."""
    queue, other, client = target.destination(), target.destination(), target.stomp("1.2")
    client.publish(other, b"acknowledged at last")
    message = held(target, client, other, 1, "client-individual")[0]
    sent = numbered(50)
    data = b"".join(
        encode("SEND", (*_sending(queue), ("receipt", body.decode())), body, version="1.2")
        for body in sent
    )
    data += encode("ACK", client.naming(message), version="1.2")
    client.write(data + encode("DISCONNECT", {"receipt": "gone"}, version="1.2"))
    client.expect(frame("RECEIPT", {"receipt-id": "gone"}))
    target.wait_until(lambda: client.ended is not None, QUIET)
    client.close_socket()
    told = {one.get("receipt-id") for one in client.inbox if one.command == "RECEIPT"}
    detail = f"{len(sent)} SENDs before DISCONNECT asked for a receipt; {len(told)} got one"
    target.record_finding(ANSWERED["1.2"], told == {body.decode() for body in sent}, detail)
    received = left_in(target, queue, "1.2", len(sent))
    target.record_finding(
        PROCESSED_TO_THE_END,
        sorted(received) == sorted(sent),
        f"{len(sent)} messages were sent before DISCONNECT; {len(received)} arrived",
        expectation=expected_remainder(sent, "in any order"),
    )
    left = left_in(target, other, "1.2", 0)
    target.record_finding(
        PROCESSED_TO_THE_END,
        not left,
        f"the message acknowledged before DISCONNECT arrived again: {listed(left)}",
        expectation=expected_remainder(()),
    )
