"""Messages a second that the broker's core handles, without sockets: ``python
benchmarks/broker_core.py``.

Three paths, one process, one core, all in memory, 1 KiB bodies with content-length, chunks of about
64 KiB:

* send: SEND without receipt to one ``auto`` subscriber;
* ack:  SEND without receipt to one ``client`` subscriber with a window of 200 KiB, every message acknowledged with a
  receipt, the acknowledgements in chunks as large as the deliveries came;
* receipts: as ack, with ``client-individual``, and every SEND asks for a receipt too.

The clock here measures us; the broker itself gets instants as arguments.
"""  # noqa: E501

from __future__ import annotations

import cProfile
import pstats
import re
import sys
import time
from collections.abc import Callable

from brokerproof.harness.model.broker_io import BytesReceived, Connected, Effect, SendBytes
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.settings.settings import Settings

MESSAGES = 50_000
BATCH = 60
SEND = b"SEND\ndestination:queue\ncontent-length:1024\n\n" + b"x" * 1024 + b"\0"
ACK_ID = re.compile(rb"\nack:([^\n]+)\n")


def _broker(subscribe: bytes) -> Broker:
    broker = create_broker(Settings())
    for conn in (1, 2):
        broker.handle(0, Connected(conn, "stomp", "bench"))
        broker.handle(0, BytesReceived(conn, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"))
    broker.handle(
        0,
        BytesReceived(
            2, b"SUBSCRIBE\nid:0\ndestination:queue\nsubscription-type:ANYCAST\n" + subscribe
        ),
    )
    return broker


def _sent(effects: list[Effect], conn: int) -> bytes:
    return b"".join(
        effect.data for effect in effects if isinstance(effect, SendBytes) and effect.conn == conn
    )


def send_path() -> float:
    """Seconds for all messages to an auto subscriber."""
    broker, chunk, got = _broker(b"\n\0"), SEND * BATCH, 0
    began = time.perf_counter()
    for _ in range(MESSAGES // BATCH):
        got += len(_sent(broker.handle(0, BytesReceived(1, chunk)), 2))
    took = time.perf_counter() - began
    assert got > MESSAGES // BATCH * BATCH * 1024
    return took


def ack_path() -> float:
    """Seconds in ``handle`` for all messages, each acknowledged with a receipt."""
    return _acknowledged(b"client", lambda first: SEND * BATCH)


def receipts_path() -> float:
    """Seconds in ``handle`` for all messages, each sent and acknowledged with a receipt."""
    return _acknowledged(b"client-individual", _with_receipts)


def _with_receipts(first: int) -> bytes:
    return b"".join(
        SEND.replace(b"\n\n", b"\nreceipt:r%d\n\n" % number, 1)
        for number in range(first, first + BATCH)
    )


def _acknowledged(mode: bytes, chunk_from: Callable[[int], bytes]) -> float:
    broker = _broker(b"ack:%b\nconsumer-window-size:204800\n\n\0" % mode)
    took = 0.0
    sent = receipts = 0
    while sent < MESSAGES:
        chunk = chunk_from(sent)
        began = time.perf_counter()
        effects = broker.handle(0, BytesReceived(1, chunk))
        took += time.perf_counter() - began
        sent += BATCH
        while ids := ACK_ID.findall(out := _sent(effects, 2)):
            acks = b"".join(b"ACK\nid:%b\nreceipt:r%b\n\n\0" % (ack_id, ack_id) for ack_id in ids)
            began = time.perf_counter()
            effects = broker.handle(0, BytesReceived(2, acks))
            took += time.perf_counter() - began
            receipts += out.count(b"RECEIPT\n")
        receipts += out.count(b"RECEIPT\n")
    assert receipts == sent, (receipts, sent)
    return took


def main() -> None:
    """Print both figures; with ``--profile`` also where the time goes."""
    for name, path in (("send", send_path), ("ack", ack_path), ("receipts", receipts_path)):
        if "--profile" in sys.argv:
            profile = cProfile.Profile()
            profile.runcall(path)
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)
        took = min(path() for _ in range(3))
        print(f"{name:8} {MESSAGES / took:9,.0f} messages/s  {took / MESSAGES * 1e6:5.1f} us each")


if __name__ == "__main__":
    main()
