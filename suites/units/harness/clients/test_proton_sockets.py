"""Proton's own sockets: an ended container leaves no open connection that a broker would still
serve, and a Proton without TLS does not judge a broker's TLS."""

import socket
import threading
from types import SimpleNamespace

import pytest
from proton import reactor

from brokerproof.harness.clients import proton_sockets
from brokerproof.harness.clients.proton_sockets import _Ears, _ObservedIO
from brokerproof.harness.protocols.conversation import ControlFailed, Symptom


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


def test_a_proton_without_tls_skips_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proton_sockets, "has_tls", lambda: False)
    secured = SimpleNamespace(tls=lambda acceptor: object())
    with pytest.raises(ControlFailed, match="built without TLS") as failed:
        proton_sockets._secured(secured, "amqp-tls", None, {}, lambda what, content: None)
    assert failed.value.symptom is Symptom.ABSENT
