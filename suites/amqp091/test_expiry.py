"""Lifetimes of messages and queues: expired messages, and no others, are dead-lettered.

(RabbitMQ: ttl, dlx.) A classic queue removes expired messages at its head, so a message that
expires behind a longer-lived one is dead-lettered later, but never delivered.
"""

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    ARGUMENTS,
    CONFIRMS,
    NACK,
    Kind,
    arrive,
    bind,
    bodies,
    drained,
    eventually,
    exchange_of,
    holds,
    queue_of,
)
from brokerproof.suites.amqp091.test_confirms import answers
from brokerproof.suites.api import PATIENCE, Bench, case, listed, ms, over, shown
from brokerproof.suites.api.amqp091 import Amqp091Peer

GUARANTEED = "RABBITMQ-AMQP091-TTL-01"
LOWER = "RABBITMQ-AMQP091-TTL-02"
AT_ONCE = "RABBITMQ-AMQP091-TTL-03"
PRESERVED = "RABBITMQ-AMQP091-TTL-04"
UNUSED = "RABBITMQ-AMQP091-TTL-05"
DEAD_LETTERED = "RABBITMQ-AMQP091-DLX-01"
TTL_REMOVED = "RABBITMQ-AMQP091-DLX-02"
REPUBLISHED = "RABBITMQ-AMQP091-DLX-03"
CIRCLE = "RABBITMQ-AMQP091-DLX-04"
RETURNED_TOO_OFTEN = "RABBITMQ-AMQP091-POISON-01"

SHORT, LONG, WAIT = 1000, 60_000, 2000
"""Milliseconds: lifetimes that end within a case or outlast it, and the wait until the short ones
end."""
LIVES = st.sampled_from([None, 0, SHORT, SHORT, LONG])


@case(
    GUARANTEED, LOWER, PRESERVED, DEAD_LETTERED, TTL_REMOVED, needs={"amqp091", ARGUMENTS, CONFIRMS}
)
@over(
    examples=8,
    always=lambda target: [
        {
            "lives": [SHORT, LONG, SHORT, None, SHORT],
            "queues": [LONG, SHORT, None],
            "held": 2,
            "kind": Kind(),
        },
        {"lives": [SHORT, 0, None, SHORT], "queues": [None], "held": 0, "kind": Kind(mode=2)},
    ],
    lives=st.lists(LIVES, min_size=1, max_size=6),
    queues=st.lists(LIVES, min_size=1, max_size=3),
    held=st.integers(0, 2),
    kind=Kind.any,
)
def test_what_expires_is_dead_lettered_and_nothing_else(
    target: Bench, kind: Kind, lives: list[int | None], queues: list[int | None], held: int
) -> None:
    """Messages with lifetimes go to queues with lifetimes, each with a dead letter queue. A
    consumer holds some messages and returns them after two seconds. Then each queue has exactly the
    longer-lived messages, and its dead letter queue the rest, which do not expire again. One
    scenario: the requirements constrain the same messages."""
    peer = target.amqp091(channels=2)
    exchange = exchange_of(target, peer, "fanout")
    dead = [queue_of(peer) for _ in queues]
    names = []
    for life, letters in zip(queues, dead, strict=True):
        to_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": letters}
        ttl = {} if life is None else {"x-message-ttl": life}
        names.append(kind.queue(target, peer, {**to_letters, **ttl}))
        bind(peer, names[-1], exchange)
    peer.call("confirm.select")
    for number, life in enumerate(lives):
        own = {} if life is None else {"expiration": str(life)}
        peer.publish(b"%d" % number, "", exchange=exchange, properties=own)
    answers(peer, len(lives))
    back = [{peer.get(name, channel=2).body for _ in range(held)} for name in names]
    target.advance(ms(WAIT))
    peer.close_channel(2)
    for life, name, letters, returned in zip(queues, names, dead, back, strict=True):
        judge_queue(target, peer, (name, letters), lives, life, returned - {b""})


def judge_queue(
    target: Bench,
    peer: Amqp091Peer,
    queues: tuple[str, str],
    lives: list[int | None],
    ttl: int | None,
    returned: set[bytes],
) -> None:
    """Judge the dead letter queue and the queue to which ``returned`` messages were requeued."""
    name, letters = queues
    every = {b"%d" % n: {life, ttl} <= {None, LONG} for n, life in enumerate(lives)}
    over = [body for body, lives_on in every.items() if not lives_on]
    arrived = bodies(drained(peer, name))
    wrong = {body for body, lives_on in every.items() if arrived.count(body) != lives_on}
    words = (
        f"message TTLs {shown(lives)} ms, queue TTL {shown(ttl)};"
        f" held by a consumer: {listed(sorted(returned))}"
    )
    detail = f"{WAIT} ms later, the queue has {listed(arrived)}; expired: {listed(over)}; {words}"
    both = ttl is not None and any(life is not None for life in lives)
    target.record_finding(LOWER if both else GUARANTEED, not wrong - returned, detail)
    if returned:
        target.record_finding(PRESERVED, not wrong & returned, detail)
    eventually(peer, lambda: peer.count(letters) >= len(over))
    target.advance(ms(WAIT))
    found = drained(peer, letters)
    reasons = {
        (death["reason"], death["queue"]) for one in found for death in one["headers"]["x-death"]
    }
    letters_found = f"the dead letters are {listed(bodies(found))} for {shown(reasons)}"
    detail = f"{letters_found}; expired: {listed(over)}; {words}"
    target.record_finding(DEAD_LETTERED, sorted(bodies(found)) == over, detail)
    target.record_finding(DEAD_LETTERED, reasons <= {("expired", name)}, detail)
    kept = [one.body for one in found if one.get("expiration") is not None]
    target.record_finding(
        TTL_REMOVED, not kept, f"dead letters that still have a TTL: {listed(kept)}; {detail}"
    )


@case(AT_ONCE, needs={"amqp091", ARGUMENTS})
@over(
    examples=6,
    always=lambda target: [
        {"of_queue": True, "count": 3, "kind": kind} for kind in Kind.each(target)
    ],
    of_queue=st.booleans(),
    count=st.integers(1, 5),
    kind=Kind.any,
)
def test_a_ttl_of_zero_is_enough_for_a_consumer_that_waits(
    target: Bench, kind: Kind, of_queue: bool, count: int
) -> None:
    """Messages with a TTL of 0, their own or their queue's, are published while a consumer waits.
    It gets them all."""
    peer = target.amqp091()
    queue = kind.queue(target, peer, {"x-message-ttl": 0} if of_queue else {})
    peer.consume(queue, no_ack=True)
    sent = [b"%d" % number for number in range(count)]
    for body in sent:
        peer.publish(body, queue, properties={} if of_queue else {"expiration": "0"})
    arrived = bodies(arrive(peer, count))
    detail = f"the consumer got {listed(arrived)} of {listed(sent)} with a TTL of 0"
    target.record_finding(AT_ONCE, arrived == sent, detail)


USES = ("consumer", "get", "declare", "lost consumer")
EXPIRES, STEP = ms(5000), ms(2500)
"""The lifetime of an unused queue, and the time between two uses."""


def is_there(peer: Amqp091Peer, queue: str) -> bool:
    """Return True if a message reaches the queue. Publishing is not a use of the queue."""
    peer.publish(b"", queue, mandatory=True)
    peer.settle()
    return not peer.taken("basic.return")


@case(UNUSED, needs={"amqp091", ARGUMENTS})
@over(
    examples=4,
    always=lambda target: [{"uses": [*USES]}],
    uses=st.lists(st.sampled_from(USES), min_size=1, max_size=3),
)
def test_a_queue_expires_when_it_was_unused(target: Bench, uses: list[str]) -> None:
    """A queue with x-expires is used before it expires: by basic.get, by a declaration, or by a
    consumer that stays longer than x-expires and then cancels or loses its connection. Each use
    extends the queue's lifetime, and the queue is deleted once it is unused."""
    peer = target.amqp091()
    # A busy broker may need seconds to open a connection, and the queue is unused meanwhile.
    users = [target.amqp091() for use in uses if "consumer" in use]
    arguments = {"x-expires": EXPIRES // ms(1)}
    queue = target.fresh_name()
    peer.declare(queue, arguments=arguments)
    target.advance(STEP)
    for use in uses:
        used = target.now()
        if use == "get":
            peer.get(queue, no_ack=True)
        elif use == "declare":
            peer.declare(queue, arguments=arguments)
        else:
            user = users.pop()
            tag = user.consume(queue, no_ack=True)
            target.advance(EXPIRES + STEP)
            used = target.now()
            if use == "consumer":
                user.call("basic.cancel", {"consumer-tag": tag})
            user.close_socket()
        target.advance(STEP)
        there = is_there(peer, queue)
        silent = (target.now() - used) // ms(1)
        target.control(silent < EXPIRES // ms(1), f"the host was late: {silent} ms passed")
        detail = f"with {shown(uses)}: {silent} ms after its {use}, queue exists: {shown(there)}"
        target.require(UNUSED, there, detail)
    gone = eventually(peer, lambda: not is_there(peer, queue), EXPIRES + PATIENCE)
    target.record_finding(UNUSED, gone, f"with {shown(uses)}, unused queue deleted: {shown(gone)}")


BRIEF_MS = 200
MOST_RETURNS = 2
REFUSALS = {
    **{"reject": [False], "nack": [False], "return": [True, False]},
    "limit": [True] * (MOST_RETURNS + 1),
}
"""For each way to refuse a message, the requeue field of its refusals, in order."""
LIMITED = {"limit": "delivery_limit"}
REASONS = {**dict.fromkeys(REFUSALS, "rejected"), "ttl": "expired", "maxlen": "maxlen", **LIMITED}
"""The reason in x-death for each way in which messages leave a queue."""
BY_THEMSELVES = {"ttl": {"x-message-ttl": BRIEF_MS}, "maxlen": {"x-max-length": 0}}
"""Arguments of queues that messages leave without a refusal."""
ARGUMENTS_OF = {**BY_THEMSELVES, "limit": {"x-delivery-limit": MOST_RETURNS}}
PROPERTIES = {"headers": {"a": 1, "nested": {"b": "c"}}, "priority": 3, "type": "t"}


def leave(target: Bench, peer: Amqp091Peer, queue: str, count: int, way: str) -> None:
    """Refuse all messages of a queue, one by one or together, perhaps after requeuing them. Do
    nothing if they leave by themselves."""
    # From release 4.3 on, basic.nack does not count towards the delivery limit.
    single = way in ("reject", *LIMITED)
    name, options = ("reject", {}) if single else ("nack", {"multiple": True})
    for returns, requeue in enumerate(REFUSALS.get(way, [])):
        if returns and way in LIMITED:
            there = eventually(peer, lambda: peer.count(queue) == count)
            detail = f"after {returns} returns of {count} messages, {peer.count(queue)} wait; the"
            target.require(RETURNED_TOO_OFTEN, there, f"{detail} delivery limit is {MOST_RETURNS}")
        holds(peer, queue, count)
        tags = [peer.get(queue, channel=2)["delivery-tag"] for _ in range(count)]
        for tag in tags if name == "reject" else tags[-1:]:
            fields = {"delivery-tag": tag, "requeue": requeue, **options}
            peer.send(f"basic.{name}", fields, channel=2)
        peer.settle(channel=2)


DEATHS = (
    ["reject", "nack", "ttl", "reject"],
    ["ttl"],
    ["ttl", "ttl"],
    ["ttl", "nack"],
    ["return"],
    ["maxlen", "ttl"],
    ["maxlen"],
    ["limit"],
    ["ttl", "limit", "nack"],
)
"""Sequences of deaths of a message. Without a refusal among them, a cycle drops the message."""


@case(REPUBLISHED, CIRCLE, RETURNED_TOO_OFTEN, needs={"amqp091", ARGUMENTS, CONFIRMS, NACK})
@over(
    examples=8,
    always=lambda target: [
        {"kind": kind, "ways": ways, "count": 3} for kind in Kind.each(target) for ways in DEATHS
    ],
    kind=Kind.any,
    ways=st.lists(st.sampled_from([*REASONS]), min_size=1, max_size=4),
    count=st.integers(1, 5),
)
def test_dead_letters_may_die_again(target: Bench, kind: Kind, ways: list[str], count: int) -> None:
    """Messages leave one queue after another because they are refused, returned too often or
    expire. The dead letters finally reach a further queue, with their body and properties and a
    list of their deaths. They are also routed back to the first queue, which drops them if none was
    refused. One scenario: the requirements concern the same messages."""
    # Only quorum queues have a delivery limit.
    ways = ["return" if way in LIMITED and kind.type == "classic" else way for way in ways]
    peer = target.amqp091(channels=2)
    exchange, letters = exchange_of(target, peer, "direct"), queue_of(peer)
    bind(peer, letters, exchange, str(len(ways)))
    names: list[str] = []
    for way in ways:
        next_key = str(len(names) + 1)
        to = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": next_key}
        names.append(kind.queue(target, peer, to | ARGUMENTS_OF.get(way, {})))
        bind(peer, names[-1], exchange, str(len(names) - 1))
    again = next((at for at, way in enumerate(ways) if way not in BY_THEMSELVES), None)
    if {*LIMITED} & {*ways} and not {*ways} - {*ARGUMENTS_OF}:
        again = None  # no text says if a return is a rejection
    else:
        bind(peer, names[0], exchange, str(len(ways)))
    peer.call("confirm.select")
    sent = [b"%d" % number for number in range(count)]
    for body in sent:
        peer.publish(body, names[0], properties=PROPERTIES)
    answers(peer, count)
    for queue, way in zip(names, ways, strict=True):
        leave(target, peer, queue, count, way)
    came = eventually(peer, lambda: peer.count(letters) >= count)
    if ways[-1] in LIMITED:
        detail = f"{count} messages returned {MOST_RETURNS + 1} times, {peer.count(letters)} died"
        target.record_finding(RETURNED_TOO_OFTEN, came, detail)
    target.advance(3 * len(ways) * ms(BRIEF_MS))
    due = [count if at == again else 0 for at in range(len(ways))]
    eventually(peer, lambda: [peer.count(queue) for queue in names] == due, ms(WAIT))
    left = [peer.count(queue) for queue in names]
    found = drained(peer, letters)
    words = f"{count} messages left {kind} queues by {listed(ways)}"
    held = left == due and len(found) == count
    detail = f"{words}; {len(found)} went through all queues, which now have {shown(left)} messages"
    target.record_finding(CIRCLE, held, f"{detail}; expected {shown(due)}")
    deaths = [(REASONS[way], queue) for queue, way in zip(names, ways, strict=True)][::-1]
    for letter in found:
        headers = letter.get("headers") or {}
        died = [(one["reason"], one["queue"]) for one in headers.get("x-death") or []]
        own = {"headers": {name: headers.get(name) for name in ("a", "nested")}}
        kept = {**{name: letter.get(name) for name in PROPERTIES}, **own}
        whole = kept == PROPERTIES and died == deaths and letter.body in sent
        detail = f"{words}: {letter.body!r} has {shown(kept)} and died by {shown(died)}"
        target.require(REPUBLISHED, whole, f"{detail}; expected {shown(deaths)}")
    detail = f"{words}; of {listed(sent)}, {listed(sorted({*bodies(found)}))} arrived"
    target.record_finding(REPUBLISHED, {*bodies(found)} == {*sent}, detail)
