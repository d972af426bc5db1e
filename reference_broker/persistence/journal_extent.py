"""The extent of the journal: where it begins and how far it certainly reaches.

If a record were cut off at the end of the last segment, nothing would show it. So every batch ends
with a note, in a separate file, of how many bytes are synced. There are two copies. One is written
with every batch and not synced: it is exact after the process was killed, but may be outdated or
torn after a power failure. The other is synced, but written only when the broker starts and before
a segment is removed. Neither ever claims more than exists.
"""

import struct
from dataclasses import dataclass

from brokerproof.harness.model.broker_io import Write
from brokerproof.reference_broker.persistence import records

FILE = "journal/extent"
_SYNCED_AT, _QUICK_AT = 512, 4096
"""Offsets of the copies, which are in separate blocks, so that a torn write spoils only one."""
_FIELDS = struct.Struct(">QQQQ")
_SEED = records.seed(FILE)


@dataclass(frozen=True, slots=True)
class Extent:
    """Segments ``first`` to ``last``; ``size`` bytes are synced. ``version`` counts writes."""

    version: int = 0
    first: int = 0
    last: int = 0
    size: int = 0

    def _copy(self, number: int) -> bytes:
        fields = _FIELDS.pack(self.version, self.first, self.last, self.size)
        return records.frame(number, fields, _SEED)

    def write(self) -> Write:
        return Write(FILE, _QUICK_AT, self._copy(2), sync=False)

    def write_synced(self) -> tuple[Write, Write]:
        head = records.head(FILE).ljust(_SYNCED_AT, b"\0")
        return self.write(), Write(FILE, 0, head + self._copy(1), sync=True)


def read(data: bytes) -> tuple[Extent | None, bool]:
    """Return the newer of the two copies in a file (None if neither is readable), and whether the
    synced copy is readable. Raises :class:`records.OtherFormat`."""
    records.scan(data[:_SYNCED_AT], FILE)
    payloads = (
        records.payload_at(data, _SYNCED_AT, 1, _SEED),
        records.payload_at(data, _QUICK_AT, 2, _SEED),
    )
    extents = [Extent(*_FIELDS.unpack(payload)) for payload in payloads if payload is not None]
    newest = max(extents, key=lambda extent: extent.version, default=None)
    return newest, payloads[0] is not None
