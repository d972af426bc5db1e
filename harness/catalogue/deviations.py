"""Known deviations: requirements that a broker family is known to violate, each with the reason and
the source.

A case is never adapted to a broker's deviation. Instead, the deviation is listed in
``fixtures/brokers/<family>/known_deviations.toml``, one ``[[deviation]]`` each::

    requirement = "STOMP11-ENC-09, STOMP12-ENC-10"   # the sentences that it breaks
    case = "stomp.headers.blanks_stay*"     # * stands for any text, ? for one character; [1.2] is itself; without it every case
    versions = ">=2.6, <2.60"               # of the broker; without it every version
    target = "proton-python"                # for a family of several brokers: only that target
    expected = "'(.*)' came back as '(.*)', without its blanks"   # regular expression of the whole finding; what varies is in parentheses
    example = "' a' came back as 'a', without its blanks"         # such a finding
    reason = "The decoder of CONNECT trims values."
    link = "https://…"                      # a line of the tested release's source, or a ticket
    sometimes = true                        # a race: it need not show in a run
    control = true                          # names a case and no requirement: a control fails, or a flood reaches a limit, so the case cannot judge the broker
    harm = true                             # the broker may not survive the case, which therefore runs last and alone; the next case gets a new broker

A finding that no entry expects is new, and an entry that no longer occurs fails the run unless it
has ``sometimes``."""  # noqa: E501

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.catalogue import extensions, release_ranges
from brokerproof.harness.catalogue.cases import current_name
from brokerproof.harness.catalogue.release_ranges import in_range
from brokerproof.harness.catalogue.tables import BadData, Entry, Key, entries, only, read
from brokerproof.harness.model.finding import ListedDeviation

_DEVIATION = {
    "case": Key(str, required=False),
    "requirement": Key(str, required=False),
    "versions": Key(str, required=False),
    "target": Key(str, required=False),
    "expected": Key(str),
    "example": Key(str),
    "reason": Key(str),
    "link": Key(str),
    "sometimes": Key(bool, required=False),
    "control": Key(bool, required=False),
    "harm": Key(bool, required=False),
}


@dataclass(frozen=True, slots=True)
class Deviation:
    """One requirement of an entry. Empty ``case`` or ``versions`` match any; only the entry of a
    control has no ``requirement``."""

    case: str
    requirement: str
    versions: str
    expected: str
    example: str
    """A finding, as recorded, that ``expected`` matches."""
    reason: str
    link: str
    where: str
    """The file and line of the entry."""
    target: str = ""
    """The only target with this deviation; empty for any."""
    sometimes: bool = False
    """True for a race that need not show in every run."""
    control: bool = False
    """True if the entry explains a failed control of its case, or a limit that the case reached,
    instead of a finding."""
    harm: bool = False
    """True if the broker may not survive the case."""

    @property
    def name(self) -> str:
        """The name of the deviation in messages: its requirement, its case, or both."""
        return " in ".join(part for part in (self.requirement, self.case) if part)

    @property
    def listed(self) -> ListedDeviation:
        return ListedDeviation(self.case, self.requirement, self.reason, self.link, self.sometimes)


def load(path: Path, target: str | None = None) -> list[Deviation]:
    """Return the deviations in one file: all of them, or those that apply to the named target.

    Raises :class:`~brokerproof.harness.catalogue.tables.BadData` for the first invalid entry."""
    values, text = read(path)
    only(path, values, "deviation")
    return [
        deviation
        for entry in entries(path, "deviation", _DEVIATION, values, text)
        for deviation in _deviations(entry)
        if target is None or deviation.target in {"", target}
    ]


def of_target(file: Path | None, profile: str, target: str) -> list[Deviation]:
    """Return the deviations of the named target: those in ``file`` and those that installed
    packages list for the target's profile. Raises ``BadData``."""
    folders = extensions.folders(extensions.DEVIATIONS).values()
    others = [folder / f"{profile}.toml" for folder in folders]
    paths = [*([] if file is None else [file]), *(path for path in others if path.is_file())]
    return [deviation for path in paths for deviation in load(path, target)]


def covers(deviation: Deviation, case: str, requirement: str, broker_version: str) -> bool:
    """True if ``deviation`` concerns this requirement in this case on this version, whatever the
    finding.

    An unknown version (without a number) is covered only by entries that apply to every version."""
    if deviation.requirement != requirement:
        return False
    if deviation.case and not _pattern(deviation.case).fullmatch(case):
        return False
    return in_range(deviation.versions, broker_version)


def _shows(deviation: Deviation, detail: str) -> bool:
    """True if the deviation's ``expected`` matches all of ``detail``; quotations from a broker may
    span several lines."""
    return re.fullmatch(deviation.expected, detail, re.DOTALL) is not None


def match(
    deviations: Iterable[Deviation], case: str, requirement: str, detail: str, broker_version: str
) -> Deviation | None:
    """Return the first deviation that covers the finding and whose pattern matches it, or None."""
    for deviation in deviations:
        if deviation.control or not covers(deviation, case, requirement, broker_version):
            continue
        if _shows(deviation, detail):
            return deviation
    return None


def match_control(
    deviations: Iterable[Deviation], case: str, detail: str, broker_version: str
) -> Deviation | None:
    """Return the first deviation that expects a control of the case to fail, or the case to reach a
    limit, as ``detail`` says; or None."""
    for deviation in deviations:
        if (
            deviation.control
            and covers(deviation, case, "", broker_version)
            and _shows(deviation, detail)
        ):
            return deviation
    return None


def does_harm(deviations: Iterable[Deviation], case: str, broker_version: str) -> bool:
    """True if the case is known to harm a broker of that version."""
    return any(
        deviation.harm and covers(deviation, case, deviation.requirement, broker_version)
        for deviation in deviations
    )


def not_shown(
    listed: Iterable[Deviation], held: Iterable[tuple[str, str, bool]], version: str
) -> list[Deviation]:
    """Return the deviations that were tested but did not occur, because every finding that they
    cover held.

    ``held`` has the case, the requirement and whether it held, for each finding of a run on a
    broker of that version. A deviation without a finding was not tested, and a ``sometimes``
    deviation need not occur."""
    findings = list(held)
    return [
        deviation
        for deviation in listed
        if not deviation.sometimes
        and (
            seen := [
                good
                for case, requirement, good in findings
                if covers(deviation, case, requirement, version)
            ]
        )
        and all(seen)
    ]


def _deviations(entry: Entry) -> list[Deviation]:
    """Check an entry, and return a deviation for each requirement that the entry names."""
    texts = {key: entry.text(key) for key, rule in _DEVIATION.items() if rule.kind is str}
    texts["case"] = current_name(texts["case"])  # users' lists may use a former name
    sometimes, control, harm = (
        bool(entry.values.get(key)) for key in ("sometimes", "control", "harm")
    )
    named = [text.strip() for text in texts.pop("requirement").split(",")]
    deviations = [
        Deviation(
            **texts,
            requirement=id,
            where=entry.where,
            sometimes=sometimes,
            control=control,
            harm=harm,
        )
        for id in named
    ]
    if control and (any(named) or not texts["case"]):
        raise BadData(f"{entry.where}: a control needs a case and no requirement")
    if not control and not all(named):
        raise BadData(
            f"{entry.where}: requirement is missing; name the violated requirement, or several"
            " separated by commas"
        )
    if harm and not texts["case"]:
        raise BadData(f"{entry.where}: harm needs a case")
    _check(deviations[0])
    return deviations


def _check(deviation: Deviation) -> None:
    if problem := release_ranges.problem_of(deviation.versions):
        raise BadData(f"{deviation.where}: versions {problem}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a future Python may read such syntax differently
            re.compile(deviation.expected)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as problem:
        raise BadData(
            f"{deviation.where}: expected is no valid regular expression ({problem}):"
            f" {deviation.expected!r}"
        ) from None
    if not _shows(deviation, deviation.example):
        raise BadData(
            f"{deviation.where}: expected does not match the whole example; it should match a"
            f" finding from its first to its last character: {deviation.example!r:.200}"
        )
    if _shows(deviation, "something else happened"):
        raise BadData(
            f"{deviation.where}: expected is {deviation.expected!r}, which matches anything; it"
            " should match the finding's text only"
        )
    if not re.match(r"https?://\S+$", deviation.link):
        raise BadData(
            f"{deviation.where}: link is {deviation.link!r}; it should be the address of"
            " documentation, source or tracker"
        )


def _pattern(glob: str) -> re.Pattern[str]:
    """Compile a pattern in which ``*`` and ``?`` work as in file names. Brackets are literal,
    because case ids contain them."""
    return re.compile(
        "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in glob),
        re.DOTALL,
    )
