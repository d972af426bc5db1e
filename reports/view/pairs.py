"""The page of ``brokerproof pairs``."""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.cases.pairs import SCENARIOS
from brokerproof.reports.view.templates import templates

COLOURS = {"kept": "PASS", "deviates": "FAIL", "cannot": "SKIP", "undecided": "INCONCLUSIVE"}


def page(cells: Mapping[tuple[str, str, str], Mapping[str, Any]]) -> str:
    sentences: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for (client, broker, scenario), told in sorted(cells.items()):
        if told["sentence"]:
            about = broker, str(told["cell"]), str(told["sentence"])
            sentences.setdefault(about, {}).setdefault(client, []).append(scenario)
    unfit: dict[str, list[str]] = {}
    for (broker, cell, _), clients in sentences.items():
        if cell == "cannot":
            none = [client for client, names in clients.items() if len(names) == len(SCENARIOS)]
            unfit.setdefault(broker, []).extend(none)
    return (
        templates()
        .get_template("pairs.html.j2")
        .render(
            cells=cells,
            clients={one["client"]: one["client_version"] for one in cells.values()},
            brokers={one["broker"]: one["broker_version"] for one in cells.values()},
            sentences=sentences,
            unfit=unfit,
            scenarios=SCENARIOS,
            colours=COLOURS,
        )
    )
