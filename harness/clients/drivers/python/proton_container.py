"""The driver for python-qpid-proton's Container. A listener runs in the Container's thread, and
blocks the Container."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import proton
from driver_lines import DriverLines
from proton.handlers import FlowController, MessagingHandler
from proton.reactor import ApplicationEvent, AtLeastOnce, AtMostOnce, Container, EventInjector

OUTCOMES = ("accepted", "rejected", "released", "modified")
STATES = {getattr(proton.Delivery, name.upper()): name for name in OUTCOMES}
MODES = {"settled": AtMostOnce, "unsettled": AtLeastOnce}


class Proton(DriverLines, MessagingHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        DriverLines.__init__(self)
        MessagingHandler.__init__(self, prefetch=0, auto_accept=False)
        self._where: dict[str, Any] = {}
        self._injector = EventInjector()
        self._container: Any = None
        self._connection: Any = None
        self._links: dict[str, Any] = {}
        self._received: list[Any] = []
        self._sent: dict[str, int] = {}

    def _in_loop(self, call: Callable[[], object]) -> None:
        self.call_in(
            lambda run: self._injector.trigger(ApplicationEvent("command", subject=run)), call
        )

    def on_command(self, event: Any) -> None:
        event.subject()

    def do_connect(self, **where: Any) -> None:
        self._where = where
        self._container = Container(self)
        threading.Thread(target=self._container.run, daemon=True).start()

    def on_start(self, event: Any) -> None:
        where = self._where
        event.container.selectable(self._injector)
        self._connection = event.container.connect(
            f"amqp://{where['host']}:{where['port']}",
            reconnect=False,
            heartbeat=where["idle_ms"] / 1000 or None,
            max_frame_size=where["max_frame"] or None,
            user=where["login"],
            password=where["passcode"],
            allow_insecure_mechs=True,
        )

    def on_connection_opened(self, event: Any) -> None:
        self.report("connected")

    def on_transport_closed(self, event: Any) -> None:
        self.report("disconnected")

    on_transport_tail_closed = on_transport_closed

    def on_transport_error(self, event: Any) -> None:
        self.report("error", problem=str(event.transport.condition))

    def do_sender(self, link: str, address: str, mode: str) -> None:
        def attach() -> None:
            options = {"name": link, "options": MODES[mode]()}
            self._links[link] = self._container.create_sender(self._connection, address, **options)

        self._in_loop(attach)

    def do_receiver(self, link: str, address: str, credit: int) -> None:
        def attach() -> None:
            cast(list[Any], self.handlers).append(FlowController(credit))
            self._links[link] = self._container.create_receiver(
                self._connection, address, name=link
            )

        self._in_loop(attach)

    def on_link_opened(self, event: Any) -> None:
        self.report("link-open", link=event.link.name)

    def on_link_closed(self, event: Any) -> None:
        self.report("link-closed", link=event.link.name)

    def on_link_error(self, event: Any) -> None:
        # by default Proton would close the connection
        self.report("link-closed", link=event.link.name)

    def do_send(self, link: str, body: Any) -> None:
        def send() -> None:
            content = body.encode() if isinstance(body, str) else body
            made = self._links[link].send(proton.Message(body=content, inferred=True))
            self._sent[made.tag] = len(self._sent) + 1

        self._in_loop(send)

    def on_settled(self, event: Any) -> None:
        outcome = STATES.get(event.delivery.remote_state, "none")
        self.report("settled", number=self._sent.get(event.delivery.tag), outcome=outcome)

    def on_link_flow(self, event: Any) -> None:
        link = event.link
        if link.is_sender and link.drain_mode and not link.queued:
            link.drained()

    def on_message(self, event: Any) -> None:
        self._received.append(event.delivery)
        self.report_message({"link": event.link.name}, bytes(event.message.body))

    def do_settle(self, message: int, outcome: str) -> None:
        state = {name: state for state, name in STATES.items()}[outcome]
        self._in_loop(lambda: self.settle(self._received[message - 1], state))

    def do_close_link(self, link: str) -> None:
        self._in_loop(self._links[link].close)

    def do_disconnect(self) -> None:
        self._in_loop(self._connection.close)


if __name__ == "__main__":
    Proton().serve("python-qpid-proton", ".".join(map(str, proton.VERSION)))
