"""Scenes over TCP: a broker in a separate process, peers on sockets, and a bystander. The events
are those of :mod:`brokerproof.suites.fuzz.scene`, except those that only a simulation has (passing
time, answers of a disk, alarms). The invariants:

* the process stays alive and reports no error of its own; * the bystander gets its message and its
receipt within :data:`WITHIN_NS`. The broker's processor time in between shows whether the broker or
the machine was slow; after :data:`HANGS_S` a slow machine is no excuse; * the process does not grow
by more than :data:`MOST_GROWTH`.

A process serves :data:`SCENES` scenes of one setting.
"""

import atexit
import contextlib
import multiprocessing
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.persistence import store_from_settings
from brokerproof.reference_broker.runtime import asyncio_server
from brokerproof.suites.fuzz import scene
from brokerproof.suites.fuzz.scene import Broken, Data, Event, Gone, Open, Pause, Setting

WITHIN_NS = NS_PER_S
HANGS_S = 30.0
SCENES = 40
MOST_GROWTH = 300 << 20
"""In bytes. The scenes of one process leave far less in queues."""
_RESET = struct.pack("ii", 1, 0)
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _serve(setting: Setting, folder: Path, pipe: Connection) -> None:
    """Serve in a separate process until SIGTERM; report the acceptors' ports."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr = (folder / "complaints").open("w", buffering=1)
    settings = scene.settings(setting)
    free = tuple(replace(acceptor, port=0) for acceptor in settings.acceptors)
    settings = replace(settings, acceptors=free)
    claim = store_from_settings.claim(settings, folder) if setting.stored else None
    disk = store_from_settings.disk(settings, folder, claim)
    store = store_from_settings.store(settings, disk if setting.stored else None)
    broker = create_broker(settings, start=asyncio_server.now(), store=store)
    asyncio_server.run(broker, settings, pipe.send, parent=os.getppid(), disk=disk)


class Process:
    """A broker process. ``most`` is the most memory seen; ``first`` is that of the first scene."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._folder = tempfile.TemporaryDirectory(prefix="brokerproof-fuzz-")
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(setting, Path(self._folder.name), theirs), daemon=True
        )
        self._process.start()
        if not ours.poll(HANGS_S):
            raise Broken(f"process: the broker did not start: {self.complaints()}")
        self.ports: Mapping[str, int] = ours.recv()
        self.scenes = 0
        self.sockets: set[socket.socket] = set()
        """Open sockets of scenes, to be closed when a scene breaks."""
        self.first = self.most = self.memory()

    def _stat(self) -> list[str]:
        text = Path(f"/proc/{self._process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()

    def memory(self) -> int:
        """Return the resident bytes of the process."""
        return int(self._stat()[21]) * _PAGE

    def busy_ns(self) -> int:
        stat = self._stat()
        return (int(stat[11]) + int(stat[12])) * NS_PER_S // _TICKS

    def complaints(self) -> str:
        """Return what the broker has written to standard error."""
        path = Path(self._folder.name) / "complaints"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def check(self, *, soon: bool = False) -> None:
        """Raise :class:`Broken` unless the process is alive, reports no error and is not too large.
        ``soon``: the process may be about to end."""
        if soon:
            self._process.join(1.0)
        if not self._process.is_alive():
            raise Broken(f"process: ended with {self._process.exitcode}: {self.complaints()}")
        own = [
            line
            for line in self.complaints().splitlines()
            if "our own error" in line or "Traceback" in line or "Error" in line
        ]
        if own:
            raise Broken(f"{own[0][:300]}")
        self.most = max(self.most, self.memory())
        if self.most - self.first > MOST_GROWTH:
            raise Broken(f"grows: by {(self.most - self.first) >> 20} MiB")

    def end(self) -> None:
        for peer in self.sockets:
            peer.close()
        self._process.terminate()
        self._process.join(HANGS_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._folder.cleanup()


class Pool:
    """One process for each setting in use."""

    def __init__(self) -> None:
        self._processes: dict[Setting, Process] = {}
        self.most = self.growth = 0
        atexit.register(self.end)

    def get(self, setting: Setting) -> Process:
        process = self._processes.get(setting)
        if process is not None and process.scenes >= SCENES:
            self.drop(setting)
            process = None
        if process is None:
            process = self._processes[setting] = Process(setting)
        process.scenes += 1
        return process

    def scene(self, setting: Setting) -> "SocketScene":
        return SocketScene(setting, self.get(setting))

    def drop(self, setting: Setting) -> None:
        """End the process of ``setting``, which is broken or has served enough scenes."""
        process = self._processes.pop(setting, None)
        if process is None:
            return
        self.most = max(self.most, process.most)
        self.growth = max(self.growth, process.most - process.first)
        process.end()

    def end(self) -> None:
        for setting in list(self._processes):
            self.drop(setting)


class SocketScene:
    """``slowest`` is the bystander's longest wait, in ns."""

    def __init__(self, setting: Setting, process: Process) -> None:
        self.setting = setting
        self.slowest = 0
        self._process = process
        self._peers: dict[int, socket.socket] = {}
        self._paused: set[int] = set()
        self._received: dict[int, bytes] = {}
        self._number = 0
        acceptor = "all" if setting.family == "artemis" else "stomp"
        self._bystander = self._connect(acceptor)
        self._tail = b""
        slash = "" if setting.family == "artemis" else "/queue/"
        self._queue = f"{slash}bystander-{process.scenes}"
        self._ask(
            "CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0", "CONNECTED\n"
        )
        kind = self._kind("subscription")
        self._ask(f"SUBSCRIBE\nid:0\ndestination:{self._queue}\n{kind}receipt:s\n\n\0", "id:s\n")

    def _kind(self, of: str) -> str:
        return f"{of}-type:ANYCAST\n" if self.setting.family == "artemis" else ""

    def _connect(self, acceptor: str) -> socket.socket:
        peer = socket.create_connection(("127.0.0.1", self._process.ports[acceptor]), HANGS_S)
        peer.setblocking(False)
        self._process.sockets.add(peer)
        return peer

    def received(self, conn: int) -> bytes:
        """Return what was sent to ``conn`` since the last call."""
        return self._received.pop(conn, b"")

    def is_closed(self, conn: int) -> bool:
        return conn not in self._peers

    # --- events -----------------------------------------------------------------------------------

    def play(self, event: Event) -> None:
        """Let ``event`` happen. Raises :class:`Broken`."""
        match event:
            case Open(conn, acceptor):
                try:
                    self._peers[conn] = self._connect(acceptor)
                except OSError as problem:
                    self._process.check(soon=True)
                    raise Broken(f"accept: {problem}") from None
            case Data(conn, data) if conn in self._peers:
                self._send(conn, data)
                self._read(conn)
            case Gone(conn) if conn in self._peers:
                self._leave(conn, reset=conn % 2 == 0)
            case Pause(conn, paused):
                (self._paused.add if paused else self._paused.discard)(conn)

    def _send(self, conn: int, data: bytes) -> None:
        """Send as much as the broker accepts immediately; if it does not read, drop the rest."""
        with contextlib.suppress(OSError):
            self._peers[conn].send(data)

    def _read(self, conn: int) -> None:
        if conn in self._paused:
            return
        try:
            data = self._peers[conn].recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._received[conn] = self._received.get(conn, b"")[-4096:] + data
        else:
            self._leave(conn, reset=False)

    def _leave(self, conn: int, *, reset: bool) -> None:
        peer = self._peers.pop(conn)
        self._received.pop(conn, None)
        if reset:
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close(peer)

    def _close(self, peer: socket.socket) -> None:
        peer.close()
        self._process.sockets.discard(peer)

    # --- the bystander ----------------------------------------------------------------------------

    def _ask(self, frame: str, *expected: str) -> None:
        """Send ``frame``; wait until everything ``expected`` has arrived."""
        began, busy = time.monotonic(), self._process.busy_ns()
        with contextlib.suppress(OSError):
            self._bystander.sendall(frame.encode())
        due = {text.encode() for text in expected}
        while due := {text for text in due if text not in self._tail}:
            left = began + HANGS_S - time.monotonic()
            ready = select.select([self._bystander], [], [], max(0.0, left))[0]
            if not ready:
                self._process.check()
                raise Broken(f"bystander: no {min(due).decode().strip()!a} in {HANGS_S:.0f} s")
            try:
                data = self._bystander.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self._process.check(soon=True)
                raise Broken(f"bystander: was closed behind {self._tail[-300:]!r}")
            self._tail += data
        self._tail = b""
        waited = int((time.monotonic() - began) * NS_PER_S)
        self.slowest = max(self.slowest, waited)
        busy = self._process.busy_ns() - busy
        if waited > WITHIN_NS and busy > WITHIN_NS:
            raise Broken(
                f"slow: the bystander waited {waited // NS_PER_MS} ms, in which the broker used"
                f" {busy // NS_PER_MS} ms of processor time"
            )

    def check_bystander(self) -> None:
        """Check that the bystander sends a message, gets it and its receipt, and that the broker
        reports no error."""
        self._number += 1
        name = f"still-here-{self._number}"
        head = f"SEND\ndestination:{self._queue}\npersistent:true\nreceipt:{name}\n"
        frame = f"{head}{self._kind('destination')}\n{name}\0"
        self._ask(frame, f"receipt-id:{name}\n", f"\n\n{name}\0")
        self._process.check()

    def end(self, conns: Iterable[int]) -> None:
        for conn in list(self._peers):
            self._leave(conn, reset=conn % 2 == 0)
        self.check_bystander()
        self._close(self._bystander)
