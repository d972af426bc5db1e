"""The passcode of a target: literal, from the environment, or from a file.

``passcode_env = "NAME"`` names a variable, ``passcode_file = "FILE"`` names a file that contains
nothing but the passcode, and ``${NAME}`` stands for a variable in ``login``, ``passcode`` and the
endpoints. URLs accept the same names as options. Such a passcode appears in no command line and in
no file of a run.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput, OneSentence

SOURCES = ("passcode_env", "passcode_file")
MOST_BYTES = 4096
"""The most bytes in a passcode file."""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class NoCredentials(OneSentence):
    """A passcode or a variable is missing. The message gives the key and what would be right."""


def filled_in(text: str) -> str:
    """Return ``text`` with ``${NAME}`` from the environment. Raises :class:`NoCredentials`."""
    return _VARIABLE.sub(lambda match: _variable(match[1], f"${{{match[1]}}}"), text)


def passcode(values: Mapping[str, Any], folder: Path) -> str | None:
    """Return the passcode that ``values`` contain or refer to; relative paths start from
    ``folder``.

    Raises :class:`NoCredentials`, also if there is more than one passcode.
    """
    given = [key for key in ("passcode", *SOURCES) if values.get(key) is not None]
    if len(given) > 1:
        raise NoCredentials(f"{' and '.join(given)} both give a passcode; keep one of them")
    if not given:
        return None
    (key,) = given
    if key == "passcode_env":
        return _variable(str(values[key]), key)
    if key == "passcode_file":
        return _of_file(folder / str(values[key]))
    return filled_in(str(values[key]))


def _variable(name: str, key: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise NoCredentials(f"{key}: the environment has no variable {name!r}; set it")
    return value


def _of_file(path: Path) -> str:
    try:
        text = input_file.read_text(path, MOST_BYTES).removesuffix("\n")
    except BadInput as problem:
        raise NoCredentials(f"passcode_file: {path}: {problem}") from None
    if not text or "\n" in text:
        raise NoCredentials(f"passcode_file: {path}: should hold one line, the passcode")
    return text
