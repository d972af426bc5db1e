"""Pairs of releases with and without a bug, as ``fixtures/brokers/<family>/history.toml`` lists
them.

One ``[[pair]]`` each::

    bug = "ARTEMIS-2289"
    case = "stomp.receipts.every_kind_of_frame_is_answered_with_one_receipt[1.2]"    # as results name it
    requirement = "STOMP12-RCPT-01"         # through which the case fails
    said = "2 RECEIPT"                      # regular expression: what it says of the release with the bug
    before = "artemis-history@2.5.0"        # the release that has the bug: a shipped target with a version
    after = "artemis-history@2.10.1"        # one that no longer has it
"""  # noqa: E501

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.catalogue.tables import BadData, Entry, Key, entries, only, read
from brokerproof.harness.model.verdicts import Seen, Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import shipped_targets
from brokerproof.suites.mutation.judging import violated

_PAIR = {key: Key(str) for key in ("bug", "case", "requirement", "said", "before", "after")}


@dataclass(frozen=True, slots=True)
class Pair:
    """One bug, the case that reveals it, and a release before and after the fix."""

    bug: str
    case: str
    requirement: str
    said: str
    before: str
    after: str

    def complaint_before(self, result: Result) -> str:
        """Return why ``result``, from the release with the bug, does not show the bug; empty if the
        bug is shown."""
        if result.verdict is not Verdict.FAIL:
            return f"{result.verdict.value} instead of FAIL: {result.detail}"
        for finding in violated(result):
            if finding.requirement == self.requirement and re.search(self.said, finding.detail):
                return ""
        return f"it failed, but not through {self.requirement} with {self.said!r}: {result.detail}"

    def complaint_after(self, result: Result) -> str:
        """Return why ``result``, from the release without the bug, does not show the fix; empty if
        the fix is shown."""
        held = [
            finding
            for finding in result.findings
            if finding.requirement == self.requirement and finding.seen is Seen.HELD
        ]
        if result.verdict is not Verdict.PASS:
            return f"{result.verdict.value} instead of PASS: {result.detail}"
        return "" if held else f"it passed without a look at {self.requirement}"


def shipped() -> list[Path]:
    """Return the lists that come with brokerproof, one per broker family."""
    return sorted((Path(str(files("brokerproof.fixtures"))) / "brokers").glob("*/history.toml"))


def load(path: Path) -> list[Pair]:
    """Return the pairs of one list. Raises :class:`~brokerproof.harness.catalogue.tables.BadData`
    for the first wrong entry."""
    values, text = read(path)
    only(path, values, "pair")
    return [_pair(entry) for entry in entries(path, "pair", _PAIR, values, text)]


def wanted(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """Return the cases to run on each target, each case once."""
    by_target: dict[str, list[str]] = {}
    for pair in pairs:
        for target in (pair.before, pair.after):
            cases = by_target.setdefault(target, [])
            if pair.case not in cases:
                cases.append(pair.case)
    return by_target


def _pair(entry: Entry) -> Pair:
    pair = Pair(**{key: entry.text(key) for key in _PAIR})
    for key, text in (("before", pair.before), ("after", pair.after)):
        name, _, version = text.rpartition("@")
        if name not in shipped_targets.paths() or not version:
            raise BadData(
                f"{entry.where}: {key} is {text!r}; it should be a shipped target with a release,"
                " NAME@VERSION"
            )
    try:
        if re.search(pair.said, "") is not None:
            raise BadData(
                f"{entry.where}: said is {pair.said!r}, which matches anything; write what the"
                " finding says"
            )
    except re.error as problem:
        raise BadData(
            f"{entry.where}: said is not a regular expression ({problem}): {pair.said!r}"
        ) from None
    return pair
