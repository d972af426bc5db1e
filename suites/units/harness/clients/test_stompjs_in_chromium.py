"""The browser client, without a browser: messages about missing parts, and the page."""

import json
import queue
import tarfile
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.clients import stompjs_in_chromium
from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.units.drivers.executables import script


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(stompjs_in_chromium.CHROMIUM, raising=False)
    return folder


def test_a_missing_chromium_is_one_sentence(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        SetUpFailed,
        match=r"^there is no Chromium on the PATH as chromium or .*; install it, or set ",
    ):
        stompjs_in_chromium.chromium()
    script(bare / "google-chrome", "")
    assert stompjs_in_chromium.chromium() == str(bare / "google-chrome")
    monkeypatch.setenv(stompjs_in_chromium.CHROMIUM, "/nowhere/chrome")
    with pytest.raises(
        SetUpFailed,
        match="there is no Chromium at '/nowhere/chrome', where BROKERPROOF_CHROMIUM says",
    ):
        stompjs_in_chromium.chromium()


def test_a_missing_npm_is_one_sentence(bare: Path) -> None:
    with pytest.raises(SetUpFailed, match="needs npm on the PATH; install npm"):
        stompjs_in_chromium._library()


def test_an_npm_that_fails_is_quoted_and_nothing_is_left(bare: Path, tmp_path: Path) -> None:
    script(bare / "npm", "echo 'npm error code ENOTFOUND' >&2; echo more >&2; exit 1")
    with pytest.raises(
        SetUpFailed, match=r"npm pack @stomp/stompjs@.* failed \(npm error code ENOTFOUND\)"
    ):
        stompjs_in_chromium._library()
    assert not list((tmp_path / "cache" / "npm").glob("*.js"))


def test_the_library_is_fetched_once(bare: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "stomp.umd.js"
    bundle.write_text("// the library")
    with tarfile.open(tmp_path / "stompjs_in_chromium.tgz", "w:gz") as archive:
        archive.add(bundle, "package/bundles/stomp.umd.js")
    script(
        bare / "npm",
        f'/bin/cp "{tmp_path}/stompjs_in_chromium.tgz" "$PWD/"; echo once >> "{tmp_path}/calls"',
    )
    assert stompjs_in_chromium._library().read_text() == "// the library"
    assert stompjs_in_chromium._library().read_text() == "// the library"
    assert (tmp_path / "calls").read_text() == "once\n"


def test_the_page_is_served_told_what_to_do_and_heard() -> None:
    heard: list[tuple[str, Any]] = []

    class ThreadBridge:
        def post(self, what: str, content: Any) -> None:
            heard.append((what, content))

    to_do: queue.Queue[dict[str, Any]] = queue.Queue()
    server = stompjs_in_chromium._Server(b"// library", ThreadBridge(), to_do)  # type: ignore[arg-type]
    try:

        def get(path: str, body: bytes | None = None) -> bytes:
            with urllib.request.urlopen(server.address + path, body, timeout=10) as answer:
                return bytes(answer.read())

        assert b"stomp.umd.js" in get("")
        assert get("stomp.umd.js") == b"// library"
        with pytest.raises(urllib.error.HTTPError, match="404") as missing:
            get("other")
        missing.value.close()
        to_do.put({"what": "deactivate", "about": {}})
        assert json.loads(get("next")) == {"what": "deactivate", "about": {}}
        get("said", json.dumps({"step": "ß", "detail": {}}).encode())
        assert heard == [("said", {"step": "ß", "detail": {}})]
    finally:
        server.stop()


def test_a_page_that_is_gone_gets_nothing_more() -> None:
    to_do: queue.Queue[dict[str, Any]] = queue.Queue()
    ending = threading.Event()
    ending.set()
    to_do.put({"what": "connect"})
    assert stompjs_in_chromium._next(to_do, ending) == {}


def test_what_was_said_is_matched_by_step_and_detail() -> None:
    assert event_named("receipt", id="1").accepts(ClientEvent("receipt", {"id": "1", "more": 2}))
    assert not event_named("receipt", id="1").accepts(ClientEvent("receipt", {"id": "2"}))
    assert not event_named("receipt").accepts(ClientEvent("message"))
