"""Settlements in combinations that cover every pair of options: several deliveries, a selector,
another subscription, a transaction, and possibly a refused frame at the end.

A consumer holds messages of a queue and settles some of them, in some combinations within a
transaction that also sends to a second queue. Then the transaction ends, the connection is lost, or
a frame is refused. Later consumers of both queues show the effects: exactly the settled messages
are gone, the transaction took effect completely or not at all, and a refused frame had no effect.
"""

from collections.abc import Callable, Mapping

from brokerproof.suites.api import Bench, CloseHow, listed, seconds
from brokerproof.suites.api.stomp import Frame, StompPeer
from brokerproof.suites.steps.combinations import Row, Table
from brokerproof.suites.steps.queue_model import IN_VIRTUAL_TIME
from brokerproof.suites.steps.queues import (
    QUIET,
    bodies,
    commit_is_confirmed,
    left_in,
    numbered,
    publish_all,
    receive,
    require_held,
    undone_by_abort,
    unsettled_comes_back,
)
from brokerproof.suites.steps.refusals import error_from, offend, refusal

TAKEN = {"1.0": "STOMP10-ACK-01", "1.1": "STOMP11-ACK-01", "1.2": "STOMP12-ACK-01"}
CUMULATIVE = {"1.1": "STOMP11-SUB-10", "1.2": "STOMP12-SUB-11"}
REFUSED_TOGETHER = {"1.1": "STOMP11-NACK-04", "1.2": "STOMP12-NACK-04"}
KEPT = {"1.0": "STOMP10-SUBSCRIBE-05", "1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"}
WHOLE = {"1.0": "STOMP10-BEGIN-02", "1.1": "STOMP11-BEGIN-02", "1.2": "STOMP12-BEGIN-03"}
UNDONE = {"1.0": "STOMP10-SEND-03", "1.1": "STOMP11-BEGIN-03", "1.2": "STOMP12-BEGIN-04"}
SENDS = {"1.0": "STOMP10-SEND-03", "1.1": "STOMP11-SEND-02", "1.2": "STOMP12-SEND-02"}
ACKS = {"1.0": "STOMP10-ACK-02", "1.1": "STOMP11-ACK-04", "1.2": "STOMP12-ACK-03"}
ARRIVES = {"1.0": "STOMP10-SUBSCRIBE-02", "1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
SAME_HEADERS = {"1.1": "STOMP11-NACK-01", "1.2": "STOMP12-NACK-01"}
IN_A_TRANSACTION = (SAME_HEADERS, REFUSED_TOGETHER, KEPT, ACKS, SENDS, ARRIVES, WHOLE, UNDONE)
SETTLING = (TAKEN, CUMULATIVE, REFUSED_TOGETHER, KEPT, ACKS, SENDS, ARRIVES)

SETTLED, SELECTOR = "settled by", "selector"
BESIDE, AGE, RECEIPT, END = "other subscription", "age", "receipt", "end"
CLIENT, INDIVIDUAL = "client", "client-individual"
WAYS: Mapping[str, tuple[str, str]] = {
    f"{command} in mode {mode}": (command, mode)
    for command in ("ACK", "NACK")
    for mode in (CLIENT, INDIVIDUAL)
}
SAME, OTHER = "to the same queue", "to another queue"
OLD = "a quarter of an hour"
COMMIT, ABORT, LOST = "COMMIT", "ABORT", "lost connection"
RED, BLUE = "colour = 'red'", "colour = 'blue'"
COUNT = 9
AGING, ROUND = seconds(900), seconds(50)
"""Deliveries and transactions stay open for AGING; the client sends something every ROUND."""


class Scene:
    """The connection, its queues, and the messages that it holds."""

    def __init__(self, target: Bench, version: str, row: Row, *, transacts: bool) -> None:
        self.target = target
        self.version = version
        self.row = row
        fields = (SETTLED, SELECTOR, BESIDE, AGE, END)
        self.words = ", ".join(f"{name} {row[name]}" for name in fields if row[name])
        self.queue, self.result, self.other = (target.destination() for _ in range(3))
        self.peer: StompPeer = target.stomp(version)
        self.within = {"transaction": self.peer.transaction} if transacts else {}
        self.command, self.mode = WAYS[str(row[SETTLED])]
        self.sent = numbered(COUNT)
        self.held: list[Frame] = []
        self.taken: list[bytes] = []
        self.again: set[bytes] = set()
        self.committed = transacts and row[END] == COMMIT

    def _colour(self, number: int) -> str:
        return "blue" if number % 3 == 1 else "red"

    def open(self) -> None:
        """Subscribe and receive as many messages as allowed."""
        require_held(self.target, COUNT)
        mode, beside = self.mode, self.row[BESIDE]
        chosen = self.row[SELECTOR] is not None
        self.peer.subscribe(self.queue, "0", ack=mode, headers={"selector": RED} if chosen else {})
        if beside is not None:
            where = self.queue if beside == SAME else self.other
            headers = {"selector": BLUE} if chosen and beside == SAME else {}
            self.peer.subscribe(where, "1", ack=mode, headers=headers)
        producer = self.target.stomp(self.version)
        publish_all(producer, self.result, [b"waits"])
        publish_all(producer, self.other, [b"beside"])
        for number, body in enumerate(self.sent):
            fields = {"colour": self._colour(number)}
            producer.publish(self.queue, body, fields, receipt=False)
        producer.settle()
        red = sum(self._colour(number) == "red" for number in range(COUNT))
        due = (red if chosen and beside != SAME else COUNT) + (beside == OTHER)
        arrived = receive(self.target, self.peer, due)
        self.target.control(
            len(arrived) == due, f"{due} messages should arrive; {len(arrived)} did"
        )
        own = [message for message in arrived if message.body in self.sent]
        first = [message for message in own if message.get("subscription", "0") == "0"]
        self.held = first if len(first) > 3 else [one for one in own if one not in first]
        self.target.control(len(self.held) > 3, "a subscription should get some of the messages")

    def settle(self) -> bool:
        """Settle some of the messages, but never the last one. Return False if the broker refuses a
        NACK in a transaction."""
        if self.within:
            self.peer.request("BEGIN", self.within)
        for _ in range(AGING // ROUND if self.row[AGE] is not None else 0):
            self.target.advance(ROUND)
            self.peer.settle()
        place = 0 if self.version == "1.0" else 2  # 1.0 does not say what an ACK covers
        by = self.peer.ack if self.command == "ACK" else self.peer.nack
        asked = {"receipt": self.peer.next_receipt()} if self.row[RECEIPT] is not None else {}
        by(self.held[place], {**self.within, **asked})
        if self.command == "NACK" and self.within:
            error = error_from(self.peer)
            got = "no ERROR" if error is None else f"ERROR {str(error.get('message'))[:40]}"
            words = f"a NACK in a transaction was answered with {got}; options: {self.words}"
            self.target.record_finding(SAME_HEADERS[self.version], error is None, words)
            if error is not None:
                return False
        begin = place if self.mode == INDIVIDUAL else 0
        self.taken = bodies(self.held[begin : place + 1])
        if self.within:
            self.peer.publish(self.result, b"within", self.within, receipt=False)
        self.peer.settle()
        if self.command == "NACK" and not self.within:
            self.target.wait_until(lambda: self.peer.ended is not None, QUIET)
        self.again = set(bodies(self.peer.take_messages()))
        return True

    def end(self) -> bool:
        """End the transaction and the connection. A COMMIT also follows a refused frame if the
        connection continues. Return False if the broker confirmed a frame that it should refuse or
        did not confirm this COMMIT."""
        end = str(self.row[END])
        refused = True
        if end in (COMMIT, ABORT):
            self.peer.request(end, self.within)
        elif end in OFFENCES:
            command, headers = OFFENCES[end](self)
            body = b"refused" if command == "SEND" else b""
            refused = refusal(self.peer, offend(self.peer, command, headers, body)) is not None
            self.target.wait_until(lambda: self.peer.ended is not None, QUIET)
            if refused and self.within and self.peer.ended is None:
                refused = self.committed = commit_is_confirmed(self.target, self.peer)
        self.peer.close_socket(CloseHow.RESET)
        return refused

    def judge(self) -> None:
        """Judge the remaining messages of this queue and of the other subscription's queue."""
        taken, record = set(self.taken), self.target.record_finding
        rest = set(self.sent) - taken
        has_effect = not self.within or self.committed
        count = len(rest) if has_effect else len(self.sent)
        left = set(left_in(self.target, self.queue, self.version, count))
        settled = "settled" if has_effect else "settled without a COMMIT"
        facts = f"{settled}: {listed(sorted(taken))}; left in the queue: {listed(sorted(left))}"
        words = f"{facts}; options: {self.words}"
        innocent = not rest <= left and self.held[-1].body in left  # the refused frame
        record(KEPT[self.version] if innocent else self._keeps(), rest <= left, words)
        if not has_effect:
            is_back = taken <= left
            if self.command == "ACK":
                record(ACKS[self.version], is_back, words)
            if is_back or undone_by_abort(self.target, self.version, self.mode):
                record(self._ends(), is_back, words)
        elif self.command == "NACK":
            alike = all(len(taken & found) in (0, len(taken)) for found in (self.again, left))
            told = f"{facts}; arrived again: {listed(sorted(self.again))}; options: {self.words}"
            record(REFUSED_TOGETHER[self.version], alike, told)
        else:
            if "nack" not in self.target.capabilities and self.version in REFUSED_TOGETHER:
                judged = [REFUSED_TOGETHER[self.version], SAME_HEADERS[self.version]]
                self.target.record_not_applicable(
                    tuple(judged[: 1 + bool(self.within)]), "the target has no NACK"
                )
            named = (WHOLE if self.within else TAKEN)[self.version]
            record(named, self.taken[-1] not in left, words)
            if len(taken) > 1:
                earlier = (WHOLE if self.within else CUMULATIVE)[self.version]
                record(earlier, not taken & left, words)
        if self.row[BESIDE] == OTHER:
            beside = left_in(self.target, self.other, self.version, 1)
            words = f"{facts}; left in the other queue: {listed(beside)}; options: {self.words}"
            record(KEPT[self.version], beside == [b"beside"], words)

    def judge_result(self) -> None:
        commits = self.committed
        result = left_in(self.target, self.result, self.version, 1 + commits)
        words = f"left in the second queue: {listed(result)}; options: {self.words}"
        record = self.target.record_finding
        record(ARRIVES[self.version], result.count(b"waits") == 1, words)
        record(SENDS[self.version], b"refused" not in result, words)
        if self.within:
            record(self._ends(), (b"within" in result) == commits, words)

    def judge_refused(self) -> None:
        """Judge a NACK in a transaction that was answered with an ERROR: it consumes nothing, even
        if the connection continues and a COMMIT follows."""
        name = KEPT[self.version]
        committed = self.peer.ended is None and commit_is_confirmed(self.target, self.peer)
        self.peer.close_socket(CloseHow.RESET)
        left = left_in(self.target, self.queue, self.version, COUNT)
        kept = set(self.sent) <= set(left)
        comes_back = kept or unsettled_comes_back(self.target, self.version, self.mode)
        self.target.control(comes_back, "what a lost consumer holds should reach the next one")
        end = "confirmed" if committed else "not confirmed"
        words = f"a NACK in a transaction was refused, COMMIT was {end}; left in the queue:"
        detail = f"{words} {listed(sorted(left))}; options: {self.words}"
        self.target.record_finding(name, kept, detail)

    def set_aside(self) -> None:
        """Judge nothing more: a broker may accept the frame that should end the connection, and may
        refuse a NACK in a transaction."""
        detail = (
            "nothing to judge: the broker accepted the frame that should end the connection, or"
        )
        detail += f" refused a NACK in a transaction; options: {self.words}"
        judged = {self._keeps(), KEPT[self.version]}
        if self.command == "NACK":
            judged.add(REFUSED_TOGETHER[self.version])
        self.target.record_not_applicable(tuple(judged), detail)

    def _keeps(self) -> str:
        """Return the requirement that keeps a message named by no frame or by a refused one."""
        return (ACKS if "ACK in no" in str(self.row[END]) else KEPT)[self.version]

    def _ends(self) -> str:
        at_once = self.committed or self.row[END] == ABORT
        return (WHOLE if at_once else UNDONE)[self.version]

    @property
    def last(self) -> dict[str, str]:
        """Return headers that name an unsettled message."""
        return dict(self.peer.naming(self.held[-1]))

    @property
    def stranger(self) -> dict[str, str]:
        """Return a header that names a subscription other than the message's."""
        is_first = self.held[-1].get("subscription") == "0"
        return {"subscription": "none" if self.row[BESIDE] is None else "1" if is_first else "0"}

    @property
    def unknown(self) -> dict[str, str]:
        return {"transaction": f"{self.peer.transaction}-unknown"}

    def to_result(self, **headers: str) -> dict[str, str]:
        to = self.result
        typed = to.subscribe_headers if "id" in headers else to.send_headers
        return {"destination": to.name, **dict(typed), **headers}


Offence = Callable[[Scene], tuple[str, Mapping[str, str]]]
OFFENCES: Mapping[str, Offence] = {
    "SEND without destination": lambda scene: ("SEND", scene.within),
    "SEND in no transaction": lambda scene: ("SEND", scene.to_result(**scene.unknown)),
    "ACK in no transaction": lambda scene: ("ACK", {**scene.last, **scene.unknown}),
    "NACK in no transaction": lambda scene: ("NACK", {**scene.last, **scene.unknown}),
    "ACK of another subscription": lambda scene: (
        "ACK",
        {**scene.last, **scene.stranger, **scene.within},
    ),
    "SUBSCRIBE with an id in use": lambda scene: ("SUBSCRIBE", scene.to_result(id="0")),
    "SUBSCRIBE in no mode": lambda scene: ("SUBSCRIBE", scene.to_result(id="2", ack="sometimes")),
    "COMMIT of no transaction": lambda scene: ("COMMIT", scene.unknown),
}
"""Frames that a server may refuse, by their fault."""
FIELDS: Mapping[str, tuple[str | None, ...]] = {
    SETTLED: tuple(WAYS),
    SELECTOR: (None, RED),
    BESIDE: (None, SAME, OTHER),
    AGE: (None, OLD),
    RECEIPT: (None, "of ACK or NACK"),
}
OUTSIDE = Table("ACK and NACK of STOMP", {**FIELDS, END: (LOST, *OFFENCES)})
WITHIN = Table(
    "ACK, NACK and SEND of STOMP in a transaction",
    {**FIELDS, END: (COMMIT, ABORT, LOST, *OFFENCES)},
)


def fitted(target: Bench, version: str, row: Row) -> Row:
    """Return ``row`` without the options that the version or the target lacks."""
    command, mode = WAYS[str(row[SETTLED])]
    if version == "1.0" or "nack" not in target.capabilities:
        command = "ACK"
    fields = {**row, SETTLED: f"{command} in mode {CLIENT if version == '1.0' else mode}"}
    for name, needed in ((SELECTOR, "selectors"), (AGE, IN_VIRTUAL_TIME)):
        if needed not in target.capabilities:
            fields[name] = None
    return fields


def play(target: Bench, version: str, row: Row, *, transacts: bool) -> None:
    scene = Scene(target, version, fitted(target, version, row), transacts=transacts)
    scene.open()
    if not scene.settle():
        scene.judge_refused()
        scene.set_aside()
    elif scene.end():
        scene.judge()
        scene.judge_result()
    else:
        scene.set_aside()
