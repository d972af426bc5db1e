"""Replays a saved counterexample: runs the case with the same arguments or, if the case has
changed, replays the recorded bytes."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.cases import case as cases
from brokerproof.harness.cases import confirm_and_shrink
from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.catalogue import extensions
from brokerproof.harness.catalogue.cases import CONFORMANCE, current_name
from brokerproof.harness.counterexamples import case_file, plans, target_playback
from brokerproof.harness.counterexamples.case_file import CaseFile
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.finding import combine
from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.trace.events import (
    Advanced,
    ConnectionAbandoned,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    Judged,
    Noted,
    OctetsRefused,
    OctetsSent,
)
from brokerproof.harness.worlds.world import Unreachable

FIXED, FAILED, ERROR = "FIXED", "FAILED", "ERROR"
ATTEMPTS = 3
"""The maximum number of times that a case runs in real time while the host's lateness leaves its
findings uncertain."""


@dataclass
class Answer:
    """The outcome. ``how`` is "case" or "bytes"; for "bytes", ``why`` says why the case did not
    run."""

    answer: str
    detail: str
    how: str
    why: str = ""


class Changed(Exception):
    """The case can no longer run as it ran when it was recorded. The message is one sentence."""


def import_home(name: str) -> None:
    """Import the conformance module of case ``name`` (``flow.consumer_window.x``) so that it
    registers.

    Raises :class:`Changed` if there is no such module or it cannot be imported."""
    suite, *middle = current_name(name).split(".")[:-1]
    packages = {suite: f"brokerproof.suites.{suite}" for suite in CONFORMANCE} | extensions.suites()
    if suite not in packages or not middle or not all(part.isidentifier() for part in middle):
        raise Changed(f"{name!r} is not the name of a conformance case")
    *folders, module = middle
    module = ".".join([packages[suite], *folders, f"test_{module}"])
    try:
        importlib.import_module(module)
    except Exception as problem:
        raise Changed(f"{module} cannot be imported ({problem})") from None


def restored(file: CaseFile) -> tuple[Call, Mapping[str, Any]]:
    """Return the call and the drawn arguments that ``file`` names, from the suites imported so far.
    Raises :class:`Changed`."""
    header = file.header
    case = cases.registry().get(current_name(str(header.get("name"))))
    version = header.get("case_version")
    if case is None or version not in case.by_version:
        raise Changed(f"case {header['case']} no longer exists")
    if header.get("not_restorable"):
        raise Changed(str(header["not_restorable"]))
    if case_file.fingerprint(case.function, case.by_version[version]) != header["fingerprint"]:
        raise Changed(f"{header['case']} ({case.source}) has changed since this was recorded")
    try:
        arguments, plan = plans.decode(header.get("arguments")), plans.decode(header.get("plan"))
    except plans.Unrestorable as problem:
        raise Changed(str(problem)) from None
    if not isinstance(arguments, dict) or not isinstance(plan, dict):
        raise Changed("the arguments were not stored")
    if set(arguments) != set(case.arguments) or set(plan) != set(
        case.over.strategies if case.over else ()
    ):
        raise Changed(f"{header['case']} now takes different arguments")
    return Call(case, version, arguments, header["case"]), plan


def run_case(
    run: Run, file: CaseFile, call: Call, plan: Mapping[str, Any], say: Callable[[str], None]
) -> Answer:
    """Run the case again, and compare the findings on the violated requirements."""
    named = frozenset(requirement["id"] for requirement in file.header["requirements"])
    if lack := run.target.identity.lack_of(call.case.needs):
        return Answer(ERROR, lack, "case")
    for attempt in range(ATTEMPTS if run.target.clock is Clock.REAL else 1):
        outcome, error = confirm_and_shrink.run_again(
            run, call, plan, file.header["seed"] + attempt
        )
        for text in step_lines(outcome.events):
            say(text)
        if error is not None:
            return Answer(ERROR, error, "case")
        findings = {
            finding.requirement: finding
            for finding in combine(outcome.findings)
            if finding.requirement in named
        }
        violated = [finding for finding in findings.values() if finding.seen is Seen.VIOLATED]
        if violated and violated[0].uncertain is None:
            return Answer(FAILED, f"{violated[0].requirement}: {violated[0].detail}", "case")
        unsure = next(
            (finding for finding in findings.values() if finding.uncertain is not None), None
        )
        if unsure is None:
            break
        if attempt + 1 < ATTEMPTS:
            say(f"{unsure.requirement}: {unsure.detail} ({unsure.uncertain}); again")
    if unsure is not None:
        return Answer(ERROR, f"{unsure.requirement}: {unsure.detail} ({unsure.uncertain})", "case")
    never = sorted(named - findings.keys())
    if never:
        return Answer(ERROR, f"the case ended before it judged {', '.join(never)}", "case")
    return Answer(
        FIXED, "; ".join(f"{name}: {detail.detail}" for name, detail in findings.items()), "case"
    )


def run_bytes(run: Run, file: CaseFile, why: str, say: Callable[[str], None]) -> Answer:
    """Replay the recorded bytes and judge by the recorded expectation."""
    if file.conversation is None:
        return Answer(ERROR, f"its bytes were not kept: {file.header.get('octets')}", "octets", why)
    try:
        held, detail = target_playback.play(run.target, file.conversation, say)
    except Unreachable as problem:
        return Answer(ERROR, str(problem), "octets", why)
    return Answer({True: FIXED, False: FAILED, None: ERROR}[held], detail, "octets", why)


def step_lines(events: list[Event]) -> Iterator[str]:
    """Return the steps of a run, one per line; heartbeats are only counted."""
    began = events[0].at_ns if events else 0
    beats = 0
    for event in events:
        if isinstance(event, HeartBeatReceived | HeartBeatSent):
            beats += 1
            continue
        text = _step(event)
        if text is None:
            continue
        if beats:
            yield f"              {beats} heart-beats"
            beats = 0
        yield (
            f"{(event.at_ns - began) / NS_PER_S:10.3f} "
            f" {event.conn if event.conn is not None else ' '}  {text}"
        )


def _step(event: Event) -> str | None:
    match event:
        case ConnectionOpened():
            return f"opened to {event.acceptor}"
        case FrameSent() | FrameReceived():
            arrow = "→" if isinstance(event, FrameSent) else "←"
            headers = " ".join(
                f"{name}:{'…' if name == 'passcode' else value}" for name, value in event.headers
            )
            body = f" {event.body[:60]!r}" if event.body else ""
            return f"{arrow} {event.command} {headers}{body}"[:300]
        case OctetsSent():
            return f"→ {event.size} bytes as they are"
        case OctetsRefused():
            return f"← what is not a frame: {event.detail}"
        case ConnectionClosed():
            return f"✕ ended by the broker ({event.how})"
        case ConnectionAbandoned():
            return f"✕ ended by us ({event.how})"
        case Advanced():
            return f"  pause of {event.duration_ns / NS_PER_S:g} s"
        case Judged():
            return (
                f"{'held' if event.seen == Seen.HELD.value else 'VIOLATED'}: {event.requirement}:"
                f" {event.detail}"
            )
        case Noted():
            return f"  {event.detail}"
    return None
