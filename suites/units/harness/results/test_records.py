"""Reading the results of a large run."""

from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.model import input_file
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result, UnreadableResults, Unrecorded


def test_results_are_read_beyond_the_size_of_files_that_people_write(tmp_path: Path) -> None:
    line = Result("s.case", "t", ("X-1",), Verdict.PASS, "seen", ()).line().encode()
    with (tmp_path / records.NAME).open("wb") as file:
        file.write(line + b"\n")
        file.write(b"x" * input_file.MOST_BYTES)  # torn by a kill
    assert [result.case for result in records.read(tmp_path)] == ["s.case"]


@pytest.mark.parametrize("count", [2**63, -1])
@pytest.mark.parametrize("of", ["unrecorded", "situations", "amounts"])
def test_a_count_that_no_table_holds_is_refused_in_a_sentence(
    of: str, count: int, tmp_path: Path
) -> None:
    values: dict[str, Any] = {of: Unrecorded(count) if of == "unrecorded" else {"seen": count}}
    result = Result("s.case", "t", ("X-1",), Verdict.PASS, "seen", **values)
    (tmp_path / records.NAME).write_text(result.line() + "\n")
    with pytest.raises(UnreadableResults, match=r"line 1: is not a result \(.* out of range\)"):
        list(records.read(tmp_path))
