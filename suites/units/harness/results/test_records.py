"""Results of a large run are read."""

from pathlib import Path

from brokerproof.harness.model import input_file
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result


def test_results_are_read_beyond_the_size_of_files_that_people_write(tmp_path: Path) -> None:
    line = Result("s.case", "t", ("X-1",), Verdict.PASS, "seen", ()).line().encode()
    with (tmp_path / records.NAME).open("wb") as file:
        file.write(line + b"\n")
        file.write(b"x" * input_file.MOST_BYTES)  # torn by a kill
    assert [result.case for result in records.read(tmp_path)] == ["s.case"]
