"""Ranges of a vendor's releases, such as ``>=2.6, <2.60``, and which releases are in them."""

import re

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version


def problem_of(versions: object) -> str | None:
    """Return what is wrong with a range, and what it should look like; None if it is one."""
    try:
        SpecifierSet(str(versions))
    except InvalidSpecifier:
        return f'is {versions!r}; it should look like ">=2.34" or ">=2.6, <2.34"'
    return None


def in_range(versions: str, broker_version: str) -> bool:
    """True if the first number in ``broker_version`` is in the range ``versions``.

    An empty range contains every version. A version without a number is only in an empty range."""
    if not versions:
        return True
    release = _release(broker_version)
    return release is not None and _contains(versions, release)


def binds(versions: str, broker_version: str) -> bool:
    """True if a sentence in the manuals of these releases binds the broker. A broker that does not
    say its release is bound by the newest manual."""
    return _contains(versions, _release(broker_version) or Version("99999"))


def manual_of(broker_version: str) -> str:
    """Return the name of the manual that binds the broker: see :func:`binds`."""
    return f"the manual of {broker_version}" if _release(broker_version) else "the newest manual"


def _release(broker_version: str) -> Version | None:
    number = re.search(r"\d+(\.\d+)*", broker_version)
    return None if number is None else Version(number.group())


def _contains(versions: str, release: Version) -> bool:
    return SpecifierSet(versions).contains(release, prereleases=True)
