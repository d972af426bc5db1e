"""The part of RabbitMQ's management API that targets need: declaring queues that must exist before
an AMQP 1.0 link."""

import base64
import copy
import http.client
import json
import threading
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

from brokerproof.harness.targets.failure import SetUpFailed

TIMEOUT_S = 30
"""Seconds that an answer may take; about 0.01 s is usual."""


class Management:
    """The API of one node at ``host:port``. Several threads may use it concurrently."""

    def __init__(
        self, host: str, port: int, login: str, passcode: str, *, vhost: str = "/"
    ) -> None:
        self._host, self._port = host, port
        self._where, self._vhost = f"{host}:{port}", quote(vhost, safe="")
        token = base64.b64encode(f"{login}:{passcode}".encode()).decode("ascii")
        self._headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        self._lock = threading.Lock()

    def in_fork(self) -> Self:
        """Return the same API with a separate connection, for use in a forked process."""
        copied = copy.copy(self)
        copied._connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        copied._lock = threading.Lock()
        return copied

    def declare_queue(self, name: str, kind: str = "classic") -> None:
        """Declare a durable queue of that type. Does nothing if it exists. Raises
        :class:`SetUpFailed` if the broker does not create it.
        """
        self.put(
            f"queues/{self._vhost}/{quote(name, safe='')}",
            {"durable": True, "arguments": {"x-queue-type": kind}},
        )

    def put(self, path: str, body: Mapping[str, Any]) -> None:
        """Send ``PUT /api/PATH``. Raises :class:`SetUpFailed` for any answer but success."""
        what = f"PUT {self._where}/api/{path}"
        with self._lock:
            try:
                status, answer = self._asked(path, json.dumps(body))
            except (OSError, http.client.HTTPException) as problem:
                raise SetUpFailed(
                    f"{what}: the management API did not answer ({problem})"
                ) from None
        if status not in (201, 204):
            raise SetUpFailed(
                f"{what}: was answered with {status} {answer[:200]!r} instead of 201 or 204"
            )

    def _asked(self, path: str, body: str) -> tuple[int, bytes]:
        """Ask again over a new connection if the old one breaks, because the node closes idle
        connections and a PUT may be repeated."""
        for last in (self._connection.sock is None, True):
            try:
                self._connection.request("PUT", f"/api/{path}", body, self._headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (ConnectionError, http.client.HTTPException):
                self._connection.close()  # the next request reopens it
                if last:
                    raise
            except OSError:
                self._connection.close()
                raise
        raise AssertionError("the second try returns or raises")

    def close(self) -> None:
        """End the connection; a later request opens a new one."""
        with self._lock:
            self._connection.close()
