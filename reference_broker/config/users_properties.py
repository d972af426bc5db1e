"""``artemis-users.properties``: one ``name = password`` a line, as Artemis's PropertiesLoginModule reads it."""

from __future__ import annotations

from pathlib import Path

from reference_broker.config.settings import BadSetting
from reference_broker.config.values import Where

NAME = "artemis-users.properties"


def read(path: Path) -> dict[str, str]:
    """Passcode by login. Empty lines and lines that begin with ``#`` or ``!`` say nothing.

    Raises ``BadSetting`` for a missing or unreadable file, a line without ``=``, an empty or repeated name, and a
    masked password (``ENC(…)``), which cannot be compared here.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8"
        raise BadSetting(
            f"{path}: cannot be read ({reason}); security is on, so write one line NAME = PASSWORD for each user "
            "there, or set security-enabled to false"
        ) from None
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        name, equals, password = (part.strip() for part in line.partition("="))
        where = Where(path, number, name if equals else "")
        if not equals or not name:
            raise where.bad("the line is no user", "write NAME = PASSWORD")
        if name in users:
            raise where.bad("the user is given twice", "keep one of the lines")
        if password.startswith("ENC("):
            raise where.bad("a masked password cannot be checked by this broker", "write it in plain text")
        users[name] = password
    return users
