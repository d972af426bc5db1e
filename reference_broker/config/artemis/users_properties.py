"""Reads the users files of Artemis, which have one ``name = value`` per line.

``artemis-users.properties`` contains passwords, plain or hashed
(:mod:`brokerproof.reference_broker.kernel.passwords`), in the format of Artemis's
PropertiesLoginModule; ``cert-users.properties``, if it exists, contains the subjects of the
certificates that identify users, in the format of its TextFileCertificateLoginModule.
"""

from collections.abc import Iterator
from pathlib import Path

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.reference_broker.config.values import Where
from brokerproof.reference_broker.kernel.passwords import is_hash
from brokerproof.reference_broker.settings.settings import BadSetting

NAME = "artemis-users.properties"
CERTIFICATES = "cert-users.properties"


def read(path: Path) -> dict[str, str]:
    """Return the passcodes, as written in the file, by login. Empty lines and lines that begin with
    ``#`` or ``!`` are ignored.

    Raises ``BadSetting`` for a missing or unreadable file, a line without ``=``, an empty or
    repeated name, and a password in ``ENC(…)`` that is masked reversibly instead of hashed and
    therefore cannot be compared here.
    """
    users: dict[str, str] = {}
    for where, name, password in _lines(path, "NAME = PASSWORD"):
        if name in users:
            raise where.bad("the user is given twice", "keep one of the lines")
        if password.startswith("ENC(") and not is_hash(password):
            raise where.bad(
                "a masked password cannot be checked by this broker",
                "write it in plain text, or as ENC(ITERATIONS:SALT:HASH), which artemis mask --hash"
                " makes",
            )
        users[name] = password
    return users


def read_certificates(path: Path) -> dict[str, str]:
    """Return the users by subject, the distinguished name of a certificate (``CN=ann, O=Example``).
    The result is empty if there is no file.

    Raises ``BadSetting`` for an unreadable file, a line without ``=``, an empty name or subject, a
    repeated subject, and a subject that is a pattern (``/…/``), which is not supported here.
    """
    if not path.exists():
        return {}
    users: dict[str, str] = {}
    for where, name, subject in _lines(path, "NAME = SUBJECT"):
        if not subject:
            raise where.bad("the user has no subject", "write NAME = SUBJECT")
        if subject.startswith("/"):
            raise where.bad(
                "a pattern is not supported by this broker", "write the subject of one certificate"
            )
        if subject in users:
            raise where.bad("the subject is given twice", "keep one of the lines")
        users[subject] = name
    return users


def _lines(path: Path, right: str) -> Iterator[tuple[Where, str, str]]:
    """Yield the place, name and value of each non-empty line; ``right`` shows a correct line."""
    try:
        text = input_file.read_text(path)
    except BadInput as problem:
        raise BadSetting(
            f"{path}: {problem}; security is on, so write one line {right} for each"
            " user there, or set security-enabled to false"
        ) from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        where = Where(path, number, name if equals else "")
        if not equals or not name:
            raise where.bad("the line is not a user", f"write {right}")
        yield where, name, value
