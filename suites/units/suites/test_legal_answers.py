"""The reference broker with legal variations: no case reports behaviour that a specification allows
or leaves open."""

from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.cases.case import of
from brokerproof.harness.cases.execution import Call, execute
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.reference_broker.protocols.amqp091 import channel as channels
from brokerproof.reference_broker.protocols.amqp091 import publishing
from brokerproof.reference_broker.protocols.amqp091.consuming import commands
from brokerproof.suites.amqp091.test_publish_and_consume import (
    test_a_mandatory_message_that_nobody_gets_is_returned as returned,
)
from brokerproof.suites.delivery.test_amounts import (
    test_a_message_is_requeued_any_number_of_times as requeued,
)
from brokerproof.suites.units.drivers.executed_case import run_of
from brokerproof.suites.units.drivers.targets import started


def test_a_rejected_message_may_be_for_other_channels_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The XML of AMQP 0-9-1 forbids redelivery on the same channel."""
    reject = channels.HANDLERS[commands.Basic.Reject]

    def for_others(channel: Any, method: Any) -> None:
        for consumer in [*channel.consumers.values()]:
            channel.cancel(consumer)
        reject(channel, method)

    monkeypatch.setitem(channels.HANDLERS, commands.Basic.Reject, for_others)
    declared = of(requeued)
    assert declared is not None
    with started("reference-rabbitmq", tmp_path) as broker:
        result = execute(run_of(broker), Call(declared, None, {}, declared.id(None)))
    found = {each.requirement: each.verdict for each in result.findings}
    assert found["AMQP091-REJ-01"] is Verdict.PASS
    assert found["RABBITMQ-AMQP091-NACK-02"] is Verdict.FAIL


def test_the_code_of_a_return_is_not_in_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "NO_ROUTE", 404)
    declared = of(returned)
    assert declared is not None
    with started("reference-rabbitmq", tmp_path) as broker:
        result = execute(run_of(broker), Call(declared, None, {}, declared.id(None)))
    assert result.verdict is Verdict.PASS
