"""Steps for cases about amounts, with their requirements: many connections, windows of any size."""

from brokerproof.suites.api import Bench, Duration, listed, shown
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import (
    CLIENTS,
    FRAME,
    Arrived,
    QueueClient,
    StompQueueClient,
)
from brokerproof.suites.steps.queues import QUIET
from brokerproof.suites.steps.whole_histories import Sentences

ARTEMIS = Sentences(
    once="ARTEMIS-CONCEPTS-queue-1",
    gone="ARTEMIS-CONCEPTS-queue-2",
    order="ARTEMIS-GROUPING-fifo-1",
    back="ARTEMIS-REDELIVERY-back-1",
    marked="ARTEMIS-REDELIVERY-marked-1",
)
AMQP091 = Sentences(
    once="AMQP091-EXCH-02",
    gone="AMQP091-ACK-02",
    order="AMQP091-PUB-04",
    back="AMQP091-CHAN-04",
    marked="AMQP091-RED-01",
    confirmed="RABBITMQ-AMQP091-CONF-01",
    order_after_return=False,
)
OPENWIRE = Sentences(
    once="OPENWIRE-MSGACK-2",
    gone="OPENWIRE-MSGACK-2",
    order="ACTIVEMQ-ORDER-1",
    back="OPENWIRE-MSGACK-2",
    marked="OPENWIRE-REDELIVERY-1",
    order_after_return=False,
)
BYTES = "ARTEMIS-STOMP-window-3"
"""The requirement on consumer-window-size, which counts bytes."""


def judge_connections(
    target: Bench,
    client: type[QueueClient],
    position: int,
    most: int,
    arrives: str,
    confirmed: str | None = None,
) -> None:
    """Open at most ``most`` connections; each sends a message to a queue. Judge by ``arrives`` that
    these messages reach the oldest connection, and by ``confirmed`` that they are confirmed."""
    name, count = target.fresh_name(), amounts.at(target, position, least=1, most=most)
    clients = [client(target, name) for _ in range(count)]
    target.used_amount("connections", count)
    for number, sender in enumerate(clients):
        sender.confirmed_by = confirmed
        sender.send([b"%d" % number])
    clients[0].join()
    got: set[bytes] = set()
    while len(got) < count and (arrived := clients[0].receive(1)):
        got.update(arrived)
        clients[0].settle(len(clients[0].held))
    lost = [number for number in range(count) if b"%d" % number not in got]
    words = listed(lost or ["(none)"])
    detail = f"each of {count} connections sent a message; those whose message was lost: {words}"
    target.record_finding(arrives, not lost, detail)


def most_amqp(target: Bench) -> int:
    """The largest number of AMQP connections a case opens; in real time each may take 0.1 s."""
    return 100 if target.virtual else 64


def judge_windows(
    target: Bench, protocol: str, window: int, requirements: tuple[str, str], **options: object
) -> None:
    """Judge whether ``window`` messages arrive in each of three rounds, each after one settlement
    of all earlier messages. ``options`` say how the client settles."""
    name = target.fresh_name()
    producer, consumer = CLIENTS[protocol](target, name), CLIENTS[protocol](target, name)
    vars(consumer).update(options)
    producer.send([b"%07d" % number for number in range(3 * window + 2)])
    consumer.join(window)
    rounds = []
    for _ in range(3):
        consumer.receive(window)
        target.advance(QUIET)
        consumer.receive(0)
        rounds.append(len(consumer.held))
        consumer.settle(len(consumer.held))
    target.used_amount("prefetch", window)
    words = "".join(f", {name} {shown(value)}" for name, value in options.items())
    arrived = f"{3 * window + 2} messages arrived in rounds of {listed(rounds)}"
    detail = f"{arrived} (prefetch {window}{words})"
    limit, used = requirements
    beyond = max(rounds) - window
    target.record_finding(limit, beyond <= 0, f"{detail}; {max(0, beyond)} exceeded the prefetch")
    target.record_finding(used, min(rounds) >= window, detail)


def judge_width(
    target: Bench,
    rule: str,
    client: StompQueueClient,
    window: int,
    ends: list[str],
    patience: Duration,
    doubtful: list[Arrived],
) -> None:
    """Judge the prefetch after transactions with these ends. If nothing arrives for ``patience``
    after an ABORT, the client should still hold its messages: these ``doubtful`` ones are
    acknowledged again."""
    producer = CLIENTS["stomp"](target, client.name)
    producer.send([b"%03d" % number for number in range(4 * window * (len(ends) + 2))])
    client.mode = "client-individual"
    client.join(window)
    client.receive(window)
    target.advance(QUIET)
    client.receive(0)
    first, kept, others = len(client.held), client.held[:0], 0
    for number, end in enumerate(ends):
        named = {"transaction": f"{client.peer.transaction}-end-{number}"}
        client.peer.request("BEGIN", named)
        for message in client.held:
            client.peer.ack(message.handle, named)
        client.peer.request(end, named)
        if end == "ABORT":
            target.wait_until(lambda: client.waiting_here() > 0, patience)
        target.advance(QUIET)
        arrived = client.taken()
        doubtful[:] = client.held if end == "ABORT" and not arrived else []
        if end == "COMMIT" or arrived:
            # Messages of an ABORT are redelivered, now or later, or the client still holds them.
            kept += client.held if end == "ABORT" else []
            client.held = arrived
        again = {message.body for message in arrived}
        kept = [message for message in kept if message.body not in again]
    most = window * FRAME if rule == BYTES else window
    for _ in range(2):
        client.settle(len(client.held) - others)
        doubtful.clear()
        client.receive(window)
        target.advance(QUIET)
        client.receive(0)
        sizes = [message.handle.size if rule == BYTES else 1 for message in client.held]
        filled = sum(sizes) >= most > sum(sizes[:-1])
        again = {message.body for message in client.held}
        kept = [message for message in kept if message.body not in again]
        if filled or not kept or rule == BYTES:
            break
        # They fill the prefetch until their client acknowledges them again.
        client.held, others, kept = kept + client.held, len(client.held), []
    words = f"with a prefetch of {most}, {first} messages arrived at first"
    detail = f"{words}, and {listed(sizes)} after {', '.join(ends)}"
    target.record_finding(rule, filled, detail)
