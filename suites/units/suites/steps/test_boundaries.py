"""The boundary values of numbers, and the tables from which they are read."""

import pytest

from brokerproof.harness.protocols.amqp10.tables import COMPOSITES
from brokerproof.harness.protocols.core.tables import BY_NAME
from brokerproof.suites.amqp10 import test_numbers
from brokerproof.suites.flow import test_core_numbers
from brokerproof.suites.steps.boundaries import (
    ANY,
    CORNERS,
    JAVA_RANGES,
    POSITIONS,
    RANGES,
    NumberField,
    Replaced,
    around,
)

KINDS = {**RANGES, **{f"java {kind}": ends for kind, ends in JAVA_RANGES.items()}, "text": ANY}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_value_of_a_type_can_be_written_and_is_drawn(kind: str) -> None:
    low, high = KINDS[kind]
    values = around(low, high)
    assert len(values) == len(set(values)) <= POSITIONS
    assert {0, 1, high - 1, high, low} <= set(values)
    assert all(low <= value <= high for value in values)


def test_the_corners_are_zero_one_the_high_end_and_the_change_of_sign() -> None:
    assert around(0, 2**32 - 1)[:CORNERS] == (0, 2**32 - 1, 2**31, 1, 2**31 - 1, 2**32 - 2)
    assert around(-(2**31), 2**31 - 1)[:CORNERS] == (0, 2**31 - 1, -1, 1, -2, -(2**31))
    assert around(-(2**63), 2**63 - 1)[:CORNERS] == (0, 2**63 - 1, -1, 1, 2**32, -2)
    assert around(*ANY)[:CORNERS] == (0, 2**64 + 1, -1, 1, 2**31, 2**63 - 1)


def test_one_number_of_one_frame_is_replaced() -> None:
    replaced = Replaced(NumberField("flow", "link-credit", 0, 9), 7)
    expected = {"link-credit": 7, "handle": 2}
    assert replaced.inside("flow", {"link-credit": 1, "handle": 2}) == expected
    assert replaced.inside("begin", {"link-credit": 1}) == {"link-credit": 1}


def test_no_number_of_a_frame_of_amqp_1_0_is_forgotten() -> None:
    sent_by_servers = {"sasl-outcome"}
    numbers = {
        f"{composite.name}.{field.name}"
        for composite in COMPOSITES.values()
        for field in composite.fields
        if field.type in RANGES and composite.name not in sent_by_servers
    }
    assert numbers == test_numbers.FIELDS.keys()


def test_no_number_of_a_packet_of_core_is_forgotten() -> None:
    sent_by_servers = {
        "create-session-response",
        "disconnect-consumer",
        "disconnect-v3",
        "exception",
        "null-response",
        "producer-credits",
        "producer-credits-refused",
        "queue-query-response-v3",
        "receive",
    }
    same_as_another = {"create-session-v2"}
    numbers = {
        f"{table.name}.{name}"
        for table in BY_NAME.values()
        for name, kind, _ in table.fields
        if kind.rstrip("?") in JAVA_RANGES and table.name not in sent_by_servers | same_as_another
    }
    messages = {field for field in test_core_numbers.FIELDS if field.startswith("message.")}
    assert numbers == test_core_numbers.FIELDS.keys() - messages
    assert len(messages) == 5
