"""The AMQP 1.0 and 0-9-1 dialects of a broker, inferred from its address alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.inference import amqp091_dialect, amqp_dialect, premises
from brokerproof.harness.inference.amqp091_dialect import UNDECLARED, infer_amqp091
from brokerproof.harness.inference.amqp_dialect import infer_amqp
from brokerproof.harness.inference.dialect import Questions
from brokerproof.harness.inference.dialects import infer_dialects
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.protocols.amqp10.codec import Frame
from brokerproof.harness.protocols.amqp10.raw_peer import AmqpPeer
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target
from brokerproof.suites.units.drivers.executed_case import OtherIdentity, made, run_of

Start = Callable[[str], Target]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Start]:
    targets: list[Target] = []

    def start(name: str) -> Target:
        target = target_file.load(name)
        target.start(tmp_path)
        targets.append(target)
        return target

    yield start
    for target in targets:
        target.stop()


@pytest.mark.parametrize(
    ("name", "capability"), [("reference", "queue"), ("reference-activemq", "")]
)
def test_the_first_node_that_keeps_messages_is_the_queue(
    name: str, capability: str, started: Start
) -> None:
    inferred = infer_amqp(started(name), 1)
    assert inferred.parameters["anycast_node"] == "{name}"
    assert inferred.parameters["anycast_node_capabilities"] == capability
    assert inferred.parameters["multicast_node_capabilities"] == "topic"
    assert inferred.offered == {
        *("amqp-redelivery", "amqp-modified", "amqp-copy", "amqp-dynamic", "amqp-transactions")
    }
    assert not inferred.unmet
    assert not inferred.absent


def test_a_short_idle_time_out_that_the_broker_announces_is_judged(started: Start) -> None:
    broker = started("reference")
    other = replace(broker.identity, default_amqp_acceptor="amqp-idle-2000")
    inferred = infer_amqp(OtherIdentity(broker, other), 1)
    assert "amqp-idle-timeout" in inferred.offered
    assert "AMQP 1.0: announces an idle-time-out of 1000 ms" in inferred.sentences


def test_no_declare_is_sent_to_a_target_that_is_no_coordinator(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frame, "kind", lambda self, name: "target")
    monkeypatch.setattr(AmqpPeer, "post", lambda self, *fields: pytest.fail("a message was sent"))
    assert not Questions(started("reference"), 1).asked(amqp_dialect._has_transactions)


@pytest.mark.parametrize(("state", "expected"), [(None, True), ("released", False)])
def test_cases_judge_a_redelivery_that_was_announced_and_not_seen(
    state: str | None, expected: bool, started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_dialect, "_comes", lambda *arguments: False)
    question = partial(amqp_dialect._gives_again, ("{name}", "queue"), state)
    assert Questions(started("reference"), 1).asked(question) is expected


def test_a_broker_without_a_queue_leaves_cases_unmet_by_one_cause(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqp_dialect, "QUEUES", (("{name}", "topic"),))
    broker = started("reference")
    inferred = infer_amqp(broker, 1)
    cause = inferred.unmet["amqp ANYCAST"]
    assert cause.startswith("no AMQP 1.0 node was found that keeps a message")
    target = OtherIdentity(broker, inferred.applied(broker.identity))
    attempts: list[Bench] = []

    def needs_a_queue(target: Bench) -> None:
        attempts.append(target)
        target.node()

    result = execute(run_of(target), made(needs_a_queue, "AMQP10-CREDIT-03"))
    assert (result.verdict, result.detail) == (Verdict.INCONCLUSIVE, cause)
    assert [finding.seen for finding in result.findings] == [Seen.UNMET]
    assert len(attempts) == 1

    def needs_a_topic(target: Bench) -> None:
        target.node(RoutingType.MULTICAST)
        target.record_held("AMQP10-CREDIT-03", "it", "it has one")

    result = execute(run_of(target), made(needs_a_topic, "AMQP10-CREDIT-03"))
    assert result.verdict is Verdict.PASS


def test_the_shortest_idle_time_out_is_the_one_above_all_refusals(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = {500, 2000, 5000, 10_000, 30_000, 60_000}
    monkeypatch.setattr(
        Questions, "asked", lambda self, question: question.keywords["asked"] in taken
    )
    inferred = amqp_dialect.Dialect()
    amqp_dialect._idle_time_out(Questions(started("reference"), 1), inferred)
    assert inferred.parameters == {"amqp_shortest_idle_timeout_ms": "2000"}
    assert inferred.sentences == ["AMQP 1.0: refuses an idle-time-out of 1000 ms"]


@pytest.mark.parametrize("makes", [True, False])
def test_a_queue_that_is_made_when_it_is_named_is_not_missing(
    makes: bool, started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = started("reference-rabbitmq")
    assert not infer_amqp091(broker, 1).absent
    monkeypatch.setattr(amqp091_dialect, "_makes_queues", lambda bench: makes)
    inferred = infer_dialects(broker, 1)
    assert (UNDECLARED in inferred.absent) is makes
    assert (UNDECLARED in inferred.applied(broker.identity).capabilities) is not makes
    assert any("AMQP 0-9-1" in sentence for sentence in inferred.sentences) is makes


def test_a_kind_of_place_through_which_nothing_passes_is_named(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = started("reference")
    assert not premises.unmet_premises(broker, 1)
    profile = broker.identity.profile
    lost = {
        **profile.parameters,
        "anycast_node_capabilities": "topic",
        "anycast_send_headers": "destination-type:MULTICAST",
    }
    identity = replace(broker.identity, profile=replace(profile, parameters=lost))
    assert premises.unmet_premises(OtherIdentity(broker, identity), 1) == {
        "amqp ANYCAST": "no plain message passed through the AMQP 1.0 queue {name} with capability"
        " topic",
        "stomp ANYCAST": "no plain message passed through the STOMP queue {name}",
    }
