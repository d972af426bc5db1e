"""Refused requests."""


class Refusal(Exception):
    """A refused request. ``code`` is one of
    :mod:`brokerproof.reference_broker.protocols.core.codes`, and ``detail`` is one sentence."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
