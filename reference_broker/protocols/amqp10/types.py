"""AMQP types as Python values.

Where Python has an equivalent type, it is used; the rest are small subclasses, so that a decoded
value keeps its AMQP type when it is encoded again.

=============  ==================      ===========  ===================
AMQP           Python                  AMQP         Python
=============  ==================      ===========  ===================
null           None                    float        :class:`Float`
boolean        bool                    double       float
ubyte          :class:`Ubyte`          decimal32    :class:`Decimal32`
ushort         :class:`Ushort`         decimal64    :class:`Decimal64`
uint           :class:`Uint`           decimal128   :class:`Decimal128`
ulong          :class:`Ulong`          char         :class:`Char`
byte           :class:`Byte`           timestamp    :class:`Timestamp`
short          :class:`Short`          uuid         :class:`Uuid`
int            :class:`Int`            binary       bytes
long           int                     string       str
list           list                    symbol       :class:`Symbol`
map            dict, :class:`Pairs`    array        :class:`Array`
=============  ==================      ===========  ===================

A described value is :class:`Described`. Decimals are kept as bytes, because nothing here computes
with them.

A map is a dict, or :class:`Pairs` if a key cannot be hashed or two keys are equal in Python but not
in AMQP (a uint 1 and a long 1).
"""

from typing import Any, NamedTuple


class Ubyte(int):
    """0 to 255."""


class Ushort(int):
    """0 to 65535."""


class Uint(int):
    """0 to 2^32 - 1."""


class Ulong(int):
    """0 to 2^64 - 1."""


class Byte(int):
    """-128 to 127."""


class Short(int):
    """-32768 to 32767."""


class Int(int):
    """-2^31 to 2^31 - 1."""


class Timestamp(int):
    """Signed milliseconds since the Unix epoch, in 64 bits."""


class Float(float):
    """A number that fits into 32 bits."""


class Char(str):
    """One Unicode character."""


class Symbol(str):
    """A name from a constrained domain, in ASCII."""


class Uuid(bytes):
    """16 bytes."""


class Decimal32(bytes):
    """4 bytes: an IEEE 754-2008 decimal, in BID or DPD as the sender had it."""


class Decimal64(bytes):
    """8 bytes."""


class Decimal128(bytes):
    """16 bytes."""


class Described(NamedTuple):
    """A value with a descriptor that gives its meaning."""

    descriptor: Any
    value: Any


class Pairs(tuple[tuple[Any, Any], ...]):
    """A map as its pairs, in order."""


class Array(list[Any]):
    """Values of one type. ``kind`` is the Python type from the table above (NoneType for null).

    If ``described``, every element has the descriptor ``descriptor``, which is not repeated in the
    elements.
    """

    __slots__ = ("described", "descriptor", "kind")

    def __init__(
        self, kind: type, items: Any = (), *, described: bool = False, descriptor: Any = None
    ) -> None:
        super().__init__(items)
        self.kind = kind
        self.described = described
        self.descriptor = descriptor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Array):
            return NotImplemented
        mine = (self.kind, self.described, self.descriptor)
        return mine == (other.kind, other.described, other.descriptor) and list.__eq__(self, other)

    __hash__ = None

    def __repr__(self) -> str:
        name = f"@{self.descriptor!r} " if self.described else ""
        return f"Array({name}{self.kind.__name__}{list(self)!r})"
