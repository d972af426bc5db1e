"""Stores made as the settings say, and where their files are."""

from __future__ import annotations

import contextlib
import fcntl
import os
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
    """Another broker works in this folder, or it cannot be used; one sentence."""


def limits(rule: Rule) -> PageLimits:
    """The page limits of an address for which ``rule`` holds."""
    read = (
        2 * rule.page_size_bytes if rule.max_read_page_bytes is None else rule.max_read_page_bytes
    )
    return PageLimits(
        page_size=rule.page_size_bytes,
        cache=rule.page_max_cache_size,
        read_octets=NO_LIMIT if read < 0 else read,
        read_messages=rule.max_read_page_messages,
        limit_octets=rule.page_limit_bytes,
        limit_messages=rule.page_limit_messages,
        fails=rule.page_full_policy is FullPolicy.FAIL,
    )


def store(
    settings: Settings, folder: Folder | None = None, options: StoreOptions | None = None
) -> Store:
    """A store for a broker with ``settings``. With ``folder`` what is durable survives, and is read
    from there now.

    Without one there are only pages, which are of no use to another broker. Raises ``OSError`` for
    a file that cannot be read.
    """
    rules = AddressRules.for_(settings)
    if folder is None:
        return Store(_PAGES_ONLY, lambda name: limits(rules.of(name)))
    if options is None:
        options = StoreOptions(journaled=True, segment=settings.journal_file_size)
    return Store(options, lambda name: limits(rules.of(name)), recover(folder))


def disk(settings: Settings, data: Path) -> Disk:
    """The files of a broker with ``settings`` whose data are in ``data``."""
    return Disk(
        {
            "paging": data / settings.paging_directory,
            "journal": data / settings.journal_directory,
            "large": data / settings.large_messages_directory,
        }
    )


def claim(settings: Settings, data: Path) -> int:
    """Takes the folder for this process, as long as it lives; returns the handle that holds it.
    Raises :class:`InUse`."""
    folder = data / settings.journal_directory
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (settings.paging_directory, settings.large_messages_directory):
            (data / name).mkdir(parents=True, exist_ok=True)
        for each in (folder.parent, data, data.absolute().parent):
            sync_folder(each)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise InUse(
            f"{data}: cannot be used ({problem.strerror}); name a folder that can be written to"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InUse(
            f"{data}: another broker works there; stop it, or name another folder"
        ) from None
    return handle


def forget_pages(disk: Disk) -> None:
    """Removes the pages and large bodies that a broker without a journal left: they are of no use
    to anybody."""
    for name in tuple(disk.names()):
        if (name.startswith("paging/") and name.endswith(".page")) or (
            name.startswith("large/") and name.endswith(".body")
        ):
            with contextlib.suppress(OSError):
                disk.path(name).unlink()
