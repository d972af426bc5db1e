"""The preflight of a soak: judges a recording of a few events in which two messages were delivered
twice.

This tests the judges and loads everything that they need. The first judgement in a session takes
ten times as long as later ones, which would be too long once a soak has a suspicion.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from brokerproof.harness.model.enums import Clock
from brokerproof.harness.model.verdicts import Level
from brokerproof.harness.oracles.expectations import NOTHING
from brokerproof.harness.trace.events import ConnectionOpened, Event, FrameReceived, FrameSent
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.harness.trace.stamp import stamp
from brokerproof.reports.judging.conclusion import conclude
from brokerproof.reports.judging.judge import find_anomalies
from brokerproof.reports.sources.segments import local

_QUEUE = "rehearsal"
WRONG = [("revived", 1), ("shared", 1)]


class NotFound(Exception):
    """The judges did not find exactly the violations of the rehearsal."""


def rehearse(spark: SparkSession, level_of: Callable[[str], Level | None]) -> None:
    """Raise :class:`NotFound` unless the judges find exactly the violations."""
    with tempfile.TemporaryDirectory(prefix="brokerproof-rehearsal-") as temporary:
        recorder = Recorder(Path(temporary), "rehearsal", "rehearsal", Clock.REAL)
        recorder.write("load", events())
        recorder.flush()
        judgement = find_anomalies(spark, local([temporary]), NOTHING)
        try:
            conclusion = conclude(judgement, level_of, 1)
        finally:
            judgement.release()
    kinds = [(wrong.kind, wrong.count) for wrong in conclusion.wrong]
    if kinds != WRONG:
        raise NotFound(
            f"the judges should have found two duplicate messages ({WRONG}), but found"
            f" {kinds or 'nothing'}"
        )


def events() -> list[Event]:
    """Return the events of three messages (the second is redelivered after its acknowledgement, the
    third under the same name while it is held) and of an AMQP connection, which is read as a
    whole."""
    recorded: list[Event] = [ConnectionOpened(at_ns=0, conn=1, protocol="STOMP", acceptor="stomp")]

    def frame(
        kind: type[FrameSent] | type[FrameReceived], command: str, body: bytes = b"", **headers: str
    ) -> None:
        listed = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        size = len(body)
        recorded.append(
            kind(
                at_ns=len(recorded),
                conn=1,
                protocol="STOMP",
                command=command,
                headers=listed,
                body=body,
                body_size=size,
                size=100 + size,
            )
        )

    frame(FrameSent, "SUBSCRIBE", id="0", destination=_QUEUE, ack="client-individual")
    for number in (0, 1, 2):
        frame(FrameSent, "SEND", stamp(1, number), destination=_QUEUE, receipt=str(number))
        frame(FrameReceived, "RECEIPT", receipt_id=str(number))
    for number, ack, times in ((0, "a", 1), (1, "b", 1), (1, "c", 1), (2, "d", 2)):
        where = {"destination": _QUEUE, "subscription": "0"}
        for _ in range(times):
            frame(FrameReceived, "MESSAGE", stamp(1, number), **where, message_id=ack, ack=ack)
        frame(FrameSent, "ACK", id=ack)
    recorded.append(ConnectionOpened(at_ns=len(recorded), conn=2, protocol="AMQP", acceptor="amqp"))
    recorded.append(
        FrameSent(
            at_ns=len(recorded),
            conn=2,
            protocol="AMQP",
            command="open",
            headers=(("channel", "0"),),
            size=40,
        )
    )
    return recorded
