"""Recordings of :mod:`brokerproof.suites.units.drivers.model_recordings` as CORE packets. All
judges should agree on them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from brokerproof.harness.trace import events as ev
from brokerproof.suites.units.drivers import model_recordings


def recording(seed: int, fault: str | None, steps: int) -> list[ev.Event]:
    """Return a recording of :func:`brokerproof.suites.units.drivers.model_recordings.recording`, in
    CORE. Consumers without acknowledgements acknowledge immediately here. The seeds are chosen so
    that no consumer leaves or refuses a message."""
    return list(said(model_recordings.recording(seed // 2 * 4 + 2 + seed % 2, fault, steps)))


def said(events: Sequence[ev.Event]) -> Iterator[ev.Event]:
    modes: dict[int, str] = {}
    for event in events:
        if isinstance(event, (ev.HeartBeatSent, ev.HeartBeatReceived, ev.ConnectionOpened)):
            yield replace(event, protocol="CORE")
        elif not isinstance(event, (ev.FrameSent, ev.FrameReceived)):
            yield event
        elif event.conn is not None:
            yield from _frame(event, event.conn, modes)


def _frame(
    event: ev.FrameSent | ev.FrameReceived, conn: int, modes: dict[int, str]
) -> Iterator[ev.Event]:
    headers = dict(event.headers)

    def packet(command: str, **fields: object) -> ev.Event:
        named = (
            ("channel", "10"),
            *((name.replace("_", "-"), str(each)) for name, each in fields.items()),
        )
        return replace(event, protocol="CORE", command=command, headers=named)

    match event.command:
        case "CONNECT":
            session = {
                "session_channel": 10,
                "auto_commit_sends": "true",
                "auto_commit_acks": "true",
            }
            yield packet("create-session", **session)
        case "CONNECTED":
            yield packet("create-session-response")
        case "SEND":
            about = {
                "message": 0,
                "address": headers["destination"],
                "cost": 100,
                "requires_response": "true",
            }
            sent = packet("send", **about)
            assert isinstance(sent, ev.FrameSent)
            yield replace(sent, headers=(*sent.headers, ("_AMQ_ROUTING_TYPE", "1")))
        case "RECEIPT" if headers["receipt-id"].startswith("r"):
            yield packet("null-response")
        case "SUBSCRIBE":
            modes[conn] = headers["ack"]
            yield packet("create-consumer", consumer=0, queue=headers["destination"])
            yield packet("consumer-credits", consumer=0, credits=-1)
        case "UNSUBSCRIBE":
            yield packet("close-consumer", consumer=0)
        case "MESSAGE":
            named = {
                "message": headers["message-id"][1:],
                "address": headers["destination"],
                "consumer": 0,
            }
            got = packet("receive", **named, delivery_count=1 + ("redelivered" in headers))
            assert isinstance(got, ev.FrameReceived)
            yield replace(got, headers=(*got.headers, ("_AMQ_ROUTING_TYPE", "1")))
            if modes[conn] == "auto":
                yield _acknowledged(event, "acknowledge-one", headers["message-id"][1:])
        case "ACK":
            command = "acknowledge" if modes[conn] == "client" else "acknowledge-one"
            yield _acknowledged(event, command, headers["id"][1:])


def _acknowledged(
    event: ev.FrameSent | ev.FrameReceived, command: str, message: str
) -> ev.FrameSent:
    headers = (("channel", "10"), ("consumer", "0"), ("message", message))
    about = {"at_ns": event.at_ns, "conn": event.conn, "protocol": "CORE", "headers": headers}
    return ev.FrameSent(**about, command=command, size=40)
