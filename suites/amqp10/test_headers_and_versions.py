"""Protocol headers and versions (2.2): answers to supported and unsupported headers."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import bystander, reaction
from brokerproof.suites.api import Bench, case, ms, over, shown
from brokerproof.suites.api.amqp10 import HEADER, SASL_ID, AmqpPeer, Frame, frame

PROTOCOL_HEADER = "AMQP10-VER-01"
VERSION_OF_HEADER = "AMQP10-VER-02"
SUPPORTED_VERSION = "AMQP10-VER-07"
UNSUPPORTED_VERSION = "AMQP10-VER-08"
HIGHEST_VERSION = "AMQP10-VER-09"
NOTHING_BEHIND_HEADERS = "AMQP10-READING-VER-01"
HEADERS_DIFFER = "AMQP10-VER-03"
NOT_A_PROTOCOL_HEADER = "AMQP10-VER-11"
PROTOCOL_ID_REFUSED = "AMQP10-VER-12"

AMQP_ID, TLS_ID = 0, 2
OURS = (1, 0, 0)
KNOWN_IDS = (AMQP_ID, TLS_ID, SASL_ID)


def version(header: Frame) -> tuple[int, int, int]:
    return header["major"], header["minor"], header["revision"]


def answered_and_ended(
    target: Bench, peer: AmqpPeer, answers: str, ends: str | None, what: str
) -> Frame | None:
    """The broker should answer with its own header and end the connection. Return the header."""
    header = peer.watch_for(frame(HEADER))
    detail = f"after {what}: {reaction(peer, header)}; expected a protocol header"
    target.record_finding(answers, header is not None and header["id"] in KNOWN_IDS, detail)
    ended = target.wait_until(lambda: peer.ended is not None, ms(10_000))
    detail = f"after {what}, the broker {'ended' if ended else 'did not end'} the connection"
    target.record_finding(ends or answers, ended, detail)
    return header


@case(PROTOCOL_HEADER, VERSION_OF_HEADER, SUPPORTED_VERSION, needs={"amqp"})
def test_a_header_of_this_version_is_answered_with_the_same(target: Bench) -> None:
    """A SASL header (if the broker has SASL) and an AMQP header of version 1.0.0 are each answered
    with the same header, before anything else, and frames of that version follow."""
    peer = target.amqp_peer()
    id = AMQP_ID if peer.mechanism == codec.NO_SASL else SASL_ID
    peer.header(id)
    answer = peer.expect(frame(HEADER), proves=PROTOCOL_HEADER)
    target.record_finding(
        SUPPORTED_VERSION,
        (answer["id"], version(answer)) == (id, OURS),
        f"a header with the protocol id {id} was answered with {answer.brief()}",
    )
    if id == SASL_ID:
        peer.expect(frame("sasl-mechanisms"), proves=VERSION_OF_HEADER)
    peer.close_socket()
    peer = target.amqp_peer()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    peer.open(proves=SUPPORTED_VERSION)
    peer.begin(proves=VERSION_OF_HEADER)


@case(SUPPORTED_VERSION, needs={"amqp"})
@over(examples=30, cut=st.lists(st.integers(1, 7), max_size=4, unique=True).map(sorted))
def test_a_header_may_come_in_pieces(target: Bench, cut: list[int]) -> None:
    """The eight bytes of a header arrive in pieces, with pauses. It is answered as usual."""
    peer = target.amqp_peer()
    id = AMQP_ID if peer.mechanism == codec.NO_SASL else SASL_ID
    data = codec.protocol_header(id)
    for start, end in zip([0, *cut], [*cut, len(data)], strict=True):
        peer.write(data[start:end])
        target.advance(ms(20))
    peer.expect(frame(HEADER, id=id, major=1, minor=0, revision=0), proves=SUPPORTED_VERSION)


def strange_versions() -> st.SearchStrategy[tuple[int, int, int]]:
    """Versions that do not exist. None is 0.x.y: those preceded 1.0, and a broker may support
    them."""
    near = st.sampled_from(
        [(1, 0, 1), (1, 1, 0), (2, 0, 0), (1, 255, 255), (255, 0, 0), (255, 255, 255)]
    )
    return st.one_of(
        near, st.tuples(st.integers(1, 255), st.integers(0, 255), st.integers(0, 255))
    ).filter(lambda version_numbers: version_numbers != OURS)


@case(UNSUPPORTED_VERSION, HIGHEST_VERSION, needs={"amqp"})
@over(
    examples=40,
    # Brokers may treat each header differently, and a few draws might miss one.
    always=lambda target: [{"id": id, "asked": (1, 0, 1)} for id in (AMQP_ID, SASL_ID)],
    id=st.sampled_from([AMQP_ID, SASL_ID]),
    asked=strange_versions(),
)
def test_a_version_that_nobody_has_is_answered_with_one_that_is_supported(
    target: Bench, id: int, asked: tuple[int, int, int]
) -> None:
    """A header for a version above 1.0.0 is answered with the header of a supported version, which
    should be the highest not above it, and the connection ends; another connection still works."""
    with bystander(target):
        peer = target.amqp_peer()
        peer.header(id, *asked)
        header = answered_and_ended(
            target, peer, UNSUPPORTED_VERSION, None, f"a header of version {dotted(asked)}"
        )
        if header is not None:
            answered_version = version(header)
            words = f"version {dotted(asked)} was answered with {dotted(answered_version)}"
            target.record_finding(UNSUPPORTED_VERSION, answered_version != asked, words)
            detail = f"{words}; expected {dotted(OURS)}"
            target.record_finding(HIGHEST_VERSION, answered_version == OURS, detail)


def dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


@case(HEADERS_DIFFER, NOTHING_BEHIND_HEADERS, needs={"amqp"})
@over(examples=20, asked=strange_versions())
def test_headers_that_differ_end_the_connection(target: Bench, asked: tuple[int, int, int]) -> None:
    """The client's AMQP header has a different version from the broker's. The broker ends its
    outgoing stream, and answers nothing after the header."""
    peer = target.amqp_peer()
    peer.header(AMQP_ID, *asked)
    peer.send("open", {"container-id": "too late"})
    peer.expect_end(proves=HEADERS_DIFFER)
    frames = [reply.brief() for reply in peer.inbox if reply.name != HEADER]
    detail = f"after headers that differ, the broker sent {'; '.join(frames) or 'nothing'}"
    target.record_finding(NOTHING_BEHIND_HEADERS, not frames, detail)


def no_headers() -> st.SearchStrategy[bytes]:
    """Eight or more bytes that begin like neither AMQP nor TLS; a port may support both."""
    typical = st.sampled_from(
        [b"HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n", b"amqp\x00\x01\x00\x00", b"AMQQ\x00\x01\x00\x00"]
    )
    return st.one_of(
        typical,
        st.binary(min_size=8, max_size=40).filter(
            lambda value: value[:3] != b"AMQ" and value[:1] != b"\x16"
        ),
    )


@case(NOT_A_PROTOCOL_HEADER, needs={"amqp"})
@over(examples=30, data=no_headers())
def test_octets_that_are_no_header_are_answered_with_one(target: Bench, data: bytes) -> None:
    """A connection begins with bytes that are not a protocol header. The broker answers with the
    header of a supported version and ends the connection; another connection still works."""
    with bystander(target):
        peer = target.amqp_peer()
        peer.write(data)
        answered_and_ended(target, peer, NOT_A_PROTOCOL_HEADER, None, f"the bytes {data[:20]!r}")


@case(PROTOCOL_ID_REFUSED, needs={"amqp"})
@over(examples=20, id=st.one_of(st.sampled_from([1, TLS_ID, 4, 255]), st.integers(4, 255)))
def test_an_unwanted_protocol_is_answered_with_the_one_that_is_wanted(
    target: Bench, id: int
) -> None:
    """On a port without TLS, a header has the protocol id of TLS or an unknown one. The broker
    answers with a header of AMQP or SASL and ends the connection; another connection still
    works."""
    with bystander(target):
        peer = target.amqp_peer()
        peer.header(id)
        header = answered_and_ended(
            target, peer, PROTOCOL_ID_REFUSED, None, f"a header with the protocol id {id}"
        )
        if header is not None:
            is_wanted = header["id"] in (AMQP_ID, SASL_ID)
            words = f"protocol id {id} was answered with the id {header['id']}"
            target.record_finding(PROTOCOL_ID_REFUSED, is_wanted, words)


@case(PROTOCOL_ID_REFUSED, needs={"amqp", "login"})
def test_plain_amqp_where_a_login_is_needed_is_answered_with_sasl(target: Bench) -> None:
    """A header asks for AMQP without SASL. A broker that requires SASL answers with a SASL header
    and ends the connection; any other broker that requires a login sends a close with an error
    after the client's open."""
    with bystander(target):
        peer = target.amqp_peer()
        has_sasl = peer.mechanism != codec.NO_SASL
        target.control(has_sasl, "the broker has no SASL layer", optional=True)
        peer.header(AMQP_ID)
        header = peer.expect(frame(HEADER), proves=PROTOCOL_ID_REFUSED)
        if header["id"] != AMQP_ID:
            ended = target.wait_until(lambda: peer.ended is not None, ms(10_000))
            target.record_finding(
                PROTOCOL_ID_REFUSED,
                ended,
                f"the id of the answer is {header['id']}; did the connection end? {shown(ended)}",
            )
            return
        peer.send("open", {"container-id": "nobody"})
        answer = peer.watch_for(frame("close"))
        target.record_finding(
            PROTOCOL_ID_REFUSED,
            answer is not None and answer.condition is not None,
            f"without a login: {reaction(peer, answer)}; expected close with an error",
        )
