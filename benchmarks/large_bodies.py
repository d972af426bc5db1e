"""One large body through the reference broker, in and out, and how much memory its process has
meanwhile.

    python benchmarks/large_bodies.py [--mib 200] [--data]

Each way is a broker of its own. The body is made and hashed piece by piece on one side and hashed
on the other, so neither peer holds it. The consumer comes when the producer is done. Memory is
VmRSS of the broker's process, looked at every 20 ms.
"""

import argparse
import hashlib
import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from brokers import Memory, Place, started_reference

from brokerproof.harness.protocols.amqp10 import codec, types

PIECE = 256 * 1024
NAME = "large"
WAIT_S = 120.0


def pieces(size: int) -> Iterator[bytes]:
    """A body of printable bytes in which every piece differs."""
    pattern = bytes(range(32, 96)) * (PIECE // 64)
    for at in range(0, size, PIECE):
        yield (b"%016d" % at + pattern)[: min(PIECE, size - at)]


# --- STOMP ----------------------------------------------------------------------------------------


class Stomp:
    """One connection in 1.2."""

    def __init__(self, ready: dict[str, int]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", ready["stomp"]), timeout=WAIT_S)
        self.rest = b""
        self.socket.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        assert self.head().startswith(b"CONNECTED"), "the broker does not connect us"

    def until(self, end: bytes) -> bytes:
        while end not in self.rest:
            data = self.socket.recv(PIECE)
            assert data, f"the broker closed: {self.rest[:200]!r}"
            self.rest += data
        head, _, self.rest = self.rest.partition(end)
        return head

    def head(self) -> bytes:
        """A frame without a body."""
        return self.until(b"\0").lstrip()

    def send(self, size: int, persistent: bool) -> str:
        seen = hashlib.sha256()
        more = "persistent:true\n" if persistent else ""
        head = f"SEND\ndestination:{NAME}\ndestination-type:ANYCAST\n{more}content-length:{size}\nreceipt:r\n\n"  # noqa: E501
        self.socket.sendall(head.encode())
        for piece in pieces(size):
            seen.update(piece)
            self.socket.sendall(piece)
        self.socket.sendall(b"\0")
        assert self.head().startswith(b"RECEIPT"), "the broker does not confirm"
        return seen.hexdigest()

    def take(self, size: int) -> str:
        self.socket.sendall(
            f"SUBSCRIBE\nid:0\ndestination:{NAME}\nsubscription-type:ANYCAST\nack:client\n\n\0".encode()
        )
        lines = dict(line.partition(b":")[::2] for line in self.until(b"\n\n").splitlines())
        assert int(lines[b"content-length"]) == size, lines
        seen, left = hashlib.sha256(), size
        while left:
            data, self.rest = (self.rest, b"") if self.rest else (self.socket.recv(PIECE), b"")
            assert data, "the broker closed within the body"
            self.rest = data[left:]
            seen.update(data[:left])
            left -= len(data[:left])
        self.until(b"\0")
        self.socket.sendall(b"ACK\nid:%b\nreceipt:a\n\n\0" % lines[b"ack"])
        assert self.head().startswith(b"RECEIPT"), "the broker does not confirm the ACK"
        return seen.hexdigest()


# --- AMQP -----------------------------------------------------------------------------------------

_DATA = b"\0\x53\x75\xb0"
WINDOWS = {"next-outgoing-id": 0, "incoming-window": 2**31 - 1, "outgoing-window": 2**31 - 1}


class Amqp:
    """One connection, one session, one link."""

    def __init__(self, ready: dict[str, int]) -> None:
        self.socket = socket.create_connection(("127.0.0.1", ready["amqp"]), timeout=WAIT_S)
        self.reader = codec.Reader()
        self.inbox: list[codec.Frame] = []
        self.socket.sendall(codec.protocol_header())
        self.say("open", {"container-id": "large"})
        self.say("begin", WINDOWS)
        self.most = self.wait("open").get("max-frame-size", PIECE)

    def say(self, name: str, fields: Mapping[str, object], payload: bytes = b"") -> None:
        self.socket.sendall(
            codec.encode_frame(types.encode(codec.composite(name, fields)) + payload)
        )

    def next(self) -> codec.Frame:
        while not self.inbox:
            data = self.socket.recv(PIECE)
            assert data, "the broker closed"
            self.inbox += [item for item in self.reader.feed(data) if isinstance(item, codec.Frame)]
        return self.inbox.pop(0)

    def wait(self, name: str) -> codec.Frame:
        while (line := self.next()).name != name:
            assert line.name not in ("close", "end", "detach"), line.brief()
        return line

    def attach(self, role: bool, terminus: str) -> None:
        node = codec.composite(terminus, {"address": NAME, "capabilities": ("queue",)})
        other = "target" if terminus == "source" else "source"
        ends = {terminus: node, other: codec.composite(other, {})}
        count = None if role else 0
        fields = {"name": "l", "handle": 0, "role": role, "initial-delivery-count": count}
        self.say("attach", {**fields, **ends})
        self.wait("attach")

    def send(self, length: int, persistent: bool) -> str:
        self.attach(codec.SENDER, "target")
        self.wait("flow")
        header = types.encode(codec.composite("header", {"durable": True})) if persistent else b""
        seen = hashlib.sha256()
        first = {"delivery-id": 0, "delivery-tag": b"t", "message-format": 0}
        head = header + _DATA + length.to_bytes(4)
        at, size = 0, self.most - 64 - len(head)
        for piece in pieces(length):
            seen.update(piece)
            for begin in range(0, len(piece), size):
                part = piece[begin : begin + size]
                at += len(part)
                self.say("transfer", {"handle": 0, **first, "more": at < length}, head + part)
                first, head = {}, b""
        assert self.wait("disposition").kind("state") == "accepted", "the broker does not accept it"
        return seen.hexdigest()

    def take(self, size: int) -> str:
        self.attach(codec.RECEIVER, "source")
        link = {"handle": 0, "delivery-count": 0, "link-credit": 1}
        self.say("flow", {"next-incoming-id": 0, **WINDOWS, **link})
        seen, more, count = hashlib.sha256(), True, 0
        head: bytes | None = b""
        while more:
            frame = self.wait("transfer")
            more, payload = frame.get("more", False), frame.payload
            if head is not None:
                head += payload
                begin = head.find(_DATA + size.to_bytes(4))
                assert begin >= 0, head[:200]
                payload, head = head[begin + 8 :], None
            seen.update(payload)
            count += len(payload)
        assert count == size, f"{count} of {size} bytes came"
        accepted = codec.composite("accepted", {})
        self.say("disposition", {"role": True, "first": 0, "settled": True, "state": accepted})
        self.say("close", {})
        self.wait("close")
        return seen.hexdigest()


WAYS: dict[str, tuple[Callable[..., Stomp | Amqp], Callable[..., Stomp | Amqp]]] = {
    "STOMP to STOMP": (Stomp, Stomp),
    "AMQP to AMQP": (Amqp, Amqp),
    "STOMP to AMQP": (Stomp, Amqp),
    "AMQP to STOMP": (Amqp, Stomp),
}


def run(way: str, size: int, durable: bool) -> dict[str, object]:
    producer, consumer = WAYS[way]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="brokerproof-large-")))
        data = folder / "data"
        more = ["--data", str(data)] if durable else []
        ready = started_reference(Place(stack, folder), "--stomp", "0", "--amqp", "0", *more)
        memory = Memory(ready["pid"], every_s=0.02)
        began = time.monotonic()
        sent = producer(ready).send(size, durable)
        stored = time.monotonic()
        stored_most = memory.most()
        came = consumer(ready).take(size)
        ended = time.monotonic()
        most = max(stored_most, memory.most())
        memory.end()
        assert sent == came, "another body came"
        left = sorted(path.name for path in data.rglob("*.body")) if durable else []
        return {
            "way": way,
            "mib": size // 2**20,
            "data": durable,
            "in_s": round(stored - began, 2),
            "out_s": round(ended - stored, 2),
            "before_mib": round(memory.before, 1),
            "in_mib": round(stored_most, 1),
            "most_mib": round(most, 1),
            "files_left": left,
        }


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--mib", type=int, default=200, help="size of the body in MiB")
    asked.add_argument("--data", action="store_true", help="durable messages, a folder for data")
    asked.add_argument("--way", choices=list(WAYS), action="append", help="only this; repeatable")
    given = asked.parse_args()
    for way in given.way or WAYS:
        print(json.dumps(run(way, given.mib * 2**20, given.data)), flush=True)


if __name__ == "__main__":
    main()
