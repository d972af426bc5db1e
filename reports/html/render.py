"""Fills the templates that the driver fills: the index, a page for each target and for each
requirement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerproof.reports import mutants
from brokerproof.reports.html.packed_cases import choices, listing
from brokerproof.reports.html.templates import templates
from brokerproof.reports.html.times import duration
from brokerproof.reports.index_model import Model
from brokerproof.reports.requirement_compliance import Keeper
from brokerproof.reports.requirements import Requirements, Words
from brokerproof.reports.runs import Run
from brokerproof.reports.target_summaries import Broker

BEGUN = 60
"""Cases that are listed in the index for readers without JavaScript."""


class Pages:
    """The pages of a report, other than those of cases."""

    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements

    def index(self, model: Model) -> str:
        """The index page."""
        return (
            templates()
            .get_template("index.html.j2")
            .render(
                model=model,
                begun=model.cases[:BEGUN],
                listing=listing(model, self._requirements),
                choices=choices(model, self._requirements),
                facts=[facts(run) for run in model.runs],
                mutants=[
                    matrix for run in model.runs if (matrix := mutants.read(run.folder)) is not None
                ],
            )
        )

    def target(self, broker: Broker) -> str:
        """The page of one target."""
        return templates().get_template("target.html.j2").render(broker=broker)

    def style(self) -> str:
        """The style sheet of the pages of requirements:
        :data:`brokerproof.reports.html.templates.STYLE`."""
        return str(templates().globals["style"])

    def requirement(self, words: Words, keepers: Sequence[Keeper]) -> str:
        """The page of one requirement."""
        return templates().get_template("requirement.html.j2").render(words=words, keepers=keepers)

    def requirements(self, known: Mapping[str, Sequence[Keeper]]) -> list[Words]:
        """Every requirement that gets a page: those of the catalogue, and whatever else was
        judged."""
        listed = {requirement.id: requirement for requirement in self._requirements}
        return [
            *listed.values(),
            *(
                self._requirements.find(requirement)
                for requirement in known
                if requirement not in listed
            ),
        ]


def facts(run: Run) -> dict[str, str]:
    """Return the facts that the index shows of a run, by label; facts missing in the header are
    left out."""
    head, host = run.header, run.header.get("host")
    host = host if isinstance(host, dict) else {}
    command = head.get("command")
    canary = host.get("canary_p99_ns")
    texts = {
        "run": run.name,
        "started": str(head.get("started", "")),
        "ended": str((run.footer or {}).get("finished", "")) or "cut off",
        "brokerproof": str(head.get("brokerproof", "")),
        "command": " ".join(map(str, command)) if isinstance(command, list) else "",
        "seed": str(head.get("seed", "")),
        "effort": str(head.get("effort", "")),
        "host": " · ".join(
            part
            for part in (
                str(host.get("platform", "")),
                f"Python {host['python']}" if "python" in host else "",
                f"{host['cores']} cores" if "cores" in host else "",
                f"canary p99 {duration(canary)}" if isinstance(canary, int) else "",
            )
            if part
        ),
        "exit code": str((run.footer or {}).get("exit_code", "")),
    }
    return {label: text for label, text in texts.items() if text}
