"""RabbitMQ up to 4.3: a STOMP connection ends without a word when a queue refuses one of its
messages.

Needs nothing but Python, and a RabbitMQ with the plugins for STOMP and management. A queue of at
most one message with the overflow reject-publish is declared over the management API; then two
messages are sent to it, each with a receipt. The first is confirmed. The second is refused by the
queue, so by STOMP 1.2 an ERROR is due. Releases 3.10.8 to 4.3.5 answer nothing: the channel's
basic.nack reaches rabbit_stomp_reader, whose handle_info has no clause for it, and the process of
the connection crashes (function_clause in the log).

    python3 rabbitmq_stomp_reject_publish.py HOST:STOMP-PORT HOST:MANAGEMENT-PORT [LOGIN PASSCODE]

Exits with 0 if an ERROR came, with 1 if the connection ended without one or the second message was
confirmed, with 2 if it cannot tell.
"""

# ruff: noqa: T201 - it speaks to whoever runs it

from __future__ import annotations

import base64
import json
import os
import socket
import sys
import urllib.request

PATIENCE_S = 10.0
"""How long an answer may take. Seconds."""


def send(to: socket.socket, command: str, headers: dict[str, str], body: bytes = b"") -> None:
    """Writes one frame."""
    lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
    to.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")


def answer(of: socket.socket) -> str:
    """The next frame, empty when the connection ended or nothing came."""
    data = b""
    try:
        while b"\0" not in data:
            more = of.recv(4096)
            if not more:
                return ""
            data += more
    except TimeoutError:
        return ""
    return data.lstrip(b"\n").decode("utf-8", "replace")


def main() -> int:
    """Runs the steps; returns what to exit with."""
    host, _, port = sys.argv[1].rpartition(":")
    login, passcode = sys.argv[3:5] if len(sys.argv) > 4 else ("guest", "guest")
    name = f"refusing-{os.getpid()}"
    about = {"durable": False, "arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}
    request = urllib.request.Request(
        f"http://{sys.argv[2]}/api/queues/%2F/{name}", json.dumps(about).encode(), method="PUT"
    )
    token = base64.b64encode(f"{login}:{passcode}".encode()).decode()
    request.add_header("Authorization", f"Basic {token}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=PATIENCE_S):
        pass
    queue = f"/amq/queue/{name}"
    peer = socket.create_connection((host, int(port)), PATIENCE_S)
    send(
        peer,
        "CONNECT",
        {"accept-version": "1.2", "host": "/", "login": login, "passcode": passcode},
    )
    if not answer(peer).startswith("CONNECTED"):
        return 2
    send(peer, "SEND", {"destination": queue, "receipt": "first"}, b"kept")
    if not answer(peer).startswith("RECEIPT"):
        print("the first message was not confirmed")
        return 2
    send(peer, "SEND", {"destination": queue, "receipt": "second"}, b"refused")
    said = answer(peer)
    print(
        f"the second message, which the queue refuses, was answered with {said[:200]!r}"
        if said
        else "no answer came"
    )
    return 0 if said.startswith("ERROR") else 1


if __name__ == "__main__":
    sys.exit(main())
