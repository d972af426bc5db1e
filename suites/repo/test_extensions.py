"""A broker that refuses every extension of AMQP 0-9-1, or whose vendor is unknown, is judged only
by the specifications."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pamqp import base

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.example_runs import Call, Run, binding
from brokerproof.harness.cases.execution import execute_unrecorded
from brokerproof.harness.catalogue import capabilities, profiles, requirements
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.protocols.amqp091 import extensions
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.reference_broker.protocols.amqp091 import methods
from brokerproof.reference_broker.protocols.amqp091.errors import NOT_IMPLEMENTED, Refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.frame import Frame

LONG = ("delivery.amounts.any_number_of_channels_has_a_prefetch",)
CATALOGUE = requirements.load()
VENDORS = {capability.family for capability in capabilities.listed().values()} - {""}


def stranger(offered: frozenset[str] = frozenset()) -> Target:
    """Return the reference broker with AMQP 0-9-1, as a broker of an unknown vendor that offers
    these extensions and no others."""
    target = target_file.load("reference-rabbitmq")
    listed = capabilities.listed()
    kept = {
        name
        for name in target.identity.capabilities
        if name in offered or listed[name].family == ""
    }
    target.identity = dataclasses.replace(  # type: ignore[misc]
        target.identity,
        capabilities=frozenset(kept),
        profile=dataclasses.replace(
            profiles.load("any"), parameters=target.identity.profile.parameters
        ),
    )
    return target


def run_on(target: Target, folder: Path) -> Run:
    facts = target.start(folder)
    recorder = Recorder(None, run="", target=target.identity.name, clock=target.clock)
    return Run(target, facts, CATALOGUE, (), recorder, "smoke", 1, shrink=False)


def put_to(target: Target) -> list[Call]:
    """Return the calls of AMQP 0-9-1 for a target, except those that take seconds."""
    return [
        call
        for call in all_calls()
        if "amqp091" in call.needs and not target.identity.lack_of(call.needs)
        if call.case.name not in LONG
    ]


@pytest.fixture
def refuses_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the reference broker close a connection that uses an extension with 540, as a broker
    without the extension may do."""
    read = methods.read

    def read_specified(payload: bytes) -> base.Frame:
        method = read(payload)
        name = methods.name_of(method)
        fields = {key.replace("_", "-"): getattr(method, key, None) for key in method.__slots__}
        if extensions.needed(name, fields):
            raise Refusal(NOT_IMPLEMENTED, f"{name} is an extension")
        return method

    monkeypatch.setattr(methods, "read", read_specified)


@pytest.mark.usefixtures("refuses_extensions")
def test_no_sentence_of_the_specification_is_judged_by_an_extension(tmp_path: Path) -> None:
    target = stranger()
    run = run_on(target, tmp_path)
    judged: dict[str, set[Verdict]] = {}
    accused: dict[str, str] = {}
    for call in put_to(target):
        result, _ = execute_unrecorded(run, call)
        if result.verdict in (Verdict.FAIL, Verdict.ERROR):
            accused[call.id] = result.detail
        for finding in result.findings:
            if finding.seen is not Seen.NEVER_REACHED:
                judged.setdefault(finding.requirement, set()).add(finding.verdict)
    target.stop()
    assert not accused
    assert {CATALOGUE[row].profile for row in judged} == {None}
    held = {row for row, verdicts in judged.items() if Verdict.PASS in verdicts}
    assert len(held) >= 90, "the specification's sentences are judged without extensions"


@pytest.mark.usefixtures("refuses_extensions")
def test_channels_are_modelled_without_extensions_and_in_real_time(tmp_path: Path) -> None:
    target = stranger()
    run = run_on(target, tmp_path)
    call = next(call for call in all_calls() if "channels_do_what_the_model_says" in call.id)
    assert not target_file.load("rabbitmq").identity.lack_of(call.needs)
    result, _ = execute_unrecorded(run, call)
    target.stop()
    held = {f.requirement for f in result.findings if f.verdict is Verdict.PASS}
    assert {"AMQP091-CHAN-04", "AMQP091-TX-02", "AMQP091-QOS-02"} <= held


def test_expiration_has_no_meaning_of_its_own(tmp_path: Path) -> None:
    target = stranger()
    run = run_on(target, tmp_path)
    call = next(call for call in all_calls() if "options_of_consume_and_publish" in call.id)
    result, _ = execute_unrecorded(run, call)
    target.stop()
    lacking = [finding.detail for finding in result.findings if finding.verdict is Verdict.SKIP]
    assert not [words for words in lacking if extensions.ARGUMENTS in words]
    assert extensions.needed("basic.publish", {"expiration": "600000"}) == extensions.ARGUMENTS


def test_an_extension_that_is_not_offered_is_a_skip(tmp_path: Path) -> None:
    target = stranger()
    run = run_on(target, tmp_path)
    for name in (extensions.NACK, extensions.CONFIRMS):
        offering = stranger(frozenset({name}))
        more = {call.id for call in put_to(offering)} - {call.id for call in put_to(target)}
        assert (name == extensions.NACK) is not bool(more), "cases of confirms are put to it then"
    call = next(call for call in all_calls() if "every_message_is_confirmed_once" in call.id)
    assert execute_unrecorded(run, call)[0].verdict is Verdict.SKIP
    target.stop()


def test_a_vendors_document_binds_no_other_broker(tmp_path: Path) -> None:
    target = stranger()
    run = run_on(target, tmp_path)
    target.stop()
    wrong = {
        call.id: [row for row in rows if CATALOGUE[row].profile is not None]
        for call in all_calls()
        if not any(capabilities.listed()[name].family for name in call.needs)
        if (rows := binding(run, call))
    }
    assert not [rows for rows in wrong.values() if rows]


@pytest.mark.parametrize("vendor", sorted(VENDORS))
def test_a_vendors_document_binds_its_brokers_and_who_offers_what_it_describes(vendor: str) -> None:
    own = target_file.load(vendor).identity
    other = stranger().identity
    needs = {name for name, each in capabilities.listed().items() if each.family == vendor}
    assert own.is_bound_by(vendor, frozenset())
    assert not other.is_bound_by(vendor, frozenset({"stomp", "amqp091"}))
    assert other.is_bound_by(vendor, frozenset(needs))
    assert other.is_bound_by(None, frozenset())


def test_a_served_subscription_to_an_empty_name_is_legal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(original: Callable[[Any, Frame], Any], session: Any, frame: Frame) -> Any:
        if frame.get("destination") == "":
            frame.head.first["destination"] = "the empty name"
        return original(session, frame)

    for command in ("SEND", "SUBSCRIBE"):
        monkeypatch.setitem(COMMANDS, command, partial(named, COMMANDS[command]))
    run = run_on(target_file.load("reference"), tmp_path)
    verdicts = {
        call.version: execute_unrecorded(run, call)[0].verdict
        for call in all_calls()
        if call.case.name == "stomp.subscribe.a_subscribe_to_an_empty_destination_is_refused"
    }
    run.target.stop()
    assert verdicts == {"1.1": Verdict.NOTE, "1.2": Verdict.NOTE}
