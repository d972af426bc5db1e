"""Refused requests: Java exceptions that ActiveMQ's client knows."""

_JMS = "jakarta.jms."
ILLEGAL_STATE = "java.lang.IllegalStateException"
SECURITY = "java.lang.SecurityException"
NO_RESOURCE = _JMS + "ResourceAllocationException"
BAD_SELECTOR = _JMS + "InvalidSelectorException"
BAD_DESTINATION = _JMS + "InvalidDestinationException"
BAD_CLIENT_ID = _JMS + "InvalidClientIDException"
FAILED = _JMS + "JMSException"


class Refusal(Exception):
    """A refused request. ``kind`` is the class of the Java exception."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
