"""The summary of a load: in a header, as a result of the run, and as a table for people."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from brokerproof.harness.load.conductor import LoadOutcome
from brokerproof.harness.load.latencies import Latencies
from brokerproof.harness.load.session import CASE, Session
from brokerproof.harness.model.finding import Measurement
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


def data(session: Session, outcome: LoadOutcome) -> dict[str, Any]:
    """Everything that is known, for machines. Rates are a second, latencies nanoseconds, bytes
    those of bodies."""
    numbers = outcome.progress.numbers
    sending = max(1, outcome.sent_until - outcome.progress.since)
    receiving = max(1, outcome.received_until - outcome.progress.since)
    scribes = outcome.scribes
    return {
        "seconds": max(sending, receiving) / NS_PER_S,
        **{
            name: numbers[name]
            for name in sorted(numbers)
            if name not in ("up", "waiting", "credit", "held")
        },
        "unconfirmed": numbers["waiting"],
        "sent_per_s": numbers["sent"] * NS_PER_S / sending,
        "received_per_s": numbers["received"] * NS_PER_S / receiving,
        "delivery_ns": _quantiles(outcome.delivery),
        "confirmation_ns": _quantiles(outcome.confirmation),
        "faults": {
            **outcome.progress.faults,
            **({"restart": session.restarts} if session.restarts else {}),
        },
        "errors": dict(outcome.progress.errors),
        "drivers": len(outcome.clocks),
        "driver_cpu_s": outcome.cpu_s,
        "driver_start_cpu_s": outcome.start_cpu_s,
        "recorder": (
            {
                "events": sum(scribe["events"] for scribe in scribes),
                "segments": sum(scribe["segments"] for scribe in scribes),
                "cpu_s": sum(scribe["cpu_s"] for scribe in scribes),
                "start_cpu_s": sum(scribe["start_cpu_s"] for scribe in scribes),
                "tape_cpu_s": sum(scribe["tape_cpu_s"] for scribe in scribes),
                "tape_octets": sum(scribe["tape_octets"] for scribe in scribes),
                "left_octets": sum(scribe["left_octets"] for scribe in scribes),
                "after_s": max(scribe["after_ns"] for scribe in scribes) / NS_PER_S,
            }
            if scribes
            else None
        ),
    }


def complete(told: dict[str, Any]) -> bool:
    """True if everything that was sent was confirmed and came, and nobody ended a connection but
    we."""
    came = not told["received"] or told["received"] >= told["sent"]
    return (
        came
        and not told["unconfirmed"]
        and not told["left"]
        and not told["refused"]
        and not told["errors"]
    )


def write_header(
    session: Session, outcome: LoadOutcome, told: dict[str, Any], plan: dict[str, Any]
) -> None:
    """Write the header's part about the load, and what its one case is about."""
    folder = session.folder
    run_folder.write_header_field(
        folder, "load", {"plan": plan, "told": told, "clocks": outcome.clocks}
    )
    run_folder.write_canary(folder, session.target.identity.name, *outcome.canary)
    run_folder.add_cases(
        folder, {CASE: {"doc": "A load; judge it by brokerproof judge.", "source": ""}}
    )


def measurements(told: dict[str, Any]) -> dict[str, Measurement]:
    """The latencies, as results have them."""
    return {
        f"{what} {quantile}": Measurement(value, "ns")
        for what in ("delivery", "confirmation")
        for quantile, value in told[f"{what}_ns"].items()
        if value is not None
    }


def keep(
    session: Session, outcome: LoadOutcome, told: dict[str, Any], plan: dict[str, Any]
) -> None:
    """Write the header's part about the load, and its one result: a NOTE, because a load judges
    nothing."""
    name = session.target.identity.name
    write_header(session, outcome, told, plan)
    reference = f"trace/target={name}#case={CASE}" if told["recorder"] else ""
    result = Result(
        CASE,
        name,
        (),
        Verdict.NOTE,
        sentence(told),
        measurements=measurements(told),
        duration_s=told["seconds"],
        trace_ref=reference,
    )
    records.append(session.folder, result)


def sentence(told: dict[str, Any]) -> str:
    """The load in one sentence."""
    return (
        f"{told['sent']} messages sent, {told['confirmed']} confirmed, {told['received']} received"
        f" in {told['seconds']:.1f} s by {told['connections']} connections"
    )


def table(name: str, told: dict[str, Any]) -> Table:
    """For people."""
    found = Table("", "", title=f"Load of {name}", title_justify="left", show_header=False)
    octets = told["sent_octets"] / max(1, told["sent"])
    rows = [
        ("time", f"{told['seconds']:.1f} s"),
        ("sent", f"{told['sent']:,} ({told['sent_per_s']:,.0f}/s, {octets:,.0f} octets each)"),
        (
            "confirmed",
            f"{told['confirmed']:,}"
            + (f", {told['unconfirmed']:,} not" if told["unconfirmed"] else ""),
        ),
        (
            "received",
            (
                f"{told['received']:,} ({told['received_per_s']:,.0f}/s), {told['redelivered']:,}"
                " marked as again"
            ),
        ),
        ("settled", f"{told['settled']:,}"),
        ("from SEND to MESSAGE", _words(told["delivery_ns"])),
        ("until confirmed", _words(told["confirmation_ns"])),
        ("connections", f"{told['connections']:,} made, {told['left']:,} ended by the broker"),
        (
            "processor",
            (
                f"drivers {_cost(told['driver_cpu_s'], told)}; their start"
                f" {told['driver_start_cpu_s']:.1f} s"
            ),
        ),
    ]
    if told["refused"]:
        rows.append(("refused", f"{told['refused']:,}"))
    if told["faults"]:
        rows.append(
            (
                "faults",
                ", ".join(f"{count} {kind}" for kind, count in sorted(told["faults"].items())),
            )
        )
    recorder = told["recorder"]
    if recorder is not None:
        rows += _recorded(recorder, told)
    rows += [("errors", f"{count}× {what}") for what, count in sorted(told["errors"].items())]
    for row in rows:
        found.add_row(*row)
    return found


def _recorded(recorder: dict[str, Any], told: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the cost of recording: while the load lasted, and afterwards."""
    mib = 2**20
    left = recorder["left_octets"]
    when = (
        ""
        if left >= recorder["tape_octets"]
        else f", {left / mib:,.1f} of them left when the load was over"
    )
    return [
        (
            "recorded",
            (
                f"{recorder['events']:,} events on {recorder['tape_octets'] / mib:,.1f} MiB of"
                f" tape{when}; written in {_cost(recorder['tape_cpu_s'], told)} of the drivers'"
                " processor time"
            ),
        ),
        (
            "made segments of",
            (
                f"in {recorder['after_s']:.1f} s after the load; processor"
                f" {_cost(recorder['cpu_s'], told)}, start {recorder['start_cpu_s']:.1f} s"
            ),
        ),
    ]


def _cost(cpu_s: float, told: dict[str, Any]) -> str:
    return (
        f"{cpu_s:.1f} s ({cpu_s * 1e6 / max(1, told['sent'], told['received']):.1f} µs a message)"
    )


def _quantiles(of: Latencies) -> dict[str, Duration | None]:
    return {
        **{name: of.quantile(share) for name, share in QUANTILES.items()},
        "worst": of.worst if len(of) else None,
    }


def _words(quantiles: dict[str, Duration | None]) -> str:
    told = [
        f"{name} {value / NS_PER_MS:,.2f} ms"
        for name, value in quantiles.items()
        if value is not None
    ]
    return ", ".join(told) or "not measured"
