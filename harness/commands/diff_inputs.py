"""The two sides of a comparison: run folders as ``brokerproof diff`` sees them, and reasons why
they may not be comparable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from brokerproof.harness.model.target_names import family
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import LatestResult, last_of_each

_OF_THE_RUN = {"seed": "seeds", "effort": "efforts", "brokerproof": "versions of brokerproof"}
_OF_A_TARGET = {
    "broker": "brokers",
    "version": "versions",
    "profile": "profiles",
    "configuration": "configurations",
    "clock": "clocks",
}


@dataclass(frozen=True)
class Side:
    """One run of a comparison, called ``letter`` (A or B)."""

    letter: str
    folder: Path
    header: Mapping[str, Any]
    results: tuple[LatestResult, ...]
    torn: bool
    chosen: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The targets that are compared under another name because they are different releases."""

    @property
    def listed(self) -> dict[str, Mapping[str, Any]]:
        """The targets in the header, by the names under which they are compared."""
        entries = self.header.get("targets")
        entries = entries if isinstance(entries, list) else []
        return {
            self._name(str(entry["name"])): entry
            for entry in entries
            if isinstance(entry, dict) and "name" in entry
        }

    @property
    def targets(self) -> list[str]:
        """The compared targets: those in the header and in the results, or only the chosen one."""
        every = dict.fromkeys(
            [*self.listed, *(self._name(latest.result.target) for latest in self.results)]
        )
        return [name for name in every if not self.chosen or name in self.chosen]

    @property
    def compared(self) -> list[LatestResult]:
        return [
            replace(latest, result=replace(latest.result, target=name))
            for latest in self.results
            if (name := self._name(latest.result.target)) in self.chosen or not self.chosen
        ]

    @property
    def partial(self) -> bool:
        """True if the run was cut off, so that cases may be missing on this side only."""
        return self.torn or not isinstance(self.header.get("footer"), dict)

    def _name(self, target: str) -> str:
        return self.renamed.get(target, target)

    def only(self, target: str | None) -> Self:
        """Return this side, reduced to one target if a name is given. Raises ``LookupError`` with a
        sentence if it lacks that target."""
        if target is None:
            return self
        if target not in self.targets:
            raise LookupError(
                f"{self.folder}: has no target {target}; it has {', '.join(self.targets) or 'none'}"
            )
        return replace(self, chosen=(target,))

    def compared_as(self, renamed: Mapping[str, str]) -> Self:
        """Return this side with targets renamed to other releases of the same brokers."""
        chosen = tuple(renamed.get(name, name) for name in self.chosen)
        return replace(self, chosen=chosen, renamed=renamed)

    def describe(self) -> str:
        """Describe the run on one line: its folder, start and targets."""
        targets = []
        for name in self.targets:
            target = self.listed.get(name, {})
            facts = " ".join(str(target[key]) for key in ("broker", "version") if target.get(key))
            own = str(target.get("name", name))
            targets.append(f"{own} ({facts})" if facts else own)
        return (
            f"{self.folder}, started {self.header.get('started', 'at an unknown time')}:"
            f" {', '.join(targets) or 'no target'}"
        )


def open_side(letter: str, folder: Path) -> Side:
    """Read a run folder. Raises ``BadRunFolder``, or ``UnreadableResults`` for unreadable
    results."""
    header = run_folder.read(folder, traces=False)
    path = folder / records.NAME
    last_byte = path.read_bytes()[-1:] if path.exists() else b""
    return Side(
        letter,
        folder,
        header,
        tuple(last_of_each(records.read(folder))),
        last_byte not in (b"", b"\n"),
    )


def releases(before: Sequence[str], now: Sequence[str]) -> dict[str, str]:
    """Map targets of ``before`` to targets of ``now`` that are other releases of the same broker.
    Their names are the same up to the ``@``."""
    renamed = {}
    for name in before:
        others = [target for target in now if family(target) == family(name)]
        if name not in now and len(others) == 1 and others[0] not in before:
            renamed[name] = others[0]
    return renamed


def notes(a: Side, b: Side, *, across: bool) -> Iterator[str]:
    """Yield the caveats to read before the figures: incomplete runs and differing conditions."""
    for side in (a, b):
        if not isinstance(side.header.get("footer"), dict):
            yield (
                f"{side.letter} was cut off before it ended: cases that it lacks may just not have"
                " run"
            )
        if side.torn:
            yield f"the last line of {side.letter}'s results is incomplete and is left out"
        if not side.compared:
            yield f"{side.letter} holds no results"
    for key, words in _OF_THE_RUN.items():
        if a.header.get(key) != b.header.get(key):
            yield f"different {words}: A {a.header.get(key)}, B {b.header.get(key)}"
    if across:
        pairs = [(f"{a.targets[0]} / {b.targets[0]}", a.targets[0], b.targets[0])]
    else:
        shared = [name for name in a.targets if name in b.targets]
        pairs = [(name, name, name) for name in shared]
        for side, opposite in ((a, b), (b, a)):
            alone = [name for name in side.targets if name not in opposite.targets]
            if shared and alone:
                yield f"only in {side.letter}: {', '.join(alone)}"
        if not shared and a.targets and b.targets:
            yield "no target is in both runs; --between-brokers compares two targets by case"
    for label, one, other in pairs:
        left, right = a.listed.get(one, {}), b.listed.get(other, {})
        for key, words in _OF_A_TARGET.items():
            if left.get(key) != right.get(key):
                yield f"{label}: different {words}: A {left.get(key)}, B {right.get(key)}"
