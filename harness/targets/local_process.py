"""A broker as a process on this machine: started under a guard, then watched and stopped."""

import contextlib
import os
import random
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from brokerproof.harness.targets.failure import SetUpFailed

POLL_S = 0.05
"""The interval, in seconds, at which a starting broker is checked."""
PORTS = range(20_000, 32_000)
"""The range from which free ports are chosen."""


class NativeProcess:
    """One process. :meth:`stop` ends it; so does the end of this process, unless ``free`` is true.

    ``console`` receives the output. A stopping process is killed after ``grace_s`` seconds.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        console: Path,
        environment: Mapping[str, str] | None = None,
        grace_s: float = 10,
        free: bool = False,
    ) -> None:
        self._command = [str(word) for word in command]
        self._folder, self._console = folder, console
        self._environment = None if environment is None else dict(environment)
        self._grace_s, self._free = grace_s, free
        self._guard: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None

    def start(self) -> int:
        """Start the process; return its id. Raises :class:`SetUpFailed` if it cannot be run."""
        guard = [sys.executable, "-I", str(Path(__file__).with_name("process_guard.py"))]
        guard += [
            "free" if self._free else "held",
            str(self._grace_s),
            str(self._console),
            *self._command,
        ]
        self._guard = subprocess.Popen(
            guard,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._guard.stdout is not None
        with self._guard.stdout as output:
            word, _, rest = output.readline().decode("utf-8", "replace").strip().partition(" ")
        if word != "pid":
            self._let_go()
            raise SetUpFailed(f"{self._command[0]}: cannot be run ({rest or 'the guard ended'})")
        if self._free:
            self._let_go()
        self.pid = int(rest)
        return self.pid

    def ended(self, within_s: float = 0) -> bool:
        """Return True if the process has ended by itself; wait for that for up to ``within_s``
        seconds."""
        if self.pid is None:
            return True
        if self._free:
            return wait_for_end(self.pid, within_s)
        assert self._guard is not None
        try:
            self._guard.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: int) -> None:
        """Send a signal to the process and its children. Does nothing if it has ended."""
        if not self.ended():
            assert self.pid is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop(self) -> None:
        """Stop the process and wait until it has ended. Does nothing if it is not running."""
        if self.pid is None:
            return
        if self._free:
            end(self.pid, self._grace_s)
        else:
            self._let_go()
        self.pid = None

    def _let_go(self) -> None:
        assert self._guard is not None
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def wait_until_ready(
        self, ready: Callable[[], bool], *, within_s: float, reason: Callable[[], str]
    ) -> None:
        """Wait until ``ready()`` is true. If the process ends first or takes too long, stop it and
        raise :class:`SetUpFailed`. ``reason()`` returns the reason found in the logs; empty if
        there is none."""
        name = Path(self._command[0]).name
        for _ in range(max(1, round(within_s / POLL_S))):
            if ready():
                return
            if self.ended(POLL_S):
                why = reason() or f"see {self._console}"
                self.stop()
                raise SetUpFailed(f"{name} ended before it was ready: {why}")
        why = reason() or f"see {self._console}"
        self.stop()
        raise SetUpFailed(f"{name} was not ready after {within_s:g} s: {why}")


def wait_for_end(pid: int, within_s: float) -> bool:
    """Return True if process ``pid`` has ended; wait for that for up to ``within_s`` seconds."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        return bool(waiting.poll(within_s * 1000))
    finally:
        os.close(handle)


def end(pid: int, grace_s: float) -> None:
    """End a process of this user with SIGTERM, then with SIGKILL after ``grace_s`` seconds. Does
    nothing if it has ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait_for_end(pid, grace_s):
            return


def started_at(pid: int) -> str | None:
    """Return the start time of ``pid`` in the kernel's clock ticks, which distinguishes a process
    from a later one with the same id."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return None
    # The name in parentheses may contain anything, so count from the last parenthesis.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return ``count`` different ports on which nothing listens now. Another program may take one
    before it is used.

    The ports are below the system's range for outgoing connections, so that no client of ours can
    take them. Raises :class:`SetUpFailed` if there are too few.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if len(ports) == count:
            return ports
        if not taken([port], host):
            ports.append(port)
    raise SetUpFailed(f"{host} does not have {count} free ports between {PORTS[0]} and {PORTS[-1]}")


def listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


def taken(ports: Iterable[int], host: str = "127.0.0.1") -> list[int]:
    """Return those of ``ports`` on which we cannot listen because another program does or the
    system forbids it."""
    in_use = []
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                in_use.append(port)
    return in_use
