"""The grammar of selectors, for lark: SQL-92 conditions as JMS defines them, and what core filters
add.

From loosest to tightest: OR; AND; NOT; ``=`` ``<>`` ``IS NULL``; ``<`` ``>`` ``<=`` ``>=`` BETWEEN
LIKE IN; ``+`` ``-``; ``*`` ``/`` ``%``; signs. Keywords are case-insensitive; names are
case-sensitive.

A name starts with a letter, ``_`` or ``$`` and continues with these or digits. Any other name is
written between quotation marks; a quotation mark inside it is doubled. In the hyphenated dialect, a
hyphen is treated as a letter.
"""

from pathlib import Path

_LETTERS = r"[\w$]"
_LETTERS_AND_HYPHEN = r"[\w$-]"


def grammar(hyphenated: bool) -> str:
    """Return the grammar; names may contain hyphens in the ``hyphenated`` dialect."""
    text = Path(__file__).with_name("selector.lark").read_text("utf-8")
    return text.replace("LETTER", _LETTERS_AND_HYPHEN if hyphenated else _LETTERS)


VALUE, OPERATOR = "a value", "an operator"
_OPERATORS = (
    "SIGN",
    "TIMES",
    "ORDER",
    "NOT",
    "_EQUAL",
    "_UNEQUAL",
    "_BETWEEN",
    "_LIKE",
    "_IN",
    "_IS",
)
_VALUES = (
    "NAME",
    "QUOTED",
    "DECIMAL",
    "HEXADECIMAL",
    "OCTAL",
    "FLOAT",
    "TRUE",
    "FALSE",
    "NULL",
    "XPATH",
    "XQUERY",
)
WORDS = {
    **dict.fromkeys(_OPERATORS, OPERATOR),
    **dict.fromkeys(_VALUES, VALUE),
    "STRING": "a string in quotes",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "$END": "the end",
}
"""How messages name the grammar's terminals; others keep their name without the underscore."""
