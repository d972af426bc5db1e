"""A redelivered message is marked as such, whatever protocol its last consumer spoke."""

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import eventually
from brokerproof.suites.api import Bench, case, over, shown
from brokerproof.suites.steps.queue_clients import CLIENTS, QueueClient
from brokerproof.suites.steps.queues import QUIET

MARKED = "AMQP091-RED-01"
HOLDERS = ("stomp", "amqp091")
"""AMQP 1.0 is missing because RabbitMQ's queue is of a different kind there."""
SENT = 4


def hold(target: Bench, reader: QueueClient, plan: list[tuple[str, int]], lost: bool) -> int:
    """Let consumers hold the oldest messages in turn and settle none. Each begins once all messages
    wait again. Return the largest number that one of them held."""
    had, name = [], reader.name
    for protocol, count in plan:
        client = CLIENTS[protocol](target, name)
        client.join(count)
        client.receive(count)
        target.advance(QUIET)
        client.receive(0)
        got = len(client.leave(lost))
        target.control(got >= count, f"{protocol}: {count} messages should arrive; {got} did")
        had.append(got)
        back = eventually(reader.peer, lambda: reader.peer.count(name) == SENT)
        detail = f"{shown(plan)}: {reader.peer.count(name)} of {SENT} messages wait again"
        target.control(back, detail)
    return max(had)


@case(MARKED, needs={"amqp091", "stomp-1.2"})
@over(
    examples=8,
    always=lambda target: [
        {"plan": [(protocol, 2)], "lost": lost} for protocol in HOLDERS for lost in (True, False)
    ],
    plan=st.lists(
        st.tuples(st.sampled_from(HOLDERS), st.integers(1, SENT)), min_size=1, max_size=3
    ),
    lost=st.booleans(),
)
def test_a_message_that_any_protocol_had_is_redelivered(
    target: Bench, plan: list[tuple[str, int]], lost: bool
) -> None:
    """Consumers of several protocols hold the oldest messages of a queue and settle none. Over AMQP
    0-9-1 those messages arrive with the redelivered flag, and the rest without."""
    name = target.fresh_name()
    reader = CLIENTS["amqp091"](target, name)
    reader.send([b"%d" % number for number in range(SENT)])
    most = hold(target, reader, plan, lost)
    got = [reader.peer.get(name) for _ in range(SENT)]
    marks = {int(one.body): bool(one["redelivered"]) for one in got}
    detail = (
        f"{shown(plan)}, lost: {shown(lost)}: the messages' redelivered flags are {shown(marks)}"
    )
    target.record_finding(MARKED, marks == {n: n < most for n in range(SENT)}, detail)
