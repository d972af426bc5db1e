"""Matching of ``address-setting`` elements to an address, and their precedence.

A match is a literal name, or has wildcards: ``#`` (any words or none, together with the delimiter
before it) and ``*`` (one word or a part of one). If several elements match, each value comes from
the most specific element that gives it (ARTEMIS-STOMP-routing-6). A match without ``#`` precedes a
match with ``#``, and of two with ``#``, the longer is first. Then a match without ``*`` precedes a
match with ``*``; of two with ``*``, the one whose ``*`` comes later as a word of its own is first,
and then the shorter (the order of release 2.56.0, ``HierarchicalObjectRepository``, since the
document does not say).
"""

import dataclasses
import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings


@dataclass(frozen=True, slots=True)
class Rule:
    """The complete settings of one address. The defaults are those that the vendor documents."""

    default_address_routing_type: RoutingType = RoutingType.MULTICAST
    default_queue_routing_type: RoutingType = RoutingType.MULTICAST
    auto_create_addresses: bool = True
    auto_create_queues: bool = True
    auto_delete_addresses: bool = True
    auto_delete_queues: bool = True
    max_delivery_attempts: int = 10
    dead_letter_address: str | None = None
    max_size_bytes: int = -1
    max_size_messages: int = -1
    max_size_bytes_reject_threshold: int = -1
    address_full_policy: FullPolicy = FullPolicy.PAGE
    page_size_bytes: int = 10 * 1024 * 1024
    page_max_cache_size: int = 5
    max_read_page_bytes: int | None = None
    """None means twice ``page_size_bytes``; -1 means no limit."""
    max_read_page_messages: int = -1
    page_limit_bytes: int = -1
    page_limit_messages: int = -1
    page_full_policy: FullPolicy = FullPolicy.FAIL
    default_consumer_window_size: int = 1024 * 1024


class AddressRules:
    """The settings of any address. Results for up to 1024 addresses are remembered."""

    def __init__(self, settings: Settings) -> None:
        self._delimiter = settings.wildcard_delimiter
        self._any_words = settings.wildcard_any_words
        self._single_word = settings.wildcard_single_word
        ranked = sorted(settings.address_settings, key=functools.cmp_to_key(self._compare))
        self._rules = [(self._pattern(setting.match), setting) for setting in ranked]
        self.of = functools.lru_cache(maxsize=1024)(self._of)

    @classmethod
    def for_(cls, settings: Settings) -> "AddressRules":
        """Return the rules of ``settings``, reused while the very same address settings are
        requested. In virtual time, every example creates a broker, so one file may serve thousands.
        """
        words = (
            settings.wildcard_delimiter,
            settings.wildcard_any_words,
            settings.wildcard_single_word,
        )
        kept = cls._kept
        if kept is None or kept[0] is not settings.address_settings or kept[1] != words:
            kept = AddressRules._kept = settings.address_settings, words, cls(settings)
        return kept[2]

    _kept: "ClassVar[tuple[object, tuple[str, str, str], AddressRules] | None]" = None

    def _of(self, address: str) -> Rule:
        return _merge([setting for pattern, setting in self._rules if pattern.fullmatch(address)])

    def _pattern(self, match: str) -> re.Pattern[str]:
        if match == self._any_words:
            return re.compile(".*", re.DOTALL)
        delimiter, any_words, single_word = map(
            re.escape, (self._delimiter, self._any_words, self._single_word)
        )
        text = re.escape(match).replace(delimiter + any_words, any_words)
        text = text.replace(single_word, f"(?:(?!{delimiter}).)+")
        return re.compile(text.replace(any_words, f"(?:{delimiter}.+)?"), re.DOTALL)

    def _compare(self, left: AddressSetting, right: AddressSetting) -> int:
        """Return a negative number if ``left`` is more specific."""
        a, b = left.match, right.match
        if (self._any_words in a) != (self._any_words in b):
            return 1 if self._any_words in a else -1
        if self._any_words in a:
            return len(b) - len(a)
        if (self._single_word in a) != (self._single_word in b):
            return 1 if self._single_word in a else -1
        for one, other in zip(a.split(self._delimiter), b.split(self._delimiter), strict=False):
            if (one == self._single_word) != (other == self._single_word):
                return 1 if one == self._single_word else -1
        return len(a) - len(b)


def _merge(most_specific_first: Iterable[AddressSetting]) -> Rule:
    values: dict[str, Any] = {}
    for setting in most_specific_first:
        for field in dataclasses.fields(Rule):
            value = getattr(setting, field.name)
            if value is not None:
                values.setdefault(field.name, value)
    return Rule(**values)
