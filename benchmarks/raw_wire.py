"""What peers of all protocols share: a raw socket, the reasons why a run fails, and a life that
takes jobs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

READ = 1 << 20
"""Bytes asked of the socket at once."""
BURST = 64
"""Messages written at once where nothing limits the messages in flight."""


class Failed(Exception):
    """The broker did not do its part; the sentence says what came instead."""


class Cut(Exception):
    """The consumer's wire failed when ``messages`` had arrived."""

    def __init__(self, problem: Exception, messages: int) -> None:
        super().__init__(str(problem))
        self.messages = messages


class RawWire:
    """A connection to a port of 127.0.0.1 on which nothing may take longer than ``patience_s``."""

    def __init__(self, port: int, patience_s: float) -> None:
        self._patience_s = patience_s
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self) -> bytes:
        """Return the bytes that have arrived, at least one."""
        try:
            data = self.socket.recv(READ)
        except TimeoutError:
            raise Failed(f"nothing came for {self._patience_s:g} s") from None
        if not data:
            raise Failed("the broker closed the connection")
        return data

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise Failed(f"the broker took nothing for {self._patience_s:g} s") from None


def meet(pipe: Connection) -> None:
    """Wait until both peers are ready."""
    pipe.send("ready")
    if pipe.recv() != "go":
        raise Failed("called off")


def work_through(
    pipe: Connection, roles: Mapping[str, Callable[[Any, Connection], dict[str, int]]]
) -> None:
    """A peer's life: takes ``(role, job)`` from the pipe, answers with the result or with the
    reason why there is none."""
    while (task := pipe.recv()) is not None:
        role, job = task
        try:
            pipe.send(roles[role](job, pipe))
        except (Failed, OSError) as problem:
            pipe.send(f"{role}r: {problem}")
