"""Faults of durable subscriptions and of selectors."""

from brokerproof.reference_broker.kernel.address_book import AddressBook
from brokerproof.reference_broker.kernel.router import DurableSubscriptions, Router
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.suites.mutation.mutant import Group, rewritten, without

durable = Group("durable")

OUTLIVES = "ARTEMIS-STOMP-durable-1"
DELETED = "ARTEMIS-STOMP-durable-2"
PRECEDENCE = "ARTEMIS-STOMP-durable-3"
QUEUE = "ARTEMIS-STOMP-durable-4"
SELECTOR = "ARTEMIS-STOMP-selector-1 ARTEMIS-FILTER-syntax-1 ARTEMIS-FILTER-convert-1"
NAMES = ("durable-subscriber-name", "durable-subscription-name", "activemq.subscriptionName")


@durable.after(AddressBook, "tidy", breaks=OUTLIVES)
def ends_with_its_connection(reached, self, queue):
    """A durable subscription ends with the connection that created it."""
    if reached(queue.name in self.durable and not queue.has_consumers):
        self.delete(*self.durable[queue.name])


@durable.override(COMMANDS, "UNSUBSCRIBE", recreates="ARTEMIS-1930", breaks=f"{OUTLIVES} {DELETED}")
def deleted_without_its_name(original, reached, session, frame):
    """UNSUBSCRIBE with only the consumer's id deletes a durable subscription."""
    subscription = next(
        (
            subscription
            for subscription in session.subscriptions.values()
            if subscription.id == frame.get("id")
        ),
        None,
    )
    after = original(session, frame)
    router = session.shared.router
    queue = None if subscription is None else subscription.queue
    if reached(
        queue is not None and queue.name in router.addresses.durable and not queue.has_consumers
    ):
        router.durable.delete(queue.name)
    return after


@durable.override(DurableSubscriptions, "delete", breaks=DELETED)
def never_deleted(original, reached, self, called):
    """UNSUBSCRIBE with the name of a durable subscription ends only its consumer."""
    reached(called in self._queues)


@durable.mutant(OUTLIVES)
def named_without_the_client(patch, reached):
    """Durable subscriptions are identified by name alone, so clients with the same name share
    one."""

    @patch.override(DurableSubscriptions, "open")
    def open_durable(original, self, name, routing, called, *rest):
        reached(called.partition(".")[2] in self._queues)
        return original(self, name, routing, called.partition(".")[2], *rest)

    @patch.override(DurableSubscriptions)
    def delete(original, self, called):
        original(self, called.partition(".")[2])


@durable.override(DurableSubscriptions, "open", breaks=OUTLIVES, recreates="ARTEMIS-1929")
def two_consumers_get_copies(original, reached, self, name, routing, called, *rest):
    """Two connections can use the same durable subscription together, and each gets every
    message."""
    entry = self._queues.get(called)
    if reached(entry is not None and entry[1].has_consumers):
        queue = self._addresses.make(entry[0], f"{called}#twin", entry[1].routing)
        entry[0].bind(queue)
        self._addresses.on_demand[queue] = entry[0]
        return queue
    return original(self, name, routing, called, *rest)


@durable.mutant(PRECEDENCE)
def last_name_counts(patch, reached):
    """Of several headers that name a durable subscription, the one with the lowest precedence
    counts."""

    def last(original, session, frame):
        given = [name for name in NAMES if frame.get(name) is not None]
        return original(session, without(frame, *given[:-1]) if reached(len(given) > 1) else frame)

    for command in ("SUBSCRIBE", "UNSUBSCRIBE"):
        patch.override(COMMANDS, command)(last)


@durable.mutant(QUEUE)
def called_otherwise(patch, reached):
    """The queue of a durable subscription is named by name and client, in that order, instead of by
    client and name."""

    @patch.override(DurableSubscriptions, "open")
    def open_durable(original, self, name, routing, called, *rest):
        reached()
        client, _, subscription = called.partition(".")
        return original(self, name, routing, f"{subscription}.{client}", *rest)

    @patch.override(DurableSubscriptions)
    def delete(original, self, called):
        client, _, subscription = called.partition(".")
        original(self, f"{subscription}.{client}")


@durable.after(Router, "publish", breaks="ARTEMIS-STOMP-durable-1 STOMP12-SUB-02")
def only_what_comes_while_connected(reached, self, message):
    """A durable subscription keeps no messages without a consumer."""
    for _, queue in self.addresses.durable.values():
        if reached(
            not queue.has_consumers and queue._ready and queue._ready[-1].message is message
        ):
            queue._ready.pop()


# --- selectors ------------------------------------------------------------------------------------


def _selecting(patch, reached, change):
    """Let ``change`` rewrite every selector; None removes it."""

    @patch.override(COMMANDS, "SUBSCRIBE")
    def subscribe(original, session, frame):
        selector = frame.get("selector")
        if selector is not None:
            other = reached.instead(selector, change(selector))
            rest = without(frame, "selector").head.headers
            frame = rewritten(frame, rest if other is None else (*rest, ("selector", other)))
        return original(session, frame)


@durable.variant(_selecting, lambda text: None, breaks=SELECTOR)
def selectors_ignored():
    """The selector of a SUBSCRIBE has no effect."""


@durable.through(_selecting, SELECTOR)
def less_means_less_or_equal(text):
    """In a selector, < matches equal numbers."""
    return (
        text.replace("<>", "\0")
        .replace("<=", "\1")
        .replace("<", "<=")
        .replace("\1", "<=")
        .replace("\0", "<>")
    )


@durable.through(_selecting, SELECTOR)
def or_means_and(text):
    """In a selector, OR is read as AND."""
    return text.replace(" OR ", " AND ")


@durable.mutant("ARTEMIS-STOMP-selector-1")
def first_selector_stays(patch, reached):
    """A durable subscription resumed with another selector keeps its first."""
    first: dict[str, str] = {}

    @patch.override(COMMANDS, "SUBSCRIBE")
    def subscribe(original, session, frame):
        name, selector = frame.get(NAMES[1]), frame.get("selector")
        if name is not None and selector is not None:
            kept = first.setdefault(f"{session.client_id}.{name}", selector)
            rest = without(frame, "selector").head.headers
            frame = rewritten(frame, (*rest, ("selector", reached.instead(selector, kept))))
        return original(session, frame)
