"""Steps shared by OpenWire cases."""

from contextlib import AbstractContextManager

from brokerproof.suites.api import PATIENCE, Bench, Duration, ms
from brokerproof.suites.api.openwire import OpenWirePeer, Structure, dispatch, queue
from brokerproof.suites.steps.positive_control import beside

OPENWIRE = "openwire"
"""The capability: there is an acceptor ``openwire``."""
QUIET: Duration = ms(300)
"""Wait this long for a surplus command after the last expected one."""


def fresh_queue(target: Bench) -> Structure:
    """Return an unused queue."""
    return queue(target.fresh_name())


def bystander(target: Bench) -> AbstractContextManager[OpenWirePeer]:
    """Control for a negative case: another connection works before and after it."""
    return beside(target.openwire)


def take(
    target: Bench, peer: OpenWirePeer, count: int, consumer: Structure | None = None
) -> list[Structure]:
    """Return the next ``count`` messages for ``consumer`` (fewer if they are late), and any that
    arrive shortly after them."""
    match_delivery = dispatch(consumer)

    def here() -> int:
        return sum(match_delivery.accepts(reply) for reply in peer.inbox)

    target.wait_until(
        lambda: here() >= count or peer.ended is not None or any(map(peer.fatal, peer.inbox)),
        PATIENCE,
    )
    target.advance(QUIET)
    peer.settle()
    return peer.dispatched(consumer)


def number_of(dispatched: Structure) -> int:
    """Return the number that :func:`publish` gave to a message."""
    return int(dispatched["message"].properties()["number"])


BEGIN, COMMIT, ROLLBACK = 0, 2, 4
"""Types of TransactionInfo."""


def begin(peer: OpenWirePeer, number: int) -> Structure:
    """Begin a local transaction; return its id."""
    fields = {"value": number, "connectionId": peer.connection}
    transaction = Structure("LocalTransactionId", fields)
    transact(peer, transaction, BEGIN)
    return transaction


def transact(peer: OpenWirePeer, transaction: Structure, type: int) -> None:
    fields = {"connectionId": peer.connection, "transactionId": transaction, "type": type}
    peer.request("TransactionInfo", fields)


def publish(peer: OpenWirePeer, place: Structure, count: int) -> None:
    """Publish ``count`` numbered messages and wait until each is answered."""
    producer = peer.open_producer(place)
    for number in range(count):
        message = peer.message(producer, place, b"content", properties={"number": number})
        peer.answered(peer.publish(message, response=True))
