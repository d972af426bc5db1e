"""Releases of RabbitMQ: installed, named by the environment, or in a Debian chroot of the cache."""

import os
import sys
from pathlib import Path

import pytest

from brokerproof.harness.targets import debian
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.release import Release
from brokerproof.suites.units.drivers.executables import script


def test_the_newest_installed_release_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROKERPROOF_RABBITMQ", raising=False)
    monkeypatch.setattr(rabbitmq_release, "PACKAGED", tmp_path)
    for version in ("3.9.13", "3.10.8", "3.8.0"):
        script(tmp_path / f"rabbitmq_server-{version}" / "sbin" / "rabbitmq-server", "")
    (tmp_path / "rabbitmq_server-4.0.0").mkdir()  # removed, its folder is left
    assert rabbitmq_release.find().version == "3.10.8"


def test_a_release_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "mine"
    script(home / "sbin" / "rabbitmq-server", "")
    (home / "plugins" / "rabbit-3.99.1").mkdir(parents=True)
    monkeypatch.setenv("BROKERPROOF_RABBITMQ", str(home))
    for version in (None, "3", "3.99", "3.99.1"):
        assert rabbitmq_release.find(version) == Release("3.99.1", home)
    monkeypatch.setenv("BROKERPROOF_RABBITMQ", str(tmp_path))
    with pytest.raises(SetUpFailed, match=r"BROKERPROOF_RABBITMQ: .* has no sbin/rabbitmq-server"):
        rabbitmq_release.find()


def test_a_release_that_the_machine_has_not_is_taken_from_a_debian_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release may be abbreviated to its leading numbers, but only whole ones: 3.1 is not 3.10."""
    monkeypatch.delenv("BROKERPROOF_RABBITMQ", raising=False)
    monkeypatch.setattr(rabbitmq_release, "PACKAGED", tmp_path / "none")
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    root = debian.home_of("bookworm", "rabbitmq-server")
    script(
        root
        / "/".join((tmp_path / "none").parts[1:])
        / "rabbitmq_server-3.10.8"
        / "sbin"
        / "rabbitmq-server",
        "",
    )
    found = rabbitmq_release.find("3.10")
    assert found == Release("3.10.8", tmp_path / "none" / "rabbitmq_server-3.10.8", root)
    assert found.folder.is_dir()
    assert list(rabbitmq_release.installed()) == [found]
    with pytest.raises(
        SetUpFailed, match=r"3\.10\.9: Debian bookworm has 3\.10\.8; name the release 3\.10"
    ):
        rabbitmq_release.find("3.10.9")
    for version in ("3.1", "2.8.7"):
        with pytest.raises(
            SetUpFailed,
            match=rf"RabbitMQ {version}: is available neither .* known releases: 4\.0, 3\.10,",
        ):
            rabbitmq_release.find(version)
    with pytest.raises(
        SetUpFailed, match=r"RabbitMQ newest: is not a release number; name one like 4\.0"
    ):
        rabbitmq_release.find("newest")


def test_a_debian_root_needs_root_and_debootstrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path))
    monkeypatch.setattr(debian, "PATH", str(tmp_path))
    for user, sentence in (
        (1000, "only root can create and enter"),
        (0, "needs unshare; install it with: apt-get"),
    ):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with pytest.raises(SetUpFailed, match=f"Debian trixie with rabbitmq-server: {sentence}"):
            debian.install("trixie", "rabbitmq-server")
    for tool in ("unshare", "chroot"):
        script(tmp_path / tool, "")
    with pytest.raises(
        SetUpFailed, match="needs debootstrap; install it with: apt-get install debootstrap"
    ):
        debian.install("trixie", "rabbitmq-server")
    script(
        tmp_path / "debootstrap",
        "print('I: Retrieving\\nE: Couldn\\'t download it'); raise SystemExit(1)",
        sys.executable,
    )
    with pytest.raises(
        SetUpFailed,
        match=r"debootstrap ended with exit code 1 \(E: Couldn't download it\); it needs root",
    ):
        debian.install("trixie", "rabbitmq-server")
    assert not debian.home_of("trixie", "rabbitmq-server").exists()
