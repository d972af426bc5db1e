"""The line protocol of Python drivers: reads one command per line, calls the method for that
command, and writes reports. Drivers run by path, with any Python, so this file imports nothing of
ours."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class DriverLines:
    """Base class for drivers. Each command NAME has a method ``do_NAME``, whose arguments are the
    command's fields."""

    def __init__(self) -> None:
        self._output = os.dup(1)
        os.dup2(2, 1)  # a library's output is not a report
        self._lock = threading.Lock()
        self._busy_s = 0.0
        self._messages = 0

    def report(self, saw: str, **fields: Any) -> None:
        """Write a report with the time of the client's own clock, in nanoseconds."""
        line = json.dumps({"saw": saw, "at": time.monotonic_ns(), **fields})
        with self._lock:
            os.write(self._output, line.encode() + b"\n")

    def report_message(self, headers: dict[str, str], body: bytes) -> int:
        self._messages += 1
        number = self._messages
        try:
            content = {"body": body.decode()}
        except UnicodeDecodeError:
            content = {"base64": base64.b64encode(body).decode()}
        self.report("message", number=number, headers=headers, **content)
        busy_s, self._busy_s = self._busy_s, 0.0
        if busy_s:
            threading.Event().wait(busy_s)
            self.report("worked", number=number)
        return number

    def do_work(self, ms: int) -> None:
        """Make the listener spend this long on the next message."""
        self._busy_s = ms / 1000

    @staticmethod
    def call_in(loop: Callable[[Callable[[], None]], object], call: Callable[[], object]) -> None:
        """Call a function in the thread of ``loop``, and wait until it returns."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                call()
                done.set_result(None)
            except Exception as problem:
                done.set_exception(problem)

        loop(run)
        done.result(10)

    def serve(self, client: str, version: object) -> None:
        """Report the client's name, then execute the commands on standard input until it ends."""
        self.report("ready", client=client, version=str(version))
        for line in sys.stdin.buffer:
            fields = json.loads(line)
            name = fields.pop("do")
            if "base64" in fields:
                fields["body"] = base64.b64decode(fields.pop("base64"))
            try:
                getattr(self, f"do_{name}")(**fields)
                self.report("did", do=name)
            except Exception as problem:
                self.report("failed", do=name, problem=f"{type(problem).__name__}: {problem}"[:300])
        os._exit(0)  # the library's threads may never end
