"""Finds suites, requirement files and known deviations in other installed packages.

A package declares them as entry points, each of which names the package with the files::

    [project.entry-points."brokerproof.suites"]
    acme = "acme_cases"                    # its test_*.py have conformance cases, named acme.…

    [project.entry-points."brokerproof.requirements"]
    acme = "acme_cases.requirements"       # its *.toml are documents of requirements

    [project.entry-points."brokerproof.deviations"]
    acme = "acme_cases.deviations"         # its PROFILE.toml holds for brokers of that profile

``brokerproof init-suite`` creates such a package. Nothing is imported from such packages here."""

import functools
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from brokerproof.harness.catalogue.tables import BadData

SUITES = "brokerproof.suites"
REQUIREMENTS = "brokerproof.requirements"
DEVIATIONS = "brokerproof.deviations"


@functools.cache
def suites() -> dict[str, str]:
    """Return the packages with conformance cases, by suite name."""
    return {point.name: point.value for point in _points(SUITES)}


def suite_of(module: str) -> tuple[str, str]:
    """Return the suite of a conformance module, and the rest of the module's name. A package that
    declares no suite is itself the suite."""
    for suite, package in suites().items():
        if module.startswith(f"{package}."):
            return suite, module.removeprefix(f"{package}.")
    suite, _, rest = module.partition(".")
    return suite, rest


def folders(group: str) -> dict[str, Path]:
    """Return the package folders of ``group`` by entry point name. Raises :class:`BadData` for a
    package that is not installed."""
    return {point.name: _folder(point) for point in _points(group)}


def _points(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: point.name)


def _folder(point: EntryPoint) -> Path:
    try:
        spec = find_spec(point.value)
    except (ImportError, ValueError):
        spec = None
    locations = None if spec is None else spec.submodule_search_locations
    if not locations:
        owner = point.dist.name if point.dist is not None else "a package"
        raise BadData(
            f"{owner}: its entry point {point.name} of {point.group} names {point.value!r}, which"
            " is not an installed package; it should name the package that holds the files"
        )
    return Path(next(iter(locations)))
