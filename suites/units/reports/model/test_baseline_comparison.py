"""A run's comparison with its baseline in words: facts about the baseline, and which failures are
new."""

from pathlib import Path
from typing import Any

import pytest

from brokerproof.reports.model.baseline_comparison import Comparison, baseline_of, comparison_of
from brokerproof.reports.sources.runs import Run
from brokerproof.reports.view.render import facts

FACTS = {
    "started": "2026-11-20T08:15:30+00:00",
    "seed": 7,
    "brokerproof": "0.1.0",
    "targets": [
        {"name": "a", "broker": "Artemis", "version": "2.40.0"},
        {"name": "b", "broker": "Artemis", "version": "2.40.0"},
    ],
}


def comparison(
    *changes: tuple[str, str | None], worse: int | None = None, seeds: tuple[int, int] = (7, 7)
) -> Comparison:
    """A comparison in which these cases of the target t fail now, each with its earlier verdict.
    ``seeds`` are the baseline's and the run's."""
    recorded: dict[str, Any] = {
        "run": "last good",
        "seed": seeds[0],
        "counts": {"worse": len(changes) if worse is None else worse, "undecided": 0, "better": 0},
        "changes": [
            {"course": "WORSE", "target": "t", "case": case, "verdicts": [before, "FAIL"]}
            for case, before in changes
        ],
    }
    header = {"baseline": recorded, "seed": seeds[1]}
    found = comparison_of(Run(Path(), "r", header), several=False)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ([], "last good, Artemis 2.40.0 of 2026-11-20 08:15"),
        (["started"], "last good, Artemis 2.40.0, at a time that was not recorded"),
        (["targets"], "last good of 2026-11-20 08:15, whose version was not recorded"),
        (["started", "targets"], "last good, whose date and version were not recorded"),
    ],
)
def test_a_baseline_is_named_with_its_broker_and_date(left_out: list[str], words: str) -> None:
    recorded = {key: value for key, value in FACTS.items() if key not in left_out}
    baseline = baseline_of({"baseline": {"run": "last good", **recorded}})
    assert baseline is not None
    assert baseline.words == words


def test_many_brokers_of_a_baseline_are_counted() -> None:
    targets = [{"broker": "B", "version": str(number)} for number in range(5)]
    baseline = baseline_of(
        {"baseline": {"run": "x", "started": "2026-11-20T08", "targets": targets}}
    )
    assert baseline is not None
    assert baseline.words.startswith("x, B 0, B 1 and 3 more of ")


def test_the_facts_of_a_run_say_what_is_not_known_of_its_baseline() -> None:
    def of(baseline: dict[str, Any] | None) -> str:
        return facts(Run(Path(), "r", {} if baseline is None else {"baseline": baseline}))[
            "baseline"
        ]

    assert of({"run": "last good", **FACTS}) == (
        "last good · Artemis 2.40.0 · started 2026-11-20T08:15:30+00:00 · seed 7 · brokerproof"
        " 0.1.0"
    )
    found = of({"run": "last good", "seed": 7})
    assert found == "last good · seed 7 · not recorded: broker, start, brokerproof's version"
    assert of(None) == "none"


def test_failures_are_new_or_were_there_already() -> None:
    compared = comparison(("c.new", "PASS"), ("c.unjudged", None))
    assert compared.since("t", ["c.new"]) == "new since the baseline"
    assert compared.since("t", ["c.unjudged"]) == "not judged in the baseline"
    assert compared.since("t", ["c.old"]) == "already in the baseline"
    assert compared.since("other", ["c.new"]) == "already in the baseline"
    found = compared.since("t", ["c.new", "c.old", "c.older"])
    assert found == "1 case new since the baseline, 2 cases already in the baseline"


def test_a_failure_of_other_examples_is_new_with_a_reservation() -> None:
    compared = comparison(("c.new", "PASS"), seeds=(7, 8))
    assert compared.since("t", ["c.new"]) == "new since the baseline (which used another seed)"


def test_what_the_run_did_not_record_is_not_said_to_be_old() -> None:
    compared = comparison(("c.new", "PASS"), worse=200)
    assert compared.since("t", ["c.new"]) == "new since the baseline"
    assert "possibly new" in compared.since("t", ["c.other"])
