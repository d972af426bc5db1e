"""When an archive of Spark's classes is written, and when it is used."""

from pathlib import Path

import pytest

from brokerproof.reports.spark.class_archive import ClassArchive, class_archive


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, str, Path]:
    java, spark = tmp_path / "java", tmp_path / "spark"
    java.touch()
    (spark / "jars").mkdir(parents=True)
    return java, spark, "rdd", tmp_path / "cache"


def test_the_second_session_writes_and_the_third_reads(
    places: tuple[Path, Path, str, Path],
) -> None:
    assert class_archive(*places) == ClassArchive()
    second = class_archive(*places)
    assert second.draft is not None
    assert second.options == [f"-XX:ArchiveClassesAtExit={second.draft}"]
    second.draft.write_bytes(b"classes")
    assert not second.path.exists(), "what is not finished is not used"
    second.keep()
    third = class_archive(*places)
    assert third.options == [f"-XX:SharedArchiveFile={second.path}"]
    assert third.draft is None
    assert second.path.read_bytes() == b"classes"


def test_a_jvm_that_wrote_nothing_leaves_no_archive(places: tuple[Path, Path, str, Path]) -> None:
    class_archive(*places)
    second = class_archive(*places)
    second.keep()
    assert not second.path.exists()


def test_what_a_killed_session_wrote_does_not_stay(places: tuple[Path, Path, str, Path]) -> None:
    class_archive(*places)
    second = class_archive(*places)
    assert second.draft is not None
    left = second.draft.with_suffix(".1")
    left.touch()
    class_archive(*places)
    assert not left.exists()


def test_another_installation_and_another_use_have_archives_of_their_own(
    places: tuple[Path, Path, str, Path], tmp_path: Path
) -> None:
    java, spark, use, cache = places
    class_archive(*places)
    assert class_archive(java, spark, "sql", cache) == ClassArchive()
    other = tmp_path / "other"
    (other / "jars").mkdir(parents=True)
    assert class_archive(java, other, use, cache) == ClassArchive()
    assert class_archive(*places).draft is not None


def test_a_cache_that_cannot_be_written_has_no_archives(
    places: tuple[Path, Path, str, Path],
) -> None:
    java, spark, use, cache = places
    cache.touch()
    for _ in range(2):
        assert class_archive(java, spark, use, cache) == ClassArchive()
