"""rhea, an AMQP 1.0 client in JavaScript, independent of Proton, in its own Node.js process.

npm installs it into the cache once. Our script ``rhea_client.js`` carries out commands in that
process and reports rhea's callbacks to the peer here. rhea has no transactions. We never install
Node.js or npm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.model.time import Instant, seconds
from brokerproof.harness.protocols.conversation import (
    ControlFailed,
    Conversation,
    Judge,
    Match,
    Requirements,
)
from brokerproof.harness.targets import npm
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.trace.events import ConnectionOpened, Noted
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.thread_bridge import ThreadBridge

VERSION = "3.0.5"
"""The release of rhea that is driven."""

_LOADED_WITHIN = seconds(30)
_GRACE_S = 5.0
UNREAD = (
    "node ended its socket at a write that failed, and what the broker had sent before was not read"
)
_ENDS = frozenset(
    {
        "ended",
        "failed",
        "connection_error",
        "protocol_error",
        "disconnected",
        "sender_error",
        "receiver_error",
    }
)


class RheaPeer(Conversation[ClientEvent]):
    """rhea in its own process. Raises :class:`ControlFailed`, in one sentence, if anything it needs
    is missing."""

    protocol = "AMQP.RHEA"

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        super().__init__(judge, conn, acceptor)
        if not isinstance(self.world, RealWorld):
            raise ControlFailed(
                "rhea needs a target that has sockets; use --target reference-real or artemis"
            )
        try:
            library, node = _library(), _node()
        except SetUpFailed as problem:
            raise ControlFailed(str(problem)) from None
        self.host, self.port = self.world.endpoint(acceptor)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed when the process has ended)
        environment = {**os.environ, "NODE_PATH": str(library)}
        with as_file(files("brokerproof.harness.clients").joinpath("rhea_client.js")) as script:
            self._process = subprocess.Popen(
                [node, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                text=True,
            )
            self._bridge = ThreadBridge(self.world, self._on_event, self._close)
            self._listening = threading.Thread(
                target=self._listen, name=f"rhea-{conn}", daemon=True
            )
            self._listening.start()
            loaded = self.watch_for(Match("loaded", lambda event: True), within=_LOADED_WITHIN)
        if loaded is None or loaded.step != "loaded":
            raise ControlFailed(f"{node} did not load rhea ({self._complaint()})")

    def connect(
        self,
        *,
        login: str | None = None,
        passcode: str | None = None,
        proves: Requirements | None = None,
        **options: Any,
    ) -> None:
        """Connect, log in, open, and wait for the broker's open. ``options`` are rhea's own."""
        remote = f"{self.host}:{self.port}"
        self.judge.record(
            ConnectionOpened(
                at_ns=self.world.now(),
                conn=self.conn,
                protocol=self.protocol,
                acceptor=self.acceptor,
                remote=remote,
            )
        )
        known = {"host": self.host, "port": self.port, "username": login or "anonymous"}
        self.do(
            "connect", **known, **({} if login is None else {"password": passcode or ""}), **options
        )
        self.expect(event_named("connection_open"), proves=proves)

    def do(self, what: str, **arguments: Any) -> None:
        """Send it a command (see rhea_client.js)."""
        shown = {key: "…" if key == "password" else value for key, value in arguments.items()}
        self.judge.record(
            Noted(at_ns=self.world.now(), conn=self.conn, detail=f"to rhea: {what} {shown}"[:400])
        )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; the next expectation notices
            self._process.stdin.write(json.dumps({"what": what, "about": arguments}) + "\n")
            self._process.stdin.flush()

    def fatal(self, frame: ClientEvent) -> bool:
        return frame.step in _ENDS

    def words(self, frame: ClientEvent) -> str:
        return frame.brief()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._bridge.post("said", line)
        self._bridge.post("ended", None)

    def _on_event(self, what: str, at: Instant, content: Any) -> None:
        if what == "ended":
            self.inbox.append(ClientEvent("ended"))
            return
        try:
            values = json.loads(content)
            event = ClientEvent(str(values["step"]), values["detail"])
        except (ValueError, KeyError, TypeError):  # rhea prints some of its errors
            event = ClientEvent("printed", {"line": str(content).strip()[:300]})
        self.judge.record(Noted(at_ns=at, conn=self.conn, detail=f"rhea: {event.brief()}"))
        if event.step == "disconnected" and "write E" in str(event.detail):
            self.judge.mark_inconclusive(UNREAD)
        self.inbox.append(event)

    def _complaint(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        wrong = [line for line in lines if "Error" in line] or lines
        return wrong[0][:200] if wrong else "it said nothing"

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listening.join(_GRACE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()


def _node() -> str:
    path = shutil.which("node")
    if path is None:
        raise SetUpFailed("there is no node on the PATH; install nodejs")
    return path


def _library() -> Path:
    """The module folder with rhea in the cache; npm installs it if missing."""

    def make(folder: Path) -> Path:
        install = [
            "install",
            "--prefix",
            str(folder),
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-save",
        ]
        npm.call([*install, f"rhea@{VERSION}"], folder, f"rhea {VERSION}")
        return folder / "node_modules"

    return once(cache_folder() / "npm" / f"rhea-{VERSION}", make)
