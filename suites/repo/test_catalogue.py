"""The requirement catalogue, compared with everything that refers to it: cases, the broker, and
lists of known deviations."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

from brokerproof.harness.cases.case import registry
from brokerproof.harness.cases.client_trials import TRIALS
from brokerproof.harness.catalogue import behaviours, coverage, deviations, profiles, requirements
from brokerproof.harness.catalogue.capabilities import listed
from brokerproof.harness.catalogue.cases import CaseInfo, citations, describe, import_suites
from brokerproof.harness.targets import shipped_targets, target_file
from brokerproof.harness.targets.target import RECONFIGURABLE, Identity
from brokerproof.harness.targets.target_file import CLIENT_CLOCKS, SOCKETS
from brokerproof.suites.repo import deciding_sentences, quotations
from brokerproof.suites.repo.sources import ROOT, modules, texts

CATALOGUE = requirements.load()
FIXTURES = ROOT / "fixtures"

COUNTS = {
    "amqp091": 115,
    "amqp10": 270,
    "artemis-concepts": 4,
    "artemis-connection-ttl": 3,
    "artemis-crossing": 6,
    "artemis-expiry": 1,
    "artemis-filter": 5,
    "artemis-flow": 22,
    "artemis-grouping": 1,
    "artemis-paging": 17,
    "artemis-redelivery": 4,
    "artemis-ring": 2,
    "artemis-sends": 3,
    "artemis-stomp": 37,
    "activemq-order": 1,
    "activemq-pfc": 13,
    "activemq-stomp": 3,
    "artemis-tls": 6,
    "openwire": 28,
    "rabbitmq-amqp091": 31,
    "rabbitmq-flow": 15,
    "rabbitmq-stomp": 4,
    "rfc6455": 34,
    "stomp10": 55,
    "stomp11": 133,
    "stomp12": 166,
}
"""The number of statements by document. Update it when you add or remove one."""

STRENGTH = {
    "MUST": (
        "MUST",
        "MUST NOT",
        "MUST never",
        "REQUIRED",
        "SHALL",
        "SHALL NOT",
        "must",
        "required",
    ),
    "SHOULD": ("SHOULD", "SHOULD NOT", "RECOMMENDED", "should", "recommended"),
    "MAY": ("MAY", "OPTIONAL", "CAN", "may", "can"),
}


@cache
def cases() -> dict[str, CaseInfo]:
    import_suites()
    return describe(registry().values())


def test_no_statement_got_lost() -> None:
    counts = {document.name: 0 for document in CATALOGUE.documents}
    for requirement in CATALOGUE.values():
        counts[requirement.document.name] += 1
    assert counts == COUNTS, (
        "the number of statements changed: correct COUNTS in this file and say why in the commit"
    )


@pytest.mark.parametrize("requirement", CATALOGUE.values(), ids=lambda requirement: requirement.id)
def test_a_statement_is_one_plain_sentence_or_two(requirement: requirements.Requirement) -> None:
    for text in (requirement.statement, requirement.note, requirement.why_not):
        assert "\n" not in text, f"{requirement.where}: write {requirement.id} on one line"
        assert "  " not in text, f"{requirement.where}: {requirement.id} has two blanks in a row"
        assert not text or text.endswith("."), (
            f"{requirement.where}: {requirement.id} should end with a period"
        )
    assert len(requirement.statement) <= 300, (
        f"{requirement.where}: {requirement.id} is long; say it shorter"
    )


@pytest.mark.parametrize("document", CATALOGUE.documents, ids=lambda document: document.name)
def test_titles_are_headings_and_impacts_are_named(document: requirements.Document) -> None:
    rows = [row for row in CATALOGUE.values() if row.document is document]
    titles = Counter(row.title for row in rows if row.title)
    wrong = [
        row.id
        for row in rows
        if len(row.title) > 60 or row.title.endswith(".") or titles[row.title] > 1
    ]
    assert not wrong, (
        f"{', '.join(wrong)}: a title has at most 60 characters, no period at its end, and no"
        " second row of its document"
    )
    bare = [row.id for row in rows if not (row.title and row.impact)]
    assert not bare, f"{', '.join(bare)}: write title and impact"


def test_levels_follow_the_words_of_the_document() -> None:
    meant = {verb: level for level, verbs in STRENGTH.items() for verb in verbs}
    wrong = [
        f"{requirement.id} has {requirement.verb!r} and level {requirement.level}"
        for requirement in CATALOGUE.values()
        if requirement.profile is None
        and requirement.verb in meant
        and meant[requirement.verb] != requirement.level
        and not requirement.note
    ]
    assert not wrong, f"{'; '.join(wrong)}: follow the word, or say in a note why not"


OBLIGED_ELSEWHERE = {
    "AMQP091-FRAME-09": "the quotation explains the reply code that the sentence asks for",
    "RFC6455-HS-05": "the quotation is the computation, the sentence before it says MUST",
}
"""Rows whose quotation lacks a word like MUST, and why."""


def test_a_quotation_has_the_word_that_obliges() -> None:
    wrong = [
        f"{requirement.id}: {requirement.verb} is not in {requirement.quotation!r}"
        for requirement in CATALOGUE.values()
        if requirement.quotation and requirement.verb in STRENGTH["MUST"] + STRENGTH["SHOULD"]
        if requirement.verb.lower() not in requirement.quotation.lower()
        if requirement.verb[0].isupper() and requirement.id not in OBLIGED_ELSEWHERE
    ]
    assert not wrong, f"{'; '.join(wrong)}: quote the word, or say where it stands"


def test_every_section_is_used() -> None:
    for document in CATALOGUE.documents:
        used = {
            requirement.section
            for requirement in CATALOGUE.values()
            if requirement.document is document
        }
        idle = document.anchors.keys() - used
        assert not idle, (
            f"fixtures/requirements/{document.name}.toml: no statement stands in"
            f" {', '.join(sorted(idle))}"
        )


def test_ids_within_a_group_have_no_gaps() -> None:
    groups: dict[str, list[int]] = {}
    for id in CATALOGUE:
        group, _, number = id.rpartition("-")
        groups.setdefault(group, []).append(int(number))
    torn = {
        group: sorted(numbers)
        for group, numbers in groups.items()
        if sorted(numbers) != list(range(1, len(numbers) + 1))
    }
    assert not torn, (
        f"{torn}: numbers run from 1 without gaps; a retired id keeps its place with testable ="
        " false"
    )


def test_cases_cite_what_the_catalogue_has() -> None:
    wrong = coverage.unknown(CATALOGUE, citations(cases()))
    assert not wrong, "; ".join(wrong)


def test_cases_cite_a_specification_in_the_version_they_run_in() -> None:
    import_suites()
    wrong = [
        f"{case.name}[{version}] cites {cited} of {CATALOGUE[cited].source}"
        for case in registry().values()
        for version, ids in case.by_version.items()
        for cited in ids
        if version is not None
        and cited in CATALOGUE
        and CATALOGUE[cited].version not in ("*", version)
    ]
    assert not wrong, f"{'; '.join(wrong)}: cite the requirement of that version"


def test_every_must_has_a_case_or_a_reason() -> None:
    missing, _ = coverage.disagreements(CATALOGUE, citations(cases()), coverage.load_listed())
    entries = "\n".join(coverage.entry(id, f"WHY: {CATALOGUE[id].statement}") for id in missing)
    assert not missing, (
        f"{len(missing)} testable MUST or DOC requirements have no case. Write one, or add to "
        f"fixtures/requirements/{requirements.UNCOVERED}, with a reason of your own:\n{entries}"
    )


def test_the_uncovered_list_only_shrinks() -> None:
    _, surplus = coverage.disagreements(CATALOGUE, citations(cases()), coverage.load_listed())
    assert not surplus, (
        f"fixtures/requirements/{requirements.UNCOVERED} is out of date; remove what is said of"
        f" each: {'; '.join(surplus)}"
    )


def test_reasons_are_reasons() -> None:
    idle = [
        id
        for id, reason in coverage.load_listed().items()
        if reason.startswith("WHY") or len(reason) < 15
    ]
    assert not idle, f"{', '.join(idle)}: say why there is no case, not what the requirement says"


def test_capabilities_that_cases_need_can_be_had() -> None:
    offered = {RECONFIGURABLE, CLIENT_CLOCKS, SOCKETS}.union(
        *(profiles.load(name).capabilities for name in profiles.names())
    )
    added = re.compile(r"add_capabilities\s*=\s*\[([^\]]*)\]")
    for path in sorted(FIXTURES.glob("brokers/*/*.target.toml")):
        text = path.read_text()
        offered |= {"login"} if re.search(r"^login\s*=", text, re.MULTILINE) else set()
        for names in added.findall(text):
            offered |= set(re.findall(r'"([^"]+)"', names))
    wrong = [
        f"{case.id} needs {', '.join(sorted(case.needs - offered))}"
        for case in cases().values()
        if case.needs - offered
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}: no profile or target file offers that, so the case never runs"
    )


VIRTUAL = {RECONFIGURABLE, "readings"}
"""Capabilities of the reference broker in virtual time only: no real broker can offer them."""


def absent_without_a_reason(identity: Identity, needed: Collection[str]) -> list[str]:
    """Return the needed capabilities that a target lacks for none of the documented reasons."""
    return sorted(
        name
        for name in needed - identity.capabilities - identity.absent.keys() - VIRTUAL
        if listed()[name].family in ("", identity.profile.name)
    )


def test_a_duty_of_one_side_is_judged_on_that_side() -> None:
    other = {True: "server", False: "client"}
    wrong = [
        f"{name} cites {requirement}"
        for name, case in cases().items()
        for requirement in case.requirements
        if CATALOGUE[requirement].subject == other[bool(TRIALS & set(case.needs))]
    ]
    assert not wrong, f"{'; '.join(wrong)}: that is a duty of the other side alone"


def test_real_brokers_lack_capabilities_for_a_reason() -> None:
    needed = {name for case in cases().values() for name in case.needs} - TRIALS
    wrong = [
        f"{name} lacks {', '.join(unexplained)}"
        for name, path in shipped_targets.paths().items()
        if path.parent.name != "reference"
        if (unexplained := absent_without_a_reason(target_file.load(name).identity, needed))
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}: write in [not_offered] of the profile or target file why, and where"
        " that is documented; or name in judged_on the target on which it is judged"
    )


def test_what_is_judged_on_another_target_is_judged_there() -> None:
    identities = {name: target_file.load(name).identity for name in shipped_targets.paths()}
    wrong = [
        f"{name}: {capability} on {other}"
        for name, identity in identities.items()
        for capability, other in identity.judged_on.items()
        if capability not in identities[other].capabilities
        or identities[other].profile.name != identity.profile.name
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}: that target lacks the capability, or is another family's"
    )


EXERCISE = ("CONTRIBUTING.md", "STOMP12-READING-RCPT-01")
"""The row that new contributors add as an exercise and then discard."""


def test_ids_named_in_code_and_documents_exist() -> None:
    prefixes = "|".join(re.escape(document.prefix) for document in CATALOGUE.documents)
    mention = re.compile(rf"\b(?:{prefixes})(?:-[A-Za-z0-9]+)*-[0-9]+\b")
    paths = {path: file.read_text() for path, file in modules().items()}
    paths |= {path: text for path, text in texts().items() if path.endswith((".md", ".xml"))}
    wrong = [
        f"{path}:{number} names {id}"
        for path, text in paths.items()
        if not path.startswith(("suites/units/", "suites/repo/"))
        for number, line in enumerate(text.splitlines(), 1)
        for id in mention.findall(line)
        if id not in CATALOGUE and (path, id) != EXERCISE
    ]
    assert not wrong, f"{'; '.join(wrong)}: the catalogue has no such requirement"


def test_quotations_are_in_the_texts_that_are_carried() -> None:
    outcome = quotations.compare(CATALOGUE, [quotations.CARRIED])
    assert outcome.agreeing
    assert not outcome.drifted, (
        f"{', '.join(row.id for row in outcome.drifted)}: the document does not have these words;"
        " quote it as it is"
    )


def test_a_quotation_that_drifted_is_reported(tmp_path: Path) -> None:
    quoting = next(row for row in CATALOGUE.values() if row.quotation and row.version == "1.2")
    (tmp_path / f"{quoting.document.name}.md").write_text("another edition")
    drifted = quotations.compare(CATALOGUE, [tmp_path]).drifted
    assert quoting in drifted
    (tmp_path / f"{quoting.document.name}.md").write_text(f"So: **{quoting.quotation}**")
    assert quoting not in quotations.compare(CATALOGUE, [tmp_path]).drifted


def test_without_a_network_the_texts_that_are_carried_are_compared() -> None:
    def unreachable(address: str) -> str:
        raise TimeoutError("no route to host")

    outcome = quotations.compare(CATALOGUE, [quotations.CARRIED], unreachable)
    assert outcome.agreeing
    assert (outcome.drifted, outcome.moved) == ((), ())
    reasons = {missing.reason for missing in outcome.without_text}
    assert reasons == {"cannot be read: no route to host"}


def test_a_page_that_changed_is_no_drift_of_a_text() -> None:
    outcome = quotations.compare(CATALOGUE, [quotations.CARRIED], lambda address: "another edition")
    assert outcome.moved
    assert (outcome.drifted, outcome.without_text) == ((), ())


def _lists() -> list[Path]:
    return sorted(FIXTURES.glob("brokers/*/known_deviations.toml"))


def test_the_pages_of_known_deviations_are_current() -> None:
    written = {path.name: path.read_text("utf-8") for path in deciding_sentences.FOLDER.iterdir()}
    assert written == deciding_sentences.pages(CATALOGUE), (
        "docs/reference/known-deviations is out of date: recreate it with"
        " python -m brokerproof.suites.repo.deciding_sentences"
    )


def test_each_list_of_known_deviations_has_a_page() -> None:
    assert {path.parent.name for path in _lists()} == set(deciding_sentences.FAMILIES)


LISTS = {
    **{path.parent.name: path for path in _lists()},
    **{path.stem: path for path in sorted(FIXTURES.glob("clients/known/*.toml"))},
}
"""The lists of deviations of broker families and of clients, by name."""
DEVIATIONS = {
    f"{name}:{deviation.where.rpartition(' ')[2]}": deviation
    for name, path in LISTS.items()
    for deviation in deviations.load(path)
}
"""Every entry once, by its list and line."""


def _alterations(example: str, match: re.Match[str]) -> Iterator[str]:
    """Yield findings that differ from ``example``: with a word outside the varying parts dropped or
    replaced, a number there changed, a varying part replaced by unrelated words, or words added
    before or after the whole."""
    varying = [match.span(group) for group in range(1, match.re.groups + 1)]
    for word in re.finditer(r"\w+", example):
        start, end = word.span()
        if any(first <= start and end <= last for first, last in varying):
            continue
        text = word.group()
        other = str(int(text) + 1) if text.isascii() and text.isdigit() else "elsewhere"
        yield example[:start] + other + example[end:]
        yield example[:start] + example[end:]
    for first, last in varying:
        if first >= 0:
            yield example[:first] + "something else happened" + example[last:]
    yield f"{example}, and something else happened"
    yield f"something else happened: {example}"


@pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=DEVIATIONS)
def test_known_deviations_expect_one_fault_only(deviation: deviations.Deviation) -> None:
    match = re.fullmatch(deviation.expected, deviation.example, re.DOTALL)
    assert match is not None
    loose = [
        text
        for text in _alterations(deviation.example, match)
        if re.fullmatch(deviation.expected, text, re.DOTALL)
    ]
    assert not loose, (
        f"{deviation.where}: expected matches another finding as well: {loose[0]!r}; write out its"
        " words, and put what varies from run to run into a group that takes nothing else"
    )


ELSEWHERE = (
    (re.compile(r"-([0-9a-f]{10})-(\d+)"), r"-\1-7f3a-\2"),
    (re.compile(r"Cannot invoke .*? because .*? is null"), "NullPointerException"),
)
"""Words of a finding that vary elsewhere: on a broker that the harness did not start, names carry a
mark of the run, and a JVM that has compiled a line omits its exception's message."""


@pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=DEVIATIONS)
def test_known_deviations_expect_the_same_fault_on_other_machines(
    deviation: deviations.Deviation,
) -> None:
    for words, others in ELSEWHERE:
        finding = words.sub(others, deviation.example)
        assert re.fullmatch(deviation.expected, finding, re.DOTALL), (
            f"{deviation.where}: expected does not match {finding!r}; put what varies into a group"
        )


@pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=DEVIATIONS)
def test_known_deviations_link_to_a_line_of_a_release_or_a_ticket(
    deviation: deviations.Deviation,
) -> None:
    source = re.fullmatch(
        r"https://github\.com/[\w-]+/[\w.-]+/blob/([\w.-]+)/\S+#(L\d+(-L\d+)?|[a-z-]+)",
        deviation.link,
    )
    ticket = re.fullmatch(r"https://github\.com/[\w-]+/[\w-]+/(issues|pull)/\d+", deviation.link)
    documented = re.fullmatch(r"https://www\.rabbitmq\.com/docs/[\w-]+#[\w-]+", deviation.link)
    assert source or ticket or documented, (
        f"{deviation.where}: link is {deviation.link}; it should be a line of the tested release's"
        " source, or a ticket"
    )
    assert not source or re.search(r"\d", source.group(1)), (
        f"{deviation.where}: link is of {source and source.group(1)}; it should be of a release"
    )


@pytest.mark.parametrize("path", LISTS.values(), ids=LISTS)
def test_known_deviations_speak_of_requirements_and_cases_that_exist(path: Path) -> None:
    citing = {case: set(info.requirements) for case, info in cases().items()}
    oracles = "".join(
        oracle.read_text("utf-8") for oracle in (ROOT / "harness/oracles").glob("*.py")
    )
    judged_by_oracles = {name for name in CATALOGUE if f'"{name}"' in oracles}
    for deviation in deviations.load(path):
        if not deviation.control:
            assert deviation.requirement in CATALOGUE, (
                f"{deviation.where}: there is no {deviation.requirement}"
            )
            assert any(deviation.requirement in ids for ids in citing.values()), (
                f"{deviation.where}: no case cites {deviation.requirement}"
            )
        if deviation.case:
            glob = deviation.case.partition("[")[0]
            pattern = re.compile(
                "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in glob)
            )
            fits = [case for case in citing if pattern.fullmatch(case)]
            assert fits, f"{deviation.where}: no case is called {deviation.case}"
            cited = set[str]().union(*(citing[case] for case in fits))
            if deviation.sometimes:  # aftermaths judge uncited requirements too
                cited |= judged_by_oracles
            assert not deviation.requirement or deviation.requirement in cited, (
                f"{deviation.where}: {deviation.case} does not cite {deviation.requirement}"
            )


def test_each_behaviour_has_a_source_and_is_recorded_by_a_case() -> None:
    text = "".join(
        (ROOT / path).read_text("utf-8")
        for path in modules()
        if path.startswith("suites/") and not path.startswith(("suites/units/", "suites/repo/"))
    )
    for behaviour in behaviours.listed().values():
        assert behaviour.source in CATALOGUE, behaviour.name
        _, _, what = behaviour.name.partition(".")
        parts = (what, what.partition("-")[2])
        names = (behaviour.name, *parts, *(part.replace("-", " ") for part in parts))
        assert any(f'"{name}"' in text for name in names), behaviour.name
