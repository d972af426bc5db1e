"""The driver for pika's SelectConnection. A listener runs in the I/O loop's thread, and blocks that
loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pika
from driver_lines import DriverLines


class Pika(DriverLines):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self._connection: Any = None
        self._channels: dict[int, Any] = {}
        self._received: list[tuple[Any, int]] = []
        self._tags: dict[str, str] = {}

    def _in_loop(self, call: Callable[[], object]) -> None:
        self.call_in(self._connection.ioloop.add_callback_threadsafe, call)

    def do_connect(
        self, host: str, port: int, vhost: str, heartbeat: int, login: str, passcode: str
    ) -> None:
        where = pika.ConnectionParameters(
            host,
            port,
            vhost,
            pika.PlainCredentials(login, passcode),
            heartbeat=heartbeat,
            blocked_connection_timeout=None,
        )
        self._connection = pika.SelectConnection(
            where,
            on_open_callback=self._opened,
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
        )
        threading.Thread(target=self._connection.ioloop.start, daemon=True).start()

    def _opened(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(lambda *_: self.report("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: self.report("unblocked"))
        self.report("connected")

    def _ended(self, connection: Any, reason: object) -> None:
        self.report("error", problem=f"{type(reason).__name__}: {reason}"[:300])
        self.report("disconnected")

    def do_channel(self, channel: int) -> None:
        def opened(made: Any) -> None:
            self._channels[channel] = made
            made.add_on_close_callback(lambda *_: self.report("channel-closed", channel=channel))
            made.add_on_cancel_callback(
                lambda frame: self.report("cancelled", queue=self._tags[frame.method.consumer_tag])
            )
            # The documentation says that the callback receives a bool; it receives the frame.
            made.add_on_flow_callback(
                lambda frame: self.report("flow", active=bool(frame.method.active))
            )
            self.report("channel-open", channel=channel)

        self._in_loop(lambda: self._connection.channel(on_open_callback=opened))

    def do_consume(self, channel: int, queue: str, no_ack: bool) -> None:
        def consume() -> None:
            tag = self._channels[channel].basic_consume(queue, self._message, auto_ack=no_ack)
            self._tags[tag] = queue

        self._in_loop(consume)

    def _message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._received.append((channel, method.delivery_tag))
        self.report_message({"queue": self._tags[method.consumer_tag]}, body)

    def do_ack(self, message: int, multiple: bool = False) -> None:
        channel, tag = self._received[message - 1]
        self._in_loop(lambda: channel.basic_ack(tag, multiple))

    def do_reject(self, message: int) -> None:
        channel, tag = self._received[message - 1]
        self._in_loop(lambda: channel.basic_reject(tag, requeue=False))

    def do_confirm(self, channel: int) -> None:
        def confirmed(frame: Any) -> None:
            method = frame.method
            ok = isinstance(method, pika.spec.Basic.Ack)
            self.report(
                "confirmed", number=method.delivery_tag, multiple=bool(method.multiple), ok=ok
            )

        self._in_loop(lambda: self._channels[channel].confirm_delivery(confirmed))

    def do_publish(self, channel: int, queue: str, body: Any) -> None:
        self._in_loop(lambda: self._channels[channel].basic_publish("", queue, body))

    def do_close_channel(self, channel: int) -> None:
        self._in_loop(self._channels[channel].close)

    def do_disconnect(self) -> None:
        self._in_loop(self._connection.close)


if __name__ == "__main__":
    Pika().serve("pika", pika.__version__)
