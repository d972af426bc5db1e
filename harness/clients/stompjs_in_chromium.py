"""@stomp/stompjs in a headless Chromium, as used by a web page that speaks STOMP.

Our page and the library, which npm installs into the cache once, are served on a local port. The
page polls this peer for commands and reports what happened. We never install Chromium or npm."""

import base64
import hashlib
import json
import os
import queue
import shutil
import ssl
import tarfile
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.model.time import Instant, seconds
from brokerproof.harness.protocols.conversation import ControlFailed, Conversation, Judge
from brokerproof.harness.targets import npm
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import NativeProcess
from brokerproof.harness.trace.events import ConnectionOpened, Noted
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.thread_bridge import ThreadBridge

VERSION = "7.5.0"
"""The release of @stomp/stompjs that we use."""
CHROMIUM = "BROKERPROOF_CHROMIUM"
"""The environment variable with the path of Chromium, in case it is not on the PATH under one of
:data:`NAMES`."""
NAMES = ("chromium", "chromium-browser", "google-chrome")

_BUNDLE = "package/bundles/stomp.umd.js"
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_LOADED_WITHIN = seconds(60)
_ASK_AGAIN_S = 10
_GRACE_S = 3.0


class StompJsPeer(Conversation[ClientEvent]):
    """A page in its own browser. Raises :class:`ControlFailed` with one sentence if anything that
    the page needs is missing."""

    protocol = "STOMP.JS"

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        super().__init__(judge, conn, acceptor)
        if not isinstance(self.world, RealWorld):
            raise ControlFailed(
                "a browser needs a target that has sockets; use --target reference-real or artemis"
            )
        try:
            library = _library()
            browser = chromium()
        except SetUpFailed as problem:
            raise ControlFailed(str(problem)) from None
        host, port = self.world.endpoint(acceptor)
        secure = self.world.tls(acceptor) is not None
        self.url = f"{'wss' if secure else 'ws'}://{host}:{port}"
        self.agent = ""
        """The browser's user agent."""
        self._folder = tempfile.TemporaryDirectory(
            prefix="brokerproof-chromium-", ignore_cleanup_errors=True
        )
        self._to_do: queue.Queue[dict[str, Any]] = queue.Queue()
        self._bridge = ThreadBridge(self.world, self._on_event, self._close)
        self._server = _Server(library.read_bytes(), self._bridge, self._to_do)
        profile = Path(self._folder.name)
        console = profile / "console.log"
        believed = (
            [f"--ignore-certificate-errors-spki-list={_key_of(host, port)}"] if secure else []
        )
        command = [
            browser,
            *_FLAGS,
            *believed,
            f"--user-data-dir={profile / 'profile'}",
            self._server.address,
        ]
        # Its own home too: outside the profile, Chromium stores crash reports and caches there.
        environment = {**os.environ, "HOME": str(profile)}
        self._browser = NativeProcess(
            command, folder=profile, console=console, environment=environment, grace_s=_GRACE_S
        )
        try:
            self._browser.start()
        except SetUpFailed as problem:
            raise ControlFailed(str(problem)) from None
        loaded = self.watch_for(event_named("loaded"), within=_LOADED_WITHIN)
        if loaded is None:
            lines = console.read_text(errors="replace").strip().splitlines()
            raise ControlFailed(
                f"{browser} did not load the page ({lines[-1] if lines else 'it printed nothing'})"
            )
        self.agent = str(loaded.detail["agent"])
        self.judge.record(
            ConnectionOpened(
                at_ns=self.world.now(),
                conn=conn,
                protocol=self.protocol,
                acceptor=acceptor,
                remote=self.url,
            )
        )

    def do(self, what: str, **arguments: Any) -> None:
        """Send the page a command (see stompjs_page.html)."""
        self.judge.record(
            Noted(
                at_ns=self.world.now(),
                conn=self.conn,
                detail=f"to the page: {what} {arguments}"[:400],
            )
        )
        self._to_do.put({"what": what, "about": arguments})

    def fatal(self, frame: ClientEvent) -> bool:
        return frame.step in ("failed", "error", "socket-error", "closed")

    def words(self, frame: ClientEvent) -> str:
        return frame.brief()

    def _on_event(self, what: str, at: Instant, content: Any) -> None:
        event = ClientEvent(str(content["step"]), content["detail"])
        self.judge.record(Noted(at_ns=at, conn=self.conn, detail=f"the page: {event.brief()}"))
        self.inbox.append(event)

    def _close(self) -> None:
        self._browser.stop()
        self._server.stop()
        self._folder.cleanup()


class _Server:
    """Serves the page and its library on a free local port, in its own threads."""

    def __init__(
        self, library: bytes, bridge: ThreadBridge, to_do: queue.Queue[dict[str, Any]]
    ) -> None:
        page = files("brokerproof.harness.clients").joinpath("stompjs_page.html").read_bytes()
        contents = {"/": (page, "text/html"), "/stomp.umd.js": (library, "text/javascript")}
        ending = self._ending = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/next":
                    self._answer(json.dumps(_next(to_do, ending)).encode(), "application/json")
                elif self.path in contents:
                    self._answer(*contents[self.path])
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/said" and not ending.is_set():
                    bridge.post("said", json.loads(body))
                self._answer(b"{}", "application/json")

            def _answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="page", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, since a killed browser drops its requests."""


def _next(to_do: queue.Queue[dict[str, Any]], ending: threading.Event) -> dict[str, Any]:
    """Return the page's next command, or nothing after a while, so that the threads of a closed
    page end."""
    try:
        return {} if ending.is_set() else to_do.get(timeout=_ASK_AGAIN_S)
    except queue.Empty:
        return {}


def _key_of(host: str, port: int) -> str:
    """Return a trusted key as Chromium expects it: its SHA-256 hash in base64. Raises
    :class:`ControlFailed`."""
    try:
        shown = x509.load_pem_x509_certificate(
            ssl.get_server_certificate((host, port), timeout=10).encode()
        )
    except OSError as problem:
        raise ControlFailed(f"{host}:{port} presents no certificate ({problem})") from None
    key = shown.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


def chromium() -> str:
    named = os.environ.get(CHROMIUM)
    path = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        where = (
            f"at {named!r}, where {CHROMIUM} says it is"
            if named
            else f"on the PATH as {' or '.join(NAMES)}"
        )
        raise SetUpFailed(
            f"there is no Chromium {where}; install it, or set {CHROMIUM} to its path"
        )
    return path


def _library() -> Path:
    """Return the library's bundle from the cache; npm installs the library if it is missing."""

    def make(folder: Path) -> Path:
        npm.call(["pack", f"@stomp/stompjs@{VERSION}"], folder, f"@stomp/stompjs {VERSION}")
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extract(_BUNDLE, folder, filter="data")
        return folder / _BUNDLE

    return once(cache_folder() / "npm" / f"stompjs-{VERSION}.umd.js", make)
