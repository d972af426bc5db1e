"""RabbitMQ 3.10 to 4.1.5: a STOMP client that two alarms block continues when the first one
clears.

Needs nothing but Python, a RabbitMQ with the STOMP plugin, and the command rabbitmqctl for its node
(``--ctl``, as one quoted argument). The script sets the memory and disk limits so that both
resources are short. A client sends a message, which is accepted, and another, which waits because
the broker no longer reads the connection. Then the memory limit is restored. Disk space is still
short, so the second message should keep waiting. Up to 4.1.5 it is confirmed: rabbit_stomp_reader
keeps one flag for all alarms (fixed by pull request 14795, in 4.1.6 and 4.2.0).

    python3 rabbitmq_stomp_two_alarms.py HOST:PORT --ctl 'rabbitmqctl -n rabbit@host' [LOGIN
    PASSCODE]

Exits with 0 if the second message waits for the end of both alarms, with 1 if it is confirmed
earlier, and with 2 if it cannot tell. It finally sets the limits to 0.6 of the memory and 50 MB.
"""

# ruff: noqa: T201 - it prints for a reader

from __future__ import annotations

import shlex
import socket
import subprocess
import sys

PATIENCE_S = 5.0
"""How long an answer may take, in seconds."""


def send(to: socket.socket, command: str, headers: dict[str, str], body: bytes = b"") -> None:
    lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
    to.sendall("\n".join(lines).encode() + b"\n\n" + body + b"\0")


def answer(of: socket.socket) -> str:
    """Return the next frame; an empty one if none arrived in time."""
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
    """Run the steps; return the exit status."""
    arguments = sys.argv[1:]
    at = arguments.index("--ctl")
    control = shlex.split(arguments[at + 1])
    del arguments[at : at + 2]
    host, _, port = arguments[0].rpartition(":")
    login, passcode = arguments[1:3] if len(arguments) > 2 else ("guest", "guest")

    def limit(command: str, value: str) -> None:
        subprocess.run([*control, command, value], check=True, capture_output=True)

    peer = socket.create_connection((host, int(port)), PATIENCE_S)
    send(
        peer,
        "CONNECT",
        {"accept-version": "1.2", "host": "/", "login": login, "passcode": passcode},
    )
    if not answer(peer).startswith("CONNECTED"):
        return 2
    where = {"destination": "/topic/two-alarms"}
    try:
        limit("set_disk_free_limit", "9000000000000000")
        limit("set_vm_memory_high_watermark", "0")
        send(peer, "SEND", {**where, "receipt": "first"}, b"first")
        answer(peer)  # accepted: only now does the broker know that this client publishes
        send(peer, "SEND", {**where, "receipt": "second"}, b"second")
        if answer(peer):
            print("the second message was answered while memory and disk space were short")
            return 2
        limit("set_vm_memory_high_watermark", "0.6")
        early = answer(peer)
        print(
            f"memory is no longer short, disk space still is: {early[:60]!r}"
            if early
            else "the second message waits"
        )
    finally:
        limit("set_vm_memory_high_watermark", "0.6")
        limit("set_disk_free_limit", "50MB")
    if early:
        return 1
    return 0 if answer(peer).startswith("RECEIPT") else 2


if __name__ == "__main__":
    sys.exit(main())
