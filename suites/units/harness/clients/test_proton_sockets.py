"""A container that has ended leaves no connection behind: to a broker it would live on."""

from __future__ import annotations

import socket
import threading

from proton import reactor

from brokerproof.harness.clients.proton_sockets import _Ears, _ObservedIO


def test_the_sockets_of_a_container_that_has_ended_are_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"amqp://127.0.0.1:{server.getsockname()[1]}"
        sockets = _ObservedIO(lambda what, content: None)
        ears = _Ears(
            lambda container: container.connect(url, reconnect=False), lambda what, content: None
        )
        container = reactor.Container(ears, global_handler=sockets)
        thread = threading.Thread(target=container.run, daemon=True)
        thread.start()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            assert connection.recv(4) == b"AMQP"
            stop = reactor.ApplicationEvent("do", subject=lambda container, _: container.stop())
            ears.injector.trigger(stop)
            thread.join(5)
            sockets.close_sockets()
            while connection.recv(4096):
                pass
