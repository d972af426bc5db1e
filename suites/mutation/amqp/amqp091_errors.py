"""Faults of AMQP 0-9-1's exceptions: client mistakes with no consequence or a wrong one."""

from unittest import mock

from pamqp import commands

from brokerproof.reference_broker.protocols.amqp091 import errors, login, publishing
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection, State
from brokerproof.reference_broker.protocols.amqp091.framing import (
    BODY,
    END,
    HEADER,
    HEARTBEAT,
    METHOD,
    FrameParser,
)
from brokerproof.reference_broker.protocols.amqp091.version_detection import AmqpVersionDetector
from brokerproof.suites.mutation.mutant import Group

amqp091_errors = Group("amqp091-errors", "reference-rabbitmq")

MISSING = "AMQP091-EXCH-06 AMQP091-EXCH-12 AMQP091-PUB-01 AMQP091-QUEUE-02 AMQP091-QUEUE-11"
DIFFERENT = (
    "AMQP091-EXCH-07 AMQP091-EXCH-10 AMQP091-QUEUE-03 AMQP091-QUEUE-09 AMQP091-QUEUE-10"
    " AMQP091-TX-03 RABBITMQ-AMQP091-CONF-03 RABBITMQ-AMQP091-SIZE-01"
)
FORBIDDEN = "AMQP091-CONS-02 AMQP091-EXCH-08 AMQP091-PUB-02 AMQP091-QUEUE-07"
LOCKED = "AMQP091-QUEUE-04"
INVALID = "AMQP091-FRAME-06 AMQP091-FRAME-09"
CHANNELS = "AMQP091-CHAN-01 AMQP091-CHAN-03 AMQP091-CONTENT-02"
CONTENT = "AMQP091-CONTENT-01"
NEVER = "RABBITMQ-AMQP091-PUB-01 RABBITMQ-AMQP091-QOS-02"
HEADERS = "AMQP091-VER-02 AMQP091-VER-03"


# --- reply codes ----------------------------------------------------------------------------------


def _coded(patch, reached, right, wrong=errors.INTERNAL_ERROR):
    """Give exceptions with the reply code ``right`` the code ``wrong``."""

    @patch.override(errors.Refusal)
    def __init__(original, self, code, *arguments, **options):
        reached(code == right)
        original(self, wrong if code == right else code, *arguments, **options)


@amqp091_errors.variant(_coded, errors.NOT_FOUND, errors.ACCESS_REFUSED, breaks=MISSING)
def what_is_missing_is_forbidden():
    """An unknown name is refused with 403."""


@amqp091_errors.variant(_coded, errors.NOT_FOUND, errors.NOT_ALLOWED, breaks=MISSING)
def what_is_missing_ends_the_connection():
    """An unknown name raises a connection exception, 530."""


@amqp091_errors.variant(_coded, errors.PRECONDITION_FAILED, errors.NOT_FOUND, breaks=DIFFERENT)
def preconditions_are_missing():
    """A failed precondition is refused with 404."""


@amqp091_errors.variant(_coded, errors.PRECONDITION_FAILED, breaks=DIFFERENT)
def preconditions_end_the_connection():
    """A failed precondition raises a connection exception, 541."""


@amqp091_errors.variant(_coded, errors.ACCESS_REFUSED, errors.NOT_FOUND, breaks=FORBIDDEN)
def what_is_forbidden_is_missing():
    """A forbidden request is refused with 404."""


@amqp091_errors.variant(_coded, errors.RESOURCE_LOCKED, errors.ACCESS_REFUSED, breaks=LOCKED)
def what_is_locked_is_forbidden():
    """A queue that is exclusive to another connection is refused with 403."""


@amqp091_errors.variant(_coded, errors.COMMAND_INVALID, breaks=INVALID)
def invalid_commands_have_another_code():
    """An invalid command is refused with 541."""


@amqp091_errors.variant(_coded, errors.CHANNEL_ERROR, breaks=CHANNELS)
def errors_of_channels_have_another_code():
    """A method that does not fit its channel's state is refused with 541."""


@amqp091_errors.variant(_coded, errors.UNEXPECTED_FRAME, breaks=CONTENT)
def bad_content_has_another_code():
    """An incomplete content is refused with 541."""


@amqp091_errors.variant(_coded, errors.NOT_ALLOWED, breaks="AMQP091-CONS-01")
def a_tag_in_use_has_another_code():
    """A consumer tag that is in use is refused with 541."""


@amqp091_errors.variant(_coded, errors.NOT_IMPLEMENTED, breaks=NEVER)
def what_is_not_implemented_has_another_code():
    """A method that is not implemented is refused with 541."""


@amqp091_errors.before(HANDLERS, commands.Basic.Qos, breaks="RABBITMQ-AMQP091-QOS-02")
def a_prefetch_by_size_is_ignored(reached, channel, method):
    """A prefetch by size is ignored."""
    method.prefetch_size = reached.instead(method.prefetch_size, 0)


@amqp091_errors.before(publishing, "publish", breaks="RABBITMQ-AMQP091-PUB-01")
def immediate_is_ignored(reached, channel, method, *content):
    """The flag immediate is ignored."""
    method.immediate = reached.instead(method.immediate, False)


# --- mistakes without a consequence ---------------------------------------------------------------


def _passed_over(patch, reached, *codes):
    """Ignore mistakes with these codes after the login."""

    @patch.override(Amqp091Connection)
    def _refuse(original, self, problem, channel, method):
        if not reached(
            problem.code in codes and self._state is State.RUNNING and not problem.silent
        ):
            original(self, problem, channel, method)


@amqp091_errors.mutant(f"{MISSING} {DIFFERENT} {FORBIDDEN} {LOCKED}")
def mistakes_on_a_channel_are_passed_over(patch, reached):
    """A mistake that should close a channel has no consequence."""
    _passed_over(
        patch,
        reached,
        errors.NOT_FOUND,
        errors.PRECONDITION_FAILED,
        errors.ACCESS_REFUSED,
        errors.RESOURCE_LOCKED,
    )


@amqp091_errors.mutant(
    f"{INVALID} {CHANNELS} {CONTENT} {NEVER} AMQP091-CONS-01 AMQP091-FRAME-07 AMQP091-FRAME-08"
)
def mistakes_on_a_connection_are_passed_over(patch, reached):
    """A mistake that should close the connection has no consequence."""
    codes = (
        errors.COMMAND_INVALID,
        errors.CHANNEL_ERROR,
        errors.UNEXPECTED_FRAME,
        errors.NOT_IMPLEMENTED,
        errors.NOT_ALLOWED,
    )
    _passed_over(patch, reached, *codes, errors.SYNTAX_ERROR)


@amqp091_errors.override(FrameParser, "next", breaks="AMQP091-FRAME-01")
def unknown_types_are_passed_over(original, reached, self):
    """A frame of an unknown type is ignored."""
    while self.has(8) and self._data[self._at] not in (METHOD, HEADER, BODY, HEARTBEAT):
        size = int.from_bytes(self._data[self._at + 3 : self._at + 7])
        if not self.has(size + 8):
            return None
        reached()
        self._at += size + 8
    return original(self)


@amqp091_errors.before(FrameParser, "next", breaks="AMQP091-FRAME-03")
def frame_ends_are_not_looked_at(reached, self):
    """The last byte of a frame is not checked."""
    if self.has(7):
        size = int.from_bytes(self._data[self._at + 3 : self._at + 7])
        end = self._at + 7 + size
        if reached(len(self._data) > end and self._data[end] != END):
            data = bytearray(self._data)
            data[end] = END
            self._data = bytes(data)


def _answered(patch, reached, beginning):
    """Answer bytes that are not a frame with connection.close if the mistake's detail begins like
    this."""

    @patch.override(FrameParser)
    def _out_of_step(original, self, detail, *, silent=False):
        if detail.startswith(beginning):
            silent = reached.instead(silent, False)
        return original(self, detail, silent=silent)


@amqp091_errors.variant(_answered, "no frame has the type", breaks="AMQP091-FRAME-02")
def unknown_types_are_answered():
    """A frame of an unknown type is answered with connection.close."""


@amqp091_errors.variant(_answered, "a frame ends with", breaks="AMQP091-FRAME-04")
def wrong_frame_ends_are_answered():
    """A frame with a wrong frame end is answered with connection.close."""


# --- before the connection is open ----------------------------------------------------------------


@amqp091_errors.before(Amqp091Connection, "_tune_ok", breaks="AMQP091-TUNE-02")
def more_channels_are_cut_to_ours(reached, self, now, method):
    """A client that tunes more channels than proposed gets the proposed number."""
    most = self.acceptor.amqp091.channel_max or 65535
    method.channel_max = reached.instead(method.channel_max, min(method.channel_max, most))


@amqp091_errors.before(Amqp091Connection, "_tune_ok", breaks="AMQP091-TUNE-03")
def larger_frames_are_cut_to_ours(reached, self, now, method):
    """A client that tunes larger frames than proposed gets the proposed ones."""
    most = self.acceptor.amqp091.frame_max or 2**32
    method.frame_max = reached.instead(method.frame_max, min(method.frame_max, most))


@amqp091_errors.before(Amqp091Connection, "_tune_ok", breaks="AMQP091-TUNE-04")
def smaller_frames_are_the_least(reached, self, now, method):
    """A client that tunes frames below 4096 bytes gets those of 4096."""
    method.frame_max = reached.instead(method.frame_max, max(method.frame_max, 4096))


@amqp091_errors.before(Amqp091Connection, "_open", breaks="AMQP091-OPEN-01")
def any_virtual_host_is_the_usual_one(reached, self, method):
    """A client gets the default virtual host, whichever it names."""
    method.virtual_host = reached.instead(method.virtual_host, "/")


@amqp091_errors.override(login, "user", breaks="AMQP091-START-03")
def unknown_mechanisms_are_let_in(original, reached, shared, conn, mechanism, response):
    """Any mechanism that was not offered is accepted."""
    if mechanism in login.offered(shared, conn):
        return original(shared, conn, mechanism, response)
    reached()
    return "anybody"


@amqp091_errors.override(Amqp091Connection, "_command", breaks="AMQP091-START-04")
def methods_out_of_turn_are_passed_over(original, reached, self, now, method):
    """An unexpected method before the connection is open is ignored."""
    try:
        original(self, now, method)
    except errors.Refusal as problem:
        if self._state is State.RUNNING or not problem.silent or problem.code == errors.NOT_ALLOWED:
            raise
        reached()


def _unanswered(patch, reached, of_amqp):
    """Close a connection with a different first header, AMQP or not, without sending a header."""

    @patch.override(AmqpVersionDetector)
    def _refuse(original, self, header):
        if reached(header.startswith(b"AMQP") is of_amqp):
            self._closed = True
            self._shared.outbox.close(self._conn)
        else:
            original(self, header)


@amqp091_errors.variant(_unanswered, True, breaks="AMQP091-VER-02")
def other_versions_are_not_answered():
    """A connection whose header has another version is closed without a header."""


@amqp091_errors.variant(_unanswered, False, breaks="AMQP091-VER-03")
def other_protocols_are_not_answered():
    """A connection that does not begin with an AMQP header is closed without a header."""


@amqp091_errors.override(AmqpVersionDetector, "_refuse", breaks=HEADERS)
def behind_another_header_the_connection_stays(original, reached, self, header):
    """A connection with another header is answered, and stays open."""
    reached()
    with mock.patch.object(self._shared.outbox, "close"):
        original(self, header)


def _saying(patch, reached, kind, **fields):
    """Give methods of ``kind`` on channel 0 these fields."""

    @patch.before(Amqp091Connection)
    def tell(self, method, channel=0):
        if reached(isinstance(method, kind)):
            for name, value in fields.items():
                setattr(method, name, value)


@amqp091_errors.mutant("AMQP091-VER-01")
def start_says_another_version(patch, reached):
    """connection.start states version 0-10."""
    _saying(patch, reached, commands.Connection.Start, version_minor=10)


@amqp091_errors.mutant("AMQP091-START-01")
def start_speaks_no_english(patch, reached):
    """The locales of connection.start lack en_US."""
    _saying(patch, reached, commands.Connection.Start, locales="de_DE en_GB")


@amqp091_errors.mutant("AMQP091-START-02")
def start_does_not_name_the_product(patch, reached):
    """The server's properties lack the product."""
    _saying(patch, reached, commands.Connection.Start, server_properties={"version": "1"})


@amqp091_errors.mutant("AMQP091-TUNE-01")
def frames_below_the_least_are_proposed(patch, reached):
    """connection.tune proposes frames of 4095 bytes, and a client may use them."""
    _saying(patch, reached, commands.Connection.Tune, frame_max=4095)

    @patch.before(Amqp091Connection)
    def _tune_ok(self, now, method):
        method.frame_max = max(4096, method.frame_max)
