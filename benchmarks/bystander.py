"""How long a bystander waits while other peers ask for much: ``python benchmarks/bystander.py``.

The broker, the peers and the bystander are processes of their own. The bystander sends a STOMP
message to itself, waits for it, and sends the next 2 ms later, for as long as a scenario lasts and
half a second more. The figures are the median and the longest of these waits, in ms, and the load
average of the machine. A machine that is busy with other work adds its own waits; ``nothing`` is
the measure of that, and ``nice -n -15`` in front of the command (as root) keeps some of it away.
The longest turn of the broker's loop is in ms of processor time, which no load disturbs.

``--only TEXT`` takes the scenarios whose names contain it, ``--json`` prints one JSON object.
Exit 1 if a median is not below 20 ms or a wait not below 500 ms. 10,000 connections need as many
file descriptors: see ``ulimit -Hn``.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import multiprocessing
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from asyncio import base_events
from collections.abc import Callable

import click

from brokerproof.reference_broker.runtime import command

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"
MEDIAN_MS, LONGEST_MS = 20, 500
"""Bounds of the bystander's waits on a quiet machine."""
SCENARIOS: dict[str, Callable[[int], None]] = {}


def scenario(name: str) -> Callable[[Callable[[int], None]], Callable[[int], None]]:
    """Register the decorated function, which gets the broker's port."""

    def register(function: Callable[[int], None]) -> Callable[[int], None]:
        SCENARIOS[name] = function
        return function

    return register


def connected(port: int) -> socket.socket:
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


def serve() -> None:
    """Run a broker; print at its end how long the longest turn of its loop took."""
    turn = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]
    longest = 0

    def measured(loop: asyncio.AbstractEventLoop) -> None:
        nonlocal longest
        began = time.thread_time_ns()
        turn(loop)
        longest = max(longest, time.thread_time_ns() - began)

    base_events.BaseEventLoop._run_once = measured  # type: ignore[attr-defined]
    atexit.register(lambda: print(json.dumps(longest / 1e6), flush=True))
    command.broker.main(["--stomp", "0", "--amqp", "0"])


class Broker:
    """A broker in a process of its own, for the length of a block."""

    def __enter__(self) -> Broker:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--as-broker"], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["stomp"])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with self._process:
            assert self._process.stdout is not None
            self.longest_turn = float(self._process.stdout.readlines()[-1])


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


@scenario("50,000 messages for a subscription without a window")
def deep_queue(port: int) -> None:
    frame = b"SEND\ndestination:deep\ndestination-type:ANYCAST\n\nx\0"
    _at_once(port, frame * 50_000)
    peer = connected(port)
    head = b"SUBSCRIBE\ndestination:deep\nsubscription-type:ANYCAST\nid:0\n"
    peer.sendall(head + b"consumer-window-size:-1\n\n\0" + frame.replace(b"x", b"the-last"))
    until(peer, b"the-last")
    peer.close()


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


@scenario("10,000 connections in waves of 1,000, then reset at once")
def waves(port: int) -> None:
    peers: list[socket.socket] = []
    for _ in range(10):
        wave = [socket.socket() for _ in range(1_000)]
        for peer in wave:
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))
        for peer in wave:
            peer.settimeout(60)
            peer.sendall(CONNECT)
        for peer in wave:
            until(peer, b"CONNECTED")
        peers += wave
    for peer in peers:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
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
    # A process: the work of a thread would be part of the waits.
    peers = multiprocessing.get_context("fork").Process(target=load, args=(port,))
    peers.start()
    taken = []
    end = None
    while end is None or time.monotonic() < end:
        began = time.monotonic()
        peer.sendall(b"SEND\ndestination:bystander\ndestination-type:ANYCAST\n\nbody-is-here\0")
        until(peer, b"body-is-here")
        taken.append((time.monotonic() - began) * 1000)
        time.sleep(0.002)
        if end is None and not peers.is_alive():
            end = time.monotonic() + 0.5
    peer.close()
    if peers.exitcode:
        raise click.ClickException("the peers failed; see above")
    return taken


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.option("--only", default="", help="Take scenarios whose names contain this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--as-broker", is_flag=True, hidden=True)
def main(only: str, as_json: bool, as_broker: bool) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if as_broker:
        serve()
    figures: dict[str, dict[str, float]] = {}
    for name, load in SCENARIOS.items():
        if only.lower() not in name.lower():
            continue
        with Broker() as broker:
            began = time.monotonic()
            taken = waits(broker.port, load)
        figure = figures[name] = {
            "median": statistics.median(taken),
            "longest": max(taken),
            "waits": len(taken),
            "longest_turn": broker.longest_turn,
            "seconds": time.monotonic() - began,
            "load": os.getloadavg()[0],
        }
        if not as_json:
            print(
                f"{name:56} median {figure['median']:6.1f} ms  max {figure['longest']:5.0f} ms"
                f"  longest turn {broker.longest_turn:4.0f} ms"
                f"  ({len(taken)} waits in {figure['seconds']:.0f} s, load {figure['load']:.1f})",
                flush=True,
            )
    if as_json:
        print(json.dumps(figures))
    if any(
        figure["median"] >= MEDIAN_MS or figure["longest"] >= LONGEST_MS
        for figure in figures.values()
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
