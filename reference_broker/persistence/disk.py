"""Performs the store's effects on files.

Only this module accesses files; it blocks, so a thread calls it. ``sync`` is fdatasync, and a new
file's folder is synced too, so both content and name are on the disk, unless the disk falsely
claims to have flushed its cache.
"""

import contextlib
import errno
import filecmp
import itertools
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from brokerproof.harness.model.broker_io import FileLoaded, FilesStored, LoadFile, StoreFiles, Write

_MOST_OPEN = 32
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a power failure. Raises ``OSError``."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _no_trouble() -> str | None:
    return None


class Disk:
    """``folders`` maps the first part of each path to a real folder: ``{"journal": …, "paging":
    …}``; copies of damaged files are kept below ``damaged``. ``trouble`` returns a sentence if the
    folders no longer belong to this broker; then nothing is written, and no write is confirmed."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        damaged: Path,
        trouble: Callable[[], str | None] = _no_trouble,
    ) -> None:
        self._folders = dict(folders)
        self._damaged = damaged
        self._trouble = trouble
        self._open: OrderedDict[str, int] = OrderedDict()
        self._new: set[str] = set()
        """Files whose names have not been synced yet."""

    def path(self, name: str) -> Path:
        first, _, rest = name.partition("/")
        return self._folders[first] / rest

    # --- what the store asks for ------------------------------------------------------------------

    def store(self, effect: StoreFiles) -> FilesStored:
        """Write and remove files. The folders are checked before, so that nothing is written
        elsewhere, and afterwards, so that nothing written elsewhere is confirmed."""
        answer = self._store(effect) if (problem := self._trouble()) is None else None
        if answer is not None and answer.problem is None:
            problem = self._trouble()
        if problem is None:
            assert answer is not None
            return answer
        for name in list(self._open):
            self._forget(name)
        return FilesStored(effect.ticket, problem)

    def _store(self, effect: StoreFiles) -> FilesStored:
        name = ""
        try:
            for name in effect.aside:
                self._keep(name)
            for name in effect.before:
                self._remove(name)
        except OSError as problem:
            sentence = f"{self.path(name)}: cannot be copied or removed ({problem.strerror})"
            return FilesStored(effect.ticket, sentence, full=problem.errno in _NO_SPACE)
        for write in effect.writes:
            try:
                handle = self._handle(write.file)
                self._write(handle, write)
            except OSError as problem:
                self._forget(write.file)
                sentence = f"{self.path(write.file)}: cannot be written ({problem.strerror})"
                return FilesStored(effect.ticket, sentence, full=problem.errno in _NO_SPACE)
            try:
                if write.sync:
                    self._sync(handle, write.file)
            except OSError as problem:
                self._forget(write.file)
                return FilesStored(
                    effect.ticket, f"{self.path(write.file)}: fsync failed ({problem.strerror})"
                )
        for name in effect.removes:
            try:
                self._remove(name)
            except OSError as problem:
                return FilesStored(
                    effect.ticket, f"{self.path(name)}: cannot be removed ({problem.strerror})"
                )
        return FilesStored(effect.ticket)

    def load(self, effect: LoadFile) -> FileLoaded:
        try:
            data = self.read_part(effect.file, effect.offset, effect.length)
        except OSError as problem:
            sentence = f"{self.path(effect.file)}: cannot be read ({problem.strerror})"
            return FileLoaded(effect.ticket, b"", sentence)
        return FileLoaded(effect.ticket, data)

    def _handle(self, name: str) -> int:
        handle = self._open.get(name)
        if handle is not None:
            self._open.move_to_end(name)
            return handle
        path = self.path(name)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._new.add(name)
        handle = self._open[name] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if len(self._open) > _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        return handle

    @staticmethod
    def _write(handle: int, write: Write) -> None:
        data, at = memoryview(write.data), write.offset
        while data:
            written = os.pwrite(handle, data, at)
            data, at = data[written:], at + written

    def _sync(self, handle: int, name: str) -> None:
        os.fdatasync(handle)
        if name in self._new:
            parent = self.path(name).parent
            for folder in (parent, parent.parent):
                sync_folder(folder)
            self._new.discard(name)

    def _forget(self, name: str) -> None:
        handle = self._open.pop(name, None)
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)

    def _remove(self, name: str) -> None:
        self._forget(name)
        self._new.discard(name)
        path = self.path(name)
        path.unlink(missing_ok=True)
        if name.startswith("paging/"):
            with contextlib.suppress(OSError):  # the folder is removed with its last page
                path.parent.rmdir()

    def _keep(self, name: str) -> None:
        """Keep a damaged file even if its name is removed, since no broker writes to it again."""
        path = self.path(name)
        for number in itertools.count():
            copy = self._damaged / f"{name}.{number}"
            try:
                copy.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, copy)
                return
            except FileNotFoundError:
                return
            except FileExistsError:
                if copy.samefile(path):
                    return
            except OSError:  # no links here, or another file system
                if not copy.exists():
                    shutil.copyfile(path, copy)
                    return
                if filecmp.cmp(path, copy, shallow=False):
                    return

    def close(self) -> None:
        for name in list(self._open):
            self._forget(name)

    # --- what recovery asks for -------------------------------------------------------------------

    def names(self) -> Iterator[str]:
        for first, folder in self._folders.items():
            for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
                if path.is_file():
                    yield f"{first}/{path.relative_to(folder).as_posix()}"

    def read(self, name: str) -> bytes:
        return self.path(name).read_bytes()

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        """Return those of the requested bytes of a file that exist."""
        with self.path(name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return self.path(name).stat().st_size
