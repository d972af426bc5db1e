"""Faults of AMQP 1.0 clients, each seeded into the small client."""

from functools import partial

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.codec import composite
from brokerproof.suites.mutation.clients import faults
from brokerproof.suites.mutation.clients.small_amqp10_client import SmallAmqp10Client

fault = partial(faults.fault, of=SmallAmqp10Client)


def _transfers(name, breaks, **wrong):
    """Register a client whose transfers have these fields (None removes the field)."""

    def transfer_fields(original, self, fields):
        return {**original(self, fields), **wrong}

    transfer_fields.__name__ = f"amqp10_{name}"
    transfer_fields.__doc__ = f"Its transfers say {wrong}."
    fault("transfer_fields", breaks=breaks)(transfer_fields)


_transfers("has_no_ids", "AMQP10-XFER-01", **{"delivery-id": None})
_transfers("has_no_tags", "AMQP10-XFER-04", **{"delivery-tag": None})
_transfers("has_one_tag", "AMQP10-XFER-06", **{"delivery-tag": b"t"})
_transfers("has_no_format", "AMQP10-XFER-07", **{"message-format": None})
_transfers("settles_nothing", "AMQP10-XFER-10", settled=None)
_transfers("settles_all", "AMQP10-XFER-11", settled=True)


def _never(habit, name, breaks, sentence):
    """Register a client that lacks a habit."""

    def never(original, self, *arguments):
        return None

    never.__name__, never.__doc__ = f"amqp10_{name}", sentence
    fault(habit, breaks=breaks)(never)


_never("unreadable", "skips", "AMQP10-FRAME-02 AMQP10-FRAME-03", "It skips what is not a frame.")
_never("is_too_large", "reads_all", "AMQP10-MFS-03", "It reads frames beyond its own limit.")
_never("beat_due", "never_beats", "AMQP10-IDLE-20", "It sends no empty frames.")
_never("leave_due", "never_leaves", "AMQP10-IDLE-03", "It stays with a silent server.")
_never("unattached", "skips_flows", "AMQP10-SESS-05", "It ignores a flow of an unknown handle.")
_never("drained", "keeps_credit", "AMQP10-CREDIT-12", "It does not answer a drain.")
_never("echo", "never_echoes", "AMQP10-CREDIT-22", "It does not answer a flow with echo.")


@fault("header", breaks="AMQP10-VER-01")
def amqp10_begins_as_another(original, self, id):
    """The client begins with the protocol header of 0-9."""
    return codec.protocol_header(id, 0, 9) if id else original(self, id)


@fault("mechanism", breaks="AMQP10-SASL-08")
def amqp10_chooses_its_own_mechanism(original, self):
    """The client chooses a mechanism that the server does not have."""
    return "EXTERNAL"


@fault("send", breaks="AMQP10-OPEN-04")
def amqp10_opens_on_channel_1(original, self, name, fields=None, payload=b"", channel=0):
    """The client's open is on channel 1."""
    original(self, name, fields, payload, channel=int(name == "open"))


@fault("open", breaks="AMQP10-OPEN-02")
def amqp10_begins_before_it_opens(original, self):
    """The client sends begin before open."""
    self.send("begin", {"next-outgoing-id": 0, "incoming-window": 9, "outgoing-window": 9})
    original(self)


@fault("most_payload", breaks="AMQP10-MFS-02")
def amqp10_writes_large_frames(original, self):
    """The client forgets the frame's own bytes when it fills a frame with payload."""
    return original(self) + 72


@fault("free_handle", breaks="AMQP10-CHMAX-04")
def amqp10_forgets_handle_max(original, self):
    """The client's handles have no limit."""
    return self.session.free_handle()


@fault("beat_due", breaks="AMQP10-IDLE-20")
def amqp10_does_not_beat_while_it_works(original, self):
    """The client's empty frames wait for the listener."""
    return original(self) if self.works_until is None else None


@fault("leave_due", breaks="AMQP10-IDLE-01")
def amqp10_leaves_early(original, self):
    """The client leaves after half of its announced idle-time-out."""
    due = original(self)
    return None if due is None else due - 3 * self.awaits_every // 2


@fault("heard", breaks="AMQP10-IDLE-01")
def amqp10_counts_no_empty_frames(original, self, data):
    """An empty frame does not count as a sign of life."""
    if len(data) != codec.HEADER_SIZE:
        original(self, data)


@fault("give_up", breaks="AMQP10-IDLE-03")
def amqp10_hangs_up(original, self):
    """The client ends a silent connection without close."""
    self.end()


@fault("send", breaks="AMQP10-CLOSE-01")
def amqp10_never_closes(original, self, name, fields=None, payload=b"", channel=0):
    """The client ends connections without close."""
    if name != "close":
        original(self, name, fields, payload, channel)


@fault("refuse", breaks="AMQP10-CLOSE-02")
def amqp10_ends_behind_its_close(original, self, condition):
    """The client ends its session after its close."""
    original(self, condition)
    self.send("end")


@fault("may_send", breaks="AMQP10-CREDIT-09")
def amqp10_overdraws(original, self, link):
    """The client sends one message beyond its credit."""
    link.credit += 1
    may = original(self, link)
    link.credit -= 1
    return may


@fault("may_send", breaks="AMQP10-WIN-02")
def amqp10_knows_no_window(original, self, link):
    """The client sends beyond the window of its session."""
    return link.credit > 0 or link.open_delivery is not None


@fault("drained", breaks="AMQP10-CREDIT-12")
def amqp10_drains_nothing(original, self, link):
    """The client answers a drain but keeps its credit."""
    self.tell(link)


@fault("do_receiver", breaks="AMQP10-CREDIT-18")
def amqp10_counts_before_the_server(original, self, link, **fields):
    """The client states a delivery-count before the server has one."""
    original(self, link, **fields)
    self.tell(self.links[link], delivery_count=0, link_credit=1)


@fault("tell", breaks="AMQP10-CREDIT-17")
def amqp10_counts_for_itself(original, self, link, **given):
    """The client's receivers count deliveries from 0, wherever the server began."""
    if link is not None and link.answer is not None:
        begun = link.answer.get("initial-delivery-count", 0)
        given["delivery_count"] = (link.delivery_count - begun) % 2**32
    original(self, link, **given)


@fault("take_outcomes", breaks="AMQP10-DISP-06")
def amqp10_reads_no_ranges(original, self, disposition):
    """The client treats the settlement of several messages as one of the first only."""
    others = range(disposition["first"] + 1, disposition.get("last", 0) + 1)
    for other in others:
        self.sent.pop(other, None)
    original(self, disposition)


@fault("disposition", breaks="AMQP10-DISP-02")
def amqp10_settles_all_before(original, self, delivery, outcome):
    """The client settles a message together with all earlier ones."""
    return {**original(self, delivery, outcome), "first": 0, "last": delivery.id}


@fault("disposition", breaks="AMQP10-DISP-01")
def amqp10_settles_as_sender(original, self, delivery, outcome):
    """The client's dispositions have the role of the sender."""
    return {**original(self, delivery, outcome), "role": False}


@fault("disposition", breaks="AMQP10-DISP-02")
def amqp10_accepts_all(original, self, delivery, outcome):
    """The client accepts what the application refuses."""
    return {**original(self, delivery, outcome), "state": composite("accepted")}


@fault("take", breaks="AMQP10-XFER-18")
def amqp10_hands_out_aborted_messages(original, self, frame):
    """The client treats an aborted message as complete."""
    frame.fields.pop("aborted", None)
    original(self, frame)


@fault("give_up_link", breaks="AMQP10-LINK-08")
def amqp10_keeps_links(original, self, detach):
    """The client does not answer a detach."""
    self.report("link-closed", link=next(iter(self.links)))
