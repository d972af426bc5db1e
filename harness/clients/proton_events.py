"""Events of python-qpid-proton as cases see them. Importing this module does not import Proton, so
the suites can be collected without Proton."""

from dataclasses import dataclass
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.conversation import Match


@dataclass(frozen=True)
class ProtonEvent:
    """An event of Proton, by its name without ``PN_``; or ``message``, with an :class:`Arrived` as
    its subject.

    ``subject`` is the connection, session, link, delivery or transport concerned."""

    name: str
    at: Instant
    subject: Any = None
    condition: str | None = None

    @property
    def link(self) -> str | None:
        subject = self.subject.delivery.link if isinstance(self.subject, Arrived) else self.subject
        subject = getattr(subject, "link", subject)
        return subject.name if hasattr(subject, "is_sender") else None  # of Proton, links have it


@dataclass(frozen=True)
class Arrived:
    """A message that Proton decoded and delivered, with the delivery."""

    delivery: Any
    message: Any
    data: bytes
    settled: bool
    """True if the broker had already settled the delivery."""


def event_named(name: str, link: Any = None) -> Match[ProtonEvent]:
    link_name = None if link is None else link.name
    words = name if link_name is None else f"{name} of link {link_name}"
    return Match(
        words, lambda event: event.name == name and (link_name is None or event.link == link_name)
    )
