"""Faults of configuration: edges of limits, overlapping settings, and inheritance."""

import dataclasses
import functools
from unittest import mock

from pamqp import commands as methods

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.families.activemq.usage import Usage
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccount
from brokerproof.reference_broker.families.artemis.accounting import Accounting, AddressAccount
from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.persistence.pages import PagingStore
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule, _merge
from brokerproof.suites.mutation.mutant import Group

configuration = Group("configuration")
configuration_amqp091 = Group("configuration-amqp091", "reference-rabbitmq")
configuration_usage = Group("configuration-usage", "reference-activemq-usage")

BLOCKS = "ARTEMIS-FLOW-block-1 ARTEMIS-FLOW-amqp-2"
FULL, POLICIES, FIRST_LIMIT = "ARTEMIS-PAGING-1", "ARTEMIS-PAGING-8", "ARTEMIS-PAGING-13"
MATCHING = "ARTEMIS-STOMP-routing-6"
THRESHOLD = "ARTEMIS-FLOW-amqp-4"


# --- limits of an address -------------------------------------------------------------------------


@configuration.override(AddressAccount, "full", breaks=f"{FULL} {POLICIES} {BLOCKS}")
def a_size_of_zero_is_no_limit(original, reached, self):
    """max-size-bytes 0 means no limit, like -1."""
    right = original(self)
    with mock.patch.object(self, "_max_size", self._max_size or -1):
        return reached.instead(right, original(self))


@configuration.result(AddressAccount, "full", breaks=FIRST_LIMIT)
def messages_count_without_a_size_alone(right, self):
    """max-size-messages counts only if there is no max-size-bytes."""
    if self._max_size >= 0 and 0 <= self._max_messages <= self.messages:
        return self._max_size <= self.size or self.accounting.full
    return right


@configuration.result(AddressAccount, "full", breaks=f"{FULL} {POLICIES} {BLOCKS}")
def a_limit_of_its_own_replaces_that_of_all(right, self):
    """The global limit does not apply to an address with its own limit."""
    if not right or (self._max_size < 0 and self._max_messages < 0):
        return right
    return 0 <= self._max_size <= self.size or 0 <= self._max_messages <= self.messages


@configuration.result(Accounting, "full", breaks=f"{FULL} {POLICIES} {BLOCKS}")
def of_the_limits_of_all_the_first_alone_counts(right, self):
    """global-max-messages counts only if there is no global-max-size."""
    return self._max_size <= self.size if self._max_size >= 0 else right


@configuration.override(AddressAccount, "rejects", breaks=THRESHOLD)
def the_threshold_counts_for_a_full_address(original, reached, self):
    """max-size-bytes-reject-threshold rejects nothing below max-size-bytes."""
    return reached.instead(original(self), original(self) and self.full)


@configuration.override(AddressAccount, "rejects", breaks=f"{POLICIES} {THRESHOLD}")
def the_threshold_counts_under_any_policy(original, reached, self):
    """max-size-bytes-reject-threshold rejects under DROP and FAIL too."""
    if self.policy is FullPolicy.BLOCK:
        return original(self)
    return reached.instead(original(self), 0 <= self._threshold <= self.size)


@configuration.override(AddressAccount, "rejects", breaks=THRESHOLD)
def a_threshold_of_zero_is_none(original, reached, self):
    """max-size-bytes-reject-threshold 0 means no limit, like -1."""
    return reached.instead(original(self), original(self) and self._threshold > 0)


@configuration.result(PagingStore, "is_full", breaks="ARTEMIS-PAGING-15")
def a_limit_of_messages_needs_one_of_bytes(right, self):
    """page-limit-messages counts only together with page-limit-bytes."""
    return right if self.limits.limit_bytes >= 0 else False


@configuration.override(PagingStore, "append", breaks="ARTEMIS-PAGING-2")
def a_page_is_closed_when_it_is_too_large(original, reached, self, message, queues, source_entry):
    """A page ends only after exceeding page-size-bytes: the exceeding message is still on it."""
    last = self.last
    if last is None or last.records < 2 or last.size > self.limits.page_size:
        return original(self, message, queues, source_entry)
    limits, pages = self.limits, len(self.pages)
    with mock.patch.object(self, "limits", dataclasses.replace(limits, page_size=2**62)):
        result = original(self, message, queues, source_entry)
    reached(last.size > limits.page_size and len(self.pages) == pages)
    return result


# --- settings that overlap ------------------------------------------------------------------------


def _with_rules(patch, reached, settings_of):
    """Give an address the settings that ``settings_of`` returns for its name, the most specific
    first. Rules are made before a broker handles an input, and brokers share them."""
    merged: dict[str, Rule] = {}

    def of(rules, name):
        right = rules.__dict__["of"](name)
        if name not in merged:
            merged[name] = settings_of(rules, name)
        return reached.instead(right, merged[name])

    def get(rules):
        return functools.partial(of, rules)

    def keep(rules, value):
        rules.__dict__["of"] = value

    patch.set(AddressRules, "of", property(get, keep))


def _matching(rules, name):
    """Return the settings that match ``name``, the most specific first."""
    return [setting for pattern, setting in rules._rules if pattern.fullmatch(name)]


@configuration.mutant(POLICIES)
def a_policy_belongs_to_its_limit(patch, reached):
    """address-full-policy is taken from the setting that has the limit, or is the default."""

    def settings_of(rules, name):
        right = _merge(_matching(rules, name))
        for setting in _matching(rules, name):
            if setting.max_size_bytes is not None:
                policy = setting.address_full_policy or FullPolicy.PAGE
                return dataclasses.replace(right, address_full_policy=policy)
        return right

    _with_rules(patch, reached, settings_of)


@configuration.mutant(MATCHING)
def any_words_are_one_at_least(patch, reached):
    """The wildcard for any words does not match none: a.# does not match a."""

    def settings_of(rules, name):
        none = name + rules._delimiter + rules._any_words
        return _merge(setting for setting in _matching(rules, name) if setting.match != none)

    _with_rules(patch, reached, settings_of)


@configuration.override(commands, "_window", breaks="ARTEMIS-STOMP-window-5 ARTEMIS-STOMP-window-2")
def a_window_of_zero_is_the_default(original, reached, session, frame, mode):
    """A stompConsumerWindowSize of 0 counts as the default of 10240 bytes."""
    size = original(session, frame, mode)
    named = {"consumer-window-size", "activemq.prefetchSize"} & set(frame.head.first)
    return reached.instead(0, 10240) if size == 0 and not named else size


# --- RabbitMQ -------------------------------------------------------------------------------------


@configuration_amqp091.override(Resources, "set", breaks="RABBITMQ-FLOW-mem-2 RABBITMQ-FLOW-mem-3")
def a_watermark_of_zero_is_not_set(original, reached, self, now, memory, disk):
    """Setting a memory watermark of 0 at runtime has no effect."""
    original(self, now, None if reached(memory is not None and not memory) else memory, disk)


@configuration_amqp091.override(Resources, "set", breaks="RABBITMQ-FLOW-mem-3 RABBITMQ-FLOW-disk-1")
def a_new_memory_limit_forgets_that_of_the_disk(original, reached, self, now, memory, disk):
    """Setting only the memory limit restores the disk limit of the configuration file."""
    file = self.__dict__.setdefault("_file", self._disk)
    if reached(disk is None and memory is not None and self._disk != file):
        disk = file
    original(self, now, memory, disk)


@configuration_amqp091.result(Resources, "disk_limit", breaks="RABBITMQ-FLOW-disk-3")
def a_multiple_is_of_what_can_be_used(right, self):
    """A disk limit relative to memory refers to the watermark, not to the machine's memory."""
    return int(self._disk * self.memory_limit) if isinstance(self._disk, float) else right


@configuration_amqp091.result(LimitedQueue, "_above", breaks="RABBITMQ-AMQP091-LEN-01")
def a_length_of_zero_is_none(right, self, messages, size):
    """An x-max-length of 0 counts as no limit."""
    if self.limits.length == 0:
        most = self.limits.size
        return most is not None and self.size + size > most
    return right


@configuration_amqp091.result(LimitedQueue, "_above", breaks="RABBITMQ-AMQP091-LEN-01")
def a_length_hides_the_size(right, self, messages, size):
    """x-max-length-bytes counts only if there is no x-max-length."""
    length = self.limits.length
    if length is not None:
        return len(self._ready) + messages > length
    return right


@configuration_amqp091.result(Consumer, "has_room", breaks="RABBITMQ-AMQP091-QOS-01")
def the_prefetch_of_the_channel_replaces_the_consumers_own(right, self):
    """If the channel has a prefetch, those of its consumers do not count."""
    channel = self.channel
    if right or self.no_ack or not channel.limit.limit:
        return right
    if channel.connection.held or not channel.active:
        return right
    return channel.limit.has_room()


@configuration_amqp091.after(HANDLERS, methods.Basic.Qos, breaks="RABBITMQ-AMQP091-QOS-01")
def a_prefetch_is_for_those_who_are_there(reached, channel, method):
    """The prefetch of basic.qos without global counts for the channel's present consumers too."""
    if not method.global_:
        for consumer in channel.consumers.values():
            if reached(consumer.prefetch.limit != method.prefetch_count):
                consumer.prefetch.limit = method.prefetch_count


# --- ActiveMQ -------------------------------------------------------------------------------------


@configuration_usage.mutant("ACTIVEMQ-PFC-11")
def a_destination_without_a_limit_is_charged_to_itself(patch, reached):
    """Messages in a destination without a memoryLimit do not count for the broker."""
    own: set[Usage] = set()

    @patch.after(UsageAccount, "__init__")
    def init(self, name, rule, accounting):
        if not self.entry.memory_limit:
            own.add(self.memory)

    @patch.override(Usage)
    def add(original, self, size):
        if reached(self in own and self.parent is not None):
            self.used += size
            return
        original(self, size)


# --- seeded after the suites were strengthened ----------------------------------------------------


@configuration.result(Accounting, "full", breaks=f"{POLICIES} {BLOCKS} {FIRST_LIMIT}")
def no_messages_at_all_are_any_number(right, self):
    """global-max-messages 0 means no limit, like -1."""
    return 0 <= self._max_size <= self.size if self._max_messages == 0 else right


@configuration.result(AddressAccount, "full", breaks=f"{FIRST_LIMIT} {POLICIES}")
def a_limit_of_messages_is_passed_by_one(right, self):
    """An address with both limits is full only above max-size-messages."""
    if self._max_size >= 0 and self.messages == self._max_messages > 0:
        return self._max_size <= self.size or self.accounting.full
    return right


@configuration.result(AddressAccount, "full", breaks=f"{FIRST_LIMIT} {POLICIES}")
def drop_looks_at_bytes(right, self):
    """Under DROP, only max-size-bytes counts if it is set."""
    if self.policy is FullPolicy.DROP and self._max_size >= 0:
        return self._max_size <= self.size or self.accounting.full
    return right
