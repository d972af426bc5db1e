"""The report in a real Chromium: filters and the address, both widths, the keyboard, the screen
reader's view, and print.

They need Chromium and are not collected by default: name the file, or run ``tox -e browser``. With
``BROKERPROOF_SHOTS=FOLDER`` they leave pictures of each page there, at both widths, light and dark.
"""

import html
import os
import re
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from brokerproof.harness.catalogue.requirements import load
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import never_reached
from brokerproof.harness.targets import npm
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.reports.assembly.pipeline import build
from brokerproof.reports.assembly.tasks import SparkTasks
from brokerproof.reports.model.requirements import Requirements
from brokerproof.reports.sources.runs import open_runs
from brokerproof.reports.spark.session import context
from brokerproof.suites.browser.devtools import Browser
from brokerproof.suites.units.drivers.synthetic_run import full_run, header, write_header

DESKTOP, PHONE = 1400, 390
MANY = 1200
HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("reports")
    requirements = Requirements(load().values())
    full = full_run(folder / "full")
    write_header(folder / "many", header("many"))
    ids = list(load())
    lines = [
        Result(
            f"{('stomp', 'flow')[number % 2]}.part.case_{number:04}",
            "reference",
            (ids[number % 50],),
            Verdict.FAIL if number % 100 == 0 else Verdict.PASS,
            f"{HOSTILE} {number}" if number % 100 == 0 else "",
            never_reached((ids[number % 50],), Verdict.INCONCLUSIVE, ""),
            duration_s=number / 1000,
        ).line()
        for number in range(MANY)
    ]
    (folder / "many" / "results.ndjson").write_text("\n".join(lines) + "\n", "utf-8")
    with context(brief=True) as spark:
        for run in (full, folder / "many"):
            build(SparkTasks(spark), open_runs([run]), run / "report", requirements)
    return full / "report", folder / "many" / "report"


@pytest.fixture
def full(reports: tuple[Path, Path]) -> Path:
    return reports[0]


@pytest.fixture
def many(reports: tuple[Path, Path]) -> Path:
    return reports[1]


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser() as chromium:
        chromium.look(width=DESKTOP)
        yield chromium


def index(browser: Browser, report: Path, fragment: str = "") -> None:
    """Open the index and wait until its list is unpacked."""
    browser.open(report / "index.html", fragment)
    browser.wait_for("'ready' in document.documentElement.dataset")


FAILING = urlencode(
    {"case": "stomp.liveness.a_silent_connection_is_closed[1.2]", "target": "artemis"}
)


def opened(browser: Browser, page: Path, fragment: str = FAILING) -> None:
    """Open a page and wait until it is ready; for a case, the page of a failed one."""
    drawn = page.name == "case.html"
    browser.open(page, fragment if drawn else "")
    if drawn:
        browser.wait_for("'ready' in document.documentElement.dataset")


def every(browser: Browser, selector: str, value: str) -> list[Any]:
    """Return the value of an expression for ``each`` element."""
    script = f"[...document.querySelectorAll({selector!r})].map(each => {value})"
    values: list[Any] = browser.run(script)
    return values


def names(browser: Browser) -> list[str]:
    """Return the ids of the listed cases, which appear below their titles."""
    return every(
        browser, "#rows tbody th", "(each.querySelector('.mono') || each.firstChild).textContent"
    )


def requirements(browser: Browser) -> list[str]:
    return every(browser, "#matrix tr[data-id]:not([hidden])", "each.dataset.id")


def fragment(browser: Browser) -> str:
    """Return the fragment of the page's address, the part after #."""
    return str(browser.run("location.hash.slice(1)"))


def status(browser: Browser) -> str:
    """Return the filters as a screen reader presents them."""
    browser.wait_for("document.getElementById('status').textContent")
    return str(browser.run("document.getElementById('status').textContent"))


def failures(browser: Browser) -> list[Any]:
    return [
        event
        for event in browser.events
        if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
    ]


def test_a_shared_address_shows_what_its_sender_saw(full: Path, browser: Browser) -> None:
    index(browser, full, "verdict=FAIL,KNOWN&suite=stomp&level=DOC")
    assert names(browser) == [
        "stomp.liveness.a_silent_connection_is_closed[1.2]",
        "stomp.liveness.the_ttl_follows_the_arithmetic",
    ]
    pressed = every(browser, "button[aria-pressed=true]", "each.dataset.verdict")
    assert pressed == ["FAIL", "KNOWN"]
    assert browser.run(
        "[document.getElementById('suite').value, document.getElementById('level').value]"
    ) == ["stomp", "DOC"]
    assert requirements(browser) == ["ARTEMIS-STOMP-ttl-3"]
    assert status(browser).startswith("2 of 16 results, 1 of ")
    index(browser, full, "verdict=FAIL&impact=disconnect")
    assert names(browser) == ["stomp.liveness.a_silent_connection_is_closed[1.2]"]
    index(browser, full, "verdict=FAIL&impact=loss")
    assert names(browser) == []
    assert failures(browser) == []


def test_a_link_that_filters_leads_to_the_list(full: Path, many: Path, browser: Browser) -> None:
    top = "Math.round(document.getElementById('cases').getBoundingClientRect().top)"
    index(browser, many, "text=case_07")
    assert 0 <= browser.run(top) < 40
    assert browser.run("document.activeElement.id") == "rows"
    index(browser, full)
    browser.run("scrollTo(0, 0)")
    browser.run("document.querySelectorAll('table.areas')[1].querySelector('th a').click()")
    browser.wait_for(f"{top} < 40")
    assert browser.run("document.activeElement.id") == "rows"
    assert browser.run("document.getElementById('area').value") == "heartbeats and TTL"
    assert len(names(browser)) == 3
    assert set(requirements(browser)) == {"STOMP12-HB-04", "ARTEMIS-STOMP-ttl-3"}


def test_the_word_broken_leads_to_the_cause(full: Path, browser: Browser) -> None:
    index(browser, full)
    browser.run("document.querySelector('table.areas a.v.FAIL').click()")
    browser.wait_for("location.hash.startsWith('#cause-')")
    assert browser.run("document.querySelector(location.hash).textContent.includes('observed')")


def test_what_is_wrong_is_on_the_first_screen(full: Path, browser: Browser) -> None:
    browser.look(width=DESKTOP, height=1000)
    index(browser, full)
    first, second = every(browser, "tr.worst", "each.getBoundingClientRect().bottom")
    assert first < second < 1000


def test_long_sections_are_folded_on_a_phone_and_their_links_unfold_them(
    full: Path, browser: Browser
) -> None:
    index(browser, full)
    assert every(browser, "details.fold", "each.open") == [True, True, True]
    browser.look(width=PHONE)
    index(browser, full)
    assert every(browser, "details.fold", "each.open") == [False, False, False]
    browser.run("document.querySelector('nav.toc a[href=\\'#requirements\\']').click()")
    browser.wait_for("document.querySelector('details.fold').open")
    index(browser, full, "skipped")
    assert every(browser, "details.fold", "each.open") == [False, False, True]


def test_filters_go_into_the_address_and_come_back(full: Path, browser: Browser) -> None:
    index(browser, full)
    assert len(names(browser)) == 16
    browser.run("document.getElementById('text').focus()")
    browser.type("silent 9000")
    assert fragment(browser) == "text=silent+9000"
    assert names(browser) == ["stomp.liveness.a_silent_connection_is_closed[1.2]"]
    browser.run("document.querySelector('button[data-verdict=PASS]').click()")
    assert fragment(browser) == "verdict=PASS&text=silent+9000"
    assert names(browser) == []
    assert browser.run("document.getElementById('rows').textContent").endswith(
        "No result fits these filters."
    )
    browser.run("document.getElementById('reset').click()")
    assert (fragment(browser), len(names(browser))) == ("", 16)
    browser.run("location.hash = 'target=reference'")
    browser.wait_for("document.querySelectorAll('#rows tbody tr').length === 8")
    hidden = every(browser, "#matrix section:not([hidden]) thead th.cell", "each.hidden")
    assert set(zip(*[iter(hidden)] * 2, strict=True)) == {(False, True)}


def test_what_sets_targets_apart_is_found(full: Path, browser: Browser) -> None:
    index(browser, full, "differ=1&target=artemis&verdict=FAIL")
    assert requirements(browser) == ["ARTEMIS-STOMP-ttl-3", "ARTEMIS-STOMP-window-2"]
    browser.run("document.getElementById('differ').click()")
    assert fragment(browser) == "verdict=FAIL&target=artemis"


def test_the_list_is_turned_and_sorted_by_the_keyboard_alone(many: Path, browser: Browser) -> None:
    index(browser, many)
    assert len(names(browser)) == 100
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.className") == "skip"
    browser.run("document.querySelector('th[data-sort=took] button').focus()")
    browser.press("Enter", 13)
    browser.press("Enter", 13)
    assert fragment(browser) == "sort=-took"
    assert (
        browser.run("document.querySelector('th[data-sort=took]').getAttribute('aria-sort')")
        == "descending"
    )
    assert names(browser)[0] == f"flow.part.case_{MANY - 1}"
    browser.run("document.getElementById('next').focus()")
    browser.press("Enter", 13)
    assert fragment(browser) == "sort=-took&page=2"
    assert names(browser)[0] == f"flow.part.case_{MANY - 101}"
    assert (
        browser.run("document.getElementById('where').textContent") == "Results 101 to 200 of 1200"
    )


def test_the_page_of_a_case_is_drawn_from_a_disk(many: Path, browser: Browser) -> None:
    index(browser, many, "text=case_0777")
    link = browser.run("document.querySelector('#rows tbody a').getAttribute('href')")
    path, _, named = link.partition("#")
    assert (path, named) == ("case.html", "case=flow.part.case_0777&target=reference")
    opened(browser, many / path, named)
    assert browser.run("document.querySelector('h1').textContent") == "flow.part.case_0777"
    browser.run("location.hash = 'case=nowhere&target=reference'")
    browser.wait_for("document.getElementById('main').textContent.includes('no such case')")
    assert failures(browser) == []


def test_the_page_of_a_case_has_drawings_log_and_ways_to_contest(
    full: Path, browser: Browser
) -> None:
    opened(browser, full / "case.html", FAILING)
    assert every(browser, "svg", "each.classList[0]") == ["gauge", "axis", "sequence"]
    shown = browser.run("document.getElementById('main').textContent")
    for part in (
        "stays silent is closed after its TTL, neither earlier nor later.",
        "ARTEMIS-STOMP-ttl-3",
        "2 s to 4 s",
        "4.999 s outside",
        "17 heartbeats",
        "<script>alert(1)</script>",
        r"AMQ229014: no data\n\x00\xff<b>",
        "Connection 1 was closed by the broker at 9 s, right after it sent ERROR.",
        "If you think this is wrong",
        "[[deviation]]",
    ):
        assert part in shown
    assert browser.run("document.querySelectorAll('main script, main b b').length") == 0
    assert failures(browser) == []


def test_the_page_of_a_failure_says_how_certain_it_is_and_leads_to_what_checks_it(
    full: Path, browser: Browser
) -> None:
    opened(browser, full / "case.html", FAILING)
    certain = browser.run("document.querySelector('.certainty').textContent")
    assert "controls that held" in certain
    headings = every(browser, "h2", "each.textContent")
    assert headings.index("How certain this is") < headings.index("What crossed the wire")
    browser.run("document.querySelector('a[data-section=contest]').click()")
    assert browser.run("document.activeElement.textContent") == "If you think this is wrong"
    assert fragment(browser) == FAILING


def test_opening_a_case_neither_scrolls_nor_draws_a_frame(full: Path, browser: Browser) -> None:
    browser.look(width=DESKTOP, height=500)
    opened(browser, full / "case.html", FAILING)
    assert browser.run("[document.activeElement.id, scrollY]") == ["main", 0]
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "none"


def test_drawings_fit_a_phone_or_say_that_they_scroll(full: Path, browser: Browser) -> None:
    browser.look(width=PHONE)
    opened(browser, full / "case.html", FAILING)
    figures = browser.run(
        "[...document.querySelectorAll('.figure')].filter(each => each.offsetParent)"
        ".map(each => [each.scrollWidth > each.clientWidth + 1,"
        " getComputedStyle(each, '::before').content !== 'none'])"
    )
    assert figures
    assert all(is_wide == is_told for is_wide, is_told in figures)
    assert figures[0] == [False, False]


def test_where_the_page_of_a_case_was_leads_to_it(full: Path, browser: Browser) -> None:
    moved = next((full / "cases").glob("artemis-*silent-connection*.html"))
    address = re.search(r"url=([^\"]+)\"", moved.read_text("utf-8"))
    assert address is not None
    page, _, named = html.unescape(address[1]).partition("#")
    opened(browser, (moved.parent / page).resolve(), named)
    assert browser.run("document.title").startswith("FAIL: stomp.liveness.a_silent_connection")


def test_nothing_that_a_broker_said_becomes_markup(many: Path, browser: Browser) -> None:
    index(browser, many, "verdict=FAIL")
    assert HOSTILE in browser.run("document.querySelector('#rows .detail').textContent")
    assert browser.run("document.images.length") == 0
    assert browser.run("document.title") != "1"


PAGES = (
    "summary.html",
    "index.html",
    "targets/artemis.html",
    "requirements/ARTEMIS-STOMP-ttl-3.html",
    "findings.html",
    "case.html",
)


def pages(report: Path) -> list[Path]:
    return [report / page for page in PAGES]


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_its_window(
    full: Path, browser: Browser, width: int, scheme: str
) -> None:
    browser.look(width=width, scheme=scheme)
    for page in pages(full):
        opened(browser, page)
        assert browser.run("document.documentElement.scrollWidth") <= width, page.name
        dark = browser.run(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 80"
        )
        assert dark is (scheme == "dark")
        if folder := os.environ.get("BROKERPROOF_SHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            browser.shot(
                Path(folder) / f"{page.parent.name}-{page.stem[:30]}-{width}-{scheme}.png",
                whole=True,
            )


def test_a_target_stays_within_its_card(full: Path, browser: Browser) -> None:
    """With three or more targets, each card is 340 pixels wide."""
    index(browser, full)
    reason = "no statistics (add <statisticsBrokerPlugin/> to the broker's plugins)"
    browser.run("document.querySelector('.cards').style.gridTemplateColumns = 'repeat(3, 340px)'")
    browser.run(
        "document.querySelectorAll('.card table.areas td:last-child')"
        f".forEach(why => why.textContent = {reason!r})"
    )
    beyond = (
        "[...document.querySelectorAll('.card')].map(card => [...card.querySelectorAll('*')]"
        ".filter(part => part.getBoundingClientRect().right"
        " > card.getBoundingClientRect().right).length)"
    )
    assert set(browser.run(beyond)) == {0}


def test_the_theme_can_be_chosen(full: Path, browser: Browser) -> None:
    index(browser, full)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(colour)
    browser.run("document.getElementById('theme').click()")
    assert browser.run("document.getElementById('theme').textContent") == "Theme: light"
    browser.run("document.getElementById('theme').click()")
    assert browser.run(colour) != light


def test_a_screen_reader_is_told_what_everything_is(full: Path, browser: Browser) -> None:
    for page in pages(full):
        opened(browser, page)
        tree = browser.tree()
        roles = [node["role"]["value"] for node in tree]
        assert {"main", "heading", "banner", "contentinfo"} <= set(roles), page.name
        assert roles.count("main") == 1
        nameless = [
            node["role"]["value"]
            for node in tree
            if node["role"]["value"] in ("link", "button", "searchbox", "combobox", "image")
            and not node.get("name", {}).get("value")
        ]
        assert nameless == [], page.name
        levels = every(browser, "h1,h2,h3", "+each.tagName[1]")
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels)), page.name
        assert all(every(browser, "th", "each.scope")), page.name
        ids = every(browser, "[id]", "each.id")
        assert len(ids) == len(set(ids)), page.name


AXE = "4.14.1"
"""axe-core's rules for WCAG 2.2 and good practice."""


def axe() -> str:
    """Return the path of axe-core's script in the cache; if it is missing, npm installs it."""

    def make(folder: Path) -> Path:
        npm.call(["pack", f"axe-core@{AXE}"], folder, f"axe-core {AXE}")
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extract("package/axe.min.js", folder, filter="data")
        return folder / "package" / "axe.min.js"

    return once(cache_folder() / "npm" / f"axe-core-{AXE}.min.js", make).read_text("utf-8")


AXE_VIOLATIONS = """axe.run().then(result => result.violations.map(
  rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 200))]))"""


@pytest.mark.parametrize(
    ("width", "scheme"), [(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")]
)
def test_axe_has_no_complaint(full: Path, browser: Browser, width: int, scheme: str) -> None:
    browser.look(width=width, scheme=scheme)
    for page in pages(full):
        opened(browser, page)
        browser.run(f"{axe()};0")
        assert browser.run(AXE_VIOLATIONS) == [], page.name


CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const part = each => (each /= 255) <= .03928 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4;
  const luminance = colours => {
    canvas.clearRect(0, 0, 1, 1);
    colours.forEach(colour => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); });
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(part);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const texts = [...document.querySelectorAll('body *')].filter(each => each.firstChild && each.firstChild.nodeType === 3
    && each.firstChild.textContent.trim()
    && (each.closest('svg') ? each.matches('text') : each.offsetParent && !each.disabled));
  return texts.map(each => {
    const behind = [];
    for (let at = each; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const own = getComputedStyle(each), colour = each.matches('text') ? own.fill : own.color;
    const [a, b] = [luminance(behind), luminance([...behind, colour])];
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), each.className + ' ' + each.textContent.trim().slice(0, 30)];
  }).filter(([ratio]) => ratio < 4.5).slice(0, 5);
})()"""  # noqa: E501
"""Finds texts, also in drawings, with less contrast than WCAG 2.2 requires (AA, 4.5 to 1)."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(
    full: Path, browser: Browser, scheme: str
) -> None:
    browser.look(scheme=scheme)
    for page in pages(full):
        opened(browser, page)
        assert browser.run(CONTRAST) == [], page.name


def test_what_is_out_of_sight_is_told_all_the_same(full: Path, browser: Browser) -> None:
    """The browser lays out the parts of the matrix outside the window once it is idle; then a
    screen reader can see them."""
    browser.look(height=500)
    index(browser, full)
    browser.wait_for("!document.querySelector('#matrix section:not(.told)')")
    link_names = {
        node["name"]["value"]
        for node in browser.tree()
        if node["role"]["value"] == "link" and node.get("name")
    }
    rows = requirements(browser)
    assert rows
    assert set(rows) <= link_names
    regions = [
        node["name"]["value"] for node in browser.tree() if node["role"]["value"] == "region"
    ]
    assert any(name.startswith("Requirements of STOMP 1.2") for name in regions)


def test_on_a_phone_every_letter_of_the_matrix_says_whose_it_is(
    full: Path, browser: Browser
) -> None:
    browser.look(width=PHONE)
    index(browser, full)
    cells = every(
        browser, "#matrix tr[data-id] td.cell", "getComputedStyle(each, '::before').content"
    )
    assert cells[:2] == ['"reference"', '"artemis"']
    wide = every(browser, "#matrix section", "each.scrollWidth > each.clientWidth")
    assert not any(wide)


def test_focus_stays_with_whoever_filters_and_is_seen(many: Path, browser: Browser) -> None:
    index(browser, many)
    browser.run("document.getElementById('text').focus()")
    browser.type("case_07")
    assert browser.run("document.activeElement.id") == "text"
    browser.press("Tab", 9)
    assert browser.run("document.activeElement.id") == "reset"
    outline = "(style => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2)"
    assert browser.run(f"{outline}(getComputedStyle(document.activeElement))")
    browser.press("Enter", 13)
    assert browser.run("[document.activeElement.id, document.getElementById('text').value]") == [
        "text",
        "",
    ]
    assert all(every(browser, "input, select", "!!(each.labels.length || each.ariaLabel)"))


def test_pages_print(full: Path, many: Path, browser: Browser, tmp_path: Path) -> None:
    browser.look(media="print", scheme="dark")
    for page in [*pages(full), many / "summary.html"]:
        opened(browser, page)
        shown = every(browser, "button, .tools, .pager", "each.offsetParent && !each.closest('th')")
        assert not any(shown), page.name
        assert (
            browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )
        browser.printed(tmp_path / "page.pdf")
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
        sheets = re.findall(rb"/Type /Page\b", (tmp_path / "page.pdf").read_bytes())
        if page.name == "summary.html":
            assert len(sheets) == 1
        if page.name == "case.html":
            assert len(sheets) <= 4
            clipped = "each.offsetParent && each.scrollHeight > each.clientHeight + 1"
            assert not any(every(browser, "main pre", clipped))
