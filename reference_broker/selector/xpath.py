"""``XPATH '…'``: a condition over an XML body. Any other body satisfies no condition.

Nothing outside the body is read: no document type, no entities, no network.
"""

from typing import Any

from lxml import etree

from brokerproof.reference_broker.selector.values import Evaluate, Subject, Value

BODY = 100 * 1024
"""Larger bodies, in bytes, are not examined; the document does not support large messages."""


class BadXPath(Exception):
    """The text is not an XPath expression."""


def compiled(text: str) -> Evaluate:
    """Return a predicate on bodies that evaluates the expression as XPath's ``boolean()`` does."""
    try:
        etree.XPath(text)
        holds = etree.XPath(f"boolean({text})")
    except etree.XPathSyntaxError:
        raise BadXPath("this is not an XPath expression") from None

    def evaluate(subject: Subject) -> Value:
        if not isinstance(subject.body, bytes) or not 0 < len(subject.body) <= BODY:
            return False
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            root = etree.fromstring(subject.body, parser)
            document: Any = root.getroottree().docinfo
            return not document.doctype and bool(holds(root))
        except (etree.LxmlError, ValueError):
            return False

    return evaluate
