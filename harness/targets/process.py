"""A broker in a separate process that prints one JSON line once it is ready, as ``brokerproof
broker`` does."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.targets import certificates, parameters
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts
from brokerproof.harness.worlds.world import World

_READY_WITHIN_S = 30.0
_STOP_WITHIN_S = 10.0
CONTROL = "--control"
"""The word in a command that shows that the broker accepts limits."""
_SHORT = {"memory": LimitsSet(memory=0), "disk": LimitsSet(disk=9 * 10**15)}
"""Limits that any machine exceeds, by resource."""
_ENOUGH = {"memory": LimitsSet(memory=0.9), "disk": LimitsSet(disk=1_000_000)}
"""Limits, by resource, that are safe on a machine with enough memory and disk space."""


class ProcessTarget(SocketTarget):
    """``command`` may contain ``{python}``, ``{config}``, ``{pid}`` (ours) and ``{data}`` (a folder
    that lives as long as the process). The environment variable :data:`certificates.FOLDER` names a
    folder of throw-away certificates.

    A command with ``--control`` accepts limits for memory and disk space on its standard input, one
    JSON object per line.

    The ready line has ``acceptors`` (ports by name), ``broker`` (the broker's name) and
    ``version``.
    """

    is_local = True  # asyncio sets TCP_NODELAY

    def __init__(self, identity: Identity, command: list[str], config: Path | None) -> None:
        super().__init__(identity, config)
        self._words = command
        self._command: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._folders: tempfile.TemporaryDirectory[str] | None = None

    def start(self, folder: Path) -> TargetFacts:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / f"{self.identity.name}.log"
        self._folders = tempfile.TemporaryDirectory(prefix="brokerproof-process-")
        made, data = (Path(self._folders.name) / name for name in ("certificates", "data"))
        made.mkdir()
        certificates.make(made)
        self.pages = data / "paging"
        known = {"python": sys.executable, "config": self.config, "pid": os.getpid(), "data": data}
        self._command = [word.format_map(known) for word in self._words]
        environment = {**os.environ, certificates.FOLDER: str(made)}
        stdin = subprocess.PIPE if CONTROL in self._words else subprocess.DEVNULL
        with log.open("wb") as errors:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    stdin=stdin,
                    env=environment,
                )
            except OSError as problem:
                raise SetUpFailed(
                    f"target {self.identity.name}: {self._command[0]} cannot be started ({problem})"
                ) from None
        ready = self._ready_line(log)
        self.endpoints = {
            name: ("127.0.0.1", int(port)) for name, port in ready["acceptors"].items()
        }
        self.trust(made)
        self.watch_the_host(self._process.pid)
        return TargetFacts(
            broker=str(ready.get("broker", "unknown broker")),
            version=str(ready.get("version", "unknown")),
            configuration="" if self.config is None else parameters.describe(self.config),
            addresses=[] if self.config is None else parameters.address_settings(self.config),
            endpoint=", ".join(
                f"{host}:{port}" for host, port in list(self.endpoints.values())[:1]
            ),
        )

    def _ready_line(self, log: Path) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        output, line = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + _READY_WITHIN_S
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(output, 4096) if readable else b""
            if not data:
                self.stop()
                lines = log.read_text(errors="replace").strip().splitlines()
                raise SetUpFailed(
                    f"target {self.identity.name}: {' '.join(self._command)} did not become ready"
                    f" ({lines[-1] if lines else 'it printed nothing'}); its log is {log}"
                )
            line += data
        try:
            ready: dict[str, Any] = json.loads(line)
            ready["acceptors"].items()
        except (ValueError, KeyError, TypeError, AttributeError):
            self.stop()
            raise SetUpFailed(
                f"target {self.identity.name}: expected one JSON line, got {line[:200]!r}"
            ) from None
        return ready

    def raise_alarm(self, world: World, resource: str, node: str = "") -> None:
        self.set_limits(world, _SHORT[resource])

    def clear_alarm(self, world: World, resource: str, node: str = "") -> None:
        self.set_limits(world, _ENOUGH[resource])

    def set_limits(self, world: World, limits: LimitsSet) -> None:
        if self._process is None or self._process.stdin is None:
            raise SetUpFailed(
                f"target {self.identity.name}: its command takes no limits; give it {CONTROL}"
            )
        arguments = {name: value for name, value in asdict(limits).items() if value is not None}
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End the process and remove its folders. If another thread is still waiting for the ready
        line, that wait ends."""
        super().stop()
        self._end()
        folders, self._folders = self._folders, None
        if folders is not None:
            folders.cleanup()

    def process_end(self) -> str:
        if self.is_forked:  # a process only learns of its own children
            return ""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return ""
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"its process ended with {how}"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
