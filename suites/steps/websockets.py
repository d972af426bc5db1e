"""Steps of the WebSocket suites: bystanders, failed connections, and the server's frames."""

from collections.abc import Iterator

from hypothesis import strategies as st

from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.websocket.codec import Op, WsFrame
from brokerproof.harness.protocols.websocket.raw_peer import WebSocketPeer
from brokerproof.harness.targets.parameters import speaking
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    RoutingType,
    Target,
    Where,
    shown,
)
from brokerproof.suites.api.stomp import Destination, StompPeer

SERVER_RULES = (
    "RFC6455-FRAME-02",
    "RFC6455-FRAME-05",
    "RFC6455-FRAME-06",
    "RFC6455-FRAG-03",
    "RFC6455-CTRL-01",
)
"""Requirements on every frame that a server sends, judged by :func:`judge_frames`."""


def connect_frame(target: Bench, version: str = "1.2") -> bytes:
    return codec.encode("CONNECT", target.connect_headers(version), version=version)


def send_frame(to: Destination, body: bytes, receipt: str | None = None) -> bytes:
    asked = () if receipt is None else (("receipt", receipt),)
    headers = (("destination", to.name), *to.send_headers, ("content-length", len(body)), *asked)
    return codec.encode("SEND", headers, body)


def padded_send(to: Destination, size: int) -> bytes:
    """A SEND of exactly ``size`` bytes, with the receipt ``padded``."""
    body = b"x" * (size - len(send_frame(to, b"", "padded")))
    return send_frame(
        to, body[: size - (len(send_frame(to, body, "padded")) - len(body))], "padded"
    )


class Victim:
    """A STOMP session over WebSocket that will violate the protocol, and a queue that shows whether
    the session is still served."""

    def __init__(self, target: Bench, *, acceptor: str | None = None) -> None:
        self.target = target
        self.socket = target.websocket(acceptor=acceptor)
        self.stomp = target.stomp(over=self.socket)
        self.to = target.destination(RoutingType.ANYCAST)
        self._witness = target.stomp()
        self._witness.subscribe(self.to)
        self.stomp.publish(self.to, b"before")  # positive control: the session works so far
        self._witness.message(body=b"before")

    def drain(self, count: int) -> None:
        """Control: ``count`` messages have been served by now."""
        for _ in range(count):
            self._witness.message()

    def tell_on(self) -> None:
        """Send a valid SEND after the violation; the server must not process it
        (:meth:`judge_failed`)."""
        self.socket.message(send_frame(self.to, b"behind"))

    def judge_failed(self, failed: str | tuple[str, ...], code: int | None, what: str) -> None:
        """Judge whether the connection ended (``failed``) after a Close with this ``code``
        (RFC6455-CLOSE-05), and that later frames were not processed (RFC6455-CLOSE-07). Only cited
        requirements are judged."""
        target, socket = self.target, self.socket
        target.wait_until(lambda: socket.ended is not None, PATIENCE)
        ended = socket.ended
        seen = ", ".join(ws_frame.brief() for ws_frame in socket.frames[-2:]) or "no frame"
        how = (
            "the server kept the connection open"
            if ended is None
            else f"the connection ended ({ended.how})"
        )
        target.record_finding(
            failed, ended is not None, f"after {what}, {how}; the last frames were {seen}"
        )
        if code is not None and "RFC6455-CLOSE-05" in target.cited:
            codes = [ws_frame.code for ws_frame in socket.frames if ws_frame.op == Op.CLOSE]
            answer = (
                f"after {what}, Close arrived with {shown(codes or 'no code')}; expected {code}"
            )
            target.record_finding("RFC6455-CLOSE-05", codes[:1] == [code], answer)
        self._witness.settle()
        target.stomp().publish(self.to, b"after")
        first = b""
        while first not in (
            b"behind",
            b"after",
        ):  # the violation itself may have been a SEND that was processed first
            first = self._witness.message().body
        if ended is not None and "RFC6455-CLOSE-07" in target.cited:
            words = f"after {what} and a SEND, {shown(first)} arrived first; expected 'after'"
            target.record_finding("RFC6455-CLOSE-07", first == b"after", words)


def judge_frames(target: Bench, frames: list[WsFrame]) -> None:
    """Judge every frame of a server by those of :data:`SERVER_RULES` that the case cites."""

    def judge(requirement: str, bad: list[WsFrame], what: str) -> None:
        if requirement in target.cited:
            found = bad[0].brief() if bad else "none"
            detail = f"of {len(frames)} frames of the server, {what}: {found}"
            target.record_finding(requirement, not bad, detail)

    judge("RFC6455-FRAME-02", [ws_frame for ws_frame in frames if ws_frame.masked], "masked")
    judge(
        "RFC6455-FRAME-05",
        [ws_frame for ws_frame in frames if not ws_frame.shortest],
        "with a length longer than needed",
    )
    judge(
        "RFC6455-FRAME-06",
        [ws_frame for ws_frame in frames if ws_frame.reserved],
        "with a reserved bit",
    )
    control = [ws_frame for ws_frame in frames if ws_frame.is_control]
    if control:
        judge(
            "RFC6455-CTRL-01",
            [ws_frame for ws_frame in control if not ws_frame.fin or len(ws_frame.payload) > 125],
            "bad control",
        )
    judge("RFC6455-FRAG-03", list(_out_of_order(frames)), "out of order")


def _out_of_order(frames: list[WsFrame]) -> Iterator[WsFrame]:
    """Yield continuations without a message, and new messages before the previous one ended."""
    open_ = False
    for ws_frame in frames:
        if not ws_frame.is_control:
            if (ws_frame.op == Op.CONTINUATION) is not open_:
                yield ws_frame
            open_ = not ws_frame.fin


def messages(frames: list[WsFrame]) -> Iterator[tuple[int, bytes]]:
    op, payload = 0, b""
    for ws_frame in frames:
        if not ws_frame.is_control:
            op = ws_frame.op if ws_frame.op != Op.CONTINUATION else op
            payload += ws_frame.payload
            if ws_frame.fin:
                yield op, payload
                payload = b""


def limited_places(target: Target) -> st.SearchStrategy[Where]:
    """Draw STOMP acceptors: with any frame limit if the target is reconfigurable, else its own."""
    if RECONFIGURABLE not in target.identity.capabilities:
        own = target.identity.profile.parameters.get("websocket_acceptor")
        names = sorted(speaking(target.acceptors(), "STOMP")) if own is None else [str(own)]
        return st.sampled_from([Where(name) for name in names])
    sizes = st.one_of(
        st.sampled_from([1000, 65_535, 65_536, 65_537, 200_000]), st.integers(1000, 100_000)
    )
    return st.builds(
        lambda size, kind: Where(
            target.identity.default_acceptor,
            {
                "acceptor": {
                    "web_socket_max_frame_payload_length": size,
                    "web_socket_encoder_type": kind,
                }
            },
        ),
        sizes,
        st.sampled_from(["binary", "text"]),
    )


def limit_of(target: Bench, acceptor: str) -> int:
    """Return the largest payload of one frame on this acceptor, in bytes."""
    limit = target.parameters(acceptor)["web_socket_max_frame_payload_length"]
    assert isinstance(limit, int)
    return limit


def session(
    target: Bench, acceptor: str | None = None, version: str = "1.2"
) -> tuple[WebSocketPeer, StompPeer]:
    """Open a WebSocket and the STOMP session over it."""
    socket = target.websocket(acceptor=acceptor)
    return socket, target.stomp(version, over=socket)
