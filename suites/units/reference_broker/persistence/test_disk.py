"""Files of a store, with real files: written, synced, failing, and locked for one broker."""

import errno
import os
from pathlib import Path

import pytest

from brokerproof.harness.model.broker_io import FilesStored, LoadFile, StoreFiles, Write
from brokerproof.reference_broker.persistence import store_from_settings
from brokerproof.reference_broker.persistence.disk import Disk
from brokerproof.reference_broker.settings.settings import Settings


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk({"paging": tmp_path / "p", "journal": tmp_path / "j" / "deep"}, tmp_path / "d")


def test_files_are_written_at_their_offsets_read_and_removed(disk: Disk, tmp_path: Path) -> None:
    writes = (
        Write("paging/a/1.page", 0, b"hello", False),
        Write("paging/a/1.page", 5, b" you", True),
    )
    assert disk.store(StoreFiles(1, (*writes, Write("journal/1", 0, b"x", True)))) == FilesStored(1)
    assert disk.load(LoadFile(2, "paging/a/1.page", 7)).data == b"hello y"
    assert list(disk.names()) == ["paging/a/1.page", "journal/1"]
    assert disk.store(StoreFiles(3, (), ("paging/a/1.page", "journal/none"))) == FilesStored(3)
    assert list(disk.names()) == ["journal/1"]
    assert not (tmp_path / "p" / "a").exists(), "the folder goes with its last page"
    missing = disk.load(LoadFile(4, "paging/a/1.page", 7))
    assert missing.problem == f"{tmp_path}/p/a/1.page: cannot be read (No such file or directory)"


def test_a_write_that_fails_says_so_and_what_comes_behind_is_not_done(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    answer = disk.store(
        StoreFiles(1, (Write("journal/1", 0, b"x", True), Write("journal/2", 0, b"x", True)))
    )
    assert answer.full
    assert "cannot be written (No space left on device)" in str(answer.problem)
    assert list(disk.names()) == ["journal/1"]


def test_an_fsync_that_fails_is_no_want_of_space(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fails)
    answer = disk.store(StoreFiles(1, (Write("journal/1", 0, b"x", True),)))
    assert not answer.full
    assert "fsync failed (Input/output error)" in str(answer.problem)


def test_the_name_of_a_new_file_is_synced_with_its_first_fsync(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real(handle))[1])
    disk.store(StoreFiles(1, (Write("paging/a/1.page", 0, b"x", False),)))
    assert synced == []
    disk.store(StoreFiles(2, (Write("paging/a/1.page", 1, b"y", True),)))
    assert len(synced) == 2, "its folder, and the folder of that"
    disk.store(StoreFiles(3, (Write("paging/a/1.page", 2, b"z", True),)))
    assert len(synced) == 2


def test_a_write_in_pieces_is_finished(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: real(handle, bytes(data)[:3], at))
    assert disk.store(StoreFiles(1, (Write("journal/1", 2, b"0123456789", True),))) == FilesStored(
        1
    )
    assert disk.read("journal/1") == b"\0\0" + b"0123456789"


def test_one_broker_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    held = store_from_settings.claim(Settings(), tmp_path)
    with pytest.raises(
        store_from_settings.InUse,
        match="another broker uses this folder; stop it, or name another folder",
    ):
        store_from_settings.claim(Settings(), tmp_path)
    held.release()
    store_from_settings.claim(Settings(), tmp_path).release()
    with pytest.raises(store_from_settings.InUse, match="cannot be used"):
        store_from_settings.claim(Settings(), Path(__file__))
