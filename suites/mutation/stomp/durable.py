"""Faults of durable subscriptions and of selectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten, without
from brokerproof.suites.mutation.stomp.acks import commanded

durable = Group("durable")

OUTLIVES, DELETED, PRECEDENCE, QUEUE = (f"ARTEMIS-STOMP-durable-{number}" for number in range(1, 5))
SELECTOR = "ARTEMIS-STOMP-selector-1"
NAMES = ("durable-subscriber-name", "durable-subscription-name", "activemq.subscriptionName")


@durable.mutant(OUTLIVES)
def ends_with_its_connection(parts: Parts, reached: Reached) -> Parts:
    """A durable subscription ends with the connection that made it."""

    class Faulty(Router):
        def tidy(self, queue: Queue) -> None:
            super().tidy(queue)
            if queue.name in self._durable and not queue.has_consumers:
                reached()
                self.forget(queue.name)

    return replace(parts, router=Faulty)


@durable.mutant(f"{OUTLIVES} {DELETED}", recreates="ARTEMIS-1930")
def deleted_without_its_name(parts: Parts, reached: Reached) -> Parts:
    """UNSUBSCRIBE deletes a durable subscription although it gives only the id of the consumer."""

    def unsubscribe(session: StompConnection, frame: Frame) -> After:
        subscription = next(
            (each for each in session.subscriptions.values() if each.id == frame.get("id")), None
        )
        after = parts.commands["UNSUBSCRIBE"](session, frame)
        router = session.shared.router
        queue = None if subscription is None else subscription.queue
        if queue is not None and queue.name in router._durable and not queue.has_consumers:
            reached()
            router.forget(queue.name)
        return after

    return commanded(parts, UNSUBSCRIBE=unsubscribe)


@durable.mutant(DELETED)
def never_deleted(parts: Parts, reached: Reached) -> Parts:
    """UNSUBSCRIBE with the name of a durable subscription ends its consumer and deletes nothing."""

    class Faulty(Router):
        def forget(self, called: str) -> None:
            if called in self._durable:
                reached()

    return replace(parts, router=Faulty)


@durable.mutant(OUTLIVES)
def named_without_the_client(parts: Parts, reached: Reached) -> Parts:
    """The name alone is the subscription: two clients that choose the same one share it."""

    class Faulty(Router):
        def durable(self, name: str, routing: Any, called: str, *rest: Any) -> Queue:
            if called.partition(".")[2] in self._durable:
                reached()
            return super().durable(name, routing, called.partition(".")[2], *rest)

        def forget(self, called: str) -> None:
            super().forget(called.partition(".")[2])

    return replace(parts, router=Faulty)


@durable.mutant(OUTLIVES, recreates="ARTEMIS-1929")
def two_consumers_get_copies(parts: Parts, reached: Reached) -> Parts:
    """Two connections that subscribe to the same durable subscription both get in, and each gets
    every message."""

    class Faulty(Router):
        def durable(self, name: str, routing: Any, called: str, *rest: Any) -> Queue:
            found = self._durable.get(called)
            if found is not None and found[1].has_consumers:
                reached()
                queue = self._make(found[0], f"{called}#twin", found[1].routing)
                found[0].bind(queue)
                self._on_demand[queue] = found[0]
                return queue
            return super().durable(name, routing, called, *rest)

    return replace(parts, router=Faulty)


@durable.mutant(PRECEDENCE)
def last_name_counts(parts: Parts, reached: Reached) -> Parts:
    """Of several names of a durable subscription the last in precedence counts."""

    def changed(command: str) -> Any:
        def handler(session: StompConnection, frame: Frame) -> After:
            given = [name for name in NAMES if frame.get(name) is not None]
            if len(given) > 1:
                reached()
                frame = without(frame, *given[:-1])
            return parts.commands[command](session, frame)

        return handler

    return commanded(parts, SUBSCRIBE=changed("SUBSCRIBE"), UNSUBSCRIBE=changed("UNSUBSCRIBE"))


@durable.mutant(QUEUE)
def called_otherwise(parts: Parts, reached: Reached) -> Parts:
    """The queue of a durable subscription is called by name and client, not client and name."""

    class Faulty(Router):
        def durable(self, name: str, routing: Any, called: str, *rest: Any) -> Queue:
            reached()
            client, _, subscription = called.partition(".")
            return super().durable(name, routing, f"{subscription}.{client}", *rest)

        def forget(self, called: str) -> None:
            client, _, subscription = called.partition(".")
            super().forget(f"{subscription}.{client}")

    return replace(parts, router=Faulty)


@durable.mutant(f"{OUTLIVES} STOMP12-SUB-02")
def only_what_comes_while_connected(parts: Parts, reached: Reached) -> Parts:
    """A durable subscription keeps nothing while nobody consumes it."""

    class Faulty(Router):
        def publish(self, message: Message) -> bool:
            taken = super().publish(message)
            for _, queue in self._durable.values():
                if not queue.has_consumers and queue._ready and queue._ready[-1].message is message:
                    reached()
                    queue._ready.pop()
            return taken

    return replace(parts, router=Faulty)


# --- selectors ------------------------------------------------------------------------------------


def _selecting(parts: Parts, reached: Reached, change: Any) -> Parts:
    """Every selector is rewritten by ``change`` (None: left out)."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        selector = frame.get("selector")
        if selector is not None:
            other = reached.instead(selector, change(selector))
            rest = without(frame, "selector").head.headers
            frame = rewritten(frame, rest if other is None else (*rest, ("selector", other)))
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@durable.mutant(SELECTOR)
def selectors_ignored(parts: Parts, reached: Reached) -> Parts:
    """The selector of a SUBSCRIBE has no effect."""
    return _selecting(parts, reached, lambda text: None)


@durable.mutant(SELECTOR)
def less_means_less_or_equal(parts: Parts, reached: Reached) -> Parts:
    """In a selector < lets equal numbers through."""

    def change(text: str) -> str:
        return (
            text.replace("<>", "\0")
            .replace("<=", "\1")
            .replace("<", "<=")
            .replace("\1", "<=")
            .replace("\0", "<>")
        )

    return _selecting(parts, reached, change)


@durable.mutant(SELECTOR)
def or_means_and(parts: Parts, reached: Reached) -> Parts:
    """In a selector OR is taken for AND."""
    return _selecting(parts, reached, lambda text: text.replace(" OR ", " AND "))
