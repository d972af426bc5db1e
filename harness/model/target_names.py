"""Names of targets: ``NAME``, or ``NAME@RELEASE`` for one release of a broker."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def family(target: str) -> str:
    return target.partition("@")[0]


def release(target: str) -> Version | None:
    """Return the release in a target's name; None if it has none."""
    try:
        return Version(target.partition("@")[2])
    except InvalidVersion:
        return None
