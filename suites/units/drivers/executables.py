"""Executable scripts that replace programs that a target starts."""

import stat
from pathlib import Path


def script(path: Path, text: str, interpreter: str = "/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{interpreter}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_java(path: Path, version: str, after: str = "exit 1") -> Path:
    """Write a script that prints a version like java, and otherwise runs ``after``."""
    return script(
        path,
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" x\' >&2; exit 0;'
        f" fi\n{after}",
    )
