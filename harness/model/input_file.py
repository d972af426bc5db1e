"""Reads untrusted files: regular files only, up to a size limit, UTF-8 only.

A named pipe would block, a device or a huge file would fill the memory, and another encoding would
raise an exception far from the file. All these are rejected, with a reason that completes ``PATH:
…``."""

import codecs
import os
import stat
from pathlib import Path

MOST_BYTES = 64 << 20
"""The most bytes of a file that is read whole. The results of all suites take 0.6 MB per target."""


MOST_CHARACTERS = 1000
"""The maximum length of an error. If it is longer, the quoted part of the file is cut, but not the
position or the advice."""


class OneSentence(Exception):
    """An error on one line of limited length, no matter how much of the file it quotes."""

    def __init__(self, text: str) -> None:
        line = "".join(
            character if character.isprintable() else " " if character.isspace() else "\ufffd"
            for character in text
        )
        if len(line) > MOST_CHARACTERS:
            half = MOST_CHARACTERS // 2
            line = f"{line[:half]} … {line[-half:]}"
        super().__init__(line)


class BadInput(OneSentence):
    """A file cannot be read. The message gives the reason and what is expected, without the file's
    name."""


def open_regular(path: Path) -> int:
    """Return a descriptor of the regular file ``path``. Raises :class:`BadInput`.

    The file type is read from the descriptor, so the file cannot be swapped between check and use.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise BadInput(f"cannot be read ({problem.strerror})") from None
    except ValueError:
        raise BadInput("cannot be read (its name contains a NUL)") from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    kind = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise BadInput(f"cannot be read (it is {kind}); name a file")


def is_file(path: Path) -> bool:
    """Return True if ``path`` is a file; False, rather than an exception, for an impossible
    name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of ``path``, which may have at most ``most`` bytes. Raises
    :class:`BadInput`."""
    with os.fdopen(open_regular(path), "rb") as file:
        try:
            data = file.read(most + 1)
        except OSError as problem:
            raise BadInput(f"cannot be read ({problem.strerror})") from None
    if len(data) > most:
        raise BadInput(f"cannot be read (it has more than {most} bytes); give a smaller file")
    return data


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of ``path`` with line endings normalised to LF. Raises :class:`BadInput`."""
    return decoded(read_bytes(path, most)).replace("\r\n", "\n")


def decoded(data: bytes) -> str:
    """Return ``data`` as text. Raises :class:`BadInput` for a byte order mark or invalid UTF-8."""
    if data.startswith(codecs.BOM_UTF8):
        raise BadInput("begins with a byte order mark; save it as UTF-8 without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise BadInput(
            f"line {line}: is not UTF-8 (byte {problem.start} of the file is"
            f" 0x{data[problem.start]:02x}); save it as UTF-8"
        ) from None
