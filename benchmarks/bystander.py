"""How long a bystander waits while other peers ask for much: ``python benchmarks/bystander.py``.

A reference broker runs as a process of its own. The bystander sends a STOMP message to itself,
waits for it, and sends the next 2 ms later, for as long as a scenario lasts and half a second more.
The figures are the median and the longest of these waits, in ms. A machine that is busy with other
work adds its own; ``nothing`` is the measure of that.

``--only TEXT`` takes the scenarios whose names contain it, ``--json`` prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import click

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
SCENARIOS: dict[str, Callable[[int], None]] = {}


def scenario(name: str) -> Callable[[Callable[[int], None]], Callable[[int], None]]:
    """Register the decorated function, which gets the broker's port."""

    def register(function: Callable[[int], None]) -> Callable[[int], None]:
        SCENARIOS[name] = function
        return function

    return register


def connected(port: int) -> socket.socket:
    """Return a connection with a session."""
    peer = socket.create_connection(("127.0.0.1", port))
    peer.settimeout(60)
    peer.sendall(CONNECT)
    until(peer, b"CONNECTED")
    return peer


def until(peer: socket.socket, text: bytes) -> None:
    """Read until ``text`` has arrived or the peer closes."""
    tail = b""
    while text not in tail:
        data = peer.recv(1 << 20)
        if not data:
            return
        tail = tail[-len(text) :] + data


@contextlib.contextmanager
def broker() -> Iterator[int]:
    """Run a broker; yield its STOMP port."""
    command = [sys.executable, "-m", "brokerproof.reference_broker", "--stomp", "0", "--amqp", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(json.loads(process.stdout.readline())["stomp"])
        finally:
            process.terminate()


@scenario("nothing")
def nothing(port: int) -> None:
    time.sleep(2)


def _at_once(port: int, frames: bytes) -> None:
    """Send ``frames`` as fast as the broker reads, then wait for the answer to the last."""
    peer = connected(port)
    reader = threading.Thread(target=until, args=(peer, b"receipt-id:last"))
    reader.start()
    with contextlib.suppress(OSError):
        peer.sendall(frames + b"SEND\ndestination:none\nreceipt:last\n\n\0")
    reader.join()
    peer.close()


@scenario("20,000 subscriptions on one connection")
def subscriptions(port: int) -> None:
    head = b"SUBSCRIBE\ndestination:q\nsubscription-type:ANYCAST\nid:%d\n\n\0"
    _at_once(port, b"".join(head % number for number in range(20_000)))


@scenario("50,000 transactions asked for, 10,000 allowed")
def transactions(port: int) -> None:
    _at_once(port, b"".join(b"BEGIN\ntransaction:%d\n\n\0" % number for number in range(50_000)))


@scenario("20 peers with 5,000 subscriptions each, at once")
def many_subscriptions(port: int) -> None:
    head = b"SUBSCRIBE\ndestination:q\nsubscription-type:ANYCAST\nid:%d\n\n\0"
    frames = b"".join(head % number for number in range(5_000))
    threads = [threading.Thread(target=_at_once, args=(port, frames)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@scenario("10,000 connections, then gone")
def connections(port: int) -> None:
    peers = [connected(port) for _ in range(10_000)]
    time.sleep(1)
    for peer in peers:
        peer.close()


@scenario("slow readers: 50 that read nothing of 20 MB")
def slow_readers(port: int) -> None:
    readers = [connected(port) for _ in range(50)]
    for reader in readers:
        reader.sendall(b"SUBSCRIBE\ndestination:t\nsubscription-type:MULTICAST\nid:0\n\n\0")
    body = b"x" * 10_000
    _at_once(port, (b"SEND\ndestination:t\ndestination-type:MULTICAST\n\n%b\0" % body) * 2000)
    for reader in readers:
        reader.close()


@scenario("slow writers: 200 that send a byte each ms")
def slow_writers(port: int) -> None:
    writers = [connected(port) for _ in range(200)]
    frame = b"SEND\ndestination:q\ndestination-type:ANYCAST\n\nbody\0"
    end = time.monotonic() + 5
    at = 0
    while time.monotonic() < end:
        for writer in writers:
            writer.sendall(frame[at : at + 1])
        at = (at + 1) % len(frame)
        time.sleep(0.001)
    for writer in writers:
        writer.close()


def waits(port: int, load: Callable[[int], None]) -> list[float]:
    """Return the bystander's waits in ms while ``load`` is at work."""
    peer = connected(port)
    peer.sendall(b"SUBSCRIBE\ndestination:bystander\nsubscription-type:ANYCAST\nid:0\n\n\0")
    thread = threading.Thread(target=load, args=(port,))
    thread.start()
    taken = []
    end = None
    while end is None or time.monotonic() < end:
        began = time.monotonic()
        peer.sendall(b"SEND\ndestination:bystander\ndestination-type:ANYCAST\n\nbody-is-here\0")
        until(peer, b"body-is-here")
        taken.append((time.monotonic() - began) * 1000)
        time.sleep(0.002)
        if end is None and not thread.is_alive():
            end = time.monotonic() + 0.5
    peer.close()
    return taken


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.option("--only", default="", help="Take scenarios whose names contain this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(only: str, as_json: bool) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures = {}
    for name, load in SCENARIOS.items():
        if only.lower() not in name.lower():
            continue
        with broker() as port:
            taken = waits(port, load)
        figures[name] = statistics.median(taken), max(taken), len(taken)
        if not as_json:
            median, longest, count = figures[name]
            print(f"{name:50} median {median:6.1f} ms  max {longest:6.0f} ms  ({count} waits)")
    if as_json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
