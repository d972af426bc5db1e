"""Publisher confirms and transactions (RabbitMQ: confirms; class tx)."""

from collections.abc import Iterable

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    CHANNEL,
    CLASSIC,
    CONFIRMS,
    EXCEPTION,
    QUIET,
    Kind,
    arrive,
    bind,
    bodies,
    drained,
    exchange_of,
    fill,
    queue_of,
)
from brokerproof.suites.api import PATIENCE, Bench, case, listed, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer, Method

PUBLISHER_CONFIRMS = "RABBITMQ-AMQP091-CONF-01"
RETURN_BEFORE_CONFIRM = "RABBITMQ-AMQP091-CONF-02"
CONFIRM_OR_TX = "RABBITMQ-AMQP091-CONF-03"
TX_PUBLISH = "AMQP091-TX-01"
TX_ACK = "AMQP091-TX-02"
TX_NOT_SELECTED = "AMQP091-TX-03"

ANSWERS = ("basic.ack", "basic.nack")


def answers(peer: Amqp091Peer, upto: int, *, channel: int = 1) -> tuple[dict[int, str], list[int]]:
    """Return the answers to messages 1 to ``upto`` (``basic.ack`` or ``basic.nack``) by number, and
    the numbers that were answered twice or never published."""
    answer_by_number: dict[int, str] = {}
    wrong: list[int] = []

    def read() -> bool:
        for answer in [
            reply for reply in peer.inbox if reply.name in ANSWERS and reply.channel == channel
        ]:
            peer.inbox.remove(answer)
            tag = answer["delivery-tag"]
            numbers: Iterable[int] = range(1, tag + 1) if answer["multiple"] else (tag,)
            new = [number for number in numbers if number not in answer_by_number]
            wrong.extend([tag] if tag in answer_by_number or tag > upto else [])
            answer_by_number.update(dict.fromkeys(new, answer.name))
        return len(answer_by_number) >= upto

    peer.world.wait_until(read, peer.world.now() + PATIENCE)
    peer.world.wait_until(lambda: peer.ended is not None, peer.world.now() + QUIET)
    read()
    return answer_by_number, wrong


FATES = ("a queue", "two queues", "a consumer", "nowhere", "back", "an exchange without a binding")


def publications(target: Bench, peer: Amqp091Peer, kind: Kind) -> dict[str, bytes]:
    """Return a message for each outcome; declare the destinations."""
    queue, consumed = (kind.queue(target, peer) for _ in range(2))
    nowhere = target.fresh_name()
    fanout, unbound = (exchange_of(target, peer, "fanout") for _ in range(2))
    for bound in (queue, queue_of(peer)):
        bind(peer, bound, fanout)
    peer.consume(consumed, channel=2, no_ack=True)
    places = (
        (queue, ""),
        ("", fanout),
        (consumed, ""),
        (nowhere, ""),
        (nowhere, ""),
        ("", unbound),
    )
    return {
        fate: peer.publication(b"x", key, exchange=exchange, mandatory=fate == "back")
        for fate, (key, exchange) in zip(FATES, places, strict=True)
    }


@case(PUBLISHER_CONFIRMS, needs={"amqp091", CONFIRMS})
@over(
    examples=10,
    always=lambda target: [{"runs": [(1, fate), (3, fate)], "kind": Kind()} for fate in FATES],
    runs=st.lists(
        st.tuples(st.sampled_from([1, 2, 7, 100, 1000]), st.sampled_from(FATES)),
        min_size=1,
        max_size=5,
    ),
    kind=Kind.any,
)
def test_every_message_is_confirmed_once(
    target: Bench, kind: Kind, runs: list[tuple[int, str]]
) -> None:
    """On a channel in confirm mode, each message is acknowledged exactly once, whether it goes to a
    queue, to several, to a consumer, or nowhere (some of these are returned). Messages are sent in
    batches of one write, so one basic.ack may cover several. Messages published before
    confirm.select are not counted."""
    peer = target.amqp091(channels=2)
    publication = publications(target, peer, kind)
    peer.write(b"".join(publication.values()))
    peer.call("confirm.select", proves=PUBLISHER_CONFIRMS)
    last = 0
    for count, fate in runs:
        peer.write(publication[fate] * count)
        last += count
    answer_by_number, wrong = answers(peer, last)
    acked = [number for number, name in answer_by_number.items() if name == "basic.ack"]
    words = f"{len(acked)} of {last} messages were confirmed; sent: {shown(runs)}"
    target.record_finding(PUBLISHER_CONFIRMS, sorted(acked) == list(range(1, last + 1)), words)
    target.record_finding(
        PUBLISHER_CONFIRMS, not wrong, f"messages answered twice or never published: {shown(wrong)}"
    )


@case(RETURN_BEFORE_CONFIRM, needs={"amqp091", CONFIRMS})
def test_a_return_comes_before_its_confirm(target: Bench) -> None:
    """Mandatory messages without a queue are returned by basic.return before their confirm."""
    peer = target.amqp091()
    peer.call("confirm.select")
    for at in range(3):
        peer.publish(b"%d" % at, target.fresh_name(), mandatory=True)
    settled = _answered(target, peer, 3)
    names = [answer.name for answer in settled]
    returned = 0
    for answer in settled:
        if answer.name == "basic.return":
            returned += 1
        else:
            last = answer["delivery-tag"]
            words = f"message {last} was confirmed after {returned} returns; order: {shown(names)}"
            target.record_finding(RETURN_BEFORE_CONFIRM, returned >= last, words)
    target.record_finding(
        RETURN_BEFORE_CONFIRM,
        names.count("basic.return") == 3,
        f"{shown(names)} arrived; expected 3 basic.return",
    )


def _answered(target: Bench, peer: Amqp091Peer, upto: int) -> list[Method]:
    def done() -> bool:
        tags = [reply["delivery-tag"] for reply in peer.inbox if reply.name in ANSWERS]
        return bool(tags) and max(tags) >= upto

    target.wait_until(done, PATIENCE)
    return [reply for reply in peer.inbox if reply.name in (*ANSWERS, "basic.return")]


@case(CONFIRM_OR_TX, needs={"amqp091", CONFIRMS})
@over(examples=2, first=st.sampled_from(["confirm.select", "tx.select"]))
def test_a_channel_confirms_or_has_transactions(target: Bench, first: str) -> None:
    """tx.select on a channel in confirm mode, or confirm.select on a transactional one, closes the
    channel with 406 PRECONDITION_FAILED. Selecting the same mode twice is not an error."""
    peer = target.amqp091()
    for _ in range(2):
        peer.call(first)
    peer.send("tx.select" if first == "confirm.select" else "confirm.select", channel=1)
    peer.refused(CHANNEL, 406, proves=CONFIRM_OR_TX)


@case(TX_PUBLISH, needs={"amqp091"})
@over(
    examples=8,
    runs=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=3),
    kind=CLASSIC,
)
def test_messages_of_a_transaction_come_with_its_commit(
    target: Bench, kind: Kind, runs: list[tuple[int, bool]]
) -> None:
    """Messages published in a transaction appear in their queue only after commit-ok. After
    rollback-ok they never do."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer, channel=2)
    peer.call("tx.select")
    committed: list[bytes] = []
    for run, (count, commit) in enumerate(runs):
        sent = [b"%d-%d" % (run, at) for at in range(count)]
        for body in sent:
            peer.publish(body, queue)
        peer.settle()
        waiting = peer.count(queue, channel=2)
        words = f"before its end, {waiting - len(committed)} messages of a transaction were queued"
        target.record_finding(TX_PUBLISH, waiting == len(committed), words)
        peer.call("tx.commit" if commit else "tx.rollback", proves=TX_PUBLISH)
        committed += sent if commit else []
        waiting = peer.count(queue, channel=2)
        words = f"{waiting} messages wait after the transaction; expected {len(committed)}"
        target.record_finding(TX_PUBLISH, waiting == len(committed), words)
    received = bodies(drained(peer, queue, channel=2))
    words = f"{listed(received)} arrived; expected {listed(committed)}"
    target.record_finding(TX_PUBLISH, received == committed, words)


@case(TX_ACK, needs={"amqp091"})
@over(examples=4, commit=st.booleans(), multiple=st.booleans(), kind=Kind.any)
def test_acknowledgements_of_a_transaction_count_with_its_commit(
    target: Bench, kind: Kind, commit: bool, multiple: bool
) -> None:
    """Deliveries acknowledged in a transaction are consumed after tx.commit. After tx.rollback they
    can be acknowledged again, and are redelivered once the channel closes."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"1", b"2"])
    peer.call("tx.select", channel=2)
    peer.consume(queue, channel=2)
    tags = [delivery["delivery-tag"] for delivery in arrive(peer, 2, channel=2)]
    for tag in tags[1:] if multiple else tags:
        peer.ack(tag, multiple=multiple, channel=2)
    peer.call("tx.commit" if commit else "tx.rollback", channel=2, proves=TX_ACK)
    if not commit:
        peer.ack(tags[0], channel=2)
        peer.call("tx.rollback", channel=2, proves=TX_ACK)
    peer.close_channel(2)
    target.wait_until(lambda: peer.ended is not None, QUIET)
    received = bodies(drained(peer, queue))
    words = (
        f"after tx.{'commit' if commit else 'rollback'} of the acks, {listed(received)} returned"
    )
    target.record_finding(TX_ACK, sorted(received) == ([] if commit else [b"1", b"2"]), words)


@case(TX_NOT_SELECTED, needs={"amqp091"})
@over(examples=2, name=st.sampled_from(["tx.commit", "tx.rollback"]))
def test_only_transactional_channels_have_transactions(target: Bench, name: str) -> None:
    """tx.commit or tx.rollback on a channel without tx.select is refused with 406
    PRECONDITION_FAILED."""
    peer = target.amqp091()
    peer.send(name, channel=1)
    peer.refused(EXCEPTION, 406, proves=TX_NOT_SELECTED)
