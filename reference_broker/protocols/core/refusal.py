"""What a peer asked for and does not get."""

from __future__ import annotations


class Refusal(Exception):
    """``code`` is one of the protocol's own
    (:mod:`brokerproof.reference_broker.protocols.core.codes`), ``detail`` one sentence."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
