"""Creates stores from settings, and locates their files."""

import contextlib
import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.persistence.disk import Disk, sync_folder
from brokerproof.reference_broker.persistence.pages import PageLimits
from brokerproof.reference_broker.persistence.recovery import Folder, recover
from brokerproof.reference_broker.persistence.store import Store, StoreOptions
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule
from brokerproof.reference_broker.settings.settings import Settings

NO_LIMIT = 2**63
_PAGES_ONLY = StoreOptions(journaled=False)


class InUse(Exception):
    """A folder that another broker uses, or that cannot be used."""


def limits(rule: Rule) -> PageLimits:
    read = (
        2 * rule.page_size_bytes if rule.max_read_page_bytes is None else rule.max_read_page_bytes
    )
    return PageLimits(
        page_size=rule.page_size_bytes,
        cache=rule.page_max_cache_size,
        read_bytes=NO_LIMIT if read < 0 else read,
        read_messages=rule.max_read_page_messages,
        limit_bytes=rule.page_limit_bytes,
        limit_messages=rule.page_limit_messages,
        fails=rule.page_full_policy is FullPolicy.FAIL,
    )


def store(
    settings: Settings, folder: Folder | None = None, options: StoreOptions | None = None
) -> Store:
    """Return a store for a broker with ``settings``.

    With ``folder``, durable data is read from there and survives. Without it, there are only pages,
    which no later broker can use. Raises ``OSError`` for a file that cannot be read.
    """
    rules = AddressRules.for_(settings)
    if folder is None:
        return Store(_PAGES_ONLY, lambda name: limits(rules.of(name)))
    if options is None:
        options = StoreOptions(journaled=True, segment=settings.journal_file_size)
    return Store(options, lambda name: limits(rules.of(name)), recover(folder))


@dataclass(frozen=True, slots=True)
class FolderClaim:
    """A broker's folders, which are reserved for it while it runs. ``handles`` are the locks;
    ``places`` has the device and inode of each folder and of the lock file."""

    handles: tuple[int, ...]
    places: dict[Path, tuple[int, int]]

    def trouble(self) -> str | None:
        """Return one sentence that says what happened to a folder; None if nothing did."""
        for path, place in self.places.items():
            try:
                status = path.stat()
            except OSError as problem:
                return (
                    f"{path}: was moved, removed or made inaccessible while the broker ran"
                    f" ({problem.strerror}); nothing is stored and nothing confirmed until it is"
                    " back"
                )
            if (status.st_dev, status.st_ino) != place:
                return (
                    f"{path}: was replaced while the broker ran; nothing is stored and nothing"
                    " confirmed until the original is back or the broker is restarted"
                )
        return None

    def release(self) -> None:
        """Let other brokers use the folders."""
        for handle in self.handles:
            os.close(handle)


def disk(settings: Settings, data: Path, claim: FolderClaim | None = None) -> Disk:
    """Return the files of a broker with ``settings`` and data in ``data``, reserved by
    ``claim``."""
    return Disk(
        {
            "paging": data / settings.paging_directory,
            "journal": data / settings.journal_directory,
            "large": data / settings.large_messages_directory,
        },
        data / "damaged",
        *(() if claim is None else (claim.trouble,)),
    )


def claim(settings: Settings, data: Path) -> FolderClaim:
    """Reserve the folder for the lifetime of this process. Raises :class:`InUse`.

    Both the journal's folder and a file in it are locked: the folder cannot be removed while the
    journal exists, and the file serves file systems that cannot lock folders.
    """
    data = data.absolute()
    journal = data / settings.journal_directory
    others = [data / settings.paging_directory, data / settings.large_messages_directory]
    handles: list[int] = []
    try:
        for folder in (journal, *others):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (journal.parent, data, data.parent):
            sync_folder(folder)
        handles.append(os.open(journal, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        handles.append(os.open(journal / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as problem:
        for handle in handles:
            os.close(handle)
        raise InUse(
            f"{data}: cannot be used ({problem.strerror}); name a folder that can be written to"
        ) from None
    claim = FolderClaim(tuple(handles), {})
    for handle in handles:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if handle == handles[0] and problem.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                continue
            claim.release()
            raise InUse(
                f"{data}: another broker uses this folder; stop it, or name another folder"
            ) from None
    for path in (data, journal, *others, journal / "lock"):
        status = path.stat()
        claim.places[path] = status.st_dev, status.st_ino
    return claim


def forget_pages(disk: Disk) -> None:
    """Remove the useless pages and large bodies that a broker without a journal left behind."""
    for name in tuple(disk.names()):
        if (name.startswith("paging/") and name.endswith(".page")) or (
            name.startswith("large/") and name.endswith(".body")
        ):
            with contextlib.suppress(OSError):
                disk.path(name).unlink()
