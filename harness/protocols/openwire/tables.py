"""The structures of OpenWire for connections, producers, consumers, messages and signs of life.

Types are those of :mod:`brokerproof.harness.protocols.openwire.values`. Other structures (XA,
journals, network bridges, discovery) are read without fields.
"""

from dataclasses import dataclass

from brokerproof.harness.protocols.table_files import tables
from brokerproof.harness.protocols.versioned_fields import Fields, fields

NEWEST = 12
"""The newest version of the protocol, which ActiveMQ has spoken since 5.12.0."""


@dataclass(frozen=True, slots=True)
class Table:
    """One structure: its name, its number (an unsigned byte), and its fields. Only a ``command``
    can be sent on its own."""

    name: str
    code: int
    fields: Fields
    command: bool


BY_NAME: dict[str, Table] = {
    name: Table(name, int(words[0]), fields(words[1:]), table == "commands")
    for table, entries in tables(__file__).items()
    for name, words in entries.items()
}
BY_CODE: dict[int, Table] = {definition.code: definition for definition in BY_NAME.values()}

MESSAGES = frozenset(name for name in BY_NAME if name.endswith("Message"))
"""The commands that are messages."""
SINCE = {"MessagePull": 2, "ProducerAck": 3}
"""The protocol version that introduced a command, unless it is the first version."""
