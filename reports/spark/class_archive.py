"""An archive of the classes that Spark's JVM loads. Later JVMs map the archive instead of loading
the classes.

Loading classes from 280 jars takes nearly half of the processor time of a small report's JVM. A JVM
can write the classes it has loaded to a file when it ends (``-XX:ArchiveClassesAtExit``). Writing
takes about twice the time that one use of the file saves, and the file takes 90 to 170 MB in the
cache folder. So an installation's first session only leaves a mark, the second writes the archive,
and later sessions use it. A machine that is used for a single report never writes one. A JVM
ignores an archive that does not match it.
"""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.targets.cache import cache_folder


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The options with which one JVM uses an archive, and the file that the JVM writes."""

    options: Sequence[str] = ()
    draft: Path | None = None
    """The file that the JVM writes when it ends; None for no file."""
    path: Path = Path()

    def keep(self) -> None:
        """Use the file that a JVM wrote when it ended as the archive. If the JVM wrote none, or was
        killed while writing, nothing is kept."""
        if self.draft is not None:
            with contextlib.suppress(OSError):
                self.draft.replace(self.path)


def class_archive(
    java: Path, spark_home: Path, use: str, cache: Path | None = None
) -> ClassArchive:
    """Return the archive for this Java and this Spark. Sessions with the same ``use`` load the same
    classes and so share an archive. Without a writable cache folder there are no archives."""
    folder = (cache_folder() if cache is None else cache) / "spark-classes"
    path = folder / f"{use}-{_installation(java, spark_home)}.jsa"
    if path.exists():
        return ClassArchive([f"-XX:SharedArchiveFile={path}"])
    mark = path.with_suffix(".used")
    try:
        if mark.exists():
            for abandoned in folder.glob(f"{path.stem}.[0-9]*"):
                abandoned.unlink()
            draft = path.with_suffix(f".{os.getpid()}")
            return ClassArchive([f"-XX:ArchiveClassesAtExit={draft}"], draft, path)
        folder.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:
        pass
    return ClassArchive()


def _installation(java: Path, spark_home: Path) -> str:
    """Return a digest of the places and installation times of Java and Spark."""
    places = (java.resolve(), spark_home.resolve() / "jars")
    facts = [f"{place} {place.stat().st_mtime_ns}" for place in places]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
