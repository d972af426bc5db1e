"""The driver for stomp.py."""

from __future__ import annotations

from typing import Any

import stomp
from driver_lines import DriverLines

CLASSES = {"1.0": "StompConnection10", "1.1": "StompConnection11", "1.2": "StompConnection12"}


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Reports the callbacks of stomp.py."""

    def __init__(self, driver: StompPy) -> None:
        self._driver = driver

    def on_connected(self, frame: Any) -> None:
        self._driver.report("connected", headers=frame.headers)

    def on_message(self, frame: Any) -> None:
        body = frame.body if isinstance(frame.body, bytes) else frame.body.encode()
        # Acknowledgements may be requested while this listener works.
        self._driver.received.append(frame.headers)
        self._driver.report_message(frame.headers, body)

    def on_receipt(self, frame: Any) -> None:
        self._driver.report("receipt", id=frame.headers.get("receipt-id"))

    def on_error(self, frame: Any) -> None:
        self._driver.report("error", headers=frame.headers, body=str(frame.body))

    def on_heartbeat_timeout(self) -> None:
        self._driver.report("heartbeat-timeout")

    def on_disconnected(self) -> None:
        self._driver.report("disconnected")


class StompPy(DriverLines):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.received: list[dict[str, str]] = []
        self._version = "1.2"
        self._connection: Any = None

    def do_connect(
        self,
        host: str,
        port: int,
        version: str,
        heart_beat: list[int],
        login: str,
        passcode: str,
        vhost: str,
    ) -> None:
        self._version = version
        options: dict[str, Any] = {"reconnect_attempts_max": 1}
        if version != "1.0":
            options |= {"heartbeats": tuple(heart_beat), "vhost": vhost}
        options["auto_decode"] = False
        self._connection = getattr(stomp.connect, CLASSES[version])([(host, port)], **options)
        self._connection.set_listener("driver", Listener(self))
        self._connection.connect(login, passcode)

    def do_subscribe(self, destination: str, id: str, ack: str) -> None:
        self._connection.subscribe(destination, id=id, ack=ack)

    def do_unsubscribe(self, id: str, destination: str) -> None:
        self._connection.unsubscribe(destination if self._version == "1.0" else id)

    def do_send(
        self,
        destination: str,
        body: Any,
        headers: dict[str, str] | None = None,
        content_type: str | None = None,
        transaction: str | None = None,
        receipt: str | None = None,
    ) -> None:
        more = dict(headers or {})
        if transaction is not None:
            more["transaction"] = transaction
        if receipt is not None:
            more["receipt"] = receipt
        self._connection.send(destination, body, content_type, more)

    def do_ack(self, message: int, transaction: str | None = None) -> None:
        self._settle("ack", message, transaction)

    def do_nack(self, message: int, transaction: str | None = None) -> None:
        self._settle("nack", message, transaction)

    def _settle(self, how: str, message: int, transaction: str | None) -> None:
        headers = self.received[message - 1]
        call = getattr(self._connection, how)
        if self._version == "1.1":
            call(headers["message-id"], headers["subscription"], transaction)
        else:
            call(headers["ack" if self._version == "1.2" else "message-id"], transaction)

    def do_begin(self, transaction: str) -> None:
        self._connection.begin(transaction)

    def do_commit(self, transaction: str) -> None:
        self._connection.commit(transaction)

    def do_abort(self, transaction: str) -> None:
        self._connection.abort(transaction)

    def do_disconnect(self) -> None:
        self._connection.disconnect()


if __name__ == "__main__":
    StompPy().serve("stomp.py", stomp.__version__)
