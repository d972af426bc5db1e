"""The Java runtime with which a target is started."""

from pathlib import Path

import pytest

from brokerproof.harness.targets import java_runtime
from brokerproof.suites.units.drivers.executables import fake_java, script


@pytest.mark.parametrize(
    ("said", "version"), [("1.8.0_402", 8), ("11.0.2", 11), ("17", 17), ("25.0.2-beta", 25)]
)
def test_the_feature_version_of_a_java_is_read(tmp_path: Path, said: str, version: int) -> None:
    assert java_runtime.version_of(fake_java(tmp_path / "java", said)) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_runtime.version_of(tmp_path / "missing") is None
    assert java_runtime.version_of(script(tmp_path / "java", "echo hello")) is None


def test_java_home_comes_before_the_path_and_old_ones_are_passed_over(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin" / "java", "21.0.1")
    on_path = fake_java(tmp_path / "path" / "java", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert java_runtime.find_java(17, environment) == home
    fake_java(home, "11.0.1")
    assert java_runtime.find_java(17, environment) == on_path


def test_without_a_java_that_is_new_enough_the_sentence_says_what_was_looked_at(
    tmp_path: Path,
) -> None:
    fake_java(tmp_path / "java", "8.0.1")
    with pytest.raises(
        java_runtime.NoJava,
        match=r"Java 999 .*java on the PATH \(.*java\) is Java 8.*set JAVA_HOME",
    ):
        java_runtime.find_java(999, {"PATH": str(tmp_path)})
