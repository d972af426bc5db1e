"""Drivers that are built with a library's release, with the tools on the PATH."""

import os
from pathlib import Path

import pytest

from brokerproof.harness.targets import shipped_targets
from brokerproof.harness.targets.client import packages
from brokerproof.harness.targets.client.target import DRIVERS
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.repo.sources import ROOT

TOOLS = {
    "mvn": "for word; do case $word in -DoutputDirectory=*) d=${word#*=};; esac; done\n"
    'mkdir -p "$d"; cp pom.xml "$d/a.jar"',
    "javac": 'while [ "$1" != -d ]; do shift; done; d=$2; shift 2; echo "$@" > "$d/built"',
    "cargo": "mkdir -p target/debug; cat Cargo.toml src/*.rs > target/debug/driver",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in TOOLS.items():
        (tools / name).write_text(f"#!/bin/sh\nset -e\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_driver_in_java_is_compiled_beside_its_jars(home: Path) -> None:
    driver, shared = home / "Some.java", home / "DriverLines.java"
    for source in (driver, shared):
        source.write_text("")
    made, _ = packages.fetch("maven:org.one:first, org.two:second:7", "3", driver)
    assert (made / "built").read_text().split() == [str(driver), str(shared)]
    pom = (made / "a.jar").read_text()
    assert "<artifactId>first</artifactId><version>3<" in pom
    assert "<artifactId>second</artifactId><version>7<" in pom


def test_a_driver_in_rust_is_built_with_its_library(home: Path) -> None:
    driver = home / "some.rs"
    driver.write_text("// first\n")
    first, _ = packages.fetch("crates:lapin", "4.1.0", driver)
    program = (first / "driver").read_text()
    assert 'lapin = "=4.1.0"' in program
    assert program.endswith("// first\n")


def test_a_driver_that_changed_is_built_again(home: Path) -> None:
    driver = home / "some.rs"
    driver.write_text("// first\n")
    first, _ = packages.fetch("crates:lapin", "4.1.0", driver)
    (home / "driver_lines.rs").write_text("// shared\n")
    os.utime(home / "driver_lines.rs", ns=(1, 2**62))
    second, _ = packages.fetch("crates:lapin", "4.1.0", driver)
    assert first != second
    assert "// shared" in (second / "driver").read_text()


def test_a_driver_that_cannot_be_built_says_why(home: Path) -> None:
    (home / "tools/cargo").write_text("#!/bin/sh\necho 'no such crate' >&2\nexit 1\n")
    driver = home / "some.rs"
    driver.write_text("")
    with pytest.raises(SetUpFailed, match="no such crate"):
        packages.fetch("crates:lapin", "4.1.0", driver)


def test_each_shipped_driver_belongs_to_a_client() -> None:
    files = "".join(
        (ROOT / f"fixtures/clients/{name}.client.toml").read_text("utf-8")
        for name in shipped_targets.clients()
    )
    drivers = {
        path for path in DRIVERS.glob("*/*") if path.suffix in (".py", ".js", ".go", ".java", ".rs")
    }
    shared = {path for path in drivers if path.stem.lower().replace("_", "") == "driverlines"}
    unused = {path.name for path in drivers - shared if f'/{path.name}"' not in files}
    assert not unused
