"""Profiles: the parameters and capabilities expected of a broker family.

``fixtures/profiles/<name>.toml`` holds ``description``, ``capabilities``, ``[releases]``,
``[not_offered]`` and ``[parameters]``. ``[releases]`` names the releases whose manual describes a
capability, if these are not all. For each capability that the family lacks, ``[not_offered]``
states the reason, and where the manual or the source code says so. Parameter values are the
family's defaults; a target file or the broker's own configuration overrides them. ``_ms``
parameters are milliseconds."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from brokerproof.harness.catalogue import capabilities, release_ranges
from brokerproof.harness.catalogue.tables import BadData, Key, read, table

Value: TypeAlias = int | float | str | bool

_PROFILE = {
    "description": Key(str),
    "capabilities": Key(list),
    "releases": Key(dict, required=False),
    "not_offered": Key(dict, required=False),
    "family": Key(str, required=False),
    "parameters": Key(dict),
}


class UnknownProfile(BadData):
    """There is no such profile. The message lists the existing names."""


class MissingParameter(LookupError):
    """A parameter is not stated. The message says what to add."""


class Stated(dict[str, Any]):
    """The stated parameters. Looking up any other parameter raises :class:`MissingParameter`."""

    def __missing__(self, name: str) -> Any:
        raise MissingParameter(
            f"the target states no {name}; add it to [parameters] of the target file"
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """What is expected of a broker family. Immutable; equal profiles are interchangeable."""

    name: str
    parameters: Mapping[str, Value]
    capabilities: frozenset[str]
    description: str
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """The reasons why the family's brokers lack capabilities, by capability."""
    releases: Mapping[str, str] = field(default_factory=dict)
    """The releases whose manual describes a capability, by capability, such as ``>=2.16``."""
    family: str = ""
    """In the profile of a single broker, the family whose documents bind that broker. Empty in a
    family's own profile."""

    @property
    def vendor(self) -> str:
        """The name of the profile to which the vendor's documents belong."""
        return self.family or self.name

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(Stated(self.parameters)))


def names(folder: Path | None = None) -> list[str]:
    return sorted(path.stem for path in _folder(folder).glob("*.toml"))


def load(name: str, folder: Path | None = None) -> Profile:
    """Load a profile by name (default folder: the shipped one), or from a file if ``name`` ends in
    .toml.

    Raises :class:`UnknownProfile`, and :class:`~brokerproof.harness.catalogue.tables.BadData` for a
    file that is not a profile."""
    if name.endswith(".toml"):
        return _read(Path(name))
    known = names(folder)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the profiles are {', '.join(known)}"
        raise UnknownProfile(f"there is no profile {name!r}; {hint}")
    return _read(_folder(folder) / f"{name}.toml")


def _read(path: Path) -> Profile:
    values, _ = read(path)
    entry = table(str(path), _PROFILE, values, "profile")
    try:
        capabilities.check(map(str, entry.values["capabilities"]))
    except capabilities.UnknownCapability as problem:
        raise BadData(f"{path}: {problem}") from None
    not_offered = entry.values.get("not_offered", {})
    try:
        capabilities.check_reasons(not_offered, entry.values["capabilities"])
    except capabilities.BadCapabilities as problem:
        raise BadData(f"{path}: not_offered: {problem}") from None
    if len(set(entry.values["capabilities"])) != len(entry.values["capabilities"]):
        raise BadData(f"{path}: a capability is listed twice; remove one of them")
    for key, value in entry.values["parameters"].items():
        if not isinstance(value, (int, float, str, bool)):
            raise BadData(
                f"{path}: parameter {key} is {value!r}; it should be a number, text or true/false"
            )
    return Profile(
        name=path.stem,
        parameters=entry.values["parameters"],
        capabilities=frozenset(entry.values["capabilities"]),
        description=entry.text("description"),
        not_offered=not_offered,
        releases=_releases(path, entry.values),
        family=entry.text("family"),
    )


def _releases(path: Path, values: Mapping[str, Any]) -> dict[str, str]:
    releases: dict[str, str] = values.get("releases", {})
    for name, versions in releases.items():
        if name not in values["capabilities"]:
            raise BadData(f"{path}: releases names {name!r}, which is not among the capabilities")
        if problem := release_ranges.problem_of(versions):
            raise BadData(f"{path}: releases.{name} {problem}")
    return releases


def _folder(folder: Path | None) -> Path:
    return Path(str(files("brokerproof.fixtures"))) / "profiles" if folder is None else folder
