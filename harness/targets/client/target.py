"""A client library as a target: each case starts its driver in a separate process and acts as the
server to which the library connects."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from brokerproof.harness.targets.client import packages
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts
from brokerproof.harness.worlds.begun_trial import BegunTrial
from brokerproof.harness.worlds.real import Accepted, RealWorld
from brokerproof.harness.worlds.world import Receiver, World

DRIVERS = Path(str(files("brokerproof.harness"))) / "clients" / "drivers"
_READY_WITHIN_S = 60
_END_WITHIN_S = 2


class ClientTarget(SocketTarget):
    """``command`` starts the driver. It may contain ``{python}``, ``{here}`` (the folder of the
    target file), ``{drivers}`` (:data:`DRIVERS`) and ``{package}`` (the library's folder). The
    library is ``package`` in ``version``, from :mod:`~brokerproof.harness.targets.client.packages`;
    if no version is given, it is the version installed on the machine."""

    is_local = True

    def __init__(
        self,
        identity: Identity,
        command: Sequence[str],
        here: Path,
        package: str = "",
        version: str | None = None,
        driver: str = "",
    ) -> None:
        super().__init__(identity)
        self._words = {"{python}": sys.executable, "{here}": str(here), "{drivers}": str(DRIVERS)}
        self._command = list(command)
        self._package, self._version, self._driver = package, version, driver
        self._environment: dict[str, str] = {}
        self._log = Path(os.devnull)

    @classmethod
    def of(cls, identity: Identity, values: Mapping[str, Any], path: Path) -> Self:
        package, driver = values.get("package", ""), values.get("driver", "")
        version = values.get("version")
        return cls(identity, values["command"], path.parent, package, version, driver)

    def start(self, folder: Path) -> TargetFacts:
        """Start the driver once, to learn the library's release."""
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{self.identity.name}.log"
        self._prepare()
        ready = self._first_line()
        self.watch_the_host()
        return TargetFacts(
            broker=str(ready.get("client", self.identity.name)),
            version=str(ready.get("version", "unknown")),
            configuration=f"driven by {' '.join(self._command)}",
            endpoint="a server of the harness",
        )

    def _prepare(self) -> None:
        found: Mapping[str, str] = {}
        if self._package and self._version:
            driver = Path(_filled(self._driver, self._words))
            home, found = packages.fetch(self._package, self._version, driver)
            self._words["{package}"] = str(home)
        self._command = [_filled(word, self._words) for word in self._command]
        # A driver in Python finds the module that our drivers share.
        path = (found.get("PYTHONPATH"), str(DRIVERS / "python"), os.environ.get("PYTHONPATH"))
        self._environment = {**found, "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def _first_line(self) -> dict[str, Any]:
        ours, process = self._launch()
        try:
            ours.settimeout(_READY_WITHIN_S)
            line = b""
            while not line.endswith(b"\n"):
                data = ours.recv(65536)
                if not data:
                    raise ValueError("it ended")
                line += data
            values = json.loads(line.splitlines()[0])
            if values["saw"] != "ready":
                raise ValueError(f"it began with {line[:100]!r}")
        except (OSError, ValueError, KeyError, TypeError) as problem:
            process.kill()
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise SetUpFailed(
                f"target {self.identity.name}: {' '.join(self._command)} did not report that it is"
                f" ready ({last[0] if last else problem}); its log is {self._log}"
            ) from None
        finally:
            ours.close()
            _end(process)
        return dict(values)

    def _launch(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        ours, theirs = socket.socketpair()
        with theirs, self._log.open("ab") as log:
            try:
                process = subprocess.Popen(
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=log,
                    env={**os.environ, **self._environment},
                )
            except OSError as problem:
                ours.close()
                raise SetUpFailed(
                    f"target {self.identity.name}: {self._command[0]} cannot be run"
                    f" ({problem.strerror})"
                ) from None
        return ours, process

    def begin_trial(self, world: World, driver: Receiver, accepted: Accepted) -> BegunTrial:
        assert isinstance(world, RealWorld)
        port = world.listen(accepted)
        ours, process = self._launch()
        channel = world.attach(ours, driver)
        world.on_close(lambda: _end(process))
        return BegunTrial(channel, "127.0.0.1", port, lambda: world.watch_client(process.pid))


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_WITHIN_S)
        return
    process.kill()
    process.wait()


def _filled(word: str, words: Mapping[str, str]) -> str:
    for name, value in words.items():
        word = word.replace(name, value)
    return word
