"""The differential search over STOMP: its grammar, its clusters and their explanations."""

import random
import tomllib
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from brokerproof.harness.protocols.stomp.codec import VERSIONS
from brokerproof.suites.interop.differential.__main__ import REFERENCES
from brokerproof.suites.interop.differential.clusters import (
    Cluster,
    cluster_of,
    explanation_of,
    sentences,
)
from brokerproof.suites.interop.differential.grammar import Conversation, Step
from brokerproof.suites.interop.differential.stomp import GRAMMAR

TALK = Conversation("1.2", (Step("CONNECT"), Step("SEND"), Step("ACK")))


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


def test_every_explanation_is_for_frames_of_the_grammar() -> None:
    draw = random.Random(1)
    labels = {step.label for _ in range(5_000) for step in GRAMMAR.conversation(draw).steps}
    for entry in tomllib.loads(GRAMMAR.explanations.read_text("utf-8"))["cluster"]:
        assert set(entry["brokers"]) <= set(REFERENCES)
        assert set(entry.get("versions", VERSIONS)) <= set(VERSIONS)
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
    assert list(sentences(clusters)) == [
        "artemis SEND (1.0 1.1 1.2): reference ERROR, artemis RECEIPT"
    ]
