"""Runs an unregistered case on a target."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from brokerproof.harness.cases.case import Case, Over
from brokerproof.harness.cases.execution import Call, Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets.target import Identity, Target
from brokerproof.harness.trace.recorder import Recorder

MUST, SHOULD, MAY = "STOMP12-HDR-17", "STOMP12-ERR-03", "STOMP12-ERR-04"
OTHER_MUST, VENDOR = "STOMP12-MSG-03", "ARTEMIS-STOMP-ttl-3"


def made(
    function: Callable[..., Any],
    *cited: str,
    over: Over | None = None,
    needs: frozenset[str] = frozenset(),
    harm: str = "",
) -> Call:
    """Return a call of an unregistered case, so that the catalogue does not contain it."""
    about = Case(
        "units.example", "units", function, {None: cited}, needs, "", "here:1", over, harm=harm
    )
    return Call(about, None, {}, "units.example")


def run_of(
    target: Target, folder: Path | None = None, deviations: tuple[Deviation, ...] = ()
) -> Run:
    facts = target.start(Path())
    recorder = Recorder(folder, run="run", target=target.identity.name, clock=target.clock)
    return Run(target, facts, requirements.load(), deviations, recorder, effort="normal", seed=7)


def result(target: Target, function: Callable[..., Any], *cited: str, **kwargs: Any) -> Result:
    return execute(run_of(target), made(function, *cited, **kwargs))


class RealTimeTwin:
    """The reference broker in virtual time, which claims to be real: shows how real time changes
    the bookkeeping."""

    clock = Clock.REAL

    def __init__(self, inner: Target) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def verdicts(result: Result) -> dict[str, str]:
    return {finding.requirement: finding.verdict.value for finding in result.findings}


class OtherIdentity:
    def __init__(self, target: Target, identity: Identity) -> None:
        self._target = target
        self.identity = identity

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)
