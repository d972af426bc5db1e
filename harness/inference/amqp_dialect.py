"""Infers the dialect of an AMQP 1.0 broker from its address alone: which nodes are queues or
topics, which features they support, and the shortest idle-time-out. The standard leaves addresses
and nodes to the broker. Candidates are tried concurrently; the first in order that behaves as a
queue or topic is used. Any other feature counts as offered if it worked once; the cases judge how
well it works."""

from collections.abc import Callable, Sequence
from functools import partial

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference.dialect import ANSWER, QUIET, Dialect, Questions
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Duration, seconds
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER
from brokerproof.harness.protocols.amqp10.endpoint_state import Link
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer, Node, frame
from brokerproof.harness.protocols.amqp10.types import Described
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.target import Target

Candidate = tuple[str, str]
"""The form of an address, and the capability of the terminus."""
QUEUES: Sequence[Candidate] = (
    ("{name}", ""),
    ("{name}", "queue"),
    ("queue://{name}", ""),
    ("/queue/{name}", ""),
    ("queue/{name}", ""),
)
DECLARED: Sequence[Candidate] = (("/queues/{name}", ""), ("/amq/queue/{name}", ""), ("{name}", ""))
"""The forms of addresses of queues that are declared over AMQP 0-9-1."""
TOPICS: Sequence[Candidate] = (
    ("{name}", "topic"),
    ("topic://{name}", ""),
    ("/topic/{name}", ""),
    ("/exchanges/amq.topic/{name}", ""),
    ("amq.topic/{name}", ""),
    ("topic/{name}", ""),
    ("{name}", ""),
)
IDLE_MS = (200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)
SHORT_IDLE_MS = 5000
"""The longest idle-time-out for which a case waits several times."""
OUTCOMES = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
_SOON: Duration = seconds(1)
_OFFERS: Sequence[tuple[str, str]] = (
    ("amqp-redelivery", "gives a message again that was released or left unsettled"),
    ("amqp-modified", "gives a message again whose outcome is modified, with the failed attempt"),
    ("amqp-copy", "lets receivers browse (distribution mode copy)"),
    ("amqp-dynamic", "makes nodes on request (dynamic)"),
    ("amqp-transactions", "offers transactions"),
)


def infer_amqp(target: Target, seed: int) -> Dialect:
    """Find the dialect of AMQP 1.0 that ``target`` speaks; none if it refuses the login."""
    questions, dialect = Questions(target, seed), Dialect()
    if not questions.asked(partial(_logs_in, dialect)):
        return dialect
    _idle_time_out(questions, dialect)
    if questions.asked(_describes_by_symbols):
        dialect.parameters["amqp_descriptors"] = "symbols"
        dialect.sentences.append("AMQP 1.0: the descriptors of its frames are symbols")
    queue = _place(questions, dialect, RoutingType.ANYCAST, QUEUES, is_queue)
    if queue is None and isinstance(target, AddressTarget) and target.can_declare:
        target.declares = True
        queue = _place(questions, dialect, RoutingType.ANYCAST, DECLARED, is_queue)
        target.declares = queue is not None
    if queue is None:
        dialect.unmet["amqp ANYCAST"] = _none_of(
            QUEUES, "keeps a message for a receiver that attaches later and hands it out once"
        )
    elif isinstance(target, AddressTarget) and target.declares:
        dialect.sentences.append("AMQP 1.0 queues must be declared, which is done over AMQP 0-9-1")
    if _place(questions, dialect, RoutingType.MULTICAST, TOPICS, is_topic) is None:
        dialect.unmet["amqp MULTICAST"] = _none_of(TOPICS, "gives two receivers a message each")
    if queue is not None:
        _offers(questions, dialect, queue)
    return dialect


def _logs_in(dialect: Dialect, bench: Bench) -> bool:
    """Log in, and record the broker's idle-time-out if cases can wait that long."""
    peer = bench.amqp()
    opened = peer.opened
    if peer.mechanism == codec.NO_SASL:
        dialect.sentences.append("AMQP 1.0: has no SASL layer, so nobody logs in")
    announced = 0 if opened is None else opened.get("idle-time-out", 0)
    if isinstance(announced, int) and 0 < announced <= SHORT_IDLE_MS:
        dialect.offered.add("amqp-idle-timeout")
        dialect.sentences.append(f"AMQP 1.0: announces an idle-time-out of {announced} ms")
    return True


def _describes_by_symbols(bench: Bench) -> bool:
    """True if the broker describes frames, or composites within them, by symbols (1.3)."""
    peer = bench.amqp()
    peer.attach(RECEIVER, Node(bench.fresh_name()), answered=False)
    peer.settle()
    frames = [one for one in (peer.opened, peer.session.answer, *peer.inbox) if one is not None]
    return any(one.symbolic or any(map(codec.is_symbolic, one.fields.values())) for one in frames)


def _none_of(candidates: Sequence[Candidate], does: str) -> str:
    names = ", ".join(map(written, candidates))
    return f"no AMQP 1.0 node was found that {does}: tried {names}"


def written(candidate: Candidate) -> str:
    template, capability = candidate
    return f"{template} with capability {capability}" if capability else template


def _node(candidate: Candidate, bench: Bench, routing: RoutingType) -> Node:
    template, capability = candidate
    name = bench.fresh_name()
    bench.target.provide(name, routing)
    return Node(template.format(name=name), (capability,) if capability else ())


def _place(
    questions: Questions,
    dialect: Dialect,
    routing: RoutingType,
    candidates: Sequence[Candidate],
    does: Callable[[Candidate, Bench], bool],
) -> Candidate | None:
    """Return and record the first candidate that passes the test."""
    ask = [partial(does, candidate) for candidate in candidates]
    answers = questions.asked_together(ask)
    found = next((one for one, yes in zip(candidates, answers, strict=True) if yes), None)
    if found is not None:
        kind = routing.value.lower()
        dialect.parameters[f"{kind}_node"], dialect.parameters[f"{kind}_node_capabilities"] = found
        is_queue = routing is RoutingType.ANYCAST
        words = "a queue, which keeps messages" if is_queue else "a topic, which copies them"
        dialect.sentences.append(f"AMQP 1.0: {written(found)} is {words}")
    return found


def is_queue(candidate: Candidate, bench: Bench) -> bool:
    """True if a message waits for a receiver, reaches only one of two, and is removed once
    accepted."""
    node = _node(candidate, bench, RoutingType.ANYCAST)
    _send(bench, node, b"kept")
    receivers = [_receiver(bench, node) for _ in range(2)]
    bench.wait_until(lambda: any(peer.deliveries for peer, _ in receivers), _SOON)
    bench.advance(QUIET)
    got = [(peer, one) for peer, _ in receivers for one in peer.deliveries]
    if len(got) != 1 or not got[0][1].has_body(b"kept"):
        return False
    peer, delivery = got[0]
    peer.disposition(delivery)
    peer.settle()
    for each, _ in receivers:
        each.close()
    return not _comes(*_receiver(bench, node), QUIET)


def is_topic(candidate: Candidate, bench: Bench) -> bool:
    """True if both of two receivers get the message."""
    node = _node(candidate, bench, RoutingType.MULTICAST)
    receivers = [_receiver(bench, node) for _ in range(2)]
    _send(bench, node, b"copied")
    bench.wait_until(lambda: all(peer.deliveries for peer, _ in receivers), _SOON)
    return all(len(peer.deliveries) == 1 for peer, _ in receivers)


def _send(bench: Bench, node: Node, body: bytes) -> None:
    peer = bench.amqp()
    link = peer.sender(node)
    _await_credit(bench, peer, link)
    peer.post(link, body)
    # Cases judge how the broker settles the message. Here it need only arrive.
    peer.settle()


def _await_credit(bench: Bench, peer: AmqpPeer, link: Link) -> None:
    failed = peer.arrival(peer.fatal)
    bench.wait_until(lambda: link.credit > 0 or peer.ended is not None or failed(), ANSWER)


def _receiver(bench: Bench, node: Node, **fields: object) -> tuple[AmqpPeer, Link]:
    peer = bench.amqp()
    return peer, peer.receiver(node, credit=1, **fields)


def _comes(peer: AmqpPeer, link: Link, within: Duration = _SOON) -> bool:
    return peer.world.wait_until(lambda: bool(peer.deliveries), peer.world.now() + within)


def _offers(questions: Questions, dialect: Dialect, queue: Candidate) -> None:
    """Record which features the queue and the broker have besides delivering a message."""
    ask: dict[str, Callable[[Bench], bool]] = {
        "amqp-redelivery": lambda bench: all(
            _gives_again(queue, state, bench) for state in ("released", None)
        ),
        "amqp-modified": partial(
            _gives_again, queue, codec.composite("modified", {"delivery-failed": True})
        ),
        "amqp-copy": partial(_browses, queue),
        "amqp-dynamic": partial(_makes_nodes, queue),
        "amqp-transactions": _has_transactions,
    }
    answers = dict(zip(ask, questions.asked_together(list(ask.values())), strict=True))
    for name, words in _OFFERS:
        if answers[name]:
            dialect.offered.add(name)
            dialect.sentences.append(f"AMQP 1.0: {words}")
        else:
            dialect.without(name, f"AMQP 1.0: no sign that the broker {words}")


def _gives_again(queue: Candidate, state: str | Described | None, bench: Bench) -> bool:
    """True if a message is redelivered after the outcome ``state`` or, without an outcome, after
    its link ended: a source may have any default-outcome (3.5.3). If a broker announces a
    default-outcome that returns messages, it must keep this promise, which cases judge."""
    node = _node(queue, bench, RoutingType.ANYCAST)
    _send(bench, node, b"again")
    peer, link = _receiver(bench, node, source=_source(node, outcomes=OUTCOMES))
    delivery = peer.delivery(link, within=ANSWER)
    if state is not None:
        peer.disposition(delivery, state)
        peer.settle()
    peer.detach(link)
    announced = codec.name_of(link.default_outcome) == "released"
    if state is None and not delivery.settled and announced:
        return True
    other, link = _receiver(bench, node)
    if not _comes(other, link):
        return False
    header = other.delivery(link).message.fields("header")
    return state in ("released", None) or bool(header.get("delivery-count"))


def _source(node: Node, **fields: object) -> Described:
    return codec.composite(
        "source", {"address": node.address, "capabilities": node.capabilities or None, **fields}
    )


def _browses(queue: Candidate, bench: Bench) -> bool:
    node = _node(queue, bench, RoutingType.ANYCAST)
    _send(bench, node, b"browsed")
    peer, link = _receiver(bench, node, source=_source(node, distribution_mode="copy"))
    peer.disposition(peer.delivery(link, within=ANSWER))
    peer.settle()
    peer.close()
    return _comes(*_receiver(bench, node))


def _makes_nodes(queue: Candidate, bench: Bench) -> bool:
    peer, capability = bench.amqp(), queue[1]
    fields = {"dynamic": True, "capabilities": (capability,) if capability else None}
    link = peer.attach(RECEIVER, source=codec.composite("source", fields))
    return link.answer is not None and bool(link.answer.part("source").get("address"))


def _has_transactions(bench: Bench) -> bool:
    peer = bench.amqp()
    source = codec.composite("source", {"outcomes": OUTCOMES})
    link = peer.attach(SENDER, source=source, target=codec.composite("coordinator"))
    if link.answer is None or link.answer.kind("target") != "coordinator":
        # for any other node, a declare would be a message, which crashes Proton's broker.c
        return False
    _await_credit(bench, peer, link)
    declare = peer.post(link, codec.composite("declare"))
    answer = peer.confirmed(link.session, declare, "declared", within=ANSWER)
    discharge = codec.composite(
        "discharge", {"txn-id": answer.part("state")["txn-id"], "fail": False}
    )
    peer.confirmed(link.session, peer.post(link, discharge), within=ANSWER)
    return True


def _idle_time_out(questions: Questions, dialect: Dialect) -> None:
    """Record the shortest idle-time-out that the broker accepts, if it accepts all longer ones
    tried."""
    refusals: dict[int, str] = {}

    def accepts(bench: Bench, asked: int) -> bool:
        peer = bench.amqp(begin=False, idle_time_out=asked)
        refused = peer.watch_for(frame("close"), within=QUIET)
        if refused is not None:
            refusals[asked] = refused.brief()
        return refused is None and peer.ended is None

    answers = questions.asked_together([partial(accepts, asked=asked) for asked in IDLE_MS])
    if all(answers):
        return
    last = max(place for place, yes in enumerate(answers) if not yes)
    if last + 1 == len(IDLE_MS):
        dialect.unmet["amqp idle"] = (
            f"the broker refuses every idle-time-out up to {IDLE_MS[-1]} ms"
        )
        return
    dialect.parameters["amqp_shortest_idle_timeout_ms"] = str(IDLE_MS[last + 1])
    why = f": {refusals[IDLE_MS[last]]}" if IDLE_MS[last] in refusals else ""
    dialect.sentences.append(f"AMQP 1.0: refuses an idle-time-out of {IDLE_MS[last]} ms{why}"[:300])
