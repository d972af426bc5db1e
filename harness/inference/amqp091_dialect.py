"""Infers the dialect of an AMQP 0-9-1 broker from its address alone."""

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.inference.dialect import ANSWER, Dialect, Questions
from brokerproof.harness.protocols.amqp091.raw_peer import method
from brokerproof.harness.protocols.conversation import either
from brokerproof.harness.targets.target import Target

UNDECLARED = "amqp091-undeclared"
"""The capability of a broker on which a queue does not exist until it is declared."""


def infer_amqp091(target: Target, seed: int) -> Dialect:
    """Find the dialect of AMQP 0-9-1 that ``target`` speaks; none if it refuses the login."""
    questions, dialect = Questions(target, seed), Dialect()
    if questions.asked(_makes_queues):
        dialect.without(
            UNDECLARED,
            "AMQP 0-9-1: a queue is made when it is named (a passive declaration of a new name is"
            " answered declare-ok)",
        )
    return dialect


def _makes_queues(bench: Bench) -> bool:
    peer = bench.amqp091()
    peer.send("queue.declare", {"queue": bench.fresh_name(), "passive": True}, channel=1)
    answers = either(method("queue.declare-ok", channel=1), method("channel.close", channel=1))
    return bool(peer.expect(answers, within=ANSWER).name == "queue.declare-ok")
