"""Undischarged transactions: once their connections end, none of their messages remains charged.

A connection posts messages in a transaction and closes. Posts and close are written to the link
together, so the broker may still be processing the posts when it reads the close. A post that is
stored after the rollback stays charged forever. Such a race needs many attempts: each is made at a
fresh address, where the first post takes longest, and all are judged together.
"""

from collections import Counter

from brokerproof.harness.clients.artemis_management import ADMIN
from brokerproof.suites.amqp10.steps import granted
from brokerproof.suites.amqp10.transaction_steps import control, post
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, case, listed
from brokerproof.suites.api.amqp10 import Node, frame
from brokerproof.suites.steps import small_addresses

FREE_AGAIN = "ARTEMIS-PAGING-9"

CLOSE, EOF, RESET = "close", "EOF", "RESET"
"""A close that the broker answers, the end of the socket without a close, and a reset."""
ENDS = (CLOSE, CLOSE, CLOSE, EOF, RESET) * 10
"""The ends of the connections, in order. Measured: Artemis 2.56.0 keeps the charge after one to
three of ten closes when it has just started, and after eight of ten later. So 30 attempts rarely
miss the fault."""
POSTS = 10
"""Messages that each connection posts."""
SIZE = 100
"""Bytes of a body."""
LAST = 99
"""The number of the message sent after a connection's end."""


def post_and_end(target: Bench, node: Node, end: str) -> None:
    """Post messages in a transaction and end the connection without a discharge."""
    peer = target.amqp()
    coordinator, link = control(target, peer), peer.sender(node)
    id = coordinator.declare()
    granted(target, peer, link, POSTS)
    with peer.in_one_write():
        for number in range(POSTS):
            post(target, peer, link, id, small_addresses.body(number, SIZE))
        if end == CLOSE:
            peer.close(answered=False)
    if end == CLOSE:
        peer.expect(frame("close"))
    peer.close_socket(CloseHow.RESET if end == RESET else CloseHow.EOF)


def send_and_take(target: Bench, node: Node) -> None:
    """Control: send a message, which is charged, and consume it."""
    peer, link = small_addresses.producer(target, node)
    outcome = small_addresses.send(target, peer, link, small_addresses.body(LAST, SIZE))
    target.control(outcome == "accepted", f"a message sent afterwards was {outcome}")
    state, counted = target.admin().until(
        node.address, lambda state: state.messages == 1 and state.size > 0
    )
    target.control(counted, f"a message was sent; the address has {state}")
    numbers = small_addresses.drain_queue(target, node, 1)
    detail = f"the messages of the address were {listed(numbers)}; expected {LAST}"
    target.control(numbers == [LAST], detail)


@case(FREE_AGAIN, needs={"amqp", "amqp-transactions", "stomp-1.2", ADMIN})
def test_their_messages_are_not_charged_when_their_connections_have_ended(target: Bench) -> None:
    """Connections post messages in transactions to empty addresses and end without a discharge,
    each in one of three ways. A message that is later sent to one of the addresses is charged and
    can be consumed. Then the size of each address is 0 again."""
    admin, holder = target.admin(), target.amqp()
    places = [(target.node(), end) for end in ENDS]
    for node, _ in places:
        holder.receiver(node)  # keeps the queue: one without consumers may be deleted
        before = admin.address(node.address)
        empty = before.size == 0 and before.messages == 0
        target.control(empty, f"a fresh address should be empty; it has {before}")
    for node, end in places:
        post_and_end(target, node, end)
    send_and_take(target, places[-1][0])
    deadline = target.now() + PATIENCE
    charged: Counter[str] = Counter()
    for node, end in places:
        left = max(0, deadline - target.now())
        state, free = admin.until(node.address, lambda state: state.size == 0, left)
        target.control(free or state.messages == 0, f"messages are left; the address has {state}")
        charged[end] += not free
    counts = ", ".join(f"{count} after {end}" for end, count in charged.items())
    target.record_finding(
        FREE_AGAIN,
        not charged.total(),
        f"after undischarged transactions, {charged.total()} of {len(places)} addresses without"
        f" messages have a size above 0: {counts}",
    )
