"""Proton's example brokers: download, build, and the messages when either is impossible."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from brokerproof.harness.targets import standing_brokers
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import listens
from brokerproof.harness.targets.proton import examples as proton_examples
from brokerproof.harness.targets.proton.examples import ProtonProcess

SERVER = """
import socket, sys
host, port = sys.argv[2].rsplit(":", 1)
with socket.create_server((host, int(port))) as listening:
    while True:
        listening.accept()[0].close()
"""
"""Replaces ``broker.py``: it listens at the requested address."""

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a separate cache, and an apt-get that takes packages from the returned folder."""
    offered, tools = tmp_path / "offered", tmp_path / "tools"
    offered.mkdir()
    tools.mkdir()
    fetch = (
        f'shift 2; for each; do cp {offered}/"$each"_* . || {{ echo "E: no $each" >&2; exit 100;'
        " }; done"
    )
    (tools / "apt-get").write_text(f"#!/bin/sh\necho called >>{tmp_path}/calls\n{fetch}\n")
    (tools / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    return offered


def package(offered: Path, name: str, release: str, files: dict[str, str]) -> None:
    tree = offered.parent / f"tree-{name}-{release}"
    (tree / "DEBIAN").mkdir(parents=True)
    control = (
        f"Package: {name}\nVersion: {release}\nArchitecture: all\nMaintainer: x"
        " <x@x>\nDescription: x\n"
    )
    (tree / "DEBIAN" / "control").write_text(control)
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    target = offered / f"{name}_{release}_all.deb"
    subprocess.run(["dpkg-deb", "-b", str(tree), str(target)], check=True, capture_output=True)


def examples(offered: Path, release: str = "0.37.0-2", script: str = SERVER) -> None:
    files = {"usr/share/proton/examples/python/broker.py": script}
    package(offered, "libqpid-proton11-dev-examples", release, files)


def listed() -> list[standing_brokers.Listed]:
    return [listing for listing in standing_brokers.listing() if listing.name == "proton-python"]


def test_a_release_is_fetched_once_and_found_again(apt: Path, tmp_path: Path) -> None:
    examples(apt)
    home = proton_examples.install("proton-python")
    assert home == tmp_path / "cache" / "proton-python" / "0.37.0"
    assert proton_examples.install("proton-python") == home
    assert proton_examples.install("proton-python", "0.37.0") == home
    assert (tmp_path / "calls").read_text() == "called\n"
    assert [running.version for running in listed()] == ["0.37.0"]


def test_the_newest_release_of_the_cache_is_taken(apt: Path) -> None:
    for release in ("0.9.0", "0.40.0", "0.37.0"):
        script = (
            proton_examples.home_of("proton-python", release)
            / "usr/share/proton/examples/python/broker.py"
        )
        script.parent.mkdir(parents=True)
        script.write_text(SERVER)
    assert proton_examples.install("proton-python").name == "0.40.0"


def test_a_release_that_apt_does_not_offer_is_refused(apt: Path, tmp_path: Path) -> None:
    examples(apt, "0.38.1-1+b2")
    with pytest.raises(SetUpFailed, match=r"proton-python 0\.37\.0: apt offers only 0\.38\.1"):
        proton_examples.install("proton-python", "0.37.0")
    assert not [
        path
        for path in (tmp_path / "cache" / "proton-python").iterdir()
        if not path.name.startswith(".")
    ]


def test_what_apt_cannot_bring_is_told(apt: Path) -> None:
    with pytest.raises(
        SetUpFailed,
        match=r"apt-get download .* failed \(E: no libqpid.*\); run apt-get update first",
    ):
        proton_examples.install("proton-python")


def test_a_machine_without_apt_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SetUpFailed, match="need apt-get on the PATH"):
        proton_examples.install("proton-c")


def test_what_does_not_compile_leaves_nothing_behind(apt: Path, tmp_path: Path) -> None:
    package(
        apt,
        "libqpid-proton11-dev-examples",
        "0.37.0-2",
        {"usr/share/proton/examples/c/broker.c": "int main( {"},
    )
    package(apt, "libqpid-proton11-dev", "0.37.0-2", {"usr/lib/x/libqpid-proton.so": "no library"})
    package(apt, "libqpid-proton11", "0.37.0-2", {"usr/share/doc/x": ""})
    with pytest.raises(
        SetUpFailed, match=r"^cc .* failed \(.*\); it needs gcc, libc6-dev and libssl3"
    ):
        proton_examples.install("proton-c")
    assert proton_examples.installed("proton-c") == {}


def test_a_broker_listens_and_ends(apt: Path, tmp_path: Path) -> None:
    examples(apt)
    with ProtonProcess("proton-python", tmp_path / "broker") as running:
        assert listens(running.host, running.ports["amqp"])
        assert running.version.endswith("(script of 0.37.0)")
    assert not listens(running.host, running.ports["amqp"])


def test_a_broker_that_ends_at_once_is_told(apt: Path, tmp_path: Path) -> None:
    examples(apt, script="raise SystemExit('no luck today')")
    with pytest.raises(SetUpFailed, match="no luck today"):
        ProtonProcess("proton-python", tmp_path / "broker").start()


def test_a_running_broker_is_found_and_stopped(apt: Path) -> None:
    examples(apt)
    running = standing_brokers.start("proton-python")
    try:
        assert [broker.running for broker in listed()] == [running]
    finally:
        assert standing_brokers.stop("proton-python") == [running]
    assert not listens(running.host, running.ports["amqp"])
    with pytest.raises(SetUpFailed, match="has no configuration file"):
        standing_brokers.start("proton-python", config=Path("broker.xml"))
