"""Downloads by Maven coordinates: with ``mvn`` if it is installed, otherwise over HTTPS from a
repository that the user names. brokerproof itself names none. ``mvn`` knows its own repository;
without ``mvn``, ``$BROKERPROOF_MAVEN_REPOSITORY`` or the mirror in ``~/.m2/settings.xml`` names one
with the standard layout."""

import hashlib
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.targets.cache import once
from brokerproof.harness.targets.failure import SetUpFailed

DOWNLOAD_TIMEOUT_S = 900
"""Seconds that one ``mvn`` call may take."""
READ_TIMEOUT_S = 60
"""Seconds for which a repository may be silent."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>brokerproof</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
_RUNTIME = ["-DincludeScope=runtime"]


@dataclass(frozen=True, slots=True)
class Coordinates:
    group: str
    artifact: str
    version: str
    packaging: str = "jar"
    classifier: str = ""

    @property
    def file_name(self) -> str:
        dash = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{dash}.{self.packaging}"

    @property
    def path(self) -> str:
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"

    def __str__(self) -> str:
        """Return the coordinates as ``mvn`` expects them:
        ``group:artifact:version:packaging[:classifier]``."""
        parts = [self.group, self.artifact, self.version, self.packaging, self.classifier]
        return ":".join(part for part in parts if part)


def download(
    candidates: Sequence[Coordinates], folder: Path, environment: Mapping[str, str] | None = None
) -> Path:
    """Return the file of the first of ``candidates`` that a repository has, downloaded once into
    ``folder``. All candidates have the same file name. Checksums are verified if the repository has
    any. Raises :class:`SetUpFailed`, with the result of each attempt, if none can be downloaded."""
    environment = os.environ if environment is None else environment

    def make(scratch: Path) -> Path:
        mvn = shutil.which("mvn", path=environment.get("PATH", ""))
        base = None if mvn else _repository(environment)
        if mvn is None and base is None:
            raise SetUpFailed(
                f"{candidates[0].file_name}: cannot be downloaded without mvn on the PATH: install"
                " Maven, or set BROKERPROOF_MAVEN_REPOSITORY to the base URL of a Maven repository"
            )
        lines = []
        for candidate in candidates:
            problem = (
                _with_mvn(mvn, candidate, scratch)
                if mvn
                else _over_https(str(base), candidate, scratch)
            )
            if problem is None:
                return scratch / candidate.file_name
            lines.append(f"{candidate}: {problem}")
        raise SetUpFailed(f"{candidates[0].file_name}: cannot be downloaded ({'; '.join(lines)})")

    return once(folder / candidates[0].file_name, make)


def project(artifacts: Iterable[str]) -> str:
    """Return the POM of a project that needs these artifacts, each ``group:artifact:version``."""
    return _POM.format("".join(_DEPENDENCY.format(*each.split(":")) for each in artifacts))


def collect(
    pom: str, what: str, folder: Path, environment: Mapping[str, str] | None = None
) -> Path:
    """Return the jars that the project in ``pom`` needs at run time, downloaded once into
    ``folder``. ``what`` names them in messages. This needs ``mvn``, which alone can resolve the
    releases. Raises :class:`SetUpFailed`."""
    environment = os.environ if environment is None else environment

    def make(scratch: Path) -> Path:
        mvn = shutil.which("mvn", path=environment.get("PATH", ""))
        if mvn is None:
            raise SetUpFailed(f"{what}: cannot be assembled without mvn on the PATH: install Maven")
        (scratch / "pom.xml").write_text(pom, "utf-8")
        jars = scratch / "lib"
        problem = _ran(
            mvn, ["dependency:copy-dependencies", f"-DoutputDirectory={jars}", *_RUNTIME], scratch
        )
        if problem is None and not any(jars.glob("*.jar")):
            problem = "mvn downloaded no jar"
        if problem is not None:
            raise SetUpFailed(f"{what}: cannot be downloaded ({problem})")
        return jars

    return once(folder, make)


def _with_mvn(mvn: str, coordinates: Coordinates, folder: Path) -> str | None:
    """Let ``mvn`` fetch the file; return the error, or None if there is none."""
    problem = _ran(
        mvn, ["dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"], folder
    )
    if problem is None and not (folder / coordinates.file_name).is_file():
        return "mvn downloaded no such file"
    return problem


def _ran(mvn: str, arguments: Sequence[str], folder: Path) -> str | None:
    """Run a goal in ``folder`` with strict checksums; return the error, or None."""
    command = [mvn, "-q", "-B", "-C", *arguments]
    try:
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"mvn did not finish within {DOWNLOAD_TIMEOUT_S} s"
    if ran.returncode == 0:
        return None
    # Even with -B some releases put colour codes before the first line.
    output = re.sub(r"\x1b\[[\d;]*m", "", (ran.stdout + ran.stderr).decode("utf-8", "replace"))
    errors = re.findall(r"^\[ERROR\] *(\S.*)", output, re.MULTILINE)
    return (
        f"mvn said: {errors[0][:300]}" if errors else f"mvn ended with exit code {ran.returncode}"
    )


def _repository(environment: Mapping[str, str]) -> str | None:
    """Return the base URL to use without ``mvn``: the variable's, or else that of a mirror of
    everything or of ``central``."""
    if named := environment.get("BROKERPROOF_MAVEN_REPOSITORY"):
        return named.rstrip("/")
    settings = Path(environment.get("HOME", str(Path.home()))) / ".m2" / "settings.xml"
    if not settings.is_file():
        return None
    try:
        root = ElementTree.parse(settings).getroot()
    except ElementTree.ParseError as problem:
        raise SetUpFailed(
            f"{settings}: is not XML ({problem}); fix it or set BROKERPROOF_MAVEN_REPOSITORY"
        ) from None
    for mirror in root.iterfind("./{*}mirrors/{*}mirror"):
        of = {part.strip() for part in mirror.findtext("{*}mirrorOf", "").split(",")}
        url = mirror.findtext("{*}url", "").strip()
        if url and of & {"*", "central", "external:*"} and "!central" not in of:
            return url.rstrip("/")
    return None


def _over_https(base: str, coordinates: Coordinates, folder: Path) -> str | None:
    """Fetch the file by the standard layout and verify its published checksum; return the error, or
    None."""
    url, target = f"{base}/{coordinates.path}", folder / coordinates.file_name
    if not base.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        return f"{base} is not an https:// address"
    try:
        with (
            urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as answer,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(answer, out, 1 << 20)
    except (OSError, ValueError) as problem:
        return f"{url} gave {problem}"
    for algorithm in ("sha512", "sha1"):
        published = _text(f"{url}.{algorithm}")
        if published is None:
            continue
        with target.open("rb") as file:
            actual = hashlib.file_digest(file, algorithm).hexdigest()
        # Some files contain "digest name", others only the digest.
        if published.split()[:1] != [actual]:
            target.unlink()
            return f"{url} has the {algorithm} {actual}, which differs from the published one"
        return None
    return None


def _text(url: str) -> str | None:
    """Return the content of a small text file; None if it does not exist."""
    try:
        with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as answer:
            return str(answer.read(4096).decode("ascii", "replace")).lower()
    except urllib.error.HTTPError as problem:
        problem.close()
        return None
    except OSError:
        return None
