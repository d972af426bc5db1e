"""Writes the counterexample of a failed case: the case file and its scripts."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

from brokerproof.harness.cases.case import Where
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.example_runs import Call, Run
from brokerproof.harness.counterexamples import case_file, plans, scripts
from brokerproof.harness.counterexamples.case_file import CaseFile
from brokerproof.harness.counterexamples.script_builder import Composed, compose
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.protocols.byte_log import Violation


def keep(
    folder: Path, run: Run, call: Call, example: ExampleRecord, failing: frozenset[str]
) -> Path:
    """Write the conversation of ``example`` to files in ``folder``; return the case file."""
    violation = next(
        violation for violation in example.wire.violations if failing & set(violation.requirements)
    )
    named = [requirement for requirement in violation.requirements if requirement in failing]
    redaction = run.target.identity.redaction
    header = _header(run, call, example, violation, named)
    talk = _conversation(run, example, violation)
    folder.mkdir(parents=True, exist_ok=True)
    slug = case_file.slug(run.target.identity.name, call.id)
    header["octets"] = example.wire.unkept or "kept"
    header["file"] = f"{slug}{case_file.SUFFIX}"
    for name, suffix in (("raw", "_raw.py"), ("stompy", "_stompy.py")):
        script = folder / f"{slug}{suffix}"
        script.unlink(missing_ok=True)
        header[f"{name}_script"], header[f"{name}_why_not"] = None, None
        try:
            if talk is None:
                raise scripts.Inexpressible(
                    f"no bytes were recorded: {example.wire.unkept or 'no connection was opened'}"
                )
            text = (
                scripts.raw(header, talk)
                if name == "raw"
                else scripts.stompy(header, talk, example.wire.versions)
            )
            script.write_text(redaction.text(text), "utf-8")
            header[f"{name}_script"] = script.name
        except scripts.Inexpressible as problem:
            header[f"{name}_why_not"] = str(problem)
    path = folder / f"{slug}{case_file.SUFFIX}"
    case_file.write(path, CaseFile(header, talk), redaction)
    return path


def _conversation(run: Run, example: ExampleRecord, violation: Violation) -> Composed | None:
    if example.wire.unkept is not None or not example.wire.steps:
        return None
    identity = run.target.identity
    virtual = run.target.clock is Clock.VIRTUAL
    talk = compose(example.wire, violation, identity, virtual=virtual)
    places = [
        folder
        for value in example.plan.values()
        for folder in (value, getattr(value, "where", None))
    ]
    overrides = next((place.overrides for place in places if isinstance(place, Where)), None)
    known = run.target.acceptors(overrides)
    for line in talk.lines:
        if line.verb == "open":
            line.about["parameters"] = dict(known.get(line.about["acceptor"], {}))
    return talk


def _header(
    run: Run, call: Call, example: ExampleRecord, violation: Violation, named: list[str]
) -> dict[str, Any]:
    stored: dict[str, Any] = {"arguments": None, "plan": None, "not_restorable": None}
    try:
        stored |= {
            "arguments": plans.encode(dict(call.arguments)),
            "plan": plans.encode(dict(example.plan)),
        }
    except plans.Unstorable as problem:
        stored["not_restorable"] = str(problem)
    catalogue = [run.catalogue.find(name) for name in named]
    return {
        "case": call.id,
        "name": call.case.name,
        "case_version": call.version,
        "source": call.case.source,
        "fingerprint": case_file.fingerprint(call.case.function, call.cited),
        "brokerproof": version("brokerproof"),
        "target": run.target.identity.name,
        "profile": run.target.identity.profile.name,
        "broker": run.facts.broker,
        "broker_version": run.facts.version,
        "clock": run.target.clock.value,
        "requirements": [
            {
                "id": requirement.id,
                "level": requirement.level.value,
                "source": requirement.source,
                "statement": requirement.statement,
            }
            for requirement in catalogue
        ],
        "detail": violation.detail,
        "seed": example.seed,
        "drawn": ", ".join(f"{name}={value!r}" for name, value in example.plan.items())[:2000],
        **stored,
    }
