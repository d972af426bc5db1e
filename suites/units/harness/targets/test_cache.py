"""The download cache is in the right place; its entries are created once, and always complete."""

import io
import tarfile
import threading
from pathlib import Path

import pytest

from brokerproof.harness.targets import cache
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.units.drivers.executables import script


def test_where_the_cache_is(tmp_path: Path) -> None:
    assert cache.cache_folder({"BROKERPROOF_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache.cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/brokerproof")
    found = cache.cache_folder({"XDG_CACHE_HOME": "relative"})
    assert found == Path.home() / ".cache" / "brokerproof"
    assert cache.cache_folder({}) == Path.home() / ".cache" / "brokerproof"


def test_what_many_want_at_once_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []
    start = threading.Barrier(8)

    def make(folder: Path) -> Path:
        made.append(1)
        (folder / "x").write_text("whole")
        return folder / "x"

    def want() -> None:
        start.wait()
        assert cache.once(tmp_path / "deep" / "thing", make).read_text() == "whole"

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_a_failure_leaves_nothing_behind_and_the_next_attempt_succeeds(tmp_path: Path) -> None:
    def fail(folder: Path) -> Path:
        (folder / "half").write_text("half")
        raise SetUpFailed("no")

    with pytest.raises(SetUpFailed):
        cache.once(tmp_path / "thing", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".thing.lock"]
    assert cache.once(tmp_path / "thing", lambda folder: Path(script(folder / "x", ""))).exists()


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetUpFailed, match=r"cannot be written .*set BROKERPROOF_CACHE"):
        cache.once(tmp_path / "file" / "thing", lambda folder: folder)


def archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 2
            tar.addfile(entry, io.BytesIO(b"hi"))
    return path


def test_an_archive_is_unpacked_as_its_one_folder(tmp_path: Path) -> None:
    home = cache.unpacked(
        archive(tmp_path / "a.tar.gz", "thing-1/lib/x", "thing-1/y"), tmp_path / "home"
    )
    assert (home / "lib" / "x").read_text() == "hi"
    assert (home / "y").is_file()


@pytest.mark.parametrize("names", [("a/x", "b/x"), ("x",), ("../outside/x",)])
def test_an_archive_of_another_shape_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(SetUpFailed, match=r"a\.tar\.gz: .*delete it"):
        cache.unpacked(archive(tmp_path / "a.tar.gz", *names), tmp_path / "home")
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "outside").exists()


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", "thing-1/x")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SetUpFailed, match=r"cannot be unpacked"):
        cache.unpacked(path, tmp_path / "home")
