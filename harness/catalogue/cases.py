"""The facts about a case that the catalogue needs: name, cited requirements and description.

``brokerproof.harness.cases.case`` creates the cases; a case registers when its module is imported.
Nothing is run here."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

CONFORMANCE = (
    "stomp",
    "amqp10",
    "amqp091",
    "openwire",
    "flow",
    "delivery",
    "conversion",
    "clients",
)
"""The packages of ``suites`` that hold conformance cases."""

SUITE_ALIASES: Mapping[str, str] = {"amqp": "amqp10", "crossing": "conversion"}
"""Former names of suites, still accepted."""

_RENAMED = (
    ("stomp.stomppy.", "clients.stomppy."),
    ("amqp.proton.", "clients.proton."),
    ("amqp.proton_sockets.", "clients.proton_sockets."),
    ("amqp091.pika.", "clients.pika."),
    ("amqp.", "amqp10."),
    ("crossing.", "conversion."),
)
"""Former prefixes of case names; the first match applies."""


def current_name(case: str) -> str:
    """Return the current name of a case that was recorded in a former suite."""
    for former, current in _RENAMED:
        if case.startswith(former):
            return current + case.removeprefix(former)
    return case


class Registered(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def suite(self) -> str: ...
    @property
    def by_version(self) -> Mapping[str | None, tuple[str, ...]]: ...
    @property
    def needs(self) -> frozenset[str]: ...
    @property
    def doc(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def function(self) -> Callable[..., object]: ...


@dataclass(frozen=True, slots=True)
class CaseInfo:
    """A case. ``requirements`` are in the order of ``versions``, which is empty if the case does
    not depend on versions."""

    id: str
    suite: str
    function: str
    requirements: tuple[str, ...]
    versions: tuple[str, ...]
    needs: frozenset[str]
    doc: str
    source: str

    @property
    def summary(self) -> str:
        """The first paragraph of the case's docstring, on one line."""
        return _first_paragraph(self.doc)


def title(doc: str) -> str:
    """Return the first sentence of a case's docstring, without its period."""
    return re.split(r"(?<=[.!?])\s", _first_paragraph(doc), maxsplit=1)[0].removesuffix(".")


def _first_paragraph(doc: str) -> str:
    return " ".join(doc.strip().partition("\n\n")[0].split())


def describe(registered: Iterable[Registered]) -> dict[str, CaseInfo]:
    """Return the catalogue's facts about each case, sorted by name."""
    infos = (
        CaseInfo(
            id=registration.name,
            suite=registration.suite,
            function=registration.function.__qualname__,
            requirements=tuple(
                dict.fromkeys(cited for ids in registration.by_version.values() for cited in ids)
            ),
            versions=tuple(version for version in registration.by_version if version is not None),
            needs=registration.needs,
            doc=registration.doc,
            source=registration.source,
        )
        for registration in registered
    )
    return {info.id: info for info in sorted(infos, key=lambda case: case.id)}


def citations(cases: Mapping[str, CaseInfo]) -> dict[str, tuple[str, ...]]:
    """Return requirements by case, as :mod:`brokerproof.harness.catalogue.coverage` expects
    them."""
    return {name: case.requirements for name, case in cases.items()}


def import_suites(
    packages: Sequence[str] = CONFORMANCE, parent: str = "brokerproof.suites"
) -> list[str]:
    """Import every ``test_*`` module of these packages so that their cases register; return the
    modules' names.

    Raises ``ImportError`` for a package that does not exist, and any error that a module raises on
    import."""
    imported = []
    for package in packages:
        root = importlib.import_module(f"{parent}.{package}")
        for module in sorted(
            pkgutil.walk_packages(root.__path__, f"{root.__name__}."),
            key=lambda module: module.name,
        ):
            if module.name.rpartition(".")[2].startswith("test_"):
                importlib.import_module(module.name)
                imported.append(module.name)
    return imported
