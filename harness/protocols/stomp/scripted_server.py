"""The server end of a STOMP connection, for judging clients. It does only what a case says."""

from brokerproof.harness.protocols.conversation import Judge, Match, Requirements
from brokerproof.harness.protocols.scripted import Scripted
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike
from brokerproof.harness.protocols.stomp.raw_peer import StompPeer, frame
from brokerproof.harness.protocols.stomp.trace_recorder import UNREADABLE

CONNECTING = Match[Frame](
    "CONNECT or STOMP", lambda frame: frame.command in ("CONNECT", "STOMP"), None
)


class StompServer(Scripted[Frame], StompPeer):
    """One connection that a client opened. As with any raw peer, what it sends is not checked."""

    protocol = "STOMP.CLIENT"

    def __init__(self, judge: Judge, conn: int) -> None:
        super().__init__(judge, conn, "client", "1.0")
        self.frames: list[Frame] = []
        """Every received frame, in order, whether consumed or not."""
        self._messages = 0

    def on_frame(self, item: Frame) -> None:
        self.frames.append(item)
        super().on_frame(item)

    def fatal(self, frame: Frame) -> bool:
        return frame.command == UNREADABLE

    def speak(self, version: str) -> None:
        """Use the header escapes of ``version`` from now on."""
        self.version = version
        self._recorder.read_as(version)

    def accept(
        self, version: str, heart_beat: tuple[int, int] | None = (0, 0), headers: HeadersLike = ()
    ) -> None:
        """Send a CONNECTED frame, with a heart-beat header only if ``heart_beat`` is given."""
        fields = [("version", version)] if version != "1.0" else [("session", f"s{self.conn}")]
        if heart_beat is not None and version != "1.0":
            fields.append(("heart-beat", "{},{}".format(*heart_beat)))
        self.send("CONNECTED", (*fields, *codec.header_list(headers)))
        self.speak(version)

    def answer_receipt(self, asked: Frame) -> None:
        """Send the RECEIPT that ``asked`` requests, if any."""
        receipt = asked.get("receipt")
        if receipt is not None:
            self.send("RECEIPT", {"receipt-id": receipt})

    def received(self, command: str, *, proves: Requirements | None = None) -> Frame:
        """Return the client's next ``command`` frame after sending the receipt that it requests."""
        asked = self.expect(frame(command), proves=proves)
        self.answer_receipt(asked)
        return asked

    def message_headers(self, subscription: Frame) -> dict[str, str]:
        """Return the headers of the next MESSAGE for the SUBSCRIBE frame ``subscription``."""
        self._messages += 1
        headers = {
            "destination": subscription.get("destination") or "/queue/unnamed",
            "message-id": f"m{self._messages}",
        }
        of = subscription.get("id")
        if of is not None:
            headers["subscription"] = of
        if self.version == "1.2" and subscription.get("ack", "auto") != "auto":
            headers["ack"] = f"a{self._messages}"
        return headers

    def deliver(
        self, subscription: Frame, body: bytes = b"", headers: HeadersLike = ()
    ) -> dict[str, str]:
        """Send a MESSAGE with a content-length to ``subscription``; return the headers that name
        it."""
        naming = self.message_headers(subscription)
        length = ("content-length", str(len(body)))
        fields = (*naming.items(), length, *codec.header_list(headers))
        self.send("MESSAGE", fields, body)
        return naming
