"""All mutants and controls, by name."""

import importlib
import pkgutil
from collections.abc import Iterator

from brokerproof.suites.mutation import amqp, controls, flow, stomp, unseen
from brokerproof.suites.mutation.mutant import Group, Mutant


def _groups() -> Iterator[Group]:
    """Yield the groups of all modules in the packages of mutants."""
    for package in (amqp, flow, stomp, unseen):
        for _, name, _ in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, Group):
                    yield value


GROUPS: tuple[Group, ...] = tuple({id(group): group for group in _groups()}.values())
MUTANTS: dict[str, Mutant] = {mutant.name: mutant for group in GROUPS for mutant in group.mutants}
CONTROLS: dict[str, Mutant] = {mutant.name: mutant for mutant in controls.controls.mutants}


def named(name: str) -> Mutant:
    """Return the mutant or control of this name. Raises ``ValueError`` with one sentence if there
    is none."""
    mutant = MUTANTS.get(name) or CONTROLS.get(name)
    if mutant is None:
        import difflib

        known = [*MUTANTS, *CONTROLS]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(
            f"there is no mutant {name!r}; "
            + (f"perhaps {', '.join(near)}" if near else "brokerproof mutants --list names them")
        )
    return mutant
