"""Compares a password with a plain or hashed password from a users file.

A hash is ``ENC(ITERATIONS:SALT:HASH)`` with salt and hash in hexadecimal digits: PBKDF2 with
HMAC-SHA-1 (RFC 8018), as printed by ``artemis mask --hash``, in the parentheses that
artemis-users.properties requires."""

import hashlib
import hmac
import re
from collections.abc import Mapping

MOST_ITERATIONS = 10_000_000
"""The maximum amount of work that a hash may require: some seconds. More is a mistake or an
attack."""

_HASH = re.compile(
    r"ENC\((?P<iterations>[0-9]{1,8}):(?P<salt>(?:[0-9A-Fa-f]{2})+):(?P<hash>(?:[0-9A-Fa-f]{2}){16,})\)"
)
_NOBODYS = (
    "ENC(1024:00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF:" + "00" * 64 + ")"
)


def is_hash(stored: str) -> bool:
    """True if ``stored`` is a hash that :func:`admitted` supports."""
    match = _HASH.fullmatch(stored)
    return match is not None and 1 <= int(match["iterations"]) <= MOST_ITERATIONS


def admitted(users: Mapping[str, str], name: str, password: bytes) -> bool:
    """Return True if ``name`` is a user with that password.

    This takes constant time, even for an unknown name. If any user has a hash, it takes the time of
    a hash."""
    stored = users.get(name)
    if stored is None:
        stored = _NOBODYS if any(map(is_hash, users.values())) else ""
    same = _matches(stored, password)
    return same and name in users


def _matches(stored: str, password: bytes) -> bool:
    match = _HASH.fullmatch(stored) if is_hash(stored) else None
    if match is None:
        return hmac.compare_digest(password, stored.encode())
    expected, salt = bytes.fromhex(match["hash"]), bytes.fromhex(match["salt"])
    derived = hashlib.pbkdf2_hmac("sha1", password, salt, int(match["iterations"]), len(expected))
    return hmac.compare_digest(derived, expected)
