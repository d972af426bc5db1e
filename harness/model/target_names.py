"""The names of targets: ``NAME``, or ``NAME@RELEASE`` for one release of a broker."""

from packaging.version import InvalidVersion, Version


def family(target: str) -> str:
    return target.partition("@")[0]


def release(target: str) -> Version | None:
    try:
        return Version(target.partition("@")[2])
    except InvalidVersion:
        return None
