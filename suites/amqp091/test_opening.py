"""The life of a connection: protocol header, start, tune, open, close (4.2.2, 2.2.4)."""

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import CHANNEL, CONNECTION, QUIET, never_opens, queue_of
from brokerproof.suites.api import PATIENCE, Bench, case, over
from brokerproof.suites.api.amqp091 import method

HEADER_ANSWERED_WITH_START = "AMQP091-VER-01"
LOCALE_EN_US = "AMQP091-START-01"
SERVER_PROPERTIES = "AMQP091-START-02"
UNSUPPORTED_VERSION = "AMQP091-VER-02"
NOT_A_PROTOCOL_HEADER = "AMQP091-VER-03"
MECHANISM_NOT_OFFERED = "AMQP091-START-03"
LOGIN_REFUSED = "RABBITMQ-AMQP091-AUTH-01"
FRAME_MAX_PROPOSED = "AMQP091-TUNE-01"
CHANNEL_MAX_ABOVE_SERVERS = "AMQP091-TUNE-02"
FRAME_MAX_ABOVE_SERVERS = "AMQP091-TUNE-03"
FRAME_MAX_BELOW_4096 = "AMQP091-TUNE-04"
VIRTUAL_HOST_REFUSED = "AMQP091-OPEN-01"
ERROR_BEFORE_OPEN = "AMQP091-START-04"
CONNECTION_CLOSE_OK = "AMQP091-CLOSE-01"
DISCARDS_AFTER_CONNECTION_CLOSE = "AMQP091-CLOSE-02"
CHANNEL_CLOSE_OK = "AMQP091-CLOSE-03"
DISCARDS_AFTER_CHANNEL_CLOSE = "AMQP091-CLOSE-04"

HEADER = "protocol-header"


@case(HEADER_ANSWERED_WITH_START, LOCALE_EN_US, SERVER_PROPERTIES, needs={"amqp091"})
def test_the_header_is_answered_with_start(target: Bench) -> None:
    """The header AMQP 0 0 9 1 is answered with connection.start: version 0-9, the locale en_US, and
    server-properties with product, version, platform, copyright and information."""
    peer = target.amqp091_peer()
    start = peer.start(proves=HEADER_ANSWERED_WITH_START)
    detail = f"connection.start has version {start['version-major']}-{start['version-minor']}"
    target.record_finding(
        HEADER_ANSWERED_WITH_START,
        (start["version-major"], start["version-minor"]) == (0, 9),
        detail,
    )
    detail = f"connection.start has locales {start['locales']!r}; expected en_US among them"
    target.record_finding(LOCALE_EN_US, "en_US" in start["locales"].split(), detail)
    known = start["server-properties"]
    named = " ".join(str(known[key]) for key in ("product", "version") if known.get(key))
    target.record_behaviour("amqp091.product", named)
    offered = known.get("capabilities") or {}
    extensions = " ".join(sorted(name for name, has in offered.items() if has is True))
    target.record_behaviour("amqp091.capabilities", extensions)
    target.record_behaviour("amqp091.mechanisms", " ".join(sorted(start["mechanisms"].split())))
    missing = [
        name
        for name in ("product", "version", "platform", "copyright", "information")
        if not known.get(name)
    ]
    words = f"the server's properties lack {', '.join(missing) or 'nothing'}"
    target.record_finding(SERVER_PROPERTIES, not missing, words)


@case(UNSUPPORTED_VERSION, NOT_A_PROTOCOL_HEADER, needs={"amqp091"})
@over(
    examples=12,
    always=lambda target: [{"data": b"AMQP\0\0\x09\x02"}, {"data": b"HTTP/1.1"}],
    data=st.sampled_from(
        [
            *(
                b"AMQP\0\0\x0b\0",
                b"AMQP\0\0\x09\x02",
                b"AMQP\0\0\x0a\0",
                b"AMQP\0\x02\0\0",
                b"AMQP\0\x09\0\x01",
            ),
            *(
                b"HTTP/1.1",
                b"GET / HTTP/1.1\r\n\r\n",
                b"amqp\0\0\x09\x01",
                b"\0" * 8,
                b"AMQQ\0\0\x09\x01",
            ),
        ]
    ),
)
def test_another_header_is_answered_with_one_that_is_spoken(target: Bench, data: bytes) -> None:
    """A header of an unsupported version, or bytes that are not a header, are answered with the
    header of a supported version, and the connection is closed."""
    proves = UNSUPPORTED_VERSION if data.startswith(b"AMQP") else NOT_A_PROTOCOL_HEADER
    peer = target.amqp091_peer()
    peer.write(data)
    header = peer.expect(method(HEADER), proves=proves)
    answered_version = (header["id"], header["major"], header["minor"], header["revision"])
    spoken = ((0, 0, 9, 1), (0, 1, 0, 0), (3, 1, 0, 0), (2, 1, 0, 0), (1, 1, 0, 9), (1, 1, 9, 1))
    detail = f"{data!r} was answered with AMQP {answered_version}"
    target.record_finding(proves, answered_version in spoken, detail)
    peer.expect_end(proves=proves)
    target.record_finding(proves, not peer.inbox, f"after the header: {peer.instead()}")


@case(MECHANISM_NOT_OFFERED, needs={"amqp091"})
def test_a_mechanism_that_was_not_offered_ends_it(target: Bench) -> None:
    """start-ok with a mechanism that connection.start does not name closes the connection. The
    server sends nothing first."""
    peer = target.amqp091_peer()
    start = peer.start()
    target.control(
        "NOBODYS" not in start["mechanisms"].split(), "there should be no mechanism NOBODYS"
    )
    peer.start_ok("NOBODYS", b"")
    peer.expect_end(proves=MECHANISM_NOT_OFFERED)
    detail = f"after an unknown mechanism, besides the end: {peer.instead()}"
    target.record_finding(MECHANISM_NOT_OFFERED, not peer.inbox, detail)


@case(LOGIN_REFUSED, needs={"amqp091", "login"})
@over(examples=4, understands=st.booleans(), mechanism=st.sampled_from(["PLAIN", "AMQPLAIN"]))
def test_a_login_that_is_refused_is_told_to_whom_understands(
    target: Bench, understands: bool, mechanism: str
) -> None:
    """A wrong passcode closes the connection. A client with the capability
    authentication_failure_close first gets connection.close with 403 ACCESS_REFUSED; other clients
    get nothing."""
    peer = target.amqp091_peer()
    offered = peer.start()["mechanisms"].split()
    target.control(mechanism in offered, f"{mechanism} should be offered", optional=True)
    response = b"\0nobody\0nothing"
    if mechanism == "AMQPLAIN":
        response = b"\x05LOGINS\0\0\0\x06nobody\x08PASSWORDS\0\0\0\x07nothing"
    peer.start_ok(
        mechanism, response, {"capabilities": {"authentication_failure_close": understands}}
    )
    if understands:
        peer.refused(CONNECTION, 403, proves=LOGIN_REFUSED)
    peer.expect_end(proves=LOGIN_REFUSED)
    detail = f"after the refused login: {peer.instead()}"
    target.record_finding(LOGIN_REFUSED, not peer.inbox, detail)


@case(FRAME_MAX_PROPOSED, needs={"amqp091"})
def test_the_server_proposes_limits(target: Bench) -> None:
    """connection.tune proposes a frame-max of 0 (no limit) or at least 4096."""
    tuned = target.amqp091().tuned
    assert tuned is not None
    for field in ("channel-max", "frame-max", "heartbeat"):
        target.record_behaviour(f"amqp091.{field}", tuned[field])
    target.record_finding(
        FRAME_MAX_PROPOSED,
        tuned["frame-max"] == 0 or tuned["frame-max"] >= 4096,
        f"frame-max is {tuned['frame-max']}",
    )


LIMITS = ("channel_max", "frame_max", "frame_max least")


def _wrong(what: str, tuned: int) -> list[int]:
    if what == "channel_max":
        return [tuned + 1, 65535] if 0 < tuned < 65535 else []
    return [tuned + 1, 2**32 - 1] if tuned else []


@case(CHANNEL_MAX_ABOVE_SERVERS, FRAME_MAX_ABOVE_SERVERS, FRAME_MAX_BELOW_4096, needs={"amqp091"})
@over(
    examples=8,
    always=lambda target: [{"what": what, "most": False} for what in LIMITS],
    what=st.sampled_from(LIMITS),
    most=st.booleans(),
)
def test_limits_that_cannot_be_are_not_agreed_on(target: Bench, what: str, most: bool) -> None:
    """tune-ok with a channel-max or frame-max above the server's, or a frame-max below 4096, closes
    the connection without open-ok."""
    peer = target.amqp091_peer()
    peer.start()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    assert peer.tuned is not None
    if what == "frame_max least":
        proves, choices = FRAME_MAX_BELOW_4096, [4095, 8]
    else:
        proves = CHANNEL_MAX_ABOVE_SERVERS if what == "channel_max" else FRAME_MAX_ABOVE_SERVERS
        choices = _wrong(what, peer.tuned[what])
    if not choices:
        target.record_not_applicable(proves, f"tune sets no limit: {what} is {peer.tuned[what]}")
        return
    value = choices[-1] if most else choices[0]
    peer.tune_ok(**{what.split()[0]: value})
    peer.send("connection.open", {"virtual-host": peer.virtual_host})
    never_opens(target, peer, proves, f"tune-ok with {what} {value}")


@case(VIRTUAL_HOST_REFUSED, needs={"amqp091"})
def test_a_virtual_host_that_does_not_exist_is_refused(target: Bench) -> None:
    """connection.open with an unknown virtual host closes the connection without open-ok."""
    peer = target.amqp091_peer()
    peer.start()
    peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    peer.tune_ok()
    peer.send("connection.open", {"virtual-host": f"/{target.fresh_name()}"})
    never_opens(target, peer, VIRTUAL_HOST_REFUSED, "a virtual host that does not exist")


@case(ERROR_BEFORE_OPEN, needs={"amqp091"})
@over(
    examples=10,
    always=lambda target: [{"after": "tune-ok", "name": "connection.secure-ok"}],
    after=st.sampled_from(["start", "tune", "tune-ok"]),
    name=st.sampled_from(
        [
            "connection.open",
            "connection.start-ok",
            "connection.tune-ok",
            "connection.secure-ok",
            "basic.qos",
            "channel.open",
        ]
    ),
)
def test_methods_in_the_wrong_state_end_it(target: Bench, after: str, name: str) -> None:
    """A method out of turn before connection.open closes the connection without open-ok, even if
    the expected methods follow."""
    peer = target.amqp091_peer()
    peer.start()
    due = {
        "start": "connection.start-ok",
        "tune": "connection.tune-ok",
        "tune-ok": "connection.open",
    }
    if name == due[after]:
        return
    if after != "start":
        peer.authenticate(target.target.identity.login, target.target.identity.passcode)
    if after == "tune-ok":
        peer.tune_ok()
    peer.send(name, {}, channel=0 if name.startswith("connection") else 1)
    if after == "tune":
        peer.tune_ok()
    if after != "start":
        peer.send("connection.open", {"virtual-host": peer.virtual_host})
    never_opens(target, peer, ERROR_BEFORE_OPEN, f"{name} after {after}")


@case(CONNECTION_CLOSE_OK, needs={"amqp091"})
@over(examples=4, busy=st.booleans())
def test_a_close_is_answered(target: Bench, busy: bool) -> None:
    """connection.close, with deliveries in flight or not, is answered with close-ok; only such
    deliveries may arrive before the connection ends."""
    peer = target.amqp091()
    if busy:
        queue = queue_of(peer)
        for _ in range(50):
            peer.publish(b"x" * 100, queue)
        peer.consume(queue, no_ack=True)
    peer.send("connection.close", {"reply-code": 200, "reply-text": "done"})
    peer.expect(method("connection.close-ok", channel=0), proves=CONNECTION_CLOSE_OK)
    target.wait_until(lambda: peer.ended is not None, PATIENCE)
    late = [reply.brief() for reply in peer.inbox if reply.name != "basic.deliver"]
    detail = f"along with close-ok, the broker sent {late or 'nothing'}"
    target.record_finding(CONNECTION_CLOSE_OK, not late, detail)


@case(DISCARDS_AFTER_CONNECTION_CLOSE, needs={"amqp091"})
def test_what_comes_behind_a_close_is_discarded(target: Bench) -> None:
    """After the server's connection.close for an error, exchange.declare is not answered and no
    exchange is created. The client's own close is answered with close-ok."""
    name = target.fresh_name()
    peer = target.amqp091()
    peer.send("channel.open", {}, channel=1)
    peer.expect(method("connection.close", channel=0))
    peer.send("exchange.declare", {"exchange": name, "type": "direct"}, channel=1)
    peer.send("connection.close", {"reply-code": 200})
    peer.expect(method("connection.close-ok", channel=0), proves=DISCARDS_AFTER_CONNECTION_CLOSE)
    answers = [reply.brief() for reply in peer.inbox if reply.name == "exchange.declare-ok"]
    words = f"a method after close was answered with {answers or 'nothing'}"
    target.record_finding(DISCARDS_AFTER_CONNECTION_CLOSE, not answers, words)
    other = target.amqp091()
    # Not a queue: some brokers create one when it is named.
    other.send("exchange.declare", {"exchange": name, "passive": True}, channel=1)
    other.refused(CHANNEL, 404, proves=DISCARDS_AFTER_CONNECTION_CLOSE)


@case(CHANNEL_CLOSE_OK, DISCARDS_AFTER_CHANNEL_CLOSE, needs={"amqp091"})
def test_channels_are_closed_by_both(target: Bench) -> None:
    """The client's channel.close is answered with close-ok. After the server's channel.close a
    method on that channel is discarded until close-ok; then the channel can be opened again."""
    peer = target.amqp091(channels=2)
    peer.close_channel(1, proves=CHANNEL_CLOSE_OK)
    peer.open_channel(1, proves=CHANNEL_CLOSE_OK)
    missing = {"exchange": target.fresh_name(), "passive": True}
    peer.send("exchange.declare", missing, channel=2)
    peer.expect(method("channel.close", channel=2))
    peer.send("exchange.declare", {**missing, "type": "direct", "passive": False}, channel=2)
    peer.expect_nothing(
        for_=QUIET, proves=DISCARDS_AFTER_CHANNEL_CLOSE, why="the channel is closed"
    )
    peer.send("channel.close-ok", channel=2)
    peer.open_channel(2, proves=DISCARDS_AFTER_CHANNEL_CLOSE)
    peer.send("exchange.declare", missing, channel=2)
    peer.refused(CHANNEL, 404, proves=DISCARDS_AFTER_CHANNEL_CLOSE)
