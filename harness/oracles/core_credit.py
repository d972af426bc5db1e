"""Byte credit over CORE: the broker never delivers beyond a consumer's credit and never grants a
producer more than it requested.

Sources: the Artemis manual's chapter on flow control (ARTEMIS-FLOW-consumer-1, -producer-1), and
the packets of release 2.56.0. A delivery costs the size of the packet received. A message costs its
producer the size of its encoding, which the trace records as ``cost``.

Credit is counted in full as soon as the client sends it, because the oracle judges by the most
credit that the broker can have had. A credit of -1 removes the limit. A credit of 0 withdraws the
remaining credit; as messages may be in flight, it takes effect here only at the answer to a
force-delivery requested after it. It also cancels any overdraft immediately
(ServerConsumerImpl.receiveCredits of 2.56.0). A delivery may begin with any credit above zero."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.harness.trace.events import Event, FrameReceived, FrameSent

BOUND, ASKED = "ARTEMIS-FLOW-consumer-1", "ARTEMIS-FLOW-producer-1"
PROTOCOL = "CORE"


@dataclass(slots=True)
class Consumer:
    """The most credit, in bytes, that the broker can have for one consumer; None: unlimited."""

    credit: int | None = 0
    given: int = 0
    delivered: int = 0
    _taken: dict[str, int] = field(default_factory=dict)
    """For each force-delivery requested after a 0, by its number: the credit granted since."""
    _since: int | None = None
    """Credit granted since the last 0; None if no 0 has taken effect."""

    def gave(self, credits: int) -> None:
        if credits == -1:
            self.credit = None
        elif credits == 0:
            self._since = 0
            self.credit = None if self.credit is None else max(self.credit, 0)
        elif self.credit is not None:
            self.credit += credits
            self.given += credits
            self._since = None if self._since is None else self._since + credits
            self._taken = {asked: since + credits for asked, since in self._taken.items()}

    def asked(self, sequence: str) -> None:
        """Record that the client requested a force-delivery."""
        if self._since is not None:
            self._taken[sequence] = self._since

    def answered(self, sequence: str) -> None:
        """Apply everything that was sent before that force-delivery."""
        since = self._taken.pop(sequence, None)
        if since is not None and self.credit is not None:
            self.credit = min(self.credit, since)
            self._since = None

    def took(self, size: int) -> bool:
        """Record a message in a packet of ``size``; return whether there was credit for it."""
        allowed = self.credit is None or self.credit > 0
        self.delivered += size
        if self.credit is not None:
            self.credit -= size
        return allowed


def consumers(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that the broker had credit for each message that it delivered."""
    books: dict[tuple[str, str], Consumer] = {}
    findings: list[Finding] = []
    for event, headers in _packets(events, conn):
        if "consumer" not in headers:
            continue
        book = books.setdefault((headers["channel"], headers["consumer"]), Consumer())
        if isinstance(event, FrameSent):
            if event.command == "create-consumer":
                books[headers["channel"], headers["consumer"]] = Consumer()
            elif event.command == "consumer-credits":
                book.gave(int(headers["credits"]))
            elif event.command == "force-delivery":
                book.asked(headers["sequence"])
        elif event.command == "receive" and FORCED in headers:
            book.answered(headers[FORCED])
        elif event.command == "receive":
            before = book.delivered
            allowed = book.took(event.size)
            detail = (
                f"consumer {headers['consumer']} got another message after {before} bytes; its"
                f" credit was {book.given} bytes"
            )
            findings.append(Finding(BOUND, Seen.HELD if allowed else Seen.VIOLATED, detail))
    return findings or [Finding(BOUND, Seen.NEVER_REACHED, "nothing was delivered")]


@dataclass(slots=True)
class Producer:
    """Credit requested and granted in one session for one address, in bytes."""

    asked: int = 0
    granted: int = 0
    spent: int = 0


def producers(events: Sequence[Event], conn: int) -> list[Finding]:
    """Check that the broker granted no more credit than was requested."""
    findings = []
    for event, book, address in _grants(events, conn):
        if isinstance(event, FrameReceived):
            kept = book.granted <= book.asked
            detail = f"{book.granted} bytes were granted for {address}; {book.asked} were requested"
            findings.append(Finding(ASKED, Seen.HELD if kept else Seen.VIOLATED, detail))
    return findings or [Finding(ASKED, Seen.NEVER_REACHED, "nothing was granted")]


def overdrawn(events: Sequence[Event], conn: int) -> int:
    """Return the most bytes by which our client exceeded its credit; 0 if it never did."""
    return max((book.spent - book.granted for _, book, _ in _grants(events, conn)), default=0)


def _grants(
    events: Sequence[Event], conn: int
) -> Iterator[tuple[FrameSent | FrameReceived, Producer, str]]:
    books: dict[tuple[str, str], Producer] = {}
    for event, headers in _packets(events, conn):
        if event.command not in ("request-producer-credits", "producer-credits", "send"):
            continue
        book = books.setdefault((headers["channel"], headers["address"]), Producer())
        if event.command == "send":
            book.spent += int(headers["cost"])
        elif isinstance(event, FrameSent):
            book.asked += int(headers["credits"])
        else:
            book.granted += int(headers["credits"])
        yield event, book, headers["address"]


def _packets(
    events: Sequence[Event], conn: int
) -> Iterator[tuple[FrameSent | FrameReceived, Mapping[str, str]]]:
    for event in events:
        if (
            isinstance(event, FrameSent | FrameReceived)
            and event.conn == conn
            and event.protocol == PROTOCOL
        ):
            yield event, dict(reversed(event.headers))
