"""The cases to run on a mutant: those that execute its line, within its time limit."""

from collections.abc import Iterable, Mapping

from brokerproof.suites.mutation.bytecode.agent import BytecodeMutant
from brokerproof.suites.mutation.bytecode.records import ControlRecord

STARTING = "(start)"
"""In place of a case: the lines that run while the broker starts."""
TURN_S = 25.0
"""Seconds for all cases on one mutant, by their duration on the unchanged broker."""
LONGEST_CASE_S = 15.0
_ENDLESS = "FailureCheckAndFlushThread.run"
"""A loop as long as the broker's life: mutated only if the broker starts with the mutant."""
JUDGING = frozenset({"PASS", "NOTE", "KNOWN", "WARN"})
"""Verdicts on the unchanged broker with which a case can reveal a mutant."""


def covering(
    mutant: BytecodeMutant, controls: Mapping[str, ControlRecord], turn_s: float = TURN_S
) -> list[ControlRecord]:
    """Return the cases that execute the mutant's line and judge the unchanged broker, in the order
    of trial: alternately the shortest cases, which kill most per second, and those that execute the
    fewest lines, which test the line most specifically."""
    able = [
        control
        for control in controls.values()
        if mutant.source_line in control.lines
        and control.verdict in JUDGING
        and control.duration_s <= LONGEST_CASE_S
    ]
    short = sorted(able, key=lambda control: (control.duration_s, control.case))
    special = sorted(able, key=lambda control: (len(control.lines), control.case))
    order = dict.fromkeys(
        control.case for pair in zip(short, special, strict=True) for control in pair
    )
    return within_a_turn((controls[case] for case in order), turn_s)


def within_a_turn(ordered: Iterable[ControlRecord], turn_s: float = TURN_S) -> list[ControlRecord]:
    """Return the first cases, as many as fit into the time limit."""
    chosen: list[ControlRecord] = []
    left = turn_s
    for control in ordered:
        left -= control.duration_s
        if left < 0 and chosen:
            break
        chosen.append(control)
    return chosen


def quickest(controls: Mapping[str, ControlRecord], turn_s: float = TURN_S) -> list[ControlRecord]:
    """Return cases for a mutant whose line runs only at the broker's start, the shortest first."""
    able = [control for control in controls.values() if control.verdict in JUDGING]
    return within_a_turn(
        sorted(able, key=lambda control: (control.duration_s, control.case)), turn_s
    )


def begins_mutated(mutant: BytecodeMutant, is_covered: bool) -> bool:
    """True if the broker must start as the mutant, because the method is not called later."""
    return not is_covered or f"{mutant.class_name}.{mutant.method}".endswith(_ENDLESS)
