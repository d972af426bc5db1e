"""pika, the common AMQP 0-9-1 client for Python, without its own socket or thread.

pika's connection is unmodified, but uses the harness's channel instead of a socket and the world's
deadlines instead of a loop. So the same client runs in virtual time and over sockets. The trace
contains the traffic as the harness's codec reads it, whereas expectations use pika's reports."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pika
import pika.connection
import pika.exceptions

from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.protocols.amqp091.raw_peer import require_below
from brokerproof.harness.protocols.amqp091.trace_recorder import PROTOCOL, Amqp091TraceRecorder
from brokerproof.harness.protocols.conversation import Conversation, Judge, Requirements
from brokerproof.harness.worlds.world import World

# Failures are reported to the case; pika would also print them to standard error.
logging.getLogger("pika").addHandler(logging.NullHandler())
logging.getLogger("pika").propagate = False


class _Timer:
    """A scheduled callback, which can be cancelled."""

    def __init__(self, callback: Callable[[], Any]) -> None:
        self._callback: Callable[[], Any] | None = callback

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def cancel(self) -> None:
        self._callback = None


class _Connection(pika.connection.Connection):  # type: ignore[misc]  # pika has no types to tell
    """pika's connection, over a peer's channel."""

    def __init__(self, peer: "PikaPeer", world: World, parameters: Any) -> None:
        self._peer, self._world = peer, world
        super().__init__(
            parameters,
            on_open_callback=lambda _: peer.tell("open"),
            on_open_error_callback=lambda _, problem: peer.tell("refused", problem=repr(problem)),
            on_close_callback=lambda _, problem: peer.tell("closed", **_problem(problem)),
            internal_connection_workflow=False,
        )

    def connection_made(self) -> None:
        self._on_stream_connected()

    def data_received(self, data: bytes) -> None:
        self._on_data_available(data)

    def connection_lost(self) -> None:
        if not self.is_closed:
            self._on_stream_terminated(
                pika.exceptions.StreamLostError("the broker closed the connection")
            )

    def _adapter_call_later(self, delay: float, callback: Callable[[], Any]) -> object:
        timer = _Timer(callback)
        self._world.at(self._world.now() + int(delay * NS_PER_S), timer.fire)
        return timer

    def _adapter_remove_timeout(self, timeout_id: object) -> None:
        assert isinstance(timeout_id, _Timer)
        timeout_id.cancel()

    def _adapter_add_callback_threadsafe(self, callback: Callable[..., Any]) -> None:
        self._world.at(self._world.now(), callback)

    def _adapter_connect_stream(self) -> None:
        raise AssertionError("the harness connects")

    def _adapter_disconnect_stream(self) -> None:
        self._peer.channel.close()
        self._world.at(self._world.now(), lambda: self._on_stream_terminated(None))

    def _adapter_emit_data(self, data: bytes) -> None:
        self._peer.emit(data)


def _problem(problem: Any) -> dict[str, Any]:
    return {"code": getattr(problem, "reply_code", None), "text": str(problem)}


class PikaPeer(Conversation[ClientEvent]):
    """One connection of pika. :attr:`connection` and :attr:`channel_of` are pika's own objects."""

    protocol = PROTOCOL
    is_raw = False

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        super().__init__(judge, conn, acceptor)
        self.connection: Any = None
        self.channel_of: dict[int, Any] = {}
        """pika's channels by number."""
        self._recorder = Amqp091TraceRecorder(judge, conn)

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        self._recorder.on_bytes_received(at, data)
        self.connection.data_received(data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        super().channel_closed(at, how)
        self.connection.connection_lost()

    def fatal(self, frame: ClientEvent) -> bool:
        return frame.step in ("refused", "closed") or (
            frame.step == "channel-closed" and frame.detail["code"] != 200
        )

    def words(self, frame: ClientEvent) -> str:
        return frame.brief()

    # called by pika

    def emit(self, data: bytes) -> None:
        self._recorder.on_bytes_sent(self.world.now(), data)
        self.write(data, as_event=False)

    def tell(self, step: str, **detail: Any) -> None:
        self.inbox.append(ClientEvent(step, detail))

    # verbs

    def connect(
        self,
        login: str | None,
        passcode: str | None,
        *,
        virtual_host: str = "/",
        heartbeat: int = 0,
        blocked_timeout: Duration | None = None,
        proves: Requirements | None = None,
    ) -> None:
        """Log in and open the virtual host. ``heartbeat`` is in seconds."""
        parameters = pika.ConnectionParameters(
            virtual_host=virtual_host,
            credentials=pika.PlainCredentials(login or "guest", passcode or "guest"),
            heartbeat=heartbeat,
            blocked_connection_timeout=None
            if blocked_timeout is None
            else blocked_timeout / NS_PER_S,
        )
        self.connection = _Connection(self, self.world, parameters)
        self.connection.add_on_connection_blocked_callback(
            lambda _, frame: self.tell("blocked", reason=frame.method.reason)
        )
        self.connection.add_on_connection_unblocked_callback(
            lambda _, frame: self.tell("unblocked")
        )
        self.connection.connection_made()
        self.expect(event_named("open"), proves=proves)

    def open_channel(
        self, number: int = 1, *, confirms: bool = False, proves: Requirements | None = None
    ) -> Any:
        """Open a channel. With ``confirms``, the outcome of each message is reported. Raises
        :class:`ControlFailed` if ``number`` exceeds the agreed channel-max."""
        require_below(self.connection.params.channel_max, number)
        channel = self.connection.channel(
            channel_number=number,
            on_open_callback=lambda _: self.tell("channel-open", channel=number),
        )
        channel.add_on_close_callback(
            lambda _, problem: self.tell("channel-closed", channel=number, **_problem(problem))
        )
        channel.add_on_return_callback(
            lambda _, method, properties, body: self.tell(
                "returned", code=method.reply_code, body=body.decode("latin-1")
            )
        )
        channel.add_on_cancel_callback(
            lambda frame: self.tell("cancelled", tag=frame.method.consumer_tag)
        )
        self.expect(event_named("channel-open", channel=number), proves=proves)
        self.channel_of[number] = channel
        if confirms:
            channel.confirm_delivery(self._confirmed, callback=lambda _: self.tell("confirming"))
            self.expect(event_named("confirming"), proves=proves)
        return channel

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        self.tell(
            "confirmed",
            name=method.NAME.partition(".")[2].lower(),
            tag=method.delivery_tag,
            multiple=method.multiple,
        )

    def declare(
        self,
        queue: str = "",
        *,
        channel: int = 1,
        proves: Requirements | None = None,
        **options: Any,
    ) -> str:
        self.channel_of[channel].queue_declare(
            queue, callback=lambda frame: self.tell("queue", name=frame.method.queue), **options
        )
        return str(self.expect(event_named("queue"), proves=proves).detail["name"])

    def publish(self, queue: str, body: bytes, *, channel: int = 1, **properties: Any) -> None:
        self.channel_of[channel].basic_publish(
            properties.pop("exchange", ""), queue, body, **properties
        )

    def consume(
        self,
        queue: str,
        *,
        channel: int = 1,
        prefetch: int = 0,
        auto_ack: bool = False,
        proves: Requirements | None = None,
    ) -> str:
        """Start to consume; return the consumer tag. Messages are reported; :meth:`ack`
        acknowledges them."""
        if prefetch:
            self.channel_of[channel].basic_qos(
                prefetch_count=prefetch, callback=lambda _: self.tell("qos")
            )
            self.expect(event_named("qos"), proves=proves)
        tag = self.channel_of[channel].basic_consume(
            queue, self._message, auto_ack=auto_ack, callback=lambda _: self.tell("consuming")
        )
        self.expect(event_named("consuming"), proves=proves)
        return str(tag)

    def _message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        described: Mapping[str, Any] = {
            "body": body.decode("latin-1"),
            "tag": method.delivery_tag,
            "redelivered": method.redelivered,
            "headers": properties.headers or {},
        }
        self.tell("message", **described)

    def ack(self, tag: int, *, channel: int = 1, multiple: bool = False) -> None:
        self.channel_of[channel].basic_ack(tag, multiple)

    def close(self, *, proves: Requirements | None = None) -> None:
        """Close the connection cleanly, and wait until pika reports the close."""
        self.connection.close()
        self.expect(event_named("closed"), proves=proves)
