"""The dialect of a broker, inferred from its address alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.cases.case import of
from brokerproof.harness.cases.execution import Call, execute
from brokerproof.harness.inference import dialect
from brokerproof.harness.inference.dialect import Dialect, infer_dialect
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.targets.target import Target
from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.suites.stomp.test_framing import (
    test_any_split_of_a_conversation_gets_the_same_answers as split,
)
from brokerproof.suites.stomp.test_receipts import (
    test_every_kind_of_frame_is_answered_with_one_receipt as every_receipt,
)
from brokerproof.suites.stomp.test_unsubscribe import (
    test_nothing_comes_after_unsubscribe as unsubscribed,
)
from brokerproof.suites.units.drivers.executed_case import OtherIdentity, run_of
from brokerproof.suites.units.drivers.targets import started


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Target]:
    with started("reference-activemq", tmp_path) as target:
        yield target


@pytest.mark.parametrize(
    ("refused_in", "offers_it"), [((), True), (("1.2",), True), (("1.2", "1.1"), False)]
)
def test_a_nack_that_works_in_one_version_is_offered(
    refused_in: tuple[str, ...], offers_it: bool, broker: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        dialect, "_refuses_nack", lambda probes, queue, version: version in refused_in
    )
    inferred = infer_dialect(broker, 1)
    assert ("nack" not in inferred.absent) is offers_it
    assert ("refuses NACK" in inferred.sentences) is not offers_it


def test_without_any_place_nobody_is_accused(
    broker: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "_first", lambda *_: None)
    target = OtherIdentity(broker, infer_dialect(broker, 1).applied(broker.identity))
    declared = of(every_receipt)
    assert declared is not None
    result = execute(run_of(target), Call(declared, "1.2", {}, declared.id("1.2")))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "no plain message passed through /queue/{name} or /topic/{name}" in result.detail


@pytest.mark.parametrize("needing", [unsubscribed, split])
def test_what_needs_a_receipt_that_never_comes_is_unmet_at_once(
    needing: Callable[..., None], broker: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe = commands.COMMANDS["SUBSCRIBE"]

    def unconfirmed(session: Any, item: Any) -> commands.After:
        if after := subscribe(session, item):
            after()
        return commands.withheld

    monkeypatch.setitem(commands.COMMANDS, "SUBSCRIBE", unconfirmed)
    inferred = infer_dialect(broker, 1)
    [reason] = inferred.unmet.values()
    assert reason in inferred.sentences
    target = OtherIdentity(broker, inferred.applied(broker.identity))
    declared = of(needing)
    assert declared is not None
    result = execute(run_of(target), Call(declared, "1.2", {}, declared.id("1.2")))
    assert (result.verdict, result.attempts) == (Verdict.INCONCLUSIVE, 1)
    assert reason in result.detail
    declared = of(every_receipt)
    assert declared is not None
    result = execute(run_of(target), Call(declared, "1.2", {}, declared.id("1.2")))
    accused = {each.requirement for each in result.findings if each.verdict is Verdict.FAIL}
    assert accused == {"STOMP12-HDR-17"}


def test_a_nack_that_is_confirmed_is_not_refused(broker: Target) -> None:
    inferred = infer_dialect(broker, 1)
    assert "speaks STOMP 1.0, 1.1, 1.2" in inferred.sentences
    assert not inferred.absent.keys() & {"nack", "transactions", "heart-beat"}


def test_cases_of_a_version_that_is_not_spoken_are_skipped(broker: Target) -> None:
    inferred = Dialect()
    inferred.without("stomp-1.0", "does not agree on STOMP 1.0")
    target = OtherIdentity(broker, inferred.applied(broker.identity))
    declared = of(every_receipt)
    assert declared is not None
    results = {
        version: execute(run_of(target), Call(declared, version, {}, declared.id(version)))
        for version in ("1.0", "1.2")
    }
    assert results["1.0"].verdict is Verdict.SKIP
    assert "does not agree on STOMP 1.0" in results["1.0"].detail
    assert results["1.2"].verdict is Verdict.PASS
