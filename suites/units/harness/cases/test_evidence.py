"""A requirement is judged only by observations."""

import pytest

from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.findings import CaseRecord
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Seen


class NoWorld:
    clock = Clock.VIRTUAL

    def now(self) -> int:
        return 0


def judge() -> CaseRecord:
    record = CaseRecord()
    record.world = NoWorld()  # type: ignore[assignment]
    record.cited, record.example_record = ("X-1",), ExampleRecord()
    return record


@pytest.mark.parametrize(
    ("evidence", "seen"),
    [
        (3, Seen.HELD),
        ([0], Seen.HELD),
        (object(), Seen.HELD),
        (0, Seen.NEVER_REACHED),
        (None, Seen.NEVER_REACHED),
        ([], Seen.NEVER_REACHED),
        ("", Seen.NEVER_REACHED),
    ],
)
def test_no_evidence_is_never_reached(evidence: object, seen: Seen) -> None:
    record = judge()
    record.record_held("X-1", evidence, "it was so")
    assert [finding.seen for finding in record.example_record.findings] == [seen]


@pytest.mark.parametrize("condition", [True, False])
def test_a_condition_is_no_evidence(condition: bool) -> None:
    with pytest.raises(ValueError, match="is a condition"):
        judge().record_held("X-1", condition, "it was so")


def test_evidence_of_a_requirement_that_is_not_cited_is_refused() -> None:
    with pytest.raises(ValueError, match="does not cite"):
        judge().record_held("X-2", 1, "it was so")
