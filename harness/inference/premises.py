"""Premises: a plain message must pass through each kind of address before cases may use that kind.
Premises are checked on brokers of a known family that brokerproof did not configure, where the
family's addresses may not exist. If only the broker's address is known, the nodes follow from the
dialect."""

from collections.abc import Callable
from functools import partial

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference import amqp_dialect
from brokerproof.harness.inference.dialect import ANSWER, QUIET, Questions
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets.target import Identity, Target

Question = Callable[[Bench], bool]


def unmet_premises(target: Target, seed: int) -> dict[str, str]:
    """Return why kinds of addresses on ``target`` are unusable; see :attr:`Identity.unmet`."""
    questions = Questions(target, seed)
    asked = _questions(target.identity)
    answers = questions.asked_together([question for question, _ in asked.values()])
    return {
        place: f"no plain message passed through {words}"
        for (place, (_, words)), holds in zip(asked.items(), answers, strict=True)
        if not holds
    }


def _questions(identity: Identity) -> dict[str, tuple[Question, str]]:
    """Return the questions by kind of address, each with a description."""
    asked: dict[str, tuple[Question, str]] = {}
    parameters, has = identity.profile.parameters, identity.capabilities
    for routing in RoutingType:
        kind, capability = routing.value.lower(), routing.value.lower()
        node = str(parameters.get(f"{kind}_node", ""))
        if "amqp" in has and node:
            candidate = (node, str(parameters.get(f"{kind}_node_capabilities", "")))
            question = partial(_AMQP[routing], candidate)
            asked[f"amqp {routing.value}"] = (
                question,
                f"the AMQP 1.0 {_WORDS[routing]} {amqp_dialect.written(candidate)}",
            )
        if {"stomp", "stomp-1.2", capability} <= has:
            words = f"the STOMP {_WORDS[routing]} {parameters.get(f'{kind}_destination')}"
            asked[f"stomp {routing.value}"] = (partial(_passes_stomp, routing), words)
    return asked


_AMQP = {RoutingType.ANYCAST: amqp_dialect.is_queue, RoutingType.MULTICAST: amqp_dialect.is_topic}
_WORDS = {RoutingType.ANYCAST: "queue", RoutingType.MULTICAST: "topic"}


def _passes_stomp(routing: RoutingType, bench: Bench) -> bool:
    """Check that a queue keeps a message for a later subscriber. Cases judge the receipts."""
    place, consumer, producer = bench.destination(routing), bench.stomp(), bench.stomp()
    if routing is RoutingType.MULTICAST:
        consumer.subscribe(place, receipt=False)
        bench.advance(QUIET)
    producer.publish(place, b"passes", receipt=False)
    if routing is RoutingType.ANYCAST:
        bench.advance(QUIET)
        consumer.subscribe(place, receipt=False)
    consumer.message(body=b"passes", within=ANSWER)
    return True
