"""Wrong answers of STOMP that several groups of mutants share."""

from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder


def cut_off(patch, reached, fault):
    """Answer ``fault`` by ending the connection without an ERROR."""

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        if reached(problem.message == fault.message):
            self.close()
        else:
            original(self, problem, frame)


def kept(patch, reached, fault):
    """Keep the connection open after the ERROR for ``fault``."""
    patch.set(StompConnection, "keep", False)

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        self.keep = problem.message == fault.message
        original(self, problem, frame)
        self.keep = False

    @patch.override(StompConnection)
    def close(original, self):
        if not reached(self.keep):
            original(self)


def replace_header(patch, reached, command, name, value):
    """Give frames of ``command`` the ``value`` in the header ``name``; None removes the header."""

    @patch.override(FrameEncoder)
    def frame(original, self, written, headers, body=b""):
        if written == command:
            headers = reached.instead(headers, with_header(headers, name, value))
        return original(self, written, headers, body)


def with_header(headers, name, value):
    """Return the headers with another value of ``name``, or without this header."""
    changed = ((name, value) if header[0] == name else header for header in headers)
    return tuple(header for header in changed if header[1] is not None)
