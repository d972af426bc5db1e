"""A data folder that is moved, replaced or shared while a broker uses it, and real disks that
fail."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerproof.harness.model.broker_io import FilesStored, StoreFiles, Write
from brokerproof.reference_broker.persistence import disk as disks
from brokerproof.reference_broker.persistence import store_from_settings
from brokerproof.reference_broker.persistence.disk import Disk
from brokerproof.reference_broker.persistence.store_from_settings import FolderClaim
from brokerproof.reference_broker.settings.settings import Settings

BATCH = StoreFiles(1, (Write("journal/000000000.journal", 0, b"x", sync=True),))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def claim(data: Path) -> Iterator[FolderClaim]:
    claim = store_from_settings.claim(Settings(), data)
    yield claim
    claim.release()


@pytest.fixture
def disk(data: Path, claim: FolderClaim) -> Disk:
    disk = store_from_settings.disk(Settings(), data, claim)
    assert disk.store(BATCH) == FilesStored(1)
    return disk


def test_nothing_is_confirmed_while_the_folder_is_elsewhere(disk: Disk, data: Path) -> None:
    data.rename(data.with_name("moved"))
    problem = disk.store(BATCH).problem
    assert problem is not None
    assert problem.startswith(f"{data}: was moved, removed or made inaccessible while the broker")
    assert "nothing confirmed until it is back" in problem
    assert not data.exists(), "nothing is written in its place"
    data.with_name("moved").rename(data)
    assert disk.store(BATCH) == FilesStored(1)


@pytest.mark.parametrize("place", ["", "journal", "paging", "large-messages", "journal/lock"])
def test_a_folder_or_lock_that_was_replaced_is_noticed(disk: Disk, data: Path, place: str) -> None:
    path = data / place if place else data
    path.rename(data.with_name("former"))
    if place.endswith("lock"):
        path.touch()
    else:
        path.mkdir()
    for folder in ("journal", "paging", "large-messages"):
        (data / folder).mkdir(exist_ok=True)
    problem = disk.store(BATCH).problem
    assert problem is not None
    assert problem.startswith(f"{path}: was replaced while the broker ran")


def test_a_folder_that_is_moved_while_a_batch_is_written_is_not_confirmed(
    disk: Disk, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fdatasync

    def moves(handle: int) -> None:
        real(handle)
        data.rename(data.with_name("moved"))

    monkeypatch.setattr(os, "fdatasync", moves)
    assert "was moved" in str(disk.store(BATCH).problem)


def test_a_removed_lock_admits_no_other_broker(disk: Disk, data: Path) -> None:
    (data / "journal" / "lock").unlink()
    with pytest.raises(store_from_settings.InUse, match="another broker uses this folder"):
        store_from_settings.claim(Settings(), data)
    problem = disk.store(BATCH).problem
    assert problem is not None
    assert problem.startswith(f"{data}/journal/lock: was replaced while the broker ran")


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["open", "pwrite", "fdatasync", "fsync"])
def test_a_failing_system_call_is_a_sentence(
    data: Path, claim: FolderClaim, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    def fails(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    disk = store_from_settings.disk(Settings(), data, claim)
    monkeypatch.setattr(disks.os, call, fails)
    answer = disk.store(BATCH)
    words = "fsync failed" if "sync" in call else "cannot be written"
    path = data / "journal" / "000000000.journal"
    assert answer.problem == f"{path}: {words} ({os.strerror(code)})"
    assert not answer.full


def test_a_file_that_cannot_be_removed_is_no_success(
    disk: Disk, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is not removed would be delivered again after a restart, so the batch fails."""

    def fails(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", fails)
    problem = disk.store(StoreFiles(1, (), ("journal/000000000.journal",))).problem
    path = data / "journal" / "000000000.journal"
    assert problem == f"{path}: cannot be removed (Read-only file system)"


@pytest.mark.parametrize("links", [True, False])
def test_a_copy_of_a_damaged_file_is_kept(
    disk: Disk, data: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:

        def fails(*arguments: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", fails)
    name = "journal/000000000.journal"
    for _ in range(2):
        assert disk.store(StoreFiles(2, aside=(name,), writes=())) == FilesStored(2)
    assert disk.store(StoreFiles(3, (), (name,))) == FilesStored(3)
    assert (data / "damaged" / f"{name}.0").read_bytes() == b"x"
    assert len(list((data / "damaged" / "journal").iterdir())) == 1
    assert list(disk.names()) == ["journal/lock"]
