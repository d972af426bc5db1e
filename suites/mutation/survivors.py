"""``survivors.txt``: the mutants that no case kills, each with the reason. It may only shrink.

Each line has a mutant's name, a colon, and why nothing can or should kill it. Empty lines and lines
that begin with # are ignored.
"""

from collections.abc import Iterable
from pathlib import Path

from brokerproof.suites.mutation.judging import Status
from brokerproof.suites.mutation.matrix import Fate

LIST = Path(__file__).with_name("survivors.txt")


class BadList(Exception):
    """The list cannot be read. The message names the file and the line."""


def load(path: Path = LIST) -> dict[str, str]:
    """Return the reasons by mutant. Raises :class:`BadList`."""
    listed: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, reason = (part.strip() for part in line.partition(":"))
        if not colon or not reason:
            raise BadList(f"{path}, line {number}: {line.strip()!r} should be NAME: REASON")
        if name in listed:
            raise BadList(f"{path}, line {number}: {name} is listed twice")
        listed[name] = reason
    return listed


def complaints(fates: Iterable[Fate], listed: dict[str, str], known: Iterable[str]) -> list[str]:
    """Return the mistakes in the list: unlisted survivors, killed mutants, and unknown names."""
    problems = [
        f"survivors.txt lists {name}, and there is no such mutant"
        for name in listed
        if name not in known
    ]
    for fate in fates:
        if fate.status is not Status.KILLED and fate.mutant not in listed:
            problems.append(
                f"{fate.mutant} was not killed ({fate.status}) and is not on"
                f" survivors.txt{_hint(fate)}"
            )
        if fate.status is Status.KILLED and fate.mutant in listed:
            by = fate.killed_by[0]
            problems.append(
                f"{fate.mutant} is on survivors.txt and {by.case} killed it: take it off the list"
            )
    return problems


def _hint(fate: Fate) -> str:
    if fate.beside:
        return (
            f": {fate.beside[0].case} failed, through {fate.beside[0].requirement}, which it does"
            " not declare"
        )
    return "".join(f": {sentence}" for sentence in [*fate.noticed_by, *fate.errors][:1])
