"""pika, unmodified: common uses work."""

from hypothesis import strategies as st

from brokerproof.harness.clients.client_event import event_named
from brokerproof.suites.amqp091.steps import ARGUMENTS, CONFIRMS, QUIET
from brokerproof.suites.api import Bench, case, listed, over, seconds, shown

CONNECTION_CLOSE_OK = "AMQP091-CLOSE-01"
PUBLISH_ORDER = "AMQP091-PUB-04"
BODY_UNCHANGED = "AMQP091-CONTENT-04"
PREFETCH_LIMIT = "AMQP091-QOS-01"
PREFETCH_REPLENISHED = "AMQP091-QOS-02"
PUBLISHER_CONFIRMS = "RABBITMQ-AMQP091-CONF-01"
MANDATORY_RETURNED = "AMQP091-PUB-03"
REJECT_PUBLISH = "RABBITMQ-AMQP091-LEN-02"
QUEUE_MISSING = "AMQP091-QUEUE-02"
OTHER_CHANNELS_CONTINUE = "AMQP091-CHAN-02"
SERVER_HEARTBEATS = "AMQP091-HB-02"
ANY_BYTE_KEEPS_ALIVE = "AMQP091-HB-05"


@case(CONNECTION_CLOSE_OK, PUBLISH_ORDER, BODY_UNCHANGED, needs={"amqp091"})
@over(examples=4, count=st.sampled_from([1, 30]), size=st.sampled_from([0, 10, 200_000]))
def test_pika_sends_and_receives(target: Bench, count: int, size: int) -> None:
    """pika connects, declares a queue, publishes, consumes with acknowledgements and closes. The
    bodies arrive unchanged and in order.

    One scenario: the life of a connection from the client's side.
    """
    peer = target.pika()
    peer.open_channel()
    queue = peer.declare(exclusive=True)
    sent = [f"{at:03d}" + "x" * size for at in range(count if size < 1000 else 3)]
    for body in sent:
        peer.publish(queue, body.encode())
    peer.consume(queue, proves=PUBLISH_ORDER)
    received = []
    for _ in sent:
        message = peer.expect(event_named("message"), proves=PUBLISH_ORDER).detail
        received.append(message["body"])
        peer.ack(message["tag"])
    target.record_finding(
        PUBLISH_ORDER,
        [body[:3] for body in received] == [body[:3] for body in sent],
        f"{len(received)} of {len(sent)} messages arrived",
    )
    words = f"of {size} bytes each: {listed(received)} arrived; expected {listed(sent)}"
    target.record_finding(BODY_UNCHANGED, received == sent, words)
    peer.close(proves=CONNECTION_CLOSE_OK)


@case(PREFETCH_LIMIT, PREFETCH_REPLENISHED, needs={"amqp091"})
@over(examples=4, prefetch=st.sampled_from([1, 5]), multiple=st.booleans())
def test_pika_has_as_much_as_its_prefetch(target: Bench, prefetch: int, multiple: bool) -> None:
    """pika consumes with a prefetch. It gets exactly that many messages, and once it has
    acknowledged them, as many again."""
    peer = target.pika()
    peer.open_channel()
    queue = peer.declare(exclusive=True)
    for at in range(3 * prefetch):
        peer.publish(queue, b"%d" % at)
    peer.consume(queue, prefetch=prefetch)
    for part in range(3):
        tags = [
            peer.expect(event_named("message"), proves=PREFETCH_REPLENISHED).detail["tag"]
            for _ in range(prefetch)
        ]
        peer.expect_nothing(
            for_=QUIET,
            of=event_named("message"),
            proves=PREFETCH_LIMIT,
            why=f"{prefetch} messages are unacknowledged",
        )
        fine = tags == sorted({*tags})
        detail = f"part {part}: the tags are {shown(tags)}"
        target.record_finding(PREFETCH_REPLENISHED, fine, detail)
        for tag in tags[-1:] if multiple else tags:
            peer.ack(tag, multiple=multiple)


@case(
    PUBLISHER_CONFIRMS, MANDATORY_RETURNED, REJECT_PUBLISH, needs={"amqp091", ARGUMENTS, CONFIRMS}
)
def test_pika_gets_confirms_and_returns(target: Bench) -> None:
    """pika publishes with confirms. It gets basic.ack for a routed message, basic.nack for one to a
    full queue, and basic.return and then basic.ack for a mandatory one without a queue."""
    peer = target.pika()
    peer.open_channel(confirms=True)
    full = peer.declare(
        exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
    )
    peer.publish(full, b"first")
    confirm = peer.expect(event_named("confirmed", tag=1), proves=PUBLISHER_CONFIRMS).detail
    detail = f"the first message was answered with {confirm}"
    target.record_finding(PUBLISHER_CONFIRMS, confirm["name"] == "ack", detail)
    peer.publish(full, b"second")
    confirm = peer.expect(event_named("confirmed", tag=2), proves=REJECT_PUBLISH).detail
    detail = f"the message for a full queue was answered with {confirm}"
    target.record_finding(REJECT_PUBLISH, confirm["name"] == "nack", detail)
    peer.publish(target.fresh_name(), b"nowhere", mandatory=True)
    peer.expect(event_named("returned", body="nowhere"), proves=MANDATORY_RETURNED)
    peer.expect(event_named("confirmed", tag=3), proves=PUBLISHER_CONFIRMS)


@case(QUEUE_MISSING, OTHER_CHANNELS_CONTINUE, needs={"amqp091", "amqp091-undeclared"})
def test_pika_is_told_of_errors(target: Bench) -> None:
    """A failed passive declaration closes pika's channel with 404; another channel still works."""
    peer = target.pika()
    peer.open_channel(1)
    peer.open_channel(2)
    peer.channel_of[1].queue_declare(target.fresh_name(), passive=True)
    peer.expect(event_named("channel-closed", channel=1, code=404), proves=QUEUE_MISSING)
    queue = peer.declare(exclusive=True, channel=2, proves=OTHER_CHANNELS_CONTINUE)
    peer.publish(queue, b"on", channel=2)
    peer.consume(queue, channel=2, auto_ack=True, proves=OTHER_CHANNELS_CONTINUE)
    peer.expect(event_named("message", body="on"), proves=OTHER_CHANNELS_CONTINUE)


@case(SERVER_HEARTBEATS, ANY_BYTE_KEEPS_ALIVE, needs={"amqp091", "client-clocks"})
def test_pika_and_its_heart_beats(target: Bench) -> None:
    """pika and the server exchange heartbeats for five intervals. Neither closes the connection."""
    interval = 30 if target.virtual else 1
    peer = target.pika(heartbeat=interval)
    peer.open_channel()
    target.advance(seconds(5 * interval))
    target.record_finding(SERVER_HEARTBEATS, peer.ended is None, f"pika gave up: {peer.instead()}")
    detail = f"the connection should be open: {peer.instead()}"
    target.record_finding(ANY_BYTE_KEEPS_ALIVE, peer.connection.is_open, detail)
    peer.declare(exclusive=True, proves=ANY_BYTE_KEEPS_ALIVE)
