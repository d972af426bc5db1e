"""Helpers for AMQP mutants: change outgoing frames, and ignore a peer's mistakes."""

from typing import Any

from brokerproof.reference_broker.protocols.amqp10 import performatives
from brokerproof.reference_broker.protocols.amqp10.composite import Composite, descriptor
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.decoder import DEPTH
from brokerproof.reference_broker.protocols.amqp10.framing import AMQP, HEADER, frame
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal

KINDS: dict[int, type[Composite]] = {
    var.CODE: var
    for var in vars(performatives).values()
    if isinstance(var, type)
    and issubclass(var, Composite)
    and getattr(var, "PROVIDES", None) == ("frame",)
}


def saying(patch, reached, change):
    """Change every frame with a performative by ``change``; None drops the frame."""

    @patch.override(AmqpConnection)
    def send(original, self, data):
        if len(data) <= HEADER.size or data[:4] == b"AMQP" or data[5] != AMQP:
            original(self, data)
            return
        channel, start = HEADER.unpack_from(data)[3], data[4] * 4
        code, at = descriptor(data, start + 1)
        right, end = KINDS[code or 0].read(data, at, DEPTH)
        before = right.encode()
        wrong = change(right)
        if reached(wrong is None):
            return
        changed = wrong.encode()
        original(self, frame(channel, changed + data[end:]) if reached(changed != before) else data)


def sent(kind):
    """Return a helper for ``Group.through``: the function changes outgoing frames of this kind."""

    def helper(patch, reached, change):
        def changed(performative: Any) -> Any:
            if isinstance(performative, kind):
                change(performative)
            return performative

        saying(patch, reached, changed)

    return helper


def passing_over(patch, reached, *faults):
    """Ignore frames with one of these mistakes on the whole connection."""

    @patch.override(AmqpConnection)
    def _frame(original, self, type, channel, body):
        try:
            original(self, type, channel, body)
        except Refusal as problem:
            if problem.fault not in faults:
                raise
            reached()
