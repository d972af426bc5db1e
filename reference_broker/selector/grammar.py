"""The grammar of selectors, for lark: SQL-92 conditions as JMS has them, and what core filters add.

From loosest to tightest: OR; AND; NOT; ``=`` ``<>`` ``IS NULL``; ``<`` ``>`` ``<=`` ``>=`` BETWEEN
LIKE IN; ``+`` ``-``; ``*`` ``/`` ``%``; signs. Words are the same in capitals and small letters;
names are not.

A name is a letter, ``_`` or ``$`` and more of them or digits. Anything else is a name between
quotation marks; a mark inside is doubled. In the hyphenated dialect a hyphen is a letter like
others.
"""

from __future__ import annotations

_LETTERS = r"[\w$]"
_LETTERS_AND_HYPHEN = r"[\w$-]"

_GRAMMAR = r"""
?start: _condition
_condition: disjunction

?disjunction: conjunction (_OR conjunction)*
?conjunction: negation (_AND negation)*
?negation: NOT negation -> negated
    | equality

?equality: relation
    | equality _EQUAL relation -> equal
    | equality _UNEQUAL relation -> unequal
    | equality _IS NULL -> is_null
    | equality _IS NOT NULL -> is_not_null

?relation: sum
    | relation ORDER sum -> ordered
    | relation _BETWEEN sum _AND sum -> between
    | relation NOT _BETWEEN sum _AND sum -> not_between
    | relation _LIKE STRING -> like
    | relation _LIKE STRING _ESCAPE STRING -> like
    | relation NOT _LIKE STRING -> not_like
    | relation NOT _LIKE STRING _ESCAPE STRING -> not_like
    | relation _IN "(" STRING ("," STRING)* ")" -> one_of
    | relation NOT _IN "(" STRING ("," STRING)* ")" -> none_of

?sum: product
    | sum SIGN product -> calculated
?product: signed
    | product TIMES signed -> calculated
?signed: primary
    | SIGN signed -> signed

?primary: "(" _condition ")"
    | STRING -> string
    | DECIMAL -> decimal
    | HEXADECIMAL -> hexadecimal
    | OCTAL -> octal
    | FLOAT -> floating
    | TRUE -> truth
    | FALSE -> truth
    | NULL -> null
    | NAME -> name
    | QUOTED -> quoted
    | XPATH STRING -> xpath
    | XQUERY STRING -> xquery

_EQUAL: "="
_UNEQUAL.2: "<>"
ORDER: /<=|>=|<|>/
SIGN: "+" | "-"
TIMES: "*" | "/" | "%"

_OR.5: /or(?!LETTER)/i
_AND.5: /and(?!LETTER)/i
NOT.5: /not(?!LETTER)/i
_BETWEEN.5: /between(?!LETTER)/i
_LIKE.5: /like(?!LETTER)/i
_ESCAPE.5: /escape(?!LETTER)/i
_IN.5: /in(?!LETTER)/i
_IS.5: /is(?!LETTER)/i
TRUE.5: /true(?!LETTER)/i
FALSE.5: /false(?!LETTER)/i
NULL.5: /null(?!LETTER)/i
XPATH.5: /xpath(?!LETTER)/i
XQUERY.5: /xquery(?!LETTER)/i

STRING: /'(?:[^']|'')*'/
QUOTED: /"(?:[^"]|"")*"/
FLOAT.4: /(?:[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)/i
HEXADECIMAL.3: /0x[0-9a-f]+/i
OCTAL.2: /0[0-7]*/
DECIMAL: /[1-9][0-9]*l?/i
NAME: /(?:[^\W\d]|\$)LETTER*/

_LINE_COMMENT: /--[^\r\n]*[\r\n]/
_BLOCK_COMMENT: /\/\*(?:[^*]|\*(?!\/))*\*\//
_BLANK: /[ \t\n\r\f]+/
%ignore _BLANK
%ignore _LINE_COMMENT
%ignore _BLOCK_COMMENT
"""


def grammar(hyphenated: bool) -> str:
    """The grammar; in the ``hyphenated`` dialect names may have hyphens in them."""
    return _GRAMMAR.replace("LETTER", _LETTERS_AND_HYPHEN if hyphenated else _LETTERS)


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
"""Names of the grammar's terminals in messages; others are called as they are, without the
underscore."""
