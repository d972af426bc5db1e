"""The pages of an atlas. All pages are in one folder, so a link is only a name."""

from collections.abc import Iterator
from functools import partial

from brokerproof.harness.catalogue.areas import Area
from brokerproof.harness.results.area_summary import State
from brokerproof.harness.results.behaviour_comparison import side_by_side
from brokerproof.reports.model.atlas import Atlas
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.view.templates import STYLE, THEME, templates

_COLOURS = ("FAIL", "INCONCLUSIVE", "KNOWN", "PASS", "NOTE", "SKIP")
"""The verdicts whose colours are used for the states of an area."""


def pages(atlas: Atlas, data: str, requirements: Requirements) -> Iterator[tuple[str, str]]:
    """Yield each page's name and text. ``data`` names the folder of the tables."""

    def page(template: str, **facts: object) -> str:
        return templates().get_template(template).render(atlas=atlas, **facts)

    loaded = templates().globals
    yield STYLE, str(loaded["style"])
    yield THEME, str(loaded["theme"])
    colours = dict(zip(State, _COLOURS, strict=True))
    yield "index.html", page("atlas.html.j2", areas=list(Area), colours=colours, data=data)
    newest = [broker.newest for broker in atlas.brokers]
    columns = [(judged.release.name, f"{judged.report}/index.html") for judged in newest]
    rows = side_by_side([judged.behaviours for judged in newest])
    words = {"place": "atlas", "back": "All brokers"}
    yield "behaviours.html", page("behaviours.html.j2", rows=rows, columns=columns, **words)
    with_titles = partial(page, find=requirements.find)
    for broker in atlas.brokers:
        yield broker.page, with_titles("atlas_broker.html.j2", broker=broker)
    for change in atlas.changes.values():
        yield change.page, with_titles("atlas_change.html.j2", change=change)
