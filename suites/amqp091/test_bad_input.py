"""Server methods sent by a client, and messages that are too large (frames that cannot be parsed
are in ``test_framing.py``)."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    CHANNEL,
    CONNECTION,
    bodies,
    drained,
    eventually,
    others_work,
    queue_of,
)
from brokerproof.suites.api import RECONFIGURABLE, Bench, Target, Where, case, listed, over

SERVER_METHOD_FROM_CLIENT = "AMQP091-FRAME-09"
MESSAGE_SIZE_LIMIT = "RABBITMQ-AMQP091-SIZE-01"
OTHER_CHANNELS_CONTINUE = "AMQP091-CHAN-02"

LIMIT = 100_000
"""Limit in bytes of a body, on brokers where it can be configured."""
OF_THE_SERVER: dict[str, Mapping[str, Any]] = {
    "channel.open-ok": {},
    "queue.declare-ok": {"queue": "q", "message-count": 0, "consumer-count": 0},
    "basic.consume-ok": {"consumer-tag": "t"},
    "basic.get-empty": {},
    "exchange.bind-ok": {},
    "tx.commit-ok": {},
}
"""Methods without content that only a server sends."""


@case(SERVER_METHOD_FROM_CLIENT, needs={"amqp091"})
@over(
    examples=6,
    always=lambda target: [{"name": name} for name in ("queue.declare-ok", "basic.get-empty")],
    name=st.sampled_from(sorted(OF_THE_SERVER)),
)
def test_methods_of_the_server_are_not_for_clients(target: Bench, name: str) -> None:
    """A client sends a method that only a server sends, on an open channel. The connection is
    closed with 503 COMMAND_INVALID; another connection still works."""
    peer = target.amqp091()
    peer.send(name, OF_THE_SERVER[name], channel=1)
    peer.refused(CONNECTION, 503, proves=SERVER_METHOD_FROM_CLIENT)
    others_work(target)


def places(target: Target) -> st.SearchStrategy[Where]:
    """The broker's own message limit, or :data:`LIMIT` if the limit can be configured."""
    limited = (
        {"acceptor": {"amqp091_max_message_size": LIMIT}}
        if RECONFIGURABLE in target.identity.capabilities
        else None
    )
    return st.just(Where(target.identity.default_amqp_acceptor, limited))


@case(MESSAGE_SIZE_LIMIT, OTHER_CHANNELS_CONTINUE, needs={"amqp091", "amqp091-message-limit"})
@over(examples=1, where=places)
def test_a_message_above_the_limit_is_refused(target: Bench, where: Where) -> None:
    """A message of exactly the maximum size is kept. One byte more closes the channel with 406
    PRECONDITION_FAILED; the larger message is in no queue, and other channels of the connection
    still work."""
    limit = (
        LIMIT
        if where.overrides
        else int(target.profile.parameters["amqp091_max_message_size"] or 0)
    )
    peer = target.amqp091(channels=2)
    queue = queue_of(peer, channel=2)
    peer.publish(bytes(limit), queue)
    peer.settle()
    kept = eventually(peer, lambda: peer.count(queue, channel=2) == 1)
    detail = f"a message of {limit} bytes was {'' if kept else 'not '}kept"
    target.record_finding(MESSAGE_SIZE_LIMIT, kept, detail)
    peer.publish(bytes(limit + 1), queue)
    peer.refused(CHANNEL, 406, channel=1, proves=MESSAGE_SIZE_LIMIT)
    sizes = [len(body) for body in bodies(drained(peer, queue, channel=2))]
    detail = f"another channel could receive messages of {listed(sizes)} bytes"
    target.record_finding((MESSAGE_SIZE_LIMIT, OTHER_CHANNELS_CONTINUE), sizes == [limit], detail)
