"""The cache folder: downloads, unpacked brokers and records of running brokers. The folder is
always outside a repository.

Several runs may use the folder concurrently. Anything under its final name is complete, because it
is created under another name, with a lock held, and then renamed.
"""

import fcntl
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from brokerproof.harness.targets.failure import SetUpFailed


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return ``$BROKERPROOF_CACHE``, else ``$XDG_CACHE_HOME/brokerproof``, else
    ``~/.cache/brokerproof``. The folder need not exist."""
    environment = os.environ if environment is None else environment
    if own := environment.get("BROKERPROOF_CACHE"):
        return Path(own).absolute()
    base = environment.get("XDG_CACHE_HOME", "")
    # According to the XDG specification, a relative path is ignored.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "brokerproof"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock on ``path`` against other threads and processes, waiting for it indefinitely.

    Raises :class:`SetUpFailed` if the folder is not writable.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(
            path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
    except OSError as problem:
        raise SetUpFailed(
            f"{path.parent}: cannot be written ({problem.strerror}); set BROKERPROOF_CACHE to a"
            " writable folder"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def once(path: Path, make: Callable[[Path], Path]) -> Path:
    """Return ``path``, created if missing.

    ``make(folder)`` gets an empty folder and returns the content of ``path``. If ``make`` raises,
    nothing is left behind.
    """
    if path.exists():
        return path
    with locked(path):
        if path.exists():  # another run made it while this run waited
            return path
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            make(Path(folder)).rename(path)
    return path


def unpacked(archive: Path, path: Path) -> Path:
    """Unpack the only top-level folder of a ``.tar.gz`` as ``path``, unless that has been done
    already. Raises :class:`SetUpFailed`."""

    def unpack(folder: Path) -> Path:
        try:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, filter="data")
        except (tarfile.TarError, OSError, EOFError) as problem:
            raise SetUpFailed(
                f"{archive}: cannot be unpacked ({problem}); delete it and install again"
            ) from None
        tops = list(folder.iterdir())
        if len(tops) != 1 or not tops[0].is_dir():
            raise SetUpFailed(
                f"{archive}: holds {len(tops)} top-level entries where one folder was expected;"
                " delete it"
            )
        return tops[0]

    return once(path, unpack)


def remove(path: Path) -> None:
    """Delete a file or folder in the cache, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
