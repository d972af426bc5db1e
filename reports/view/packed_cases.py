"""Every case in the index as packed data: compressed columns of small numbers, so that a hundred
thousand cases fit on one page."""

import base64
import gzip
import json
from collections.abc import Callable, Collection, Hashable
from typing import Any

from brokerproof.harness.catalogue.areas import Area, area_of
from brokerproof.harness.model.verdicts import Impact
from brokerproof.reports.model.index_model import MEANINGS, VERDICTS, Model
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.model.slugs import plain_slug

DETAIL = 260
"""The maximum number of characters of a case's detail in the list."""


class _Numbers:
    """Gives values numbers, in order of first occurrence."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}

    def __call__(self, thing: Hashable) -> int:
        return self._places.setdefault(thing, len(self._places))

    @property
    def things(self) -> list[Any]:
        return list(self._places)


def listing(model: Model, requirements: Requirements, judged: Collection[str]) -> str:
    """Return the data that ``index.js`` unpacks: JSON, gzip, base64. Cases keep the model's order.
    Requirements that are not ``judged`` have no page."""
    names, details, sets, columns, ids = _Numbers(), _Numbers(), _Numbers(), _Numbers(), _Numbers()
    harms = _Numbers()
    verdicts = {verdict: place for place, verdict in enumerate(VERDICTS)}
    rows = model.cases
    data: dict[str, Any] = {
        "verdict": [verdicts[row.verdict] for row in rows],
        "column": [columns((row.target, row.run)) for row in rows],
        "name": [names(row.case) for row in rows],
        "detail": [details("" if row.verdict == "PASS" else _cut(row.detail)) for row in rows],
        "set": [sets(tuple(ids(requirement) for requirement in row.requirements)) for row in rows],
        "took": [round(row.duration_s * 1000) for row in rows],
        "attempts": [row.attempts for row in rows],
        "impact": [harms(row.impact) for row in rows],
    }
    words = [requirements.find(requirement) for requirement in ids.things]
    areas = list(Area)
    data |= {
        "verdicts": list(VERDICTS),
        "meanings": dict(MEANINGS),
        "columns": [{"target": target, "run": run} for target, run in columns.things],
        "names": names.things,
        "titles": list({row.case: row.title for row in rows}.values()),
        "impacts": harms.things,
        "details": details.things,
        "sets": sets.things,
        "requirements": [
            [
                word.id,
                word.level,
                word.source,
                plain_slug(word.id) if word.id in judged else "",
                areas.index(area_of(word.id)),
                word.title,
            ]
            for word in words
        ],
        "areas": [area.label for area in areas],
        "several": len(model.runs) > 1,
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # Without a timestamp, the same cases always give the same page.
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode()


def choices(model: Model, requirements: Requirements) -> list[tuple[str, str, list[str]]]:
    """Return the filters that are lists. Each has its name in the page's address, a label and
    values."""
    suites: dict[str, None] = {}
    cited: dict[str, None] = {}
    for row in model.cases:
        suites |= {row.case.partition(".")[0]: None}
        cited |= dict.fromkeys(row.requirements)
    words = [
        requirements.find(requirement) for requirement in sorted(cited, key=requirements.place)
    ]

    def values(of: Callable[[Any], str]) -> list[str]:
        return [value for value in dict.fromkeys(map(of, words)) if value]

    targets = dict.fromkeys(bar.column.target for bar in model.bars)
    return [
        ("area", "Area", [area.label for area in Area if area in map(area_of, cited)]),
        ("impact", "Impact", [each for each in Impact if each in {word.impact for word in words}]),
        ("suite", "Suite", sorted(suites)),
        ("level", "Level", values(lambda words: words.level)),
        ("source", "Document", values(lambda words: words.source)),
        ("target", "Target", list(targets)),
    ]


def _cut(detail: str) -> str:
    return detail if len(detail) <= DETAIL else detail[: DETAIL - 1] + "…"
