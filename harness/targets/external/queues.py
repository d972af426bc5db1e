"""Declares a queue over AMQP 0-9-1 on a broker that requires it to exist for AMQP 1.0."""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external.dialogue import Deadline, Dialogue
from brokerproof.harness.targets.external.greeting import Credentials
from brokerproof.harness.targets.failure import SetUpFailed

TIMEOUT_S = 30.0
"""A busy broker may take this long, because a quorum queue is written to disk."""


def declare(endpoint: Endpoint, credentials: Credentials, name: str, kind: str) -> None:
    """Declare the durable queue ``name`` of that type, over a separate connection. Does nothing if
    the queue exists. Raises :class:`SetUpFailed` if the broker does not create it."""
    reader = codec.Reader()
    answers: Mapping[str, tuple[int, str, dict[str, Any]]] = {
        "connection.open-ok": (1, "channel.open", {}),
        "channel.open-ok": (
            1,
            "queue.declare",
            {"queue": name, "durable": True, "arguments": {"x-queue-type": kind}},
        ),
    }
    deadline = Deadline(TIMEOUT_S)
    with Dialogue(endpoint, "an AMQP 0-9-1 header", "AMQP 0-9-1", deadline) as dialogue:

        def send(channel: int, method: str, fields: Mapping[str, Any]) -> None:
            payload = codec.encode_method(method, fields)
            dialogue.write(codec.encode_frame(codec.METHOD, channel, payload))

        dialogue.write(codec.protocol_header())
        for frame in dialogue.items(reader.feed):
            if not isinstance(frame, codec.Frame):
                raise SetUpFailed(f"{endpoint.where}: queue {name} was not declared: {frame}")
            if frame.name == "queue.declare-ok":
                return
            if frame.name in ("connection.close", "channel.close"):
                text = frame.fields.get("reply-text", "")
                raise SetUpFailed(f"{endpoint.where}: queue {name} was not declared: {text}")
            if frame.name == "connection.start":
                login, passcode = credentials.login, credentials.passcode
                fields = codec.start_ok(frame.fields["mechanisms"], login, passcode)
                send(0, "connection.start-ok", fields)
            elif frame.name == "connection.tune":
                tuned = {**frame.fields, "heartbeat": 0}
                send(0, "connection.tune-ok", tuned)
                send(0, "connection.open", {"virtual-host": credentials.amqp091_host})
            elif frame.name in answers:
                send(*answers[frame.name])
