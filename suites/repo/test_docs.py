"""The documents name files that exist."""

from __future__ import annotations

import re

import pytest

from brokerproof.suites.repo.sources import PACKAGES, ROOT, texts

DOCUMENTS = sorted(
    path for path in texts() if path.endswith(".md") and path not in ("CHANGELOG.md",)
)
NAMED = re.compile(rf"(?<![\w/.])(?:{'|'.join((*PACKAGES, 'benchmarks', 'docs'))})/[\w./-]*[\w/]")


def named(text: str) -> list[str]:
    """The paths below our folders that ``text`` names; patterns are left out."""
    return [
        match.group()
        for match in NAMED.finditer(text)
        if text[match.end() : match.end() + 1] not in ("*", "<", "{", "N", "…")
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_names_files_that_exist(document: str) -> None:
    missing = sorted({path for path in named(texts()[document]) if not (ROOT / path).exists()})
    assert not missing, f"{document} names {', '.join(missing)}: no such file"


def test_a_stale_path_is_seen() -> None:
    assert named("see `harness/words.py` and `fixtures/brokers/*/x.toml`") == ["harness/words.py"]
