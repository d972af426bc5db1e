"""badge.json: an endpoint for shields.io."""

import json

from brokerproof.reports.model.index_model import Model

_COLOURS = (
    ("ERROR", "9f4bd8"),
    ("FAIL", "e05d44"),
    ("INCONCLUSIVE", "dfb317"),
    ("KNOWN", "7a6ff0"),
    ("WARN", "fe7d37"),
)


def badge(model: Model) -> str:
    """Return the badge as JSON: the worst verdict and its count over the last run of each
    target."""
    totals = model.now
    latest = {bar.column.run for bar in model.latest} or {run.name for run in model.runs}
    cut_off = any(run.footer is None for run in model.runs if run.name in latest)
    passed, every = totals.get("PASS", 0), sum(totals.values())
    message, colour = f"{passed} of {every} pass", "4c1"
    for verdict, candidate in _COLOURS:
        if verdict in totals:
            worst = next((case.impact for case in model.cases if case.verdict == verdict), "")
            harm = f" ({worst})" if worst else ""
            message, colour = f"{totals[verdict]} {verdict.lower()}{harm}, {message}", candidate
            break
    if cut_off or not every:
        message, colour = ("no results" if not every else f"cut off: {message}"), "9f9f9f"
    names = sorted({bar.column.target for bar in model.bars})
    label = f"brokerproof {names[0]}" if len(names) == 1 else "brokerproof"
    return (
        json.dumps({"schemaVersion": 1, "label": label, "message": message, "color": colour}) + "\n"
    )
