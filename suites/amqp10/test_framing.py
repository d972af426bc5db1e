"""Frames (2.3) and their maximum size (2.7.1): malformed headers and bodies, and exact limits."""

from itertools import pairwise

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_credit, amqp_liveness, amqp_windows
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10.types import NULL, Item
from brokerproof.harness.worlds.link import LinkFaults
from brokerproof.suites.amqp10.steps import (
    UNREAD,
    bodies,
    bystander,
    collect,
    connection_refused,
    fill,
    granted,
    ready_sender,
)
from brokerproof.suites.api import Bench, case, listed, ms, over, shown
from brokerproof.suites.api.amqp10 import AmqpPeer, Described, Value, frame
from brokerproof.suites.steps.strategies import near
from brokerproof.suites.steps.traces import judge_trace

SIZE_BELOW_8 = "AMQP10-FRAME-02"
CLOSE_WRITTEN = "AMQP10-CLOSE-01"
DATA_OFFSET_BELOW_2 = "AMQP10-FRAME-03"
FRAME_SIZE = "AMQP10-FRAME-01"
OFFSET_BEYOND_FRAME = "AMQP10-READING-OFFSET-01"
EXTENDED_HEADER_IGNORED = "AMQP10-FRAME-04"
PERFORMATIVE = "AMQP10-FRAME-05"
DAMAGED_BODY = "AMQP10-READING-FRAME-01"
EMPTY_FRAME = "AMQP10-FRAME-06"
EMPTY_FRAME_ON_ANY_CHANNEL = "AMQP10-IDLE-19"
FRAME_ABOVE_MAX = "AMQP10-MFS-03"
MIN_MAX_FRAME_SIZE = "AMQP10-MFS-04"
LIMITS_BEFORE_OPEN = "AMQP10-OPEN-03"
PEERS_MAX_FRAME_SIZE = "AMQP10-MFS-02"
MULTI_FRAME_MESSAGE = "AMQP10-MFS-05"
MULTI_FRAME_IDS = "AMQP10-WIN-12"
CREDIT_COUNTS_MESSAGES = "AMQP10-CREDIT-23"
NO_MAX_FRAME_SIZE = "AMQP10-MFS-01"

SMALLEST = 512
"""MIN-MAX-FRAME-SIZE."""
FRAMING = "amqp:connection:framing-error"
KNOWN = 2**32 - 1


@case(SIZE_BELOW_8, CLOSE_WRITTEN, needs={"amqp"})
@over(examples=24, size=st.integers(0, 7), type=st.sampled_from([0, 1]))
def test_a_size_below_eight_is_refused(target: Bench, size: int, type: int) -> None:
    """On a frame with a SIZE below 8 the broker closes with an error; another connection works."""
    with bystander(target):
        peer = target.amqp()
        peer.write(codec.encode_frame(b"", size=size, type=type))
        connection_refused(
            target, peer, (SIZE_BELOW_8,), f"a frame of size {size}", closes=(CLOSE_WRITTEN,)
        )


@case(DATA_OFFSET_BELOW_2, CLOSE_WRITTEN, needs={"amqp"})
@over(examples=12, doff=st.sampled_from([0, 1]), empty=st.booleans())
def test_a_data_offset_below_two_is_refused(target: Bench, doff: int, empty: bool) -> None:
    """On a frame with a DOFF below 2 the broker closes with an error; another connection works."""
    with bystander(target):
        peer = target.amqp()
        if empty:
            peer.write(codec.encode_frame(b"", doff=doff))
        else:
            peer.send("begin", _begin(), channel=1, doff=doff)
        connection_refused(
            target,
            peer,
            (DATA_OFFSET_BELOW_2,),
            f"a frame with the data offset {doff}",
            closes=(CLOSE_WRITTEN,),
        )


@case(OFFSET_BEYOND_FRAME, CLOSE_WRITTEN, needs={"amqp"})
@over(examples=12, beyond=st.integers(1, 60))
def test_a_data_offset_beyond_the_frame_is_refused(target: Bench, beyond: int) -> None:
    """A frame's SIZE leaves no room for the extended header that its DOFF announces. The broker
    closes with an error; another connection still works."""
    with bystander(target):
        peer = target.amqp()
        peer.write(
            codec.encode_frame(b"", doff=2 + beyond, size=8 + 4 * (beyond - 1))
            + bytes(4 * (beyond - 1))
        )
        connection_refused(
            target,
            peer,
            (OFFSET_BEYOND_FRAME,),
            f"a data offset {beyond} words beyond the frame",
            closes=(CLOSE_WRITTEN,),
        )


@case(EXTENDED_HEADER_IGNORED, needs={"amqp"})
@over(examples=30, extended=st.binary(min_size=1, max_size=(255 - 2) * 4))
def test_an_extended_header_is_ignored(target: Bench, extended: bytes) -> None:
    """A begin has an extended header between its frame header and its body. It is answered as
    usual."""
    peer = target.amqp(begin=False)
    peer.send("begin", _begin(), extended=extended[: SMALLEST - 60])
    peer.expect(frame("begin", remote_channel=0), proves=EXTENDED_HEADER_IGNORED)


def _begin() -> dict[str, int]:
    return {"next-outgoing-id": 0, "incoming-window": 10, "outgoing-window": 10}


def no_performatives() -> st.SearchStrategy[Item]:
    inside = Value("list", ())
    codes = st.sampled_from([0x00, 0x0F, 0x19, 0x1D, 0x24, 0x40, 0x70, 2**32, 2**64 - 1])
    return st.one_of(
        st.just(NULL),
        st.just(inside),
        st.just(types.string("open")),
        codes.map(lambda code: Described(types.ulong(code), inside)),
        st.sampled_from(["amqp:begin", "begin", "amqp:accepted:list"]).map(
            lambda name: Described(types.symbol(name), inside)
        ),
        st.just(Described(types.ulong(0x11), types.string("a begin that is not a list"))),
    )


@case(DAMAGED_BODY, CLOSE_WRITTEN, needs={"amqp"})
@over(examples=30, body=no_performatives())
def test_a_body_that_is_no_performative_is_refused(target: Bench, body: Item) -> None:
    """A frame's body begins with a value that is not one of the nine performatives. The broker
    closes with an error or ends the channel's session with one; the standard leaves this open.
    Another connection still works."""
    with bystander(target):
        peer = target.amqp()
        peer.write(codec.encode_frame(types.encode(body)))
        why = f"a frame with {types.text(body)[:60]}"
        connection_refused(
            target, peer, (DAMAGED_BODY,), why, session_will_do=True, closes=(CLOSE_WRITTEN,)
        )


@case(DAMAGED_BODY, PERFORMATIVE, CLOSE_WRITTEN, needs={"amqp"})
@over(examples=40, position=st.integers(0, 30), byte=st.integers(0, 255), cut=st.booleans())
def test_a_body_that_cannot_be_decoded_is_refused_or_harmless(
    target: Bench, position: int, byte: int, cut: bool
) -> None:
    """One byte of a begin is changed, or its body is cut. The broker answers the begin, or ends the
    session or the connection with an error, in frames with valid performatives; another connection
    still works."""
    with bystander(target):
        peer = target.amqp()
        body = bytearray(types.encode(codec.composite("begin", {**_begin(), "handle-max": 1000})))
        if cut:
            del body[position % len(body) :]
        else:
            body[position % len(body)] = byte
        peer.write(codec.encode_frame(bytes(body), channel=1))
        peer.send("begin", _begin(), channel=2)
        target.wait_until(
            lambda: (
                peer.ended is not None
                or any(reply.name in ("close", "end", "begin") for reply in peer.inbox)
            ),
            ms(10_000),
        )
        answers = [
            reply
            for reply in peer.inbox
            if reply.name in ("close", "end", "begin", "flow", "attach")
        ]
        observed = "; ".join(reply.brief() for reply in answers) or peer.instead()
        target.record_finding(DAMAGED_BODY, bool(answers), f"after a damaged begin: {observed}")
        detail = f"the broker's frames: {peer.instead()}"
        target.record_finding(PERFORMATIVE, not any(map(UNREAD.accepts, peer.inbox)), detail)
        closed = [reply for reply in answers if reply.name == "close"]
        target.record_finding(
            CLOSE_WRITTEN,
            all(close.condition is not None for close in closed)
            and (peer.ended is None or bool(closed)),
            f"after a damaged begin: {observed}",
        )


@case(EMPTY_FRAME, EMPTY_FRAME_ON_ANY_CHANNEL, needs={"amqp"})
@over(
    examples=20,
    channels=st.lists(st.one_of(st.just(0), st.integers(0, 200)), min_size=1, max_size=5),
)
def test_empty_frames_mean_nothing(target: Bench, channels: list[int]) -> None:
    """Empty frames on channels with and without a session are accepted."""
    peer = target.amqp()
    most = peer.opened.get("channel-max", 65535) if peer.opened is not None else 0
    for channel in channels:
        peer.beat(codec.encode_frame(b"", channel=min(channel, most)))
    peer.begin(1, proves=(EMPTY_FRAME, EMPTY_FRAME_ON_ANY_CHANNEL))


@case(FRAME_SIZE, needs={"amqp"})
@over(examples=20, fragment=st.integers(1, 30), body=st.binary(max_size=2000))
def test_frames_may_be_cut_anywhere_on_the_way(target: Bench, fragment: int, body: bytes) -> None:
    """The client's bytes arrive in small pieces, cut anywhere. A message is sent and received as
    usual."""
    target.disturb(LinkFaults(fragment=fragment))
    peer = target.amqp(max_frame_size=SMALLEST)
    node = target.node()
    sender, receiver = peer.sender(node), peer.receiver(node, credit=1)
    granted(target, peer, sender)
    peer.publish(sender, body)
    peer.delivery(receiver, body=body, proves=FRAME_SIZE)


def announced(peer: AmqpPeer) -> int:
    """The broker's max-frame-size."""
    assert peer.opened is not None
    return peer.endpoint.max_frame_size


def frame_places(target: object) -> st.SearchStrategy[str]:
    """Acceptors with a small and with the usual max-frame-size."""
    return st.sampled_from(["amqp", "amqp-frame-1024"])


@case(FRAME_ABOVE_MAX, needs={"amqp", "amqp-frame-limit"})
@over(examples=10, acceptor=frame_places, over_by=st.sampled_from([1, 2, 100, 2**31]))
def test_a_frame_above_the_announced_maximum_is_refused(
    target: Bench, acceptor: str, over_by: int
) -> None:
    """A frame of exactly the broker's max-frame-size is accepted. A larger one, or one that
    announces up to 2 GiB more, makes the broker close with framing-error before the whole frame has
    arrived; another connection still works."""
    with bystander(target):
        peer = target.amqp(acceptor=acceptor)
        most = announced(peer)
        link = ready_sender(target, peer, target.node())
        delivery = peer.transfer(link, _filling(link.handle, most), delivery_tag=b"t")
        peer.confirmed(link.session, delivery)
        peer.write(codec.encode_frame(b"", size=most + over_by) + bytes(min(over_by, 1000)))
        connection_refused(
            target,
            peer,
            (FRAME_ABOVE_MAX,),
            f"a frame of {most + over_by} bytes, where {most} are allowed,",
            [FRAMING],
        )


def _filling(handle: int, size: int) -> bytes:
    """The payload with which the first transfer of a session, with the tag ``t``, is ``size`` bytes
    long."""
    fields = {"handle": handle, "delivery-id": 0, "delivery-tag": b"t", "message-format": 0}
    room = size - codec.HEADER_SIZE - len(types.encode(codec.composite("transfer", fields)))
    empty = Described(types.ulong(0x75), Value("binary", b"", 0xB0))
    return types.encode(
        Described(empty.descriptor, Value("binary", bytes(room - len(types.encode(empty))), 0xB0))
    )


@case(MIN_MAX_FRAME_SIZE, LIMITS_BEFORE_OPEN, needs={"amqp"})
@over(examples=10, size=near([SMALLEST - 1]))
def test_a_frame_of_512_octets_is_always_taken(target: Bench, size: int) -> None:
    """The client's open fills a frame of up to 512 bytes, the largest frame allowed before limits
    are known. It is accepted."""
    size = min(size, SMALLEST)
    peer = target.amqp_peer()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    plain = len(
        codec.encode_frame(
            types.encode(codec.composite("open", {"container-id": "c", "hostname": None}))
        )
    )
    padding = "p" * (size - plain - 1 - 2)
    while True:
        open_ = codec.composite("open", {"container-id": types.string("c" + padding)})
        data = codec.encode_frame(types.encode(open_))
        if len(data) <= size:
            break
        padding = padding[: size - len(data)]
    peer.header()
    peer.write(data)
    peer.expect(frame("open"), proves=(MIN_MAX_FRAME_SIZE, LIMITS_BEFORE_OPEN))
    peer.begin(proves=(MIN_MAX_FRAME_SIZE, LIMITS_BEFORE_OPEN))
    target.record_note(f"the open had {len(data)} bytes")


@case(
    PEERS_MAX_FRAME_SIZE,
    MULTI_FRAME_MESSAGE,
    MULTI_FRAME_IDS,
    CREDIT_COUNTS_MESSAGES,
    needs={"amqp"},
)
@over(
    examples=40,
    always=lambda target: [{"limit": SMALLEST, "sizes": [60_000, 10], "before": 0}],
    limit=st.sampled_from([SMALLEST, SMALLEST + 1, 1000, 4096]),
    sizes=st.lists(
        st.one_of(near([400, 512, 900, 1000, 4096], low=0), st.integers(0, 10_000)),
        min_size=1,
        max_size=4,
    ),
    before=st.sampled_from([0, 1, 3]),
)
def test_large_messages_come_in_frames_that_fit(
    target: Bench, limit: int, sizes: list[int], before: int
) -> None:
    """The client announces a small max-frame-size and receives messages below, at and above it, on
    its first link or on a later one, whose handle may need more bytes. No frame is larger, and each
    message arrives whole. Each message uses one delivery-id and one credit, each frame one
    transfer-id.

    One scenario: the four requirements describe the same transfers.
    """
    node = target.node()
    sent = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    fill(target, node, sent)
    peer = target.amqp(max_frame_size=limit)
    for _ in range(before):
        peer.receiver(target.node())
    link = peer.receiver(node, credit=len(sent))
    got = collect(target, peer, link, len(sent))
    detail = f"messages of {listed(sizes)} bytes arrived with {listed(map(len, bodies(got)))} bytes"
    target.record_finding((MULTI_FRAME_MESSAGE, MULTI_FRAME_IDS), bodies(got) == sent, detail)
    ids = [delivery.id for delivery in got]
    consecutive = all(later == (earlier + 1) % 2**32 for earlier, later in pairwise(ids))
    target.record_finding(
        MULTI_FRAME_IDS,
        consecutive,
        f"{len(got)} messages in {sum(len(delivery.frames) for delivery in got)} frames had"
        f" the ids {shown(ids)}",
    )
    words = f"{len(got)} messages arrived for {len(sent)} credits"
    target.record_finding(CREDIT_COUNTS_MESSAGES, len(got) == len(sent), words)
    judge_trace(target, peer, amqp_liveness.limits, amqp_windows.windows, amqp_credit.credit)


@case(NO_MAX_FRAME_SIZE, needs={"amqp"})
def test_without_a_maximum_a_message_may_come_in_one_frame(target: Bench) -> None:
    """The client announces no max-frame-size. A message of 100 000 bytes arrives whole, in any
    number of frames."""
    node = target.node()
    fill(target, node, [bytes(100_000)])
    peer = target.amqp()
    link = peer.receiver(node, credit=1)
    delivery = peer.delivery(link, proves=NO_MAX_FRAME_SIZE)
    detail = f"{len(delivery.payload)} bytes in {len(delivery.frames)} frames"
    target.record_finding(NO_MAX_FRAME_SIZE, delivery.message.body == bytes(100_000), detail)
