"""The differential search over STOMP: its grammar, its clusters and their explanations."""

import random
import tomllib
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from brokerproof.harness.protocols.amqp10.codec import Empty, Frame, Read, composite, fields_of
from brokerproof.harness.protocols.amqp10.messages import message
from brokerproof.harness.protocols.stomp.codec import VERSIONS
from brokerproof.suites.interop.differential.__main__ import GRAMMARS, REFERENCES
from brokerproof.suites.interop.differential.amqp10 import transcribed
from brokerproof.suites.interop.differential.amqp10_mistakes import (
    DELIVERY,
    DELIVERY_COUNT,
    NEXT_INCOMING,
    Step,
)
from brokerproof.suites.interop.differential.clusters import (
    Cluster,
    cluster_of,
    explanation_of,
    sentences,
)
from brokerproof.suites.interop.differential.grammar import Conversation
from brokerproof.suites.interop.differential.grammar import Step as Labelled
from brokerproof.suites.interop.differential.stomp import GRAMMAR

TALK = Conversation("1.2", (Labelled("CONNECT"), Labelled("SEND"), Labelled("ACK")))


@pytest.mark.parametrize(
    ("reference", "answers", "expected"),
    [
        (["CONNECTED(1.2)", "RECEIPT", "ERROR"], ["CONNECTED(1.2)", "RECEIPT", "ERROR"], None),
        (["CONNECTED(1.2)", "ERROR"], ["CONNECTED(1.2)", "closed"], ("SEND", "ERROR", "closed")),
        (
            ["CONNECTED(1.2)", "ERROR"],
            ["CONNECTED(1.2)", "MESSAGE(m) RECEIPT"],
            ("SEND", "ERROR", "RECEIPT"),
        ),
        (
            ["CONNECTED(1.2)", "RECEIPT"],
            ["CONNECTED(1.2)", "MESSAGE(m) RECEIPT"],
            ("SEND", "RECEIPT", "MESSAGE(m) RECEIPT"),
        ),
    ],
)
def test_the_first_frame_that_is_answered_otherwise_makes_the_cluster(
    reference: list[str], answers: list[str], expected: tuple[str, str, str] | None
) -> None:
    cluster = cluster_of(GRAMMAR, "artemis", TALK, reference, answers)
    assert cluster == (None if expected is None else Cluster("artemis", *expected, "1.2"))


@pytest.mark.parametrize("protocol", list(GRAMMARS))
def test_every_explanation_is_for_frames_of_the_grammar(protocol: str) -> None:
    draw, grammar = random.Random(1), GRAMMARS[protocol]
    labels = {step.label for _ in range(5_000) for step in grammar.conversation(draw).steps}
    for entry in tomllib.loads(grammar.explanations.read_text("utf-8"))["cluster"]:
        assert set(entry["brokers"]) <= set(REFERENCES)
        assert set(entry.get("versions", grammar.versions)) <= set(grammar.versions)
        assert entry["reference"] != entry["answer"]
        for pattern in entry["frames"]:
            assert any(fnmatchcase(label, pattern) for label in labels), pattern


def test_an_explanation_holds_for_its_answers_alone() -> None:
    cluster = Cluster("rabbitmq", "BEGIN t in use", "ERROR", "RECEIPT", "1.2")
    assert explanation_of(GRAMMAR, cluster)
    assert not explanation_of(GRAMMAR, replace(cluster, answer="silence"))
    assert not explanation_of(GRAMMAR, replace(cluster, broker="artemis"))


def test_clusters_that_differ_in_the_version_alone_are_one_line() -> None:
    clusters = [Cluster("artemis", "SEND", "ERROR", "RECEIPT", version) for version in VERSIONS]
    expected = ["artemis SEND (1.0 1.1 1.2): reference ERROR, artemis RECEIPT"]
    assert list(sentences(clusters)) == expected


def amqp(name: str, fields: dict[str, Any] | None = None, payload: bytes = b"") -> Frame:
    return Frame(name, fields_of(composite(name, fields)), payload)


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        ([], "silence"),
        ([None], "closed"),
        ([amqp("flow"), Empty(8)], "silence"),
        ([amqp("disposition", {"state": composite("accepted"), "settled": True})],
         "disposition(accepted)"),
        ([amqp("disposition", {"state": composite("released")})],
         "disposition(released, unsettled)"),
        ([amqp("attach", {"role": True, "target": composite("target")})], "attach"),
        ([amqp("attach", {"role": True, "source": composite("source")})], "attach without target"),
        ([amqp("transfer", {"handle": 0}, message(b"body"))], "transfer(b'body')"),
        ([amqp("transfer", {"handle": 0}, b"\xff")], "transfer(no message)"),
        ([amqp("begin"), amqp("detach", {"error": "amqp:link:stolen"})], "detach(stolen)"),
        ([amqp("end", {"error": "amqp:internal-error"}), amqp("close")], "close"),
        ([amqp("close", {"error": "amqp:connection:framing-error"}), None],
         "close(framing-error)"),
    ],
)  # fmt: skip
def test_an_amqp_transcript_has_what_a_sentence_speaks_of(
    received: list[Read | None], expected: str
) -> None:
    known = {DELIVERY: 0, NEXT_INCOMING: 0, DELIVERY_COUNT: 2**32 - 1}
    assert transcribed(Step("transfer"), received, known) == expected


def test_the_next_flow_counts_from_what_has_arrived() -> None:
    known = {DELIVERY: 0, NEXT_INCOMING: 7, DELIVERY_COUNT: 2**32 - 1}
    transcribed(Step("flow"), [amqp("transfer", {"handle": 0, "delivery-id": 4})], known)
    assert known == {DELIVERY: 4, NEXT_INCOMING: 8, DELIVERY_COUNT: 0}


def test_a_flow_is_in_the_transcript_of_who_asks_for_it() -> None:
    step = Step("flow echo", "flow", asks_for_flow=True)
    assert transcribed(step, [amqp("flow")], {}) == "flow"
