"""Servers that misbehave, and relays that make a working broker misbehave.

``python -m brokerproof.suites.units.drivers.misbehaving BEHAVIOUR PORT [BROKER_PORT [STIMULUS]]``
runs one and prints its port. Port 0 means a free port; the stimulus is in hexadecimal digits.
"""

import itertools
import os
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

Behaviour = Callable[[socket.socket], None]
"""Serves one connection, which is closed when this returns or raises ``OSError``."""

_READ = 65536
_CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0"
_MESSAGE = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:x\n\nhello\0"
_EMPTY_FRAME = bytes.fromhex("0000000802000000")


def silent(client: socket.socket) -> None:
    while client.recv(_READ):
        pass


def silent_after_login(client: socket.socket) -> None:
    client.recv(_READ)
    client.sendall(_CONNECTED)
    silent(client)


def half_open(client: socket.socket) -> None:
    """Close our direction immediately and never read."""
    client.shutdown(socket.SHUT_WR)
    threading.Event().wait()


def never_reading(client: socket.socket) -> None:
    threading.Event().wait()


def floods_before_login(client: socket.socket) -> None:
    """Send line ends forever."""
    while True:
        client.sendall(b"\n" * _READ)


def floods_with_messages(client: socket.socket) -> None:
    """Send messages forever, without a login."""
    while True:
        client.sendall(_MESSAGE * 1000)


def floods_after_login(client: socket.socket) -> None:
    """Answer CONNECT, then send messages forever."""
    client.recv(_READ)
    client.sendall(_CONNECTED)
    while True:
        client.sendall(_MESSAGE * 1000)


def stalls_in_a_flood(client: socket.socket) -> None:
    """Answer CONNECT, then send 500 messages and nothing more."""
    client.recv(_READ)
    client.sendall(_CONNECTED + _MESSAGE * 500)
    silent(client)


def floods_with_one_frame(client: socket.socket) -> None:
    """Answer CONNECT, then begin a message whose body never ends."""
    client.recv(_READ)
    client.sendall(_CONNECTED + b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:x\n\n")
    while True:
        client.sendall(b"x" * _READ)


def spinning(client: socket.socket) -> None:
    """Send random bytes forever."""
    random_bytes = random.Random(1).randbytes
    client.recv(_READ)
    while True:
        client.sendall(random_bytes(_READ))


def one_byte_per_second(client: socket.socket) -> None:
    """Slowly send an endless header."""
    client.recv(_READ)
    ticks = threading.Event()
    while True:
        client.sendall(b"C")
        ticks.wait(1)


def floods_amqp(client: socket.socket) -> None:
    """Answer AMQP's protocol header, then send empty frames forever."""
    client.sendall(client.recv(8))
    while True:
        client.sendall(_EMPTY_FRAME * 1000)


class Relay:
    """Passes bytes between clients and the broker at ``broker_port``, with a fault."""

    def __init__(self, broker_port: int) -> None:
        self._port = broker_port
        self._dice = random.Random(1)

    def __call__(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as broker:
            back = threading.Thread(target=self._copy_back, args=(broker, client), daemon=True)
            back.start()
            while data := client.recv(_READ):
                self.on_request(client, data)
                broker.sendall(data)
            broker.shutdown(socket.SHUT_WR)
            back.join()

    def _copy_back(self, broker: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := broker.recv(_READ):
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    def on_request(self, client: socket.socket, data: bytes) -> None:
        """Perform the fault; raise ``OSError`` to close the connection."""


class ClosingAtRandom(Relay):
    """Closes on one in ``one_in`` requests. The first ``usable`` are safe: they let a run begin."""

    one_in = 10
    usable = 100

    def __init__(self, broker_port: int) -> None:
        super().__init__(broker_port)
        self._requests = itertools.count()

    def on_request(self, client: socket.socket, data: bytes) -> None:
        if next(self._requests) >= self.usable and not self._dice.randrange(self.one_in):
            raise ConnectionAbortedError


class ClosingAt(Relay):
    """Closes whenever a request contains ``stimulus``."""

    def __init__(self, broker_port: int, stimulus: bytes = b"NACK") -> None:
        super().__init__(broker_port)
        self._stimulus = stimulus

    def on_request(self, client: socket.socket, data: bytes) -> None:
        if self._stimulus in data:
            raise ConnectionAbortedError


class DyingAt(ClosingAt):
    """Ends its own process whenever a request contains ``stimulus``."""

    def on_request(self, client: socket.socket, data: bytes) -> None:
        if self._stimulus in data:
            os._exit(1)


class FloodingAt(ClosingAt):
    """Sends messages forever whenever a request contains ``stimulus``."""

    def on_request(self, client: socket.socket, data: bytes) -> None:
        while self._stimulus in data:
            client.sendall(_MESSAGE * 1000)


class FloodingFrom(Relay):
    """Sends messages forever on every connection once ``requests`` requests have arrived."""

    flood = _MESSAGE * 1000

    def __init__(self, broker_port: int, requests: int = 300) -> None:
        super().__init__(broker_port)
        self._left = requests

    def on_request(self, client: socket.socket, data: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            client.sendall(_MESSAGE)
        while self._left < 0:
            client.sendall(self.flood)


class FloodingWithOneFrameFrom(FloodingFrom):
    """Sends one endless body on every connection once ``requests`` requests have arrived."""

    flood = b"MESSAGE" * 1000


SERVERS: Mapping[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        silent, silent_after_login, half_open, never_reading, floods_before_login,
        floods_with_messages, floods_after_login, stalls_in_a_flood, floods_with_one_frame,
        spinning, one_byte_per_second, floods_amqp,
    )
}  # fmt: skip
RELAYS: Mapping[str, Callable[[int], Behaviour]] = {
    relay.__name__: relay
    for relay in (
        ClosingAtRandom,
        ClosingAt,
        DyingAt,
        FloodingAt,
        FloodingFrom,
        FloodingWithOneFrameFrom,
    )
}


@contextmanager
def listening(behaviour: Behaviour, port: int = 0) -> Iterator[int]:
    """Serve each connection in a thread; yield the port."""
    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        threading.Thread(target=_accept, args=(listener, behaviour), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, behaviour: Behaviour) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, behaviour), daemon=True).start()


def _serve(client: socket.socket, behaviour: Behaviour) -> None:
    with client, suppress(OSError):
        behaviour(client)


if __name__ == "__main__":
    name, port, *broker = sys.argv[1:]
    stimulus = map(bytes.fromhex, broker[1:])
    chosen = partial(RELAYS[name], int(broker[0]), *stimulus)() if broker else SERVERS[name]
    with listening(chosen, int(port)) as where:
        sys.stdout.write(f"{where}\n")
        sys.stdout.flush()
        threading.Event().wait()
