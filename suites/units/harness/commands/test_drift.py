"""Inferred parameters compared with those inferred earlier."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.commands import drift, errors


def row(
    low: float | None = None, high: float | None = None, choice: str | None = None
) -> dict[str, Any]:
    return {
        "parameter": "connection_ttl_ms",
        "low": low,
        "high": high,
        "choice": choice,
        "unit": "ms",
        "how": "why not",
    }


@pytest.mark.parametrize(
    ("before", "now", "sentence"),
    [
        (row(1000, 1100), row(1050, 1200), None),
        (row(1000, 1100), row(1100, None), None),
        (row(1000, 1100), row(1101, 1200), "was 1000 to 1100 ms and is 1101 to 1200 ms"),
        (row(1000, 1100), row(None, 900), "was 1000 to 1100 ms and is at most 900 ms"),
        (row(5, 5), row(6, 6), "was 5 ms and is 6 ms"),
        (row(choice="PAGE"), row(choice="PAGE"), None),
        (row(choice="PAGE"), row(choice="DROP"), "was PAGE and is DROP"),
        (row(1000, None), row(), "was at least 1000 ms and is no longer measured (why not)"),
        (row(), row(1, 2), None),
    ],
)
def test_values_that_exclude_each_other_are_drift(
    before: dict[str, Any], now: dict[str, Any], sentence: str | None
) -> None:
    expected = [] if sentence is None else [f"connection_ttl_ms {sentence}"]
    assert list(drift.between([before], [now])) == expected


@pytest.mark.parametrize("content", ["{}", "[1]", '[{"parameter": 3}]', "no", '[{"low": "x"}]'])
def test_what_infer_did_not_print_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "before.json"
    path.write_text(content)
    with pytest.raises(errors.Usage, match=r"before\.json"):
        drift.read(path)
    path.write_text(json.dumps([row(1, 2)]))
    assert drift.read(path) == [row(1, 2)]
