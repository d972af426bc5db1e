"""Quickly writes a recording, of any number of events, of a load that never ran.

64 producers send stamped messages to 16 queues with two consumers each; every message has a SEND,
RECEIPT, MESSAGE and ACK. Other connections are silent until their TTL ends. The broker's correct
behaviour is computed, so anomalies can be inserted one at a time: see :class:`Anomalies`.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S
from brokerproof.harness.trace.columns import HEADER, SCHEMA
from brokerproof.harness.trace.stamp import stamp

PRODUCERS, QUEUES, EACH = 64, 16, 2
CONSUMERS = QUEUES * EACH
SILENT = 8
WINDOW = 16_384
LASTS = 60 * NS_PER_S
RECEIPT_AFTER, MESSAGE_AFTER, ACK_AFTER = 200, 300, 1000
"""The time between two SENDs, in steps."""
SEGMENT = 1_000_000
_OPENING_ROWS = 3 * (PRODUCERS + CONSUMERS + SILENT) + CONSUMERS
_REPEATED = [
    *(name for name in SCHEMA.names if name not in {"seq", "at_ns", "body", "headers"}),
    "headers.list.element.name",
]
"""Columns that compress well with a dictionary. Trying one on the others costs a quarter of the
writing time."""
TTL = 2 * NS_PER_S
CHECK = 2 * NS_PER_S
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Anomalies:
    """The messages that are lost, duplicated, or sent after their successor; the message that fills
    a window exactly (its successor exceeds it); and whether a silent connection is closed early. -1
    and False mean none."""

    lost: int = -1
    doubled: int = -1
    late: int = -1
    filling: int = -1
    early: bool = False

    @classmethod
    def all(cls, messages: int) -> "Anomalies":
        """Return the anomalies, one of each kind, spread over the recording."""
        lost, doubled, late, filling = (messages * part // 10 for part in (2, 4, 6, 8))
        while consumer_of(np.array([filling]))[0] % 4 == 0:  # of a consumer that settles one by one
            filling += 1
        return cls(lost, doubled, late, filling, early=True)


def producer_of(message: Ints) -> Ints:
    return message % PRODUCERS


def consumer_of(message: Ints) -> Ints:
    return (message % PRODUCERS % QUEUES) * EACH + message // PRODUCERS % EACH


def size_of(message: Ints) -> Ints:
    return 180 + message * 7919 % 120


def write(
    folder: Path, events: int, anomalies: Anomalies | None = None, *, processes: int = 1
) -> int:
    """Write about ``events`` events into ``folder`` as segments; return the exact number. The
    segments do not depend on the number of processes. Segments of an interrupted call are reused,
    because a billion events take a quarter of an hour on two cores."""
    folder.mkdir(parents=True, exist_ok=True)
    load = _Load(events // 4, anomalies or Anomalies())
    write_segment = partial(_write_segment, load, folder)
    if processes == 1:
        return sum(map(write_segment, range(load.segments)))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return sum(pool.map(write_segment, range(load.segments)))


def _write_segment(load: "_Load", folder: Path, number: int) -> int:
    path = folder / f"part-0-{number:05d}.parquet"
    if path.exists():
        return int(pq.read_metadata(path).num_rows)
    segment = load.segment(number)
    draft = path.with_suffix(".draft")
    pq.write_table(segment, draft, compression="zstd", use_dictionary=_REPEATED)
    draft.rename(path)
    return int(segment.num_rows)


class _Load:
    def __init__(self, messages: int, anomalies: Anomalies) -> None:
        self.messages, self.wrong = messages, anomalies
        self.step = LASTS // messages

    @property
    def segments(self) -> int:
        """Return the numbers of segments: for opening, for messages, and for the ends of silent
        connections."""
        return -(-(self.messages + ACK_AFTER) // (SEGMENT // 4)) + 2

    def segment(self, number: int) -> pa.Table:
        """Return one segment. It does not depend on any other."""
        if number == 0:
            return self._whole([self._opening()], 0)
        begin = (number - 1) * (SEGMENT // 4)
        end = min(begin + SEGMENT // 4, self.messages + ACK_AFTER)
        before = _OPENING_ROWS + self._rows_before(begin)
        if number == self.segments - 1:
            return self._whole([self._silence()], before)
        kinds = (
            (self._sends, 0),
            (self._receipts, RECEIPT_AFTER),
            (self._deliveries, MESSAGE_AFTER),
            (self._answers, ACK_AFTER),
        )
        parts = []
        for make, after in kinds:
            low, high = max(0, begin - after), min(self.messages, end - after)
            if high > low:
                parts.append(make(np.arange(low, high)))
        return self._whole(parts, before)

    def _rows_before(self, step: int) -> int:
        """Return the number of message events before this step."""
        rows = 0
        for after in (0, RECEIPT_AFTER, MESSAGE_AFTER, ACK_AFTER):
            messages = min(max(step - after, 0), self.messages)
            rows += messages
            if after >= MESSAGE_AFTER:
                rows -= 0 <= self.wrong.lost < messages
                rows += 0 <= self.wrong.doubled < messages
        return rows

    def _whole(self, parts: list[pa.Table], before: int) -> pa.Table:
        """Return the events of a segment in order. ``before`` is the number of earlier events."""
        table = pa.concat_tables(parts)
        table = table.take(pc.sort_indices(table, [("at_ns", "ascending")]))
        rows = table.num_rows
        constant = {"run": "load", "target": "made", "case": "load"}
        constant |= {"clock": "VIRTUAL", "vantage": "PEER"}
        columns = {name: _same(value, rows) for name, value in constant.items()}
        columns["seq"] = pa.array(np.arange(before, before + rows))
        columns |= {name: table.column(name).combine_chunks() for name in table.column_names}
        arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in SCHEMA]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def _sends(self, message: Ints) -> pa.Table:
        queue = producer_of(message) % QUEUES
        number = pa.array(message // PRODUCERS).cast(pa.string())
        headers = [("destination", _queues(queue)), ("receipt", _joined("r", number))]
        at, conn = message * self.step, 1 + producer_of(message)
        return _frames("FrameSent", "SEND", at, conn, 150, headers, message)

    def _receipts(self, message: Ints) -> pa.Table:
        at = (message + RECEIPT_AFTER) * self.step
        number = pa.array(message // PRODUCERS).cast(pa.string())
        headers = [("receipt-id", _joined("r", number))]
        return _frames("FrameReceived", "RECEIPT", at, 1 + producer_of(message), 30, headers)

    def _deliveries(self, message: Ints) -> pa.Table:
        at = (message + MESSAGE_AFTER) * self.step
        own = message != self.wrong.lost
        message, at = message[own], at[own]
        late, successor = message == self.wrong.late, message == self.wrong.late + PRODUCERS * EACH
        if late.any() and successor.any():
            at[late], at[successor] = at[successor], at[late]
        consumer = consumer_of(message)
        again = message == self.wrong.doubled
        if again.any():
            message, at = np.append(message, message[again]), np.append(at, at[again] + 1)
            consumer = np.append(consumer, consumer[again] ^ 1)
        size = size_of(message)
        size[message == self.wrong.filling] = self._filling()
        token = pa.array(message).cast(pa.string())
        headers = [
            ("subscription", _same("s", len(message))),
            ("message-id", token),
            ("ack", _joined("a", token)),
            ("destination", _queues(consumer // EACH)),
        ]
        conn = 1 + PRODUCERS + consumer
        return _frames("FrameReceived", "MESSAGE", at, conn, size, headers, message)

    def _filling(self) -> int:
        """Return the size of a delivery after which its consumer holds exactly a full window."""
        message, successor = self.wrong.filling, self._successor()
        before = np.arange(message - (ACK_AFTER - MESSAGE_AFTER) - 1, message)
        mine = before[consumer_of(before) == consumer_of(np.array([message]))[0]]
        held = mine[mine + ACK_AFTER >= successor + MESSAGE_AFTER]
        return WINDOW - int(size_of(held).sum())

    def _successor(self) -> int:
        """Return the next message of the consumer that gets the filling message."""
        message = self.wrong.filling
        after = np.arange(message + 1, message + 1 + PRODUCERS * EACH)
        return int(after[consumer_of(after) == consumer_of(np.array([message]))[0]][0])

    def _answers(self, message: Ints) -> pa.Table:
        message = message[message != self.wrong.lost]
        at = (message + ACK_AFTER) * self.step
        # The filling message is settled as soon as its successor has arrived, so only one message
        # exceeds the window.
        filling = message == self.wrong.filling
        if filling.any():
            at[filling] = (self._successor() + MESSAGE_AFTER) * self.step + 1
        consumer, again = consumer_of(message), message == self.wrong.doubled
        if again.any():
            message, at = np.append(message, message[again]), np.append(at, at[again] + 1)
            consumer = np.append(consumer, consumer[again] ^ 1)
        token = _joined("a", pa.array(message).cast(pa.string()))
        return _frames("FrameSent", "ACK", at, 1 + PRODUCERS + consumer, 40, [("id", token)])

    def _opening(self) -> pa.Table:
        conns = np.arange(1, 1 + PRODUCERS + CONSUMERS + SILENT)
        zero = np.zeros(len(conns), np.int64) - NS_PER_MS
        silent = conns > PRODUCERS + CONSUMERS
        asked = pa.array(np.where(silent, "1000,0", "0,0").tolist())
        agreed = pa.array(np.where(silent, "0,1000", "0,30000").tolist())
        asks, agrees = [("heart-beat", asked)], [("heart-beat", agreed)]
        opened = _frames("ConnectionOpened", None, zero - 3, conns)
        connect = _frames("FrameSent", "CONNECT", zero - 2, conns, 60, asks)
        connected = _frames("FrameReceived", "CONNECTED", zero - 1, conns, 60, agrees)
        consumers = np.arange(CONSUMERS)
        mode = pa.array(np.where(consumers % 4 == 0, "client", "client-individual").tolist())
        window = _same(str(WINDOW), CONSUMERS)
        headers = [
            *(("id", _same("s", CONSUMERS)), ("destination", _queues(consumers // EACH))),
            *(("ack", mode), ("consumer-window-size", window)),
        ]
        at, conns = np.full(CONSUMERS, -NS_PER_MS), 1 + PRODUCERS + consumers
        subscribe = _frames("FrameSent", "SUBSCRIBE", at, conns, 80, headers)
        return pa.concat_tables([opened, connect, connected, subscribe])

    def _silence(self) -> pa.Table:
        conns = np.arange(1 + PRODUCERS + CONSUMERS, 1 + PRODUCERS + CONSUMERS + SILENT)
        at = np.full(SILENT, TTL + CHECK // 2)
        if self.wrong.early:
            at[SILENT // 2] = TTL * 6 // 10
        return _frames("ConnectionClosed", None, at, conns)


def _frames(
    kind: str,
    command: str | None,
    at: Ints,
    conn: Ints,
    size: Ints | int = 0,
    headers: Sequence[tuple[str, pa.Array]] = (),
    message: Ints | None = None,
) -> pa.Table:
    rows = len(at)
    if message is not None:
        body = _bodies(message)
    else:
        body = _same(b"", rows) if kind.startswith("Frame") else pa.nulls(rows, pa.binary())
    how = _same("EOF", rows) if kind == "ConnectionClosed" else pa.nulls(rows, pa.string())
    return pa.table(
        {
            "at_ns": pa.array(at),
            "conn": pa.array(conn),
            "kind": _same(kind, rows),
            "protocol": _same("STOMP", rows),
            "command": pa.nulls(rows, pa.string()) if command is None else _same(command, rows),
            "headers": _headers(headers, rows),
            "body": body,
            "body_size": pa.array(np.full(rows, 26 if message is not None else 0)),
            "size": pa.array(np.full(rows, size) if isinstance(size, int) else size),
            "how": how,
        }
    )


def _headers(headers: Sequence[tuple[str, pa.Array]], rows: int) -> pa.ListArray:
    """Return a list for each row, with the n-th value of each header."""
    count = len(headers)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * count)
    place = pa.array(np.tile(np.arange(count), rows))
    names = pa.array([name for name, _ in headers], pa.string()).take(place)
    values = pa.concat_arrays([value for _, value in headers] or [pa.array([], pa.string())])
    order = np.arange(rows * count).reshape(count, rows).T.ravel()
    structs = pa.StructArray.from_arrays([names, values.take(pa.array(order))], fields=list(HEADER))
    return pa.ListArray.from_arrays(offsets, structs, type=SCHEMA.field("headers").type)


def _bodies(message: Ints) -> pa.Array:
    """Return the stamps of messages, written digit by digit for all messages at once."""
    data = np.tile(np.frombuffer(stamp(0, 0), np.uint8), (len(message), 1))
    for place, numbers, digits in ((4, producer_of(message), 8), (13, message // PRODUCERS, 12)):
        for digit in range(digits):
            data[:, place + digits - 1 - digit] = 48 + numbers // 10**digit % 10
    offsets = np.arange(len(message) + 1, dtype=np.int32) * data.shape[1]
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(message), buffers)


def _same(value: str | bytes, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)


def _queues(number: Ints) -> pa.Array:
    return _joined("/queue/q", pa.array(number).cast(pa.string()))


def _joined(prefix: str, text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, text, "")
