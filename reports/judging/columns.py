"""A batch of recorded events as arrays: sender, kind of frame, instant, queue, subscription and
message.

Everything works on whole columns; only rare frames (CONNECT, SUBSCRIBE, ERROR …) are read one by
one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from brokerproof.harness.oracles.connection_reader import READABLE, STOMP
from brokerproof.harness.protocols.stomp import fact_reader
from brokerproof.harness.trace import stamp
from brokerproof.harness.trace.facts import HIDING_NOTHING, UNSEEN_KINDS
from brokerproof.reports.judging import protocol_columns
from brokerproof.reports.judging.dense_ids import Bools, Codes, Ints, Pairs
from brokerproof.reports.judging.protocol_columns import (
    OF_AMQP091,
    OF_CORE,
    OF_OTHERS,
    Tagged,
    Words,
    tagged,
)

NEEDED = (
    "run",
    "target",
    "case",
    "at_ns",
    "vantage",
    "conn",
    "kind",
    "protocol",
    "command",
    "headers",
    "body",
    "size",
)
"""The columns that the summaries need."""

WHERE = [
    *((name, pa.string()) for name in ("run", "target", "case")),
    *((name, pa.int64()) for name in ("example", "conn", "place", "row", "at_ns", "seq")),
]
"""The columns that locate an event to read again; ``place`` and ``row`` give the order on a
connection."""

(
    NOTHING,
    SEND,
    MESSAGE,
    ANSWER,
    RECEIPT,
    OTHER_OUT,
    OTHER_IN,
    BEAT_OUT,
    BEAT_IN,
    OPENED,
    CLOSED,
    ABANDONED,
    OCTETS,
    EXAMPLE,
    RARE_OUT,
    RARE_IN,
    FOREIGN,
    FOREIGN_OUT,
    UNSEEN,
    ENDS,
) = range(20)
"""The kinds of event that judges distinguish. SEND is a message to the broker, MESSAGE one from it;
ANSWER is ACK, NACK or another protocol's settlement, and RECEIPT is any confirmation; rare events
have their headers in :attr:`Columns.rare`; FOREIGN is a connection in a protocol that no reader
follows (:data:`brokerproof.harness.oracles.connection_reader.READABLE`); UNSEEN stands for bytes
missing from the recording; ENDS means that the recording ended before the connection."""

OUT = frozenset({SEND, ANSWER, OTHER_OUT, BEAT_OUT, OCTETS, RARE_OUT, FOREIGN_OUT})
IN = frozenset({MESSAGE, RECEIPT, OTHER_IN, BEAT_IN, RARE_IN})

_KINDS = {
    "HeartBeatSent": BEAT_OUT,
    "HeartBeatReceived": BEAT_IN,
    "ConnectionOpened": OPENED,
    "ConnectionClosed": CLOSED,
    "ConnectionAbandoned": ABANDONED,
    "OctetsSent": OCTETS,
    "OctetsRefused": OTHER_IN,
    "ExampleStarted": EXAMPLE,
}
_SENT = {"SEND": SEND, "ACK": ANSWER, "NACK": ANSWER}
_RECEIVED = {"MESSAGE": MESSAGE, "RECEIPT": RECEIPT}
_RARE_OUT = ("CONNECT", "STOMP", "SUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT")
_RARE_IN = ("CONNECTED", "ERROR")


@dataclass
class Names:
    """The names that the dense numbers in the batches of a piece stand for."""

    scopes: Codes[tuple[str, str, str, int]]
    """The run, target, case, and number of a property's example."""
    connections: Pairs
    """Pairs of scope and connection."""
    queues: Codes[str]
    subscriptions: Codes[str]
    examples: Counter[tuple[str, str, str]]

    @classmethod
    def none(cls) -> "Names":
        return cls(Codes(), Pairs(), Codes(), Codes(), Counter())

    def connection(self, number: int) -> tuple[tuple[str, str, str, int], int]:
        scope, conn = self.connections.parts(number)
        return self.scopes.values[scope], conn


@dataclass
class Messages:
    """Frames with a message: rows of the batch, each with the queue, and the stamp if the message
    has one."""

    rows: Ints
    queue: Ints
    producer: Ints
    number: Ints
    stamped: Bools


@dataclass
class Columns:
    """One batch. ``what``, ``connection``, ``at`` and ``size`` have a value for every row; other
    fields name the rows to which they apply."""

    what: npt.NDArray[np.int8]
    scope: Ints
    connection: Ints
    at: Ints
    size: Ints
    sent: Messages
    strange: Bools
    """True if a header of the sent message permits the broker to reorder or drop the message."""
    for_one: Bools
    """True if a header of the sent message addresses the message to a single consumer."""
    got: Messages
    subscription: Ints
    marked: Bools
    tokens: pa.Array
    """The name by which a delivery is acknowledged; empty for none."""
    answers: Ints
    answer_tokens: pa.Array
    rare: list[tuple[int, str, Mapping[str, str]]]
    spoken: npt.NDArray[np.int8]
    """The protocol of each row (:mod:`brokerproof.reports.judging.protocol_columns`)."""
    tagged: Tagged | None = None
    """The delivery-tags of AMQP 0-9-1; None if no connection speaks that protocol."""

    def __len__(self) -> int:
        return len(self.what)

    @property
    def of_stomp(self) -> "Columns":
        """Return the columns without the deliveries and answers of protocols other than STOMP."""
        foreign = (self.spoken == OF_AMQP091) | (self.spoken == OF_CORE)
        if not foreign.any():
            return self
        got, answers = ~foreign[self.got.rows], ~foreign[self.answers]
        messages = Messages(*(getattr(self.got, column.name)[got] for column in fields(Messages)))
        return replace(
            self,
            got=messages,
            subscription=self.subscription[got],
            marked=self.marked[got],
            tokens=self.tokens.filter(pa.array(got)),
            answers=self.answers[answers],
            answer_tokens=self.answer_tokens.filter(pa.array(answers)),
        )


@dataclass
class RowOrigins:
    """The kind, scope, connection and protocol of each row of a batch."""

    what: npt.NDArray[np.int8]
    scope: Ints
    connection: Ints
    spoken: npt.NDArray[np.int8]

    def of(self, rows: Ints) -> "RowOrigins":
        return RowOrigins(
            self.what[rows], self.scope[rows], self.connection[rows], self.spoken[rows]
        )


def row_origins(batch: pa.RecordBatch, names: Names) -> RowOrigins:
    """Classify the rows of a batch, without reading headers and bodies; events outside connections
    are NOTHING. Batches must arrive in order, since examples of a property are counted."""
    what = _what(batch)
    scope = _scopes(batch, names, what)
    connected = batch.column("conn").is_valid().to_numpy(zero_copy_only=False)
    what[~connected & (what != EXAMPLE)] = NOTHING
    connection = names.connections.of(scope, batch.column("conn").fill_null(0).to_numpy())
    return RowOrigins(what, scope, connection, _spoken(batch.column("protocol")))


def columns(batch: pa.RecordBatch, names: Names, known: RowOrigins | None = None) -> Columns:
    """Return the arrays of one batch, with numbers from ``names``. If only some rows were chosen,
    ``known`` is the result of :func:`row_origins`."""
    known = known or row_origins(batch, names)
    what, scope, spoken = known.what, known.scope, known.spoken
    headers = Headers(batch.column("headers"))
    mixed = bool(((spoken == OF_AMQP091) | (spoken == OF_CORE)).any())
    words = Words(headers, spoken, mixed)
    at, size = batch.column("at_ns").to_numpy(), batch.column("size").fill_null(0).to_numpy()
    body = batch.column("body")
    got_rows = np.flatnonzero(what == MESSAGE)
    answers = np.flatnonzero(what == ANSWER)
    tags = tagged(headers, spoken, got_rows, answers) if (spoken == OF_AMQP091).any() else None
    if mixed:
        got_rows = got_rows[~words.no_message(got_rows)]
    sent = _messages(np.flatnonzero(what == SEND), words, body, names)
    strange = (*fact_reader.STRANGE, *protocol_columns.STRANGE) if mixed else fact_reader.STRANGE
    return Columns(
        what,
        scope,
        known.connection,
        at,
        size,
        sent,
        headers.has_any(strange, sent.rows, protocol_columns.ROUTING if mixed else ""),
        headers.equals("destination-type", "ANYCAST", sent.rows)
        | headers.equals("subscription-type", "ANYCAST", sent.rows),
        _messages(got_rows, words, body, names),
        names.subscriptions.of(words.subscription(got_rows)),
        words.marked(got_rows),
        words.token(got_rows),
        answers,
        words.answered(answers),
        _rare(batch, what, headers),
        spoken,
        tags,
    )


def _spoken(protocol: pa.Array) -> npt.NDArray[np.int8]:
    words = _encoded(protocol)
    codes = [
        protocol_columns.CODES.get(name, OF_OTHERS)
        for name in (*words.dictionary.to_pylist(), None)
    ]
    protocols: npt.NDArray[np.int8] = np.array(codes, np.int8)[
        words.indices.fill_null(len(codes) - 1).to_numpy()
    ]
    return protocols


def _what(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """Return each row's kind, by a table of all combinations of kind, command, protocol and
    vantage."""
    parts = [_encoded(batch.column(name)) for name in ("kind", "command", "protocol", "vantage")]
    sizes = [len(part.dictionary) + 1 for part in parts]
    place = np.zeros(batch.num_rows, np.int64)
    for part, size in zip(parts, sizes, strict=True):
        indices = part.indices.fill_null(size - 1).to_numpy(zero_copy_only=False)
        place = place * size + indices
    seen = np.unique(place) if np.prod(sizes) > 2**16 else np.arange(int(np.prod(sizes)))
    values = [[*part.dictionary.to_pylist(), None] for part in parts]
    table = np.zeros(int(np.prod(sizes)), np.int8)
    for combination in seen.tolist():
        rest, words = combination, []
        for size, value in zip(reversed(sizes), reversed(values), strict=True):
            rest, index = divmod(rest, size)
            words.append(value[index])
        vantage, protocol, command, kind = words
        table[combination] = _meaning(kind, command, protocol, vantage)
    return table[place]


def _meaning(
    kind: str | None, command: str | None, protocol: str | None, vantage: str | None
) -> int:
    if vantage == "BROKER" or kind is None:
        return NOTHING
    if kind in UNSEEN_KINDS:
        return ENDS if command in HIDING_NOTHING else UNSEEN
    word = command or ""
    if kind == "FrameSent":
        return _out(protocol, word)
    if kind == "FrameReceived":
        return _in(protocol, word)
    if kind == "ConnectionOpened" and protocol not in READABLE:
        return FOREIGN
    return _KINDS.get(kind, NOTHING)


def _out(protocol: str | None, word: str) -> int:
    if protocol == STOMP:
        return RARE_OUT if word in _RARE_OUT else _SENT.get(word, OTHER_OUT)
    if protocol not in protocol_columns.SENT:
        return FOREIGN_OUT
    messages, answers = protocol_columns.SENT[protocol]
    usual = OTHER_OUT if word in protocol_columns.USUAL else RARE_OUT
    return SEND if word in messages else ANSWER if word in answers else usual


def _in(protocol: str | None, word: str) -> int:
    if protocol == STOMP:
        return RARE_IN if word in _RARE_IN else _RECEIVED.get(word, OTHER_IN)
    if protocol not in protocol_columns.RECEIVED:
        return OTHER_IN
    messages, confirms = protocol_columns.RECEIVED[protocol]
    usual = OTHER_IN if word in protocol_columns.USUAL else RARE_IN
    return MESSAGE if word in messages else RECEIPT if word in confirms else usual


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _scopes(batch: pa.RecordBatch, names: Names, what: npt.NDArray[np.int8]) -> Ints:
    """Return the scope of each row. Each example of a property has a separate scope, because it
    opens new connections."""
    parts = [_encoded(batch.column(name)) for name in ("run", "target", "case")]
    place = np.zeros(batch.num_rows, np.int64)
    for part in parts:
        place = place * len(part.dictionary) + part.indices.to_numpy(zero_copy_only=False)
    values = [part.dictionary.to_pylist() for part in parts]
    scope = np.empty(batch.num_rows, np.int64)
    edges = np.flatnonzero(
        np.concatenate([[True], (place[1:] != place[:-1]) | (what[1:] == EXAMPLE)])
    )
    for begin, end in zip(edges.tolist(), [*edges[1:].tolist(), batch.num_rows], strict=True):
        rest, words = int(place[begin]), []
        for value in reversed(values):
            rest, index = divmod(rest, len(value))
            words.append(value[index])
        case, target, run = words
        if what[begin] == EXAMPLE:
            names.examples[run, target, case] += 1
        scope[begin:end] = names.scopes.one((run, target, case, names.examples[run, target, case]))
    return scope


class Headers:
    """The headers of a batch; of repeated headers, the first is used."""

    def __init__(self, column: pa.ListArray) -> None:
        offsets = column.offsets.to_numpy()
        flat = column.values
        self._begin = int(offsets[0])
        names = _encoded(flat.field("name"))
        self._names: list[str] = names.dictionary.to_pylist()
        self._indices = names.indices.to_numpy(zero_copy_only=False)
        self._values = flat.field("value")
        self._offsets = offsets
        self._rows = len(column)
        self._parents = np.repeat(np.arange(len(column)), np.diff(offsets))

    def _found(self, name: str) -> tuple[Ints, Ints]:
        """Return the rows that have the header, in ascending order, and the positions of the
        values."""
        if name not in self._names:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        inside = self._indices[self._begin : self._begin + len(self._parents)] == self._names.index(
            name
        )
        at = np.flatnonzero(inside)
        rows = self._parents[at]
        first = np.ones(len(rows), np.bool_)
        first[1:] = rows[1:] != rows[:-1]
        return rows[first], at[first] + self._begin

    def of(self, name: str, rows: Ints, otherwise: str | None = None) -> pa.Array:
        """Return the values of a header for ``rows``, or of another header where it is missing;
        empty if both are missing."""
        slot = np.full(self._rows, -1, np.int64)
        if otherwise is not None:
            where, at = self._found(otherwise)
            slot[where] = at
        where, at = self._found(name)
        slot[where] = at
        slots = slot[rows]
        return self._values.take(pa.array(slots, mask=slots < 0)).fill_null("")

    def equals(self, name: str, value: str, rows: Ints) -> Bools:
        where, at = self._found(name)
        matches = np.zeros(self._rows, np.bool_)
        if len(at):
            matches[where] = np.asarray(
                self._values.take(pa.array(at)).to_numpy(zero_copy_only=False) == value
            )
        return matches[rows]

    def has(self, name: str, rows: Ints) -> Bools:
        matches = np.zeros(self._rows, np.bool_)
        matches[self._found(name)[0]] = True
        return matches[rows]

    def has_any(self, beginnings: tuple[str, ...], rows: Ints, but: str = "") -> Bools:
        """Return for each of ``rows`` whether the name of one of its headers, other than ``but``,
        begins with one of these."""
        matches = np.zeros(self._rows, np.bool_)
        for name in set(self._names):
            if name.startswith(beginnings) and name != but:
                matches[self._found(name)[0]] = True
        return matches[rows]

    def all(self, row: int) -> dict[str, str]:
        begin, end = int(self._offsets[row]), int(self._offsets[row + 1])
        values = self._values.slice(begin, end - begin).to_pylist()
        pairs = [
            (self._names[self._indices[begin + place]], value) for place, value in enumerate(values)
        ]
        return dict(reversed(pairs))


def _messages(rows: Ints, words: Words, body: pa.Array, names: Names) -> Messages:
    queue = names.queues.of(words.queue(rows))
    producer, number, stamped = stamps(body, rows)
    return Messages(rows, queue, producer, number, stamped)


_WORD = np.dtype("<u8")
_COLON, _END = ord(":"), ord(";")
_MARK = np.uint64(int.from_bytes(stamp.MARK, "little"))


def stamps(body: pa.Array, rows: Ints) -> tuple[Ints, Ints, Bools]:
    """Return the producers and numbers of the stamps at the beginning of the bodies of ``rows``,
    and which rows have a stamp.

    Eight digits are read together as a 64-bit word, because bodies are most of the data."""
    producer, number = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    stamped = np.zeros(len(rows), np.bool_)
    if not len(rows):
        return producer, number, stamped
    _, offsets_buffer, data_buffer = body.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[
        body.offset : body.offset + len(body) + 1
    ].astype(np.int64)
    long = np.flatnonzero(offsets[rows + 1] - offsets[rows] >= stamp.LENGTH)
    if not len(long):
        return producer, number, stamped
    data, at = np.frombuffer(data_buffer, np.uint8), offsets[rows[long]]
    words: npt.NDArray[np.uint64] = np.ndarray((len(data) - 7,), _WORD, data_buffer, 0, (1,))
    first, good = _eight_digits(words[at + stamp.PRODUCER_AT])
    head, head_good = _eight_digits(words[at + stamp.NUMBER_AT])
    tail, tail_good = _eight_digits(words[at + stamp.NUMBER_AT + stamp.NUMBER_DIGITS - 8])
    good &= head_good & tail_good & ((words[at] & np.uint64(0xFFFFFFFF)) == _MARK)
    good &= (data[at + stamp.NUMBER_AT - 1] == _COLON) & (data[at + stamp.LENGTH - 1] == _END)
    whole = head // 10 ** (16 - stamp.NUMBER_DIGITS) * 10**8 + tail
    stamped[long] = good
    producer[long[good]] = first[good]
    number[long[good]] = whole[good]
    return producer, number, stamped


def _eight_digits(word: npt.NDArray[np.uint64]) -> tuple[Ints, Bools]:
    """Return the values of words of eight ASCII digits, the first digit in the lowest byte, and
    whether the words consist of digits."""
    high, six = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x0606060606060606)
    zeros = np.uint64(0x3030303030303030)
    with np.errstate(over="ignore"):
        good: Bools = ((word & high) == zeros) & (((word + six) & high) == zeros)
        value = (word & np.uint64(0x0F0F0F0F0F0F0F0F)) * np.uint64(2561) >> np.uint64(8)
        value = (value & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
        value = (value & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001) >> np.uint64(32)
    return value.astype(np.int64), good


def _rare(
    batch: pa.RecordBatch, what: npt.NDArray[np.int8], headers: Headers
) -> list[tuple[int, str, Mapping[str, str]]]:
    rows = np.flatnonzero(
        (what == RARE_OUT) | (what == RARE_IN) | (what == UNSEEN) | (what == ENDS)
    )
    commands: list[Any] = batch.column("command").take(pa.array(rows)).to_pylist()
    return [
        (row, command, headers.all(row))
        for row, command in zip(rows.tolist(), commands, strict=True)
    ]
