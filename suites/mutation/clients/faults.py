"""Faults of clients, each seeded into the small one: a class that replaces one habit. Its docstring
is the fault in one sentence.

The ids that a fault breaks are those of 1.2, or of the version in which it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.suites.mutation.clients.small_client import Fatal, Headers, SmallClient


@dataclass(frozen=True, slots=True)
class ClientFault:
    """One fault: the requirements of which one is reported as broken when it is found."""

    name: str
    client: type[SmallClient]
    breaks: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return " ".join((self.client.__doc__ or "").split())


FAULTS: dict[str, ClientFault] = {}


def fault(*breaks: str) -> Callable[[type[SmallClient]], type[SmallClient]]:
    """Register a fault under its class's name."""

    def register(client: type[SmallClient]) -> type[SmallClient]:
        letters = (
            f"-{letter.lower()}" if letter.isupper() else letter for letter in client.__name__
        )
        name = "".join(letters).removeprefix("-")
        FAULTS[name] = ClientFault(name, client, breaks)
        return client

    return register


# --- the first frame ------------------------------------------------------------------------------


def without(headers: Headers, *names: str) -> Headers:
    return [(name, value) for name, value in headers if name not in names]


class _Connecting(SmallClient):
    left_out: tuple[str, ...] = ()

    def connect_headers(self) -> Headers:
        return without(super().connect_headers(), *self.left_out)


@fault("STOMP10-CONNECT-01")
class LeavesOutThePasscode(_Connecting):
    """CONNECT has no passcode."""

    left_out = ("passcode",)


@fault("STOMP12-CONNECT-06", "STOMP11-CONNECT-08")
class NamesNoVersion(_Connecting):
    """CONNECT has no accept-version."""

    left_out = ("accept-version",)


@fault("STOMP12-CONNECT-07", "STOMP11-CONNECT-09")
class NamesNoHost(_Connecting):
    """CONNECT has no host."""

    left_out = ("host",)


@fault("STOMP12-HB-01", "STOMP11-HB-01")
class HeartBeatInSeconds(SmallClient):
    """The header heart-beat has fractions of seconds."""

    def connect_headers(self) -> Headers:
        values = ",".join(str(number / 1000) for number in self.connecting["heart_beat"])
        return [*without(super().connect_headers(), "heart-beat"), ("heart-beat", values)]


@fault("STOMP12-HB-03", "STOMP11-HB-03")
class AnnouncesOneNumberTwice(SmallClient):
    """The header heart-beat has the outgoing interval twice."""

    def connect_headers(self) -> Headers:
        can = self.connecting["heart_beat"][0]
        return [*without(super().connect_headers(), "heart-beat"), ("heart-beat", f"{can},{can}")]


@fault("STOMP12-HB-02", "STOMP11-HB-02")
class AnnouncesHeartBeatsSwapped(SmallClient):
    """The header heart-beat has the incoming interval first."""

    def connect_headers(self) -> Headers:
        can, wanted = self.connecting["heart_beat"]
        return [
            *without(super().connect_headers(), "heart-beat"),
            ("heart-beat", f"{wanted},{can}"),
        ]


@fault("STOMP12-NEGO-02", "STOMP11-NEGO-02")
class ListsTheNewestFirst(SmallClient):
    """accept-version begins with the newest version."""

    def connect_headers(self) -> Headers:
        return [
            (name, f"{value},1.0" if name == "accept-version" else value)
            for name, value in super().connect_headers()
        ]


@fault("STOMP12-ENC-03", "STOMP11-ENC-03")
class EscapesConnect(SmallClient):
    """The headers of CONNECT are escaped."""

    def connect_headers(self) -> Headers:
        return [(name, self.escape(value)) for name, value in super().connect_headers()]


@fault("STOMP12-CONNECT-05", "STOMP11-CONNECT-07")
class BeginsWithStomp(SmallClient):
    """The first frame is STOMP."""

    def dialled(self) -> None:
        self.send_frame("STOMP", self.connect_headers())

    def escape(self, text: str) -> str:
        return super().escape(text) if self.connected else text


@fault("STOMP12-BODY-02", "STOMP11-BODY-02", "STOMP10-CONNECT-04")
class ConnectHasABody(SmallClient):
    """CONNECT has a body."""

    def dialled(self) -> None:
        self.send_frame("CONNECT", self.connect_headers(), b"hello")


# --- heartbeats -----------------------------------------------------------------------------------


@fault("STOMP12-HB-09", "STOMP11-HB-09")
class NeverBeats(SmallClient):
    """It sends no heartbeats."""

    def beat_due(self) -> None:
        return None


@fault("STOMP12-HB-09", "STOMP11-HB-09")
class BeatsTooLate(SmallClient):
    """It beats a fifth of the interval too late."""

    def beat_due(self) -> Instant | None:
        due = super().beat_due()
        return None if due is None else due + self.sends_every // 5


@fault("STOMP12-HB-06", "STOMP11-HB-06")
class BeatsByItsOwnInterval(SmallClient):
    """It beats by its own interval, where the server wants beats more often than that."""

    def agree(self, connected: dict[str, str]) -> None:
        super().agree(connected)
        self.sends_every = self.sends_every and 2 * self.sends_every


@fault("STOMP12-HB-09", "STOMP11-HB-09")
class BeatsOnce(SmallClient):
    """Its timer fires once and is never armed again."""

    def beat_due(self) -> Instant | None:
        return None if getattr(self, "has_beaten", False) else super().beat_due()

    def beat(self) -> None:
        self.has_beaten = True
        super().beat()


@fault("STOMP12-HB-09", "STOMP11-HB-09")
class DoesNotBeatWhileItsListenerWorks(SmallClient):
    """Its heartbeats wait for the listener."""

    def beat_due(self) -> Instant | None:
        return super().beat_due() if self.works_until is None else None


@fault("STOMP12-HB-06", "STOMP11-HB-06")
class BeatsUnasked(SmallClient):
    """It beats where the server said that it wants none."""

    def agree(self, connected: dict[str, str]) -> None:
        super().agree(connected)
        self.sends_every = self.connecting["heart_beat"][0] * 1_000_000


@fault("STOMP12-HB-06", "STOMP11-HB-06")
class BeatsWhereItSaidZero(SmallClient):
    """It beats although it announced that it cannot."""

    def agree(self, connected: dict[str, str]) -> None:
        super().agree(connected)
        self.sends_every = int(connected.get("heart-beat", "0,0").split(",")[1]) * 1_000_000


@fault("STOMP12-HB-05", "STOMP11-HB-05")
class AssumesHeartBeats(SmallClient):
    """A CONNECTED without heart-beat counts as one with the client's own numbers."""

    def agree(self, connected: dict[str, str]) -> None:
        can, wanted = self.connecting["heart_beat"]
        super().agree({"heart-beat": f"{wanted},{can}", **connected})


@fault("STOMP12-HB-10", "STOMP11-HB-10")
class BeatsWithABlank(SmallClient):
    """A heartbeat is a blank."""

    def beat(self) -> None:
        self.write(b" ")


@fault("STOMP11-HB-10")
class BeatsWithCrLf(SmallClient):
    """A heartbeat is CR LF in 1.1 too."""

    def beat(self) -> None:
        self.write(b"\r\n")


class _Watching(SmallClient):
    def counts(self, data: bytes) -> bool:
        return True

    def heard(self, data: bytes) -> None:
        if self.counts(data):
            super().heard(data)


@fault("STOMP12-HB-08", "STOMP11-HB-08")
class CountsHeartBeatsOnly(_Watching):
    """Only line ends show it that the server lives."""

    def counts(self, data: bytes) -> bool:
        return not data.strip(b"\n")


@fault("STOMP12-HB-08", "STOMP11-HB-08")
class CountsWholeFramesOnly(_Watching):
    """A part of a frame does not show it that the server lives."""

    def counts(self, data: bytes) -> bool:
        return not data.strip(b"\n") or data.endswith(b"\0")


@fault("STOMP12-HB-08", "STOMP11-HB-08")
class CountsNoHeartBeats(_Watching):
    """Line ends do not show it that the server lives."""

    def counts(self, data: bytes) -> bool:
        return bool(data.strip(b"\n"))


@fault("STOMP12-HB-08", "STOMP11-HB-08")
class HearsNothingWhileItsListenerWorks(_Watching):
    """What arrives while its listener works does not show it that the server lives."""

    def counts(self, data: bytes) -> bool:
        return self.works_until is None


@fault("STOMP12-HB-12", "STOMP11-HB-12")
class GrantsNoMargin(SmallClient):
    """It leaves when nothing has arrived for the interval less a millisecond."""

    def leave_due(self) -> Instant | None:
        due = super().leave_due()
        return None if due is None else due - self.awaits_every - 1_000_000


@fault("STOMP12-HB-03", "STOMP11-HB-03")
class AwaitsWhatItDoesNotWant(SmallClient):
    """It waits for heartbeats that it said it does not want."""

    def agree(self, connected: dict[str, str]) -> None:
        super().agree(connected)
        self.awaits_every = int(connected.get("heart-beat", "0,0").split(",")[0]) * 1_000_000


# --- frames ---------------------------------------------------------------------------------------


class _Sending(SmallClient):
    left_out: tuple[str, ...] = ()
    of = "SEND"

    def send_frame(self, command: str, headers: Headers, body: bytes = b"") -> None:
        left_out = self.left_out if command == self.of else ()
        super().send_frame(command, without(headers, *left_out), body)


@fault("STOMP12-SEND-01", "STOMP11-SEND-01", "STOMP10-SEND-01")
class SendsNowhere(_Sending):
    """SEND has no destination."""

    left_out = ("destination",)


@fault("STOMP12-SEND-03", "STOMP11-SEND-03", "STOMP10-SEND-04")
class SendsNoLength(_Sending):
    """SEND has no content-length."""

    left_out = ("content-length",)


@fault("STOMP12-HDR-06", "STOMP11-HDR-02")
class SendsNoLengthWithNuls(SmallClient):
    """SEND has no content-length where the body has a NUL."""

    def length(self, body: bytes) -> Headers:
        return [] if b"\0" in body else super().length(body)


@fault("STOMP12-SEND-03", "STOMP12-HDR-06", "STOMP11-HDR-02")
class CountsCharacters(SmallClient):
    """content-length counts the characters of the body, and one too many."""

    def length(self, body: bytes) -> Headers:
        return [("content-length", str(len(body) - 1))]


@fault("STOMP12-ENC-01", "STOMP12-HDR-14", "STOMP11-ENC-01")
class WritesLatin1(SmallClient):
    """Letters outside of Latin-1 are replaced."""

    def do_send(self, **fields: Any) -> None:
        if "body" in fields:
            fields["body"] = fields["body"].encode("latin-1", "replace").decode("latin-1")
        super().do_send(**fields)


@fault("STOMP12-SEND-04", "STOMP11-SEND-04")
class LosesTheContentType(_Sending):
    """SEND has no content-type."""

    left_out = ("content-type",)


@fault("STOMP12-ENC-02", "STOMP11-ENC-02")
class EscapesNothing(SmallClient):
    """Headers are not escaped."""

    def escape(self, text: str) -> str:
        return text.replace("\n", " ").replace("\r", " ")


@fault("STOMP12-ENC-02", "STOMP12-ENC-09")
class EscapesAsOlderVersions(SmallClient):
    """CR is not escaped in 1.2."""

    def escape(self, text: str) -> str:
        return super().escape(text).replace("\\r", "\r")


@fault("STOMP12-ENC-09", "STOMP11-ENC-08")
class EscapesBackslashesTwice(SmallClient):
    """A backslash is escaped again."""

    def escape(self, text: str) -> str:
        return super().escape(text.replace("\\", "\\\\"))


@fault("STOMP12-ENC-10", "STOMP11-ENC-09")
class TrimsWhatItSends(SmallClient):
    """Blanks around the values of headers are not sent."""

    def escape(self, text: str) -> str:
        return super().escape(text.strip(" "))


@fault("STOMP12-ENC-10", "STOMP11-ENC-09")
class TrimsWhatItReads(SmallClient):
    """Blanks around the values of headers are not handed out."""

    def unescape(self, text: str) -> str:
        return super().unescape(text).strip(" ")


@fault("STOMP12-ENC-06", "STOMP11-ENC-05")
class ReadsNoEscapes(SmallClient):
    """Escapes are handed out as they arrive."""

    def unescape(self, text: str) -> str:
        return text


@fault("STOMP12-ENC-06", "STOMP11-ENC-05")
class ReadsEscapesInValuesOnly(SmallClient):
    """Escapes in the names of headers are handed out as they arrive."""

    def header(self, command: str, line: str) -> tuple[str, str]:
        return line.partition(":")[0], super().header(command, line)[1]


@fault("STOMP12-ENC-08", "STOMP11-ENC-07")
class KeepsUnknownEscapes(SmallClient):
    """An unknown escape is handed out as it arrives."""

    def unescaped(self, known: dict[str, str], letter: str) -> str:
        return known.get(letter, f"\\{letter}")


@fault("STOMP12-ENC-08", "STOMP11-ENC-07")
class DropsMessagesWithUnknownEscapes(SmallClient):
    """A message with an unknown escape is dropped, and nobody learns of it."""

    def take(self, command: str, headers: Headers, body: bytes) -> None:
        if ("special", "?") not in headers:
            super().take(command, headers, body)

    def unescape(self, text: str) -> str:
        try:
            return super().unescape(text)
        except Fatal:
            return "?"


@fault("STOMP12-REPEAT-02", "STOMP11-REPEAT-02")
class TakesTheLastHeader(SmallClient):
    """The last of repeated headers counts."""

    def as_mapping(self, headers: Headers) -> dict[str, str]:
        return dict(headers)


@fault("STOMP12-HDR-03", "STOMP11-HDR-03")
class StopsAtANul(SmallClient):
    """A body ends at its first NUL, whatever content-length says."""

    def body_length(self, headers: Headers, rest: bytes) -> int | None:
        return super().body_length([], rest)


@fault("STOMP12-FRAME-02", "STOMP11-FRAME-01", "STOMP10-FRAME-01")
class LosesWhatIsInPieces(SmallClient):
    """What is no whole frame is dropped when the next piece arrives."""

    def receive(self, data: bytes) -> None:
        if self.connected and len(data) < 20:
            self.pending = b""
        super().receive(data)


@fault("STOMP12-FRAME-02", "STOMP11-FRAME-01", "STOMP10-FRAME-01")
class ReadsOneFrameAPiece(SmallClient):
    """Of several frames that arrive together the first is read, and the others are lost."""

    def receive(self, data: bytes) -> None:
        super().receive(data)
        if data.count(b"\0") > 1:
            self.pending = b""

    def take(self, command: str, headers: Headers, body: bytes) -> None:
        super().take(command, headers, body)
        self.pending = b""


@fault("STOMP12-FRAME-01")
class KeepsTheCr(SmallClient):
    """A CR before LF is part of a header's value."""

    def split_head(self) -> tuple[bytes, bytes]:
        head, rest = super().split_head()
        return (
            (self.pending.partition(b"\n\r\n")[0], rest) if b"\r" in self.pending else (head, rest)
        )


# --- sessions -------------------------------------------------------------------------------------


@fault("STOMP12-SUB-05", "STOMP11-SUB-05")
class SubscribesWithoutId(_Sending):
    """SUBSCRIBE has no id."""

    of, left_out = "SUBSCRIBE", ("id",)


@fault("STOMP12-SUB-06", "STOMP11-SUB-05")
class SubscribesWithOneId(SmallClient):
    """All subscriptions have one id."""

    def do_subscribe(self, destination: str, id: str, ack: str) -> None:
        super().do_subscribe(destination, "0", ack)


@fault("STOMP12-SUB-07", "STOMP11-SUB-06", "STOMP10-SUBSCRIBE-04")
class SubscribesInAnUnknownMode(SmallClient):
    """The mode of a subscription is in capitals."""

    def do_subscribe(self, destination: str, id: str, ack: str) -> None:
        super().do_subscribe(destination, id, ack.upper())


@fault("STOMP12-UNSUB-01", "STOMP11-UNSUB-01")
class UnsubscribesByDestination(SmallClient):
    """UNSUBSCRIBE has the destination instead of the id, in every version."""

    def do_unsubscribe(self, id: str, destination: str) -> None:
        self.send_frame("UNSUBSCRIBE", [("destination", destination)])


@fault("STOMP12-ACK-01", "STOMP12-NACK-01")
class NamesByMessageId(SmallClient):
    """ACK and NACK name a message by its message-id in 1.2 too."""

    def naming(self, message: dict[str, str]) -> Headers:
        return [("id", message["message-id"])]


@fault("STOMP11-ACK-02", "STOMP11-NACK-01")
class NamesNoSubscription(SmallClient):
    """ACK and NACK have no subscription in 1.1."""

    def naming(self, message: dict[str, str]) -> Headers:
        return without(super().naming(message), "subscription")


@fault("STOMP12-ACK-01", "STOMP11-ACK-01", "STOMP10-ACK-01")
class NamesTheFirstMessage(SmallClient):
    """Every ACK names the first message."""

    def settle(self, command: str, message: int, transaction: str | None) -> None:
        super().settle(command, 1, transaction)


@fault("STOMP12-NACK-01", "STOMP11-NACK-01", "STOMP12-SUB-12")
class AcknowledgesWhatIsRefused(SmallClient):
    """What the application refuses is acknowledged."""

    def do_nack(self, message: int, transaction: str | None = None) -> None:
        self.settle("ACK", message, transaction)


@fault("STOMP12-SUB-09", "STOMP11-SUB-08", "STOMP10-ACK-01")
class KeepsAcknowledgements(SmallClient):
    """Acknowledgements are not sent."""

    def do_ack(self, message: int, transaction: str | None = None) -> None:
        return


@fault("STOMP12-COMMIT-01", "STOMP11-COMMIT-01", "STOMP10-COMMIT-01")
class CommitsWithoutName(_Sending):
    """COMMIT does not name its transaction."""

    of, left_out = "COMMIT", ("transaction",)


@fault("STOMP12-BEGIN-01", "STOMP11-BEGIN-01", "STOMP10-BEGIN-01")
class SendsOutsideOfTransactions(_Sending):
    """A SEND in a transaction does not name it."""

    left_out = ("transaction",)


@fault("STOMP12-ABORT-01", "STOMP11-ABORT-01", "STOMP10-ABORT-01")
class CommitsInsteadOfAborting(SmallClient):
    """What the application aborts is committed."""

    def do_abort(self, transaction: str) -> None:
        self.send_frame("COMMIT", [("transaction", transaction)])


@fault("STOMP12-DISC-01", "STOMP11-DISC-01")
class DoesNotWaitForTheReceipt(SmallClient):
    """It closes at once behind DISCONNECT."""

    def do_disconnect(self) -> None:
        super().do_disconnect()
        self.end()


@fault("STOMP12-DISC-01", "STOMP11-DISC-01")
class AsksForNoReceipt(_Sending):
    """DISCONNECT asks for no receipt."""

    of, left_out = "DISCONNECT", ("receipt",)


@fault("STOMP12-DISC-02", "STOMP11-DISC-02")
class UnsubscribesBehindDisconnect(SmallClient):
    """UNSUBSCRIBE follows DISCONNECT."""

    def do_disconnect(self) -> None:
        super().do_disconnect()
        self.do_unsubscribe("s1", "/queue/a")


@fault("STOMP12-HDR-04", "STOMP11-HDR-04", "STOMP10-SEND-06")
class LeavesOutTheNul(SmallClient):
    """A SEND with content-length has no NUL behind its body."""

    def write(self, data: bytes) -> None:
        is_send = data.startswith(b"SEND")
        super().write(data[:-1] if is_send else data)
