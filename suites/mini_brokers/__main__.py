"""``python -m brokerproof.suites.mini_brokers NAME PORT`` runs a mini-broker until SIGTERM."""

import argparse
import asyncio
import json
import os
import signal
import sys
from contextlib import suppress

from brokerproof.suites.mini_brokers.broker import Broker, Parts
from brokerproof.suites.mini_brokers.faults import BROKERS
from brokerproof.suites.mini_brokers.styles import STYLES


def obey(broker: Broker) -> None:
    """Read limits from standard input: lines of JSON, each written in one piece."""
    # Not readline(): it would hold back a second line until a third arrives.
    lines = os.read(sys.stdin.fileno(), 1 << 16).splitlines()
    if not lines:
        broker.loop.remove_reader(sys.stdin)
    for line in lines:
        limits = json.loads(line)
        if "memory" in limits:
            broker.set_short("memory", limits["memory"] == 0)
        if "disk" in limits:
            broker.set_short("disk", limits["disk"] > 10**12)


async def serve(parts: Parts, port: int, *, control: bool) -> None:
    """Serve on 127.0.0.1; print one JSON line when ready."""
    loop = asyncio.get_running_loop()
    broker = Broker(loop, parts)
    server = await loop.create_server(lambda: parts.connection(broker), "127.0.0.1", port)
    loop.add_signal_handler(signal.SIGTERM, server.close)
    bound = server.sockets[0].getsockname()[1]
    ready = {"acceptors": {"stomp": bound}, "broker": "mini-broker", "version": "1.0"}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    if control:
        loop.add_reader(sys.stdin, obey, broker)
    with suppress(asyncio.CancelledError):
        await server.serve_forever()


if __name__ == "__main__":
    every = {**{name: broker.parts for name, broker in BROKERS.items()}, **STYLES}
    parser = argparse.ArgumentParser(prog="python -m brokerproof.suites.mini_brokers")
    parser.add_argument("name", choices=every, metavar="NAME", help=", ".join(every))
    parser.add_argument("port", type=int, metavar="PORT")
    parser.add_argument("--control", action="store_true", help="take limits from standard input")
    asked = parser.parse_args()
    asyncio.run(serve(every[asked.name], asked.port, control=asked.control))
