"""Findings: what a case observed about each requirement that the case cites, with the evidence.

An oracle or a case reports a :class:`Finding`. When the case ends, each finding receives its
verdict, once, as a :class:`JudgedFinding`, which ``results.ndjson`` records."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass

from brokerproof.harness.model.verdicts import Seen, Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement, the observation, and the evidence in one sentence.

    ``uncertain`` explains why a violation is not evidence against the broker (the canary was late,
    or the measurement fell within the margin). Such a violation is INCONCLUSIVE at every level."""

    requirement: str
    seen: Seen
    detail: str = ""
    uncertain: str | None = None


@dataclass(frozen=True, slots=True)
class ListedDeviation:
    """The entry of ``known_deviations.toml`` that explains a violation.

    ``case`` and ``requirement`` are those of the entry, empty if it has none."""

    case: str
    requirement: str
    reason: str
    link: str
    sometimes: bool = False
    """True for a race that need not show in every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFinding(Finding):
    """A finding with its verdict and, if it matched one, the listed deviation."""

    verdict: Verdict
    deviation: ListedDeviation | None = None

    @property
    def sentence(self) -> str:
        """The requirement, the evidence, and why the finding is uncertain or known."""
        text = f"{self.requirement}: {self.detail}"
        if self.uncertain:
            text += f" ({self.uncertain})"
        return text if self.deviation is None else f"{text} (known: {self.deviation.reason})"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measured value and the interval in which it should lie. None means no bound.

    ``margin`` is how far outside the interval a value may lie before it counts as evidence."""

    value: int
    unit: str
    low: int | None = None
    high: int | None = None
    margin: int = 0

    @property
    def distance_to_bound(self) -> int | None:
        """The distance from the value to the nearest bound: negative outside, None if there is no
        bound."""
        distances = [] if self.low is None else [self.value - self.low]
        if self.high is not None:
            distances.append(self.high - self.value)
        return min(distances, default=None)


def combine(findings: list[Finding]) -> list[Finding]:
    """Return one finding per requirement, in order of first mention.

    A certain violation outweighs everything, and an uncertain one everything else. HELD, uncertain
    or not, outweighs NOT_APPLICABLE and NEVER_REACHED: a requirement that held in one example and
    was not reached in another counts as held."""
    rank = {
        Seen.VIOLATED: 0,
        Seen.HELD: 2,
        Seen.NOT_APPLICABLE: 3,
        Seen.NEVER_REACHED: 4,
        Seen.UNMET: 5,
    }

    def weight(finding: Finding) -> int:
        is_uncertain = finding.uncertain is not None and finding.seen is Seen.VIOLATED
        return 1 if is_uncertain else rank[finding.seen]

    best: dict[str, Finding] = {}
    for finding in findings:
        if finding.requirement not in best or weight(finding) < weight(best[finding.requirement]):
            best[finding.requirement] = finding
    return list(best.values())


def listed(bodies: Iterable[bytes | str | int]) -> str:
    """Return bodies or numbers as words of a sentence, such as "m0, m1, … m29, 'end' (31)".

    If five or more names count up, the middle ones are omitted. At most twelve of these parts are
    listed. After more than four names, their number follows in brackets. Long names are cut. Bytes
    that are not text are shown in hexadecimal (0xff), and an empty list as "no message"."""
    runs: list[list[str]] = []
    for body in bodies:
        name = body.rstrip(b"\0").decode(errors="replace") if isinstance(body, bytes) else str(body)
        if isinstance(body, bytes) and not (name and name.isprintable() and "\ufffd" not in name):
            name = f"0x{body.hex()}" if body else "(empty)"
        name = re.sub(r"^(\d+)[ .]+$", r"\1", name)  # padded numbers
        name = re.sub(r"(.)\1{11,}.*|(?<=^.{39}).{2,}", "…", name[:99])
        name = name if re.search(r"\d|^\(", name) else f"'{name}'"
        if runs and name == re.sub(r"\d+(?=\D*$)", lambda at: f"{int(at[0]) + 1}", runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    parts = [", ".join(run) if len(run) < 5 else f"{run[0]}, {run[1]}, … {run[-1]}" for run in runs]
    text = ", ".join(parts[:12]) + (", …" if len(parts) > 12 else "")
    count = sum(map(len, runs))
    return f"{text} ({count})" if count > 4 else text or "no message"


def shown(value: object) -> str:
    """Return a value as words of a sentence: "true", "none", "1, (2, 3)", "end (commit=true)"."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {of.name: getattr(value, of.name) for of in fields(value)}
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(value).__name__).lower()
        return f"{name} ({shown(parts)})"
    match value:
        case None | bool():
            return str(value).lower()
        case bytes():
            is_text = value.isascii() and value.decode().isprintable()
            return listed([value]) if is_text else f"0x{value.hex()}"
        case str() if not value or not value.isprintable():
            return repr(value)
        case Mapping():
            return ", ".join(f"{shown(name)}={_part(of)}" for name, of in value.items()) or "none"
        case list() | tuple() | set():
            return ", ".join(map(_part, value)) or "none"
    return str(value)


def _part(value: object) -> str:
    return f"({shown(value)})" if isinstance(value, Mapping | list | tuple | set) else shown(value)
