"""The summary of a load: in the run's header, as the run's result, and as a table."""

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
    """Return all known figures. Rates are per second, latencies are in nanoseconds, and only the
    bytes of bodies are counted."""
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


def complete(summary: dict[str, Any]) -> bool:
    """True if every message sent was confirmed and delivered, and the broker closed no
    connection."""
    came = not summary["received"] or summary["received"] >= summary["sent"]
    return (
        came
        and not summary["unconfirmed"]
        and not summary["left"]
        and not summary["refused"]
        and not summary["errors"]
    )


def write_header(
    session: Session, outcome: LoadOutcome, summary: dict[str, Any], plan: dict[str, Any]
) -> None:
    """Write the load's part of the header, and the description of its one case."""
    folder = session.folder
    run_folder.write_header_field(
        folder, "load", {"plan": plan, "told": summary, "clocks": outcome.clocks}
    )
    run_folder.write_canary(folder, session.target.identity.name, *outcome.canary)
    run_folder.add_cases(
        folder, {CASE: {"doc": "A load; judge it by brokerproof judge.", "source": ""}}
    )


def measurements(summary: dict[str, Any]) -> dict[str, Measurement]:
    """Return the latencies in the form of results."""
    return {
        f"{what} {quantile}": Measurement(value, "ns")
        for what in ("delivery", "confirmation")
        for quantile, value in summary[f"{what}_ns"].items()
        if value is not None
    }


def keep(
    session: Session, outcome: LoadOutcome, summary: dict[str, Any], plan: dict[str, Any]
) -> None:
    """Write the load's part of the header, and the only result, which is a NOTE because a load
    judges nothing."""
    name = session.target.identity.name
    write_header(session, outcome, summary, plan)
    reference = f"trace/target={name}#case={CASE}" if summary["recorder"] else ""
    result = Result(
        CASE,
        name,
        (),
        Verdict.NOTE,
        sentence(summary),
        measurements=measurements(summary),
        duration_s=summary["seconds"],
        trace_ref=reference,
    )
    records.append(session.folder, result)


def sentence(summary: dict[str, Any]) -> str:
    return (
        f"{summary['sent']} messages sent, {summary['confirmed']} confirmed,"
        f" {summary['received']} received in {summary['seconds']:.1f} s"
        f" by {summary['connections']} connections"
    )


def table(name: str, summary: dict[str, Any]) -> Table:
    listing = Table("", "", title=f"Load of {name}", title_justify="left", show_header=False)
    size = summary["sent_octets"] / max(1, summary["sent"])
    rows = [
        ("time", f"{summary['seconds']:.1f} s"),
        ("sent", f"{summary['sent']:,} ({summary['sent_per_s']:,.0f}/s, {size:,.0f} bytes each)"),
        (
            "confirmed",
            f"{summary['confirmed']:,}"
            + (f", {summary['unconfirmed']:,} not" if summary["unconfirmed"] else ""),
        ),
        (
            "received",
            (
                f"{summary['received']:,} ({summary['received_per_s']:,.0f}/s),"
                f" {summary['redelivered']:,} marked as again"
            ),
        ),
        ("settled", f"{summary['settled']:,}"),
        ("from SEND to MESSAGE", _words(summary["delivery_ns"])),
        ("until confirmed", _words(summary["confirmation_ns"])),
        (
            "connections",
            f"{summary['connections']:,} made, {summary['left']:,} ended by the broker",
        ),
        (
            "processor",
            (
                f"drivers {_cost(summary['driver_cpu_s'], summary)}; their start"
                f" {summary['driver_start_cpu_s']:.1f} s"
            ),
        ),
    ]
    if summary["refused"]:
        rows.append(("refused", f"{summary['refused']:,}"))
    if summary["faults"]:
        rows.append(
            (
                "faults",
                ", ".join(f"{count} {kind}" for kind, count in sorted(summary["faults"].items())),
            )
        )
    recorder = summary["recorder"]
    if recorder is not None:
        rows += _recorded(recorder, summary)
    rows += [("errors", f"{count}× {what}") for what, count in sorted(summary["errors"].items())]
    for row in rows:
        listing.add_row(*row)
    return listing


def _recorded(recorder: dict[str, Any], summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the cost of recording during the load and afterwards."""
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
                f" tape{when}; written in {_cost(recorder['tape_cpu_s'], summary)} of the drivers'"
                " processor time"
            ),
        ),
        (
            "made segments of",
            (
                f"in {recorder['after_s']:.1f} s after the load; processor"
                f" {_cost(recorder['cpu_s'], summary)}, start {recorder['start_cpu_s']:.1f} s"
            ),
        ),
    ]


def _cost(cpu_s: float, summary: dict[str, Any]) -> str:
    messages = max(1, summary["sent"], summary["received"])
    return f"{cpu_s:.1f} s ({cpu_s * 1e6 / messages:.1f} µs a message)"


def _quantiles(of: Latencies) -> dict[str, Duration | None]:
    return {
        **{name: of.quantile(share) for name, share in QUANTILES.items()},
        "worst": of.worst if len(of) else None,
    }


def _words(quantiles: dict[str, Duration | None]) -> str:
    sentences = [
        f"{name} {value / NS_PER_MS:,.2f} ms"
        for name, value in quantiles.items()
        if value is not None
    ]
    return ", ".join(sentences) or "not measured"
