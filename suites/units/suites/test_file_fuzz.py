"""Readers of files, tested with damaged files: new ones in every run, and all earlier findings."""

import secrets
from pathlib import Path

import pytest

from brokerproof.suites.fuzz import run
from brokerproof.suites.fuzz.file_readers import READERS, BadRefusal, Reader, check_sentence
from brokerproof.suites.fuzz.file_readers import try_one as tried

INPUTS = 25
"""Fresh inputs for each reader in every run."""
BY_NAME = {reader.name: reader for reader in READERS}
VECTORS = sorted(path for path in run.vectors().glob("*/*") if path.is_file())


@pytest.mark.parametrize("reader", READERS, ids=BY_NAME)
def test_fresh_damage_is_read_or_refused_in_a_sentence(reader: Reader) -> None:
    seed = secrets.token_hex(8)
    outcomes, findings = run.fuzz(reader, seed, 0, INPUTS)
    assert not findings, (
        f"python -m brokerproof.suites.fuzz.run --reader {reader.name} --seed {seed} makes it again"
        f" and keeps it: {findings[0].number} ({findings[0].made_by}): {findings[0].problem}"
    )
    assert outcomes.total() == INPUTS


@pytest.mark.parametrize("reader", READERS, ids=BY_NAME)
def test_a_seed_is_read(tmp_path: Path, reader: Reader) -> None:
    if reader.prepare is not None:
        reader.prepare(tmp_path)
    assert "" in {tried(reader, tmp_path, seed) for seed in reader.seeds()}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_went_wrong_is_read_or_refused_in_a_sentence(
    tmp_path: Path, vector: Path
) -> None:
    reader = BY_NAME[vector.parent.name]
    if reader.prepare is not None:
        reader.prepare(tmp_path)
    tried(reader, tmp_path, vector.read_bytes())


@pytest.mark.parametrize("text", ["", "two\nlines", "x" * 2000])
def test_a_refusal_that_is_no_sentence_is_a_finding(text: str) -> None:
    with pytest.raises(BadRefusal):
        check_sentence(ValueError(text))


def test_an_input_can_be_made_again() -> None:
    reader = BY_NAME["results"]
    assert run.made(reader, "a", 1) == run.made(reader, "a", 1) != run.made(reader, "a", 2)


def test_a_worker_that_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = BY_NAME["inferred"]
    made = run.made

    def deadly(reader: Reader, seed: str, number: int) -> tuple[bytes, str]:
        if number == 1:
            raise SystemExit(9)
        return made(reader, seed, number)

    monkeypatch.setattr(run, "_input", deadly)
    outcomes, findings = run.fuzz(reader, "a", 0, 3)
    assert [finding.number for finding in findings] == [1]
    assert outcomes.total() == 3
