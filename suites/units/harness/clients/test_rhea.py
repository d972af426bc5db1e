"""rhea's process: what is said where node or npm is missing, and where the process does not start.
No package is fetched."""

from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.clients import rhea
from brokerproof.harness.clients.rhea import RheaPeer
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.suites.units.drivers.executables import script


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    return folder


class Desk:
    def __init__(self) -> None:
        self.world = RealWorld({"amqp": ("127.0.0.1", 1)}, Canary())
        self.events: list[Any] = []
        self.doubts: list[str] = []

    def record(self, event: Any) -> None:
        self.events.append(event)

    def mark_inconclusive(self, reason: str) -> None:
        self.doubts.append(reason)


def test_what_is_missing_is_named(bare: Path) -> None:
    with pytest.raises(SetUpFailed, match=r"rhea .* needs npm on the PATH; install npm"):
        rhea._library()
    with pytest.raises(SetUpFailed, match="there is no node on the PATH; install nodejs"):
        rhea._node()


def test_the_library_is_fetched_once(bare: Path, tmp_path: Path) -> None:
    script(bare / "npm", f'echo "$@" >> {tmp_path}/calls; /bin/mkdir -p "$3/node_modules/rhea"')
    assert (rhea._library() / "rhea").is_dir()
    assert rhea._library() == tmp_path / "cache" / "npm" / f"rhea-{rhea.VERSION}"
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert f"rhea@{rhea.VERSION}" in call
    assert "--ignore-scripts" in call


def test_a_node_that_cannot_load_the_library_is_a_failed_control(bare: Path) -> None:
    (rhea.cache_folder() / "npm" / f"rhea-{rhea.VERSION}").mkdir(parents=True)
    script(bare / "node", "echo \"Error: Cannot find module 'rhea'\" >&2; exit 1")
    desk = Desk()
    with pytest.raises(ControlFailed, match=r"did not load rhea .*Cannot find module 'rhea'"):
        RheaPeer(desk, 1, "amqp")  # type: ignore[arg-type]
    desk.world.close()


@pytest.mark.parametrize("why", ["write ECONNRESET", "write EPIPE", "read ECONNRESET"])
def test_a_socket_that_ended_at_a_write_proves_nothing(bare: Path, why: str) -> None:
    (rhea.cache_folder() / "npm" / f"rhea-{rhea.VERSION}").mkdir(parents=True)
    said = [
        '{"step": "loaded", "detail": {}}',
        f'{{"step": "disconnected", "detail": {{"description": "Error: {why}"}}}}',
    ]
    script(bare / "node", "\n".join(f"echo '{event}'" for event in said))
    desk = Desk()
    peer = RheaPeer(desk, 1, "amqp")  # type: ignore[arg-type]
    assert desk.world.wait_until(
        lambda: any(map(peer.fatal, peer.inbox)), desk.world.now() + seconds(10)
    )
    assert desk.doubts == ([rhea.UNREAD] if why.startswith("write") else [])
    desk.world.close()
