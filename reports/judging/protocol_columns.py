"""Protocol columns: the equivalents of STOMP's destination, subscription and message-id in AMQP
0-9-1 and CORE, for whole columns. The names are the same as in
:mod:`brokerproof.harness.protocols.amqp091.fact_reader` and
:mod:`brokerproof.harness.protocols.core.fact_reader`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from brokerproof.harness.oracles.connection_reader import AMQP091, CORE, STOMP
from brokerproof.harness.protocols.amqp091 import fact_reader as amqp091_fact_reader
from brokerproof.harness.protocols.amqp091.fact_reader import DEAD, EXCHANGE
from brokerproof.harness.protocols.core import fact_reader as core_fact_reader
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.reports.judging.dense_ids import Bools, Ints

SILENT, OF_STOMP, OF_AMQP091, OF_CORE, OF_AMQP, OF_OTHERS = range(6)
"""The protocol of a row; SILENT if unknown."""
CODES: Mapping[str | None, int] = {
    None: SILENT,
    "": SILENT,
    STOMP: OF_STOMP,
    AMQP091: OF_AMQP091,
    CORE: OF_CORE,
    "AMQP": OF_AMQP,
}
READ_WHOLLY: Mapping[int, str] = {OF_AMQP091: AMQP091, OF_CORE: CORE, OF_AMQP: "AMQP"}
"""The protocols whose connections are judged by :mod:`brokerproof.reports.judging.amqp`."""
BLIND = 1
"""A bit of a scope: something unreadable was sent. The other bits are ``1 << code`` of the
protocols in use."""
_ALONE = frozenset({0, *(1 << code for code in (OF_STOMP, OF_AMQP091, OF_CORE))})


def all_known(spoken: int) -> bool:
    """True if everything sent in a scope could be read, given the protocols in use."""
    return spoken in _ALONE


class Headers(Protocol):
    def of(self, name: str, rows: Ints, otherwise: str | None = None) -> pa.Array: ...

    def equals(self, name: str, value: str, rows: Ints) -> Bools: ...

    def has(self, name: str, rows: Ints) -> Bools: ...


@dataclass
class Words:
    """The names in some rows of a batch, for any protocol. ``spoken`` has the protocol of every
    row."""

    headers: Headers
    spoken: npt.NDArray[np.int8]
    mixed: bool
    """True if any row has a protocol other than STOMP."""

    def queue(self, rows: Ints) -> pa.Array:
        destinations = self.headers.of("destination", rows)
        return self._of(
            rows, destinations, self._routed, lambda some: self.headers.of("address", some)
        )

    def subscription(self, rows: Ints) -> pa.Array:
        names = self.headers.of("subscription", rows)
        return self._of(
            rows,
            names,
            lambda some: self._of_channel("consumer-tag", some),
            lambda some: self._of_channel("consumer", some),
        )

    def token(self, rows: Ints) -> pa.Array:
        """Return the names with which deliveries are acknowledged."""
        return self._tagged(rows, self.headers.of("ack", rows, "message-id"))

    def answered(self, rows: Ints) -> pa.Array:
        return self._tagged(rows, self.headers.of("id", rows, "message-id"))

    def marked(self, rows: Ints) -> Bools:
        marked = self.headers.equals("redelivered", "true", rows)
        core = np.flatnonzero(self.spoken[rows] == OF_CORE) if self.mixed else ()
        if len(core):
            marked[core] |= _numbers(self.headers.of("delivery-count", rows[core])) > 1
        return marked

    def no_message(self, rows: Ints) -> Bools:
        """For each delivery, return True if it carries no message sent there (0-9-1: dead-lettered
        by another queue; CORE: the answer to a force-delivery), or only part of one."""
        none = np.zeros(len(rows), np.bool_)
        if not self.mixed:
            return none
        old = np.flatnonzero(self.spoken[rows] == OF_AMQP091)
        if len(old):
            own = rows[old]
            dead = pc.match_substring(self.headers.of("headers", own), DEAD).to_numpy(
                zero_copy_only=False
            )
            none[old] = dead | self.headers.equals("complete", "false", own)
        none |= (self.spoken[rows] == OF_CORE) & self.headers.has(FORCED, rows)
        return none

    def _routed(self, rows: Ints) -> pa.Array:
        exchange, key = self.headers.of("exchange", rows), self.headers.of("routing-key", rows)
        named = pc.binary_join_element_wise(
            pc.binary_join_element_wise(EXCHANGE, exchange, ""), key, "/"
        )
        return pc.if_else(pc.equal(exchange, ""), key, named)

    def _of_channel(self, name: str, rows: Ints) -> pa.Array:
        return pc.binary_join_element_wise(
            self.headers.of("channel", rows), self.headers.of(name, rows), ":"
        )

    def _tagged(self, rows: Ints, names: pa.Array) -> pa.Array:
        return self._of(
            rows,
            names,
            lambda some: self._of_channel("delivery-tag", some),
            lambda some: pc.binary_join_element_wise(
                self._of_channel("consumer", some), self.headers.of("message", some), ":"
            ),
        )

    def _of(self, rows: Ints, names: pa.Array, old: "_Naming", core: "_Naming") -> pa.Array:
        if not self.mixed:
            return names
        for code, naming in ((OF_AMQP091, old), (OF_CORE, core)):
            mine = self.spoken[rows] == code
            if mine.any():
                own = naming(rows[mine]).cast(names.type)
                names = pc.replace_with_mask(names, pa.array(mine), own)
        return names


class _Naming(Protocol):
    def __call__(self, some: Ints, /) -> pa.Array: ...


@dataclass
class Tagged:
    """Deliveries and answers of AMQP 0-9-1 in the order of their rows: the channel, the
    delivery-tag and, for answers, whether they are cumulative."""

    rows: Ints
    channel: Ints
    tag: Ints
    answer: Bools
    multiple: Bools


def tagged(headers: Headers, spoken: npt.NDArray[np.int8], got: Ints, answers: Ints) -> Tagged:
    """Return the delivery-tags of a batch."""
    rows = np.concatenate([got[spoken[got] == OF_AMQP091], answers[spoken[answers] == OF_AMQP091]])
    rows.sort()
    return Tagged(
        rows,
        _numbers(headers.of("channel", rows)),
        _numbers(headers.of("delivery-tag", rows)),
        np.isin(rows, answers),
        headers.equals("multiple", "true", rows),
    )


def _numbers(texts: pa.Array) -> Ints:
    """Return the numbers that decimal strings represent; 0 for any other string."""
    plain = pc.match_substring_regex(texts, "^[0-9]{1,18}$")
    numbers: Ints = pc.cast(pc.if_else(plain, texts, "0"), pa.int64()).to_numpy(
        zero_copy_only=False
    )
    return numbers.copy()


SENT = {
    AMQP091: (frozenset({"basic.publish"}), amqp091_fact_reader.ANSWERS),
    CORE: (frozenset({"send"}), frozenset({"acknowledge", "acknowledge-one"})),
}
"""The frames that carry a message and those that settle a message, by protocol."""
RECEIVED = {
    AMQP091: (amqp091_fact_reader.DELIVERIES, frozenset({"basic.ack", "basic.nack"})),
    CORE: (frozenset({"receive"}), frozenset({"null-response"})),
}
"""The frames that carry a message and those that confirm a message, by protocol."""
USUAL = frozenset(
    {
        "protocol-header",
        "consumer-credits",
        "force-delivery",
        "request-producer-credits",
        "producer-credits",
    }
)
"""Frequent frames that negotiate nothing."""
STRANGE = (*amqp091_fact_reader.STRANGE, *core_fact_reader.STRANGE)
ROUTING = core_fact_reader.ROUTING
