"""Mistakes by a peer, by reply code (1.2 of the reference)."""

CONTENT_TOO_LARGE, NO_ROUTE = 311, 312
ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED = 403, 404, 405, 406
CONNECTION_FORCED, FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID, CHANNEL_ERROR = (
    320,
    501,
    502,
    503,
    504,
)
UNEXPECTED_FRAME, RESOURCE_ERROR = 505, 506
NOT_ALLOWED, NOT_IMPLEMENTED, INTERNAL_ERROR = 530, 540, 541

NAMES = {
    CONTENT_TOO_LARGE: "CONTENT_TOO_LARGE",
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    CONNECTION_FORCED: "CONNECTION_FORCED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    INTERNAL_ERROR: "INTERNAL_ERROR",
}
_SOFT = frozenset(
    {CONTENT_TOO_LARGE, ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED}
)


class Refusal(Exception):
    """A peer's mistake.

    ``code`` determines whether the mistake closes the channel or the connection. If ``silent``, the
    transport is closed without another method, as the specification requires. If ``out_of_step``,
    the next frame cannot be found.
    """

    def __init__(
        self, code: int, detail: str, *, silent: bool = False, out_of_step: bool = False
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.silent, self.out_of_step = code, detail, silent, out_of_step

    @property
    def text(self) -> str:
        """The reply text, at most 255 bytes."""
        return f"{NAMES[self.code]} - {self.detail}".encode()[:255].decode("utf-8", "ignore")

    @property
    def soft(self) -> bool:
        """True if only the channel is closed."""
        return self.code in _SOFT


def shown(name: str) -> str:
    """Return a peer's text for quotation in ours: shortened, and without control characters."""
    return ascii(name if len(name) <= 80 else name[:77] + "...")
