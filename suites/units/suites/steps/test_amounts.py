"""Amounts that cases draw, and a run's report of them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Over
from brokerproof.harness.cases.execution import execute
from brokerproof.harness.commands.requirements import requirements_
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queue_clients import CLIENTS
from brokerproof.suites.units.drivers.executed_case import MUST, made, run_of


def test_amounts_go_as_far_as_the_effort_says_and_around_each_boundary() -> None:
    smoke = amounts.values("smoke", "rabbitmq")
    assert smoke[0] == 1100
    assert {0, 1, 2, 31, 32, 33, 127, 128, 129, 199, 200, 201, 399, 400, 401, 1025} <= {*smoke}
    deep, normal = amounts.values("deep", "artemis"), amounts.values("normal", "any")
    assert (deep[0], max(deep[1:])) == (100_000, 16_385), "one costs more than all the others"
    assert (normal[0], max(normal[1:])) == (10_000, 2_049)


def test_a_bound_of_the_case_is_the_greatest_amount() -> None:
    assert amounts.values("normal", "artemis", 200)[0] == 200
    assert max(amounts.values("normal", "artemis", 200)) == 200
    assert len(amounts.values("deep", "activemq")) <= amounts.POSITIONS


def test_the_greatest_amount_of_all_examples_is_reported(reference: Target, tmp_path: Path) -> None:
    def function(target: Bench, number: int) -> None:
        target.used_amount("messages", number)
        target.record_finding(MUST, True, f"{number}")

    drawn = Over(
        {"number": st.integers(0, 9)}, 20, always=lambda target: [{"number": 41}, {"number": 7}]
    )
    result = execute(run_of(reference), made(function, MUST, over=drawn))
    assert result.amounts == {"messages": 41}
    assert Result.parse(result.line()) == result
    (tmp_path / records.NAME).write_text(result.line() + "\n")
    text = CliRunner().invoke(requirements_, ["--amounts", str(tmp_path)]).output
    assert "      41  messages" in text
    data = json.loads(
        CliRunner().invoke(requirements_, ["--amounts", str(tmp_path), "--json"]).output
    )
    assert data[0]["amounts"] == {"messages": 41}


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("reference", "stomp"),
        ("reference", "amqp"),
        ("reference", "core"),
        ("reference-rabbitmq", "amqp091"),
        ("reference-activemq", "openwire"),
    ],
)
def test_clients_of_every_protocol_look_alike(name: str, protocol: str, tmp_path: Path) -> None:
    target = target_file.load(name)
    target.start(tmp_path)
    bench = Bench(target, (), label="alike", seed=1)
    queue = bench.fresh_name()
    producer, consumer = CLIENTS[protocol](bench, queue), CLIENTS[protocol](bench, queue)
    producer.send([b"1", b"2"])
    producer.transact([b"3"], commit=True)
    producer.transact([b"never"], commit=False)
    consumer.join()
    assert consumer.receive(3) == [b"1", b"2", b"3"]
    consumer.settle(2)
    assert [message.body for message in consumer.leave(lost=False)] == [b"3"]
    heir = CLIENTS[protocol](bench, queue)
    heir.join()
    assert heir.receive(1) == [b"3"]
    bench.close()
    target.stop()
