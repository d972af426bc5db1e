"""Visible faults of pages: properties that a message loses on a page."""

from unittest import mock

from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.persistence import codec, page
from brokerproof.reference_broker.persistence.cursor import PageCursor, PageRef, _Glance
from brokerproof.reference_broker.persistence.page import Page
from brokerproof.reference_broker.protocols.amqp10.stored_messages import AmqpRecords
from brokerproof.suites.mutation.mutant import Group, breaks

paging = Group("unseen-paging")


@paging.override(page, "pack", breaks="AMQP10-MSG-09 AMQP10-OUT-05")
def failures_stay_behind(original, reached, message, ids, durable, unit, source_entry):
    """The failed attempts of a dead letter are not written to pages."""
    if source_entry is None or not source_entry.earlier + source_entry.failures:
        return original(message, ids, durable, unit, source_entry)
    reached()
    with mock.patch.multiple(source_entry, earlier=0, failures=0):
        return original(message, ids, durable, unit, source_entry)


@paging.before(Queue, "append_paged", breaks="AMQP10-MSG-08 AMQP10-MSG-16")
def a_ttl_begins_anew(reached, self, message, source_entry, charge):
    """The ttl of a message restarts when it is read from a page."""
    if self.clock is not None and self.clock() > message.arrived:
        reached(getattr(message, "ttl", None) is not None)
        message.arrived = self.clock()


@paging.override(PageCursor, "_next", breaks="ARTEMIS-PAGING-4")
def browsers_skip_the_first_of_a_page(original, reached, self, glance: _Glance):
    """A browser that continues on another page begins with its second message."""
    number = glance.number
    following = original(self, glance)
    if reached(following is not None and glance.number != number and glance.index == 2):
        return original(self, glance)
    return following


@paging.override(Queue, "remove_consumer")
@breaks("ARTEMIS-PAGING-5 ARTEMIS-CONCEPTS-queue-1 ARTEMIS-REDELIVERY-back-1")
def what_a_selector_passed_over_is_lost(original, reached, self, consumer):
    """Paged messages that a consumer's selector did not match are lost when it leaves."""
    selector = self._selection.selectors.get(consumer)
    original(self, consumer)
    if selector is None:
        return
    for entry in tuple(self._ready):
        if reached(isinstance(entry.charge, PageRef) and not selector.matches(entry.message)):
            self._ready.remove(entry)
            self.discard(entry)


def _with_headers(envelope, headers):
    """Return the envelope with other headers."""
    return Envelope(
        envelope.address, envelope.destination, envelope.routing, headers, envelope.text
    )


@paging.override(codec, "_envelope", breaks="STOMP12-REPEAT-02 STOMP12-MSG-08 STOMP11-SEND-06")
def headers_are_a_table(original, reached, envelope):
    """The headers of a paged message are kept by name: of a repeated header only the last value
    stays."""
    headers = tuple(dict(envelope.headers).items())
    if headers == envelope.headers:
        return original(envelope)
    reached()
    return original(_with_headers(envelope, headers))


@paging.override(codec, "_envelope", breaks="ARTEMIS-STOMP-jms-1 ARTEMIS-CROSSING-body-1")
def text_becomes_bytes(original, reached, envelope):
    """A paged message arrives as bytes, whether it was sent with content-length or not."""
    if not envelope.text:
        return original(envelope)
    reached()
    wrong = Envelope(
        envelope.address, envelope.destination, envelope.routing, envelope.headers, False
    )
    return original(wrong)


@paging.override(Queue, "_take_back", breaks="ARTEMIS-PAGING-11 ARTEMIS-GROUPING-fifo-1")
def failed_ones_go_to_the_end(original, reached, self, back):
    """A paged message whose delivery failed returns to a place after the messages that have been
    read since."""
    behind = [entry for entry in back if isinstance(entry.charge, PageRef) and entry.failures]
    original(self, [entry for entry in back if entry not in behind])
    for entry in sorted(behind, key=lambda entry: entry.order):
        reached(self._ready and self._ready[-1].order > entry.order)
        self._order += 1
        entry.order = self._order
        self._ready.append(entry)


@paging.before(Page, "done", breaks="ARTEMIS-STOMP-large-1 ARTEMIS-PAGING-10 ARTEMIS-PAGING-11")
def a_large_body_goes_with_the_first(reached, self, index):
    """The file of a large body on a page is removed when the first of several subscriptions has
    finished it."""
    entry = self.large.get(index)
    if reached(entry is not None and entry[1] > 1):
        self.large[index] = entry[0], 1


@paging.amends(PageCursor, "_read", breaks="ARTEMIS-REDELIVERY-marked-1")
def what_was_on_a_page_is_marked(reached, read, self, page, index, payload):
    """The second and later messages of a page count as delivered before."""
    if reached(read and index > 1 and self.queue._ready):
        self.queue._ready[-1].deliveries += 1


# --- seeded after the properties were repaired ----------------------------------------------------


@paging.override(codec, "_envelope", breaks="STOMP12-MSG-08 ARTEMIS-CROSSING-properties-2")
def empty_headers_are_left_out(original, reached, envelope):
    """A header without a value is lost on a page."""
    headers = tuple(header for header in envelope.headers if header[1])
    if headers == envelope.headers:
        return original(envelope)
    reached()
    return original(_with_headers(envelope, headers))


@paging.override(AmqpRecords, "encode", breaks="AMQP10-MSG-10")
def annotations_stay_behind(original, reached, self, message):
    """A paged message loses its message-annotations."""
    if not message.annotations:
        return original(self, message)
    reached()
    with mock.patch.object(message, "annotations", b""):
        return original(self, message)


@paging.override(codec, "_elsewhere", breaks="ARTEMIS-CROSSING-body-1 ARTEMIS-STOMP-jms-1")
def large_text_becomes_bytes(original, reached, body, sections):
    """A page does not record that a large body is text."""
    if not body.is_text:
        return original(body, sections)
    reached()
    with mock.patch.object(body, "is_text", False):
        return original(body, sections)
