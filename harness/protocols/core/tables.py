"""The packets of Artemis's CORE protocol for sessions, queues, messages and flow control.

Types are those of :mod:`brokerproof.harness.protocols.core.values`; ``message`` is a whole message,
and ``rest`` is all remaining bytes. Other packets (large messages, XA, replication, clusters beyond
the one packet sent to every client) are read without fields.
"""

from dataclasses import dataclass

from brokerproof.harness.protocols.table_files import tables
from brokerproof.harness.protocols.versioned_fields import Fields, fields

ASYNC_RESPONSES, PRODUCERS, NEWEST = 130, 134, 136
"""Protocol versions: the one in which answers got a correlation id (2.7.0), the one in which
messages name their producer (2.28.0), and that of 2.56.0."""


@dataclass(frozen=True, slots=True)
class PacketTable:
    """One packet: its name, its number (an unsigned byte), and its fields."""

    name: str
    code: int
    fields: Fields


BY_NAME: dict[str, PacketTable] = {
    name: PacketTable(name, int(words[0]) & 0xFF, fields(words[1:]))
    for name, words in tables(__file__)["packets"].items()
}
BY_CODE: dict[int, PacketTable] = {definition.code: definition for definition in BY_NAME.values()}
