"""The AMQP oracle of error conditions, on handmade traces."""

import re
from importlib.resources import files

import pytest

from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp_conditions
from brokerproof.harness.trace.events import Event
from brokerproof.suites.units.drivers.amqp_traces import begun, broker, outcome, violations


def failed(frame: str, condition: str) -> list[Event]:
    error = f"error(condition={condition}, description=a, b (condition=amqp:none-of-this))"
    told = (
        {"state": f"rejected(error={error})", "role": "receiver", "first": 0}
        if frame == "disposition"
        else {"error": error}
    )
    return [*begun(), broker(frame, **told)]


@pytest.mark.parametrize(
    ("frame", "condition", "requirement"),
    [
        ("close", "amqp:connection:framing-error", "AMQP10-ERR-02"),
        ("close", "amqp:internal-error", "AMQP10-ERR-01"),
        ("end", "amqp:session:window-violation", "AMQP10-ERR-03"),
        ("end", "broker:own-trouble", "AMQP10-ERR-03"),
        ("detach", "amqp:link:stolen", "AMQP10-ERR-04"),
        ("detach", "amqp:transaction:rollback", "AMQP10-ERR-04"),
        ("disposition", "amqp:not-found", "AMQP10-ERR-01"),
    ],
)
def test_conditions_of_the_standard_and_own_ones_hold(
    frame: str, condition: str, requirement: str
) -> None:
    seen = outcome(amqp_conditions.conditions, failed(frame, condition))
    assert seen[requirement] is Seen.HELD
    assert not violations(amqp_conditions.conditions, failed(frame, condition))


@pytest.mark.parametrize(
    ("frame", "condition", "requirement"),
    [
        ("close", "amqp:connection:framing-eror", "AMQP10-ERR-02"),
        ("close", "amqp:forced", "AMQP10-ERR-01"),
        ("end", "amqp:session:window-violations", "AMQP10-ERR-03"),
        ("detach", "amqp:link:not-found", "AMQP10-ERR-04"),
        ("disposition", "amqp:rejected", "AMQP10-ERR-01"),
        ("close", "amqp:not-found at all", "AMQP10-ERR-01"),
    ],
)
def test_conditions_that_no_list_has_are_seen(frame: str, condition: str, requirement: str) -> None:
    assert violations(amqp_conditions.conditions, failed(frame, condition)) == {requirement}


def test_no_error_is_no_evidence() -> None:
    assert set(outcome(amqp_conditions.conditions, begun()).values()) == {Seen.NEVER_REACHED}


def test_the_conditions_are_those_of_the_definition() -> None:
    text = (files("brokerproof.fixtures") / "vectors" / "amqp10-definition.json").read_text("utf-8")
    named = set(re.findall(r'"(amqp:(?:[a-z]+:)?[a-z-]+)"', text))
    assert named >= amqp_conditions.LISTED
