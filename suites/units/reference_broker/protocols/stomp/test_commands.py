"""Sessions, commands and refusals in the three versions: octets in, effects compared as they come
out."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.harness.model.broker_io import Close, Observe, SendBytes
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import SERVER, Driver, frames, only, send, subscribe

# --- connecting -----------------------------------------------------------------------------------


def opened(octets: str, settings: Settings | None = None) -> tuple[Driver, list[object]]:
    driver = Driver(settings)
    assert driver.open(1) == []
    return driver, list(driver.feed(1, octets))


@pytest.mark.parametrize("verb", ["CONNECT", "STOMP"])
@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ("", ""),
        ("accept-version:1.0\n", "version:1.0\n"),
        ("accept-version:1.1\nhost:h\n", "version:1.1\n"),
        ("accept-version:1.0,1.1,1.2\nhost:h\n", "version:1.2\n"),
        ("accept-version:1.2,1.1,1.0\nhost:\n", "version:1.2\n"),
        ("accept-version:1.0,1.1,2.0\nhost:h\n", "version:1.1\n"),
        ("accept-version:1.1, 1.2\nhost:h\n", "version:1.1\n"),
        ("accept-version:1.1\naccept-version:1.2\nhost:h\n", "version:1.1\n"),
    ],
)
def test_the_highest_common_version_is_used(verb: str, headers: str, answer: str) -> None:
    _, effects = opened(f"{verb}\n{headers}\n\0")
    assert effects == [SendBytes(1, f"CONNECTED\n{answer}session:session-1\n{SERVER}\n\0".encode())]


def test_connected_with_heart_beat_and_without_server() -> None:
    driver = Driver(
        Settings(acceptors=(with_parameters(Acceptor("stomp"), stomp_disable_server_header=True),))
    )
    effects = driver.connect(7, headers="heart-beat:1000,2000\n")
    expected = b"CONNECTED\nversion:1.2\nsession:session-7\nheart-beat:2000,1000\n\n\0"
    assert effects == [SendBytes(7, expected)]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_what_is_pipelined_behind_connect_is_read_by_the_agreed_version(version: str) -> None:
    octets = f"CONNECT\naccept-version:{version}\nhost:h\n\n\0\nBEGIN\ntransaction:t\nreceipt:a\\cb\n\n\0"  # noqa: E501
    _, effects = opened(octets + "COMMIT\ntransaction:t\nreceipt:2\n\n\0")
    (effect,) = effects
    assert isinstance(effect, SendBytes)
    assert [part.partition(b"\n")[0] for part in effect.data.split(b"\0")] == [
        b"CONNECTED",
        b"RECEIPT",
        b"RECEIPT",
        b"",
    ]
    assert b"receipt-id:a\\cb\n" in effect.data  # raw in 1.0, undone and redone otherwise


def test_no_common_version() -> None:
    _, effects = opened("CONNECT\naccept-version:2.0,1.3\nhost:h\n\n\0")
    body = "no common protocol version in the CONNECT frame: the client accepts '2.0,1.3', "
    body += "and this broker speaks 1.0,1.1,1.2 (STOMP12-NEGO-05)\n"
    headers = "message:no common protocol version\nversion:1.0,1.1,1.2\ncontent-type:text/plain\n"
    assert effects == [
        Observe(
            1, "STOMP12-NEGO-05", "the client accepts '2.0,1.3', and this broker speaks 1.0,1.1,1.2"
        ),
        SendBytes(1, f"ERROR\n{headers}content-length:{len(body)}\n\n{body}\0".encode()),
        Close(1),
    ]


@pytest.mark.parametrize(
    ("octets", "requirement"),
    [
        ("CONNECT\naccept-version:1.1\n\n\0", "STOMP11-CONNECT-09"),
        ("CONNECT\naccept-version:1.2\n\n\0", "STOMP12-CONNECT-07"),
        ("CONNECT\naccept-version: 1.2\nhost:h\n\n\0", "STOMP12-NEGO-05"),
        ("CONNECT\naccept-version:\nhost:h\n\n\0", "STOMP12-NEGO-05"),
        ("CONNECT\naccept-version:1.1\nhost:h\nheart-beat:1\n\n\0", "STOMP11-HB-01"),
        ("CONNECT\naccept-version:1.2\nhost:h\nheart-beat:-1,0\n\n\0", "STOMP12-HB-01"),
        ("SEND\ndestination:q\n\n\0", "STOMP12-CONNECT-03"),
        ("DISCONNECT\n\n\0", "STOMP12-CONNECT-03"),
        ("CONNECTED\n\n\0", "STOMP12-CONNECT-03"),
        ("connect\n", "STOMP12-CONNECT-03"),
    ],
)
def test_refused_openings(octets: str, requirement: str) -> None:
    driver, effects = opened(octets)
    assert (driver.observed, driver.closed) == ([requirement], [1])
    assert frames(effects, 1)[0].command == "ERROR"  # type: ignore[arg-type]


def test_a_1_0_client_may_pad_and_ask_for_heart_beats_in_vain() -> None:
    settings = Settings(security_enabled=True, users={"me": "pass"})
    _, effects = opened("CONNECT\nlogin: me\npasscode: pass\nheart-beat:x\n\n\0", settings)
    assert only(effects, 1).command == "CONNECTED"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("headers", "ok"),
    [
        ("login:me\npasscode:pass\n", True),
        ("login:me\npasscode:päss\n", False),
        ("login:me\n", False),
        ("passcode:pass\n", False),
        ("login:you\npasscode:\n", False),
        ("login: me\npasscode:pass\n", False),
        ("", False),
    ],
)
def test_login_and_passcode(headers: str, ok: bool) -> None:
    driver = Driver(Settings(security_enabled=True, users={"me": "pass"}))
    driver.connect(1, headers=headers)
    assert driver.observed == ([] if ok else ["STOMP12-CONNECT-03"])
    assert driver.closed == ([] if ok else [1])


def test_sessions_are_unique() -> None:
    driver = Driver()
    assert only(driver.connect(1), 1)["session"] != only(driver.connect(2), 2)["session"]


# --- receipts, errors, the end --------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_every_frame_that_asks_gets_its_receipt(version: str) -> None:
    driver = Driver()
    driver.connect(1, version)
    (got,) = [
        frame
        for frame in frames(
            driver.feed(1, subscribe(ack="client", headers="receipt:s\n") + send("m")), 1
        )
        if frame.command == "MESSAGE"
    ]
    key = (
        f"id:{got['ack']}"
        if version == "1.2"
        else f"message-id:{got['message-id']}\nsubscription:0"
    )
    asked = [
        "BEGIN\ntransaction:t\nreceipt:b\n\n\0",
        send("x", headers="transaction:t\nreceipt:x\n"),
        "COMMIT\ntransaction:t\nreceipt:c\n\n\0",
        "BEGIN\ntransaction:t\n\n\0ABORT\ntransaction:t\nreceipt:a\n\n\0",
        f"ACK\n{key}\nreceipt:k\n\n\0",
        "UNSUBSCRIBE\nid:0\nreceipt:u\n\n\0",
        "DISCONNECT\nreceipt:\n\n\0",
    ]
    effects = driver.feed(1, "".join(asked))
    receipts = [frame["receipt-id"] for frame in frames(effects, 1) if frame.command == "RECEIPT"]
    assert receipts == ["b", "x", "c", "a", "k", "u", ""]
    assert effects[-1] == Close(1)
    assert driver.observed == []


def test_the_receipt_of_a_subscription_comes_before_its_first_message() -> None:
    driver = Driver()
    driver.connect(1)
    driver.feed(1, send("waiting"))
    got = frames(driver.feed(1, subscribe(headers="receipt:1\n")), 1)
    assert [each.command for each in got] == ["RECEIPT", "MESSAGE"]


def test_a_receipt_is_escaped_as_it_came() -> None:
    driver = Driver()
    driver.connect(1)
    effects = driver.feed(1, "BEGIN\ntransaction:t\nreceipt:a\\cb\\nc\\\\d\\r\n\n\0")
    assert effects == [SendBytes(1, b"RECEIPT\nreceipt-id:a\\cb\\nc\\\\d\\r\n\n\0")]


def test_what_comes_behind_a_fatal_error_or_a_disconnect_is_ignored() -> None:
    for end in ("BEGIN\n\n\0", "DISCONNECT\n\n\0"):
        driver = Driver()
        driver.connect(1)
        driver.connect(2)
        driver.feed(2, subscribe())
        driver.feed(1, end + send("never", headers="receipt:r\n"))
        assert driver.feed(1, send("never")) == []
        assert driver.closed == [1]
        assert driver.feed(2, "BEGIN\ntransaction:t\nreceipt:r\n\n\0") == [
            SendBytes(2, b"RECEIPT\nreceipt-id:r\n\n\0")
        ]


def test_an_error_says_what_and_names_the_receipt() -> None:
    driver = Driver()
    driver.connect(1)
    error = only(driver.feed(1, "UNSUBSCRIBE\nid:7\nreceipt:r7\n\n\0"), 1)
    assert error.command == "ERROR"
    assert (error["receipt-id"], error["message"]) == ("r7", "no such subscription")
    assert (error["content-type"], int(error["content-length"])) == ("text/plain", len(error.body))
    assert b"UNSUBSCRIBE" in error.body
    assert b"'7'" in error.body
    assert b"(STOMP12-UNSUB-02)" in error.body


def test_a_malformed_head_still_names_its_receipt() -> None:
    driver = Driver()
    driver.connect(1)
    assert only(driver.feed(1, "SEND\nreceipt:r\nbad\\x:1\n\n\0"), 1)["receipt-id"] == "r"


# --- refusals of the session ----------------------------------------------------------------------

ACKED = "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0"


@pytest.mark.parametrize(
    ("version", "octets", "requirement"),
    [
        ("1.2", "CONNECT\naccept-version:1.2\nhost:h\n\n\0", "STOMP12-CLIENT-02"),
        ("1.1", "STOMP\naccept-version:1.1\nhost:h\n\n\0", "STOMP11-ONCE-02"),
        ("1.2", "SEND\n\nbody\0", "STOMP12-SEND-01"),
        ("1.1", "SEND\ndestination:\n\nbody\0", "STOMP11-SEND-01"),
        ("1.0", "SEND\n\nbody\0", "STOMP10-SEND-01"),
        ("1.2", "SUBSCRIBE\nid:0\n\n\0", "STOMP12-SUB-01"),
        ("1.2", "SUBSCRIBE\nid:0\ndestination:\n\n\0", "STOMP12-SUB-01"),
        ("1.1", "SUBSCRIBE\ndestination:q\n\n\0", "STOMP11-SUB-05"),
        ("1.2", "SUBSCRIBE\ndestination:q\n\n\0", "STOMP12-SUB-05"),
        ("1.2", ACKED + "SUBSCRIBE\nid:0\ndestination:other\n\n\0", "STOMP12-SUB-06"),
        ("1.0", "SUBSCRIBE\ndestination:q\n\n\0" * 2, "STOMP10-SUBSCRIBE-08"),
        ("1.2", "SUBSCRIBE\nid:0\ndestination:q\nack:AUTO\n\n\0", "STOMP12-SUB-07"),
        ("1.1", "SUBSCRIBE\nid:0\ndestination:q\nack:\n\n\0", "STOMP11-SUB-06"),
        ("1.0", "SUBSCRIBE\ndestination:q\nack:client-individual\n\n\0", "STOMP10-SUBSCRIBE-04"),
        (
            "1.2",
            "SUBSCRIBE\nid:0\ndestination:q\nselector:a == 1\n\n\0",
            "ARTEMIS-STOMP-selector-1",
        ),
        ("1.2", "UNSUBSCRIBE\n\n\0", "STOMP12-UNSUB-01"),
        ("1.1", ACKED + "UNSUBSCRIBE\ndestination:q\n\n\0", "STOMP11-UNSUB-01"),
        ("1.2", "UNSUBSCRIBE\nid:9\n\n\0", "STOMP12-UNSUB-02"),
        ("1.0", "UNSUBSCRIBE\n\n\0", "STOMP10-UNSUBSCRIBE-01"),
        ("1.0", "UNSUBSCRIBE\ndestination:q\n\n\0", "STOMP10-UNSUBSCRIBE-01"),
        ("1.2", "ACK\nmessage-id:1\nsubscription:0\n\n\0", "STOMP12-ACK-01"),
        ("1.2", "ACK\nid:\n\n\0", "STOMP12-ACK-01"),
        ("1.2", "NACK\nid:9\n\n\0", "STOMP12-NACK-01"),
        ("1.1", ACKED + "ACK\nmessage-id:1\n\n\0", "STOMP11-ACK-02"),
        ("1.1", "ACK\nsubscription:0\n\n\0", "STOMP11-ACK-01"),
        ("1.1", "NACK\nmessage-id:1\nsubscription:0\n\n\0", "STOMP11-NACK-01"),
        ("1.0", "ACK\nmessage-id:1\n\n\0", "STOMP10-ACK-01"),
        ("1.0", "NACK\nmessage-id:1\n\n\0", "STOMP10-FRAME-06"),
    ],
)
def test_refused_frames(version: str, octets: str, requirement: str) -> None:
    driver = Driver()
    driver.connect(1, version)
    effects = driver.feed(1, octets)
    assert (driver.observed, driver.closed) == ([requirement], [1])
    assert frames(effects, 1)[-1].command == "ERROR"
    assert requirement in frames(effects, 1)[-1].body.decode()


def test_every_fault_cites_requirements_of_the_catalogue_in_plain_words() -> None:
    folder = Path(str(files("brokerproof.fixtures"))) / "requirements"
    known = set(
        re.findall(
            r'^id = "([^"]+)"', "\n".join(path.read_text() for path in folder.glob("*.toml")), re.M
        )
    )
    faults = [var for var in vars(refusal).values() if isinstance(var, refusal.Fault)]
    assert len(faults) > 30
    for fault in faults:
        assert {fault.v10, fault.v11, fault.v12} <= known, fault
        assert not set(fault.message) & set(":\\\r\n")


# --- acknowledgements -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize(("mode", "left"), [("client", ["c"]), ("client-individual", ["a", "c"])])
def test_what_an_ack_covers(version: str, mode: str, left: list[str]) -> None:
    if version == "1.0" and mode == "client-individual":
        return
    driver = Driver()
    driver.connect(1, version)
    driver.connect(2)
    got = frames(driver.feed(1, subscribe(ack=mode) + send("a") + send("b") + send("c")), 1)
    assert all(("ack" in each.headers) == (version == "1.2") for each in got)
    key = (
        f"id:{got[1]['ack']}"
        if version == "1.2"
        else f"message-id:{got[1]['message-id']}\nsubscription:0"
    )
    assert driver.feed(1, f"ACK\n{key}\n\n\0") == []
    driver.gone(1)
    assert [frame.body.decode() for frame in frames(driver.feed(2, subscribe()), 2)] == left


def test_an_ack_twice_and_an_ack_for_auto_are_refused() -> None:
    driver = Driver()
    for conn in (1, 2):
        driver.connect(conn)
    got = only(driver.feed(1, subscribe(ack="client") + send("m")), 1)
    driver.feed(1, f"ACK\nid:{got['ack']}\n\n\0" * 2)
    got = only(driver.feed(2, subscribe() + send("m")), 2)
    assert "ack" not in got.headers
    driver.feed(2, f"ACK\nid:{got['message-id']}\n\n\0")
    assert driver.observed == ["STOMP12-ACK-01"] * 2


def test_an_ack_for_another_subscription_or_connection_is_refused() -> None:
    driver = Driver()
    driver.connect(1, "1.1")
    driver.connect(2, "1.1")
    driver.connect(3, "1.1")
    got = only(
        driver.feed(1, subscribe("x", "client") + subscribe("y", "client", "other") + send("m")), 1
    )
    driver.feed(2, f"ACK\nsubscription:x\nmessage-id:{got['message-id']}\n\n\0")
    driver.feed(1, f"ACK\nsubscription:y\nmessage-id:{got['message-id']}\n\n\0")
    assert driver.observed == ["STOMP11-ACK-01", "STOMP11-ACK-02"]
    assert only(driver.feed(3, subscribe()), 3).body == b"m"


# --- subscriptions of 1.0, messages ---------------------------------------------------------------


def test_a_1_0_subscription_without_id() -> None:
    driver = Driver()
    driver.connect(1, "1.0")
    driver.feed(1, "SUBSCRIBE\ndestination: t\n\nignored\0")
    got = only(driver.feed(1, "SEND\ndestination:t\n\nm\0"), 1)
    assert "subscription" not in got.headers
    assert driver.feed(1, "UNSUBSCRIBE\ndestination:t\n\n\0SEND\ndestination:t\n\nm\0") == []
    driver.feed(1, "SUBSCRIBE\nid:7\ndestination:t\n\n\0")
    assert only(driver.feed(1, "SEND\ndestination:t\n\nm\0"), 1)["subscription"] == "7"
    assert driver.feed(1, "UNSUBSCRIBE\ndestination:t\n\n\0SEND\ndestination:t\n\nm\0") == []


def test_a_message_to_the_octet() -> None:
    driver = Driver()
    driver.connect(1)
    driver.feed(1, "SUBSCRIBE\nid:s\\c1\ndestination:t\nack:client\n\n\0")
    effects = driver.feed(
        1,
        "SEND\nfoo:1\ndestination:t\nreceipt:r\nfoo:2\ncontent-type:text/plain\nmessage-id:forged\nsubscription:forged\n"
        "ack:forged\nredelivered:forged\ncontent-length:3\nk\\c:v\\n\\r\\\\\ncontent-length:9\ndestination:u\n\na\0b\0",
    )
    assert effects == [
        SendBytes(
            1,
            b"MESSAGE\nsubscription:s\\c1\nmessage-id:000001,0000000001\nack:000001-00000001\ndestination:t\nfoo:1\nfoo:2\n"
            b"content-type:text/plain\nk\\c:v\\n\\r\\\\\ncontent-length:3\n\na\0b\0RECEIPT\nreceipt-id:r\n\n\0",
        )
    ]


@pytest.mark.parametrize(
    ("version", "sent", "got"),
    [
        ("1.0", "content-length:2\n\nab", "content-length:2\n\nab"),
        ("1.0", "\nab", "\nab"),
        ("1.0", "content-length:0\n\n", "content-length:0\n\n"),
        ("1.1", "\nab", "content-length:2\n\nab"),
        ("1.2", "\nab", "content-length:2\n\nab"),
        ("1.2", "\n", "\n"),
    ],
)
def test_content_length_of_messages(version: str, sent: str, got: str) -> None:
    driver = Driver()
    driver.connect(1, version)
    driver.connect(2, "1.2")
    driver.feed(1, "SUBSCRIBE\nid:1\ndestination:t\n\n\0")
    (effect,) = driver.feed(2, f"SEND\ndestination:t\n{sent}\0")
    assert isinstance(effect, SendBytes)
    assert effect.data.decode().partition("destination:t\n")[2] == got + "\0"


def test_versions_meet() -> None:
    """Escapes are those of the receiver's version; what 1.0 cannot carry is left out for it, and
    nothing is injected."""
    driver = Driver()
    for conn, version in ((1, "1.0"), (2, "1.1"), (3, "1.2")):
        driver.connect(conn, version)
        driver.feed(conn, "SUBSCRIBE\nid:1\ndestination:t\n\n\0")
    effects = driver.feed(
        3, "SEND\ndestination:t\na:x\\cy\nb:x\\ny\nc\\c:1\nd:x\\ry\ne:\\\\\n\nm\0"
    )
    raw = {effect.conn: effect.data.decode() for effect in effects if isinstance(effect, SendBytes)}
    assert "destination:t\na:x:y\nd:x\ry\ne:\\\n\n" in raw[1]
    assert "destination:t\na:x\\cy\nb:x\\ny\nc\\c:1\nd:x\ry\ne:\\\\\ncontent" in raw[2]
    assert "destination:t\na:x\\cy\nb:x\\ny\nc\\c:1\nd:x\\ry\ne:\\\\\ncontent" in raw[3]


# --- numbers of messages --------------------------------------------------------------------------


def test_an_acceptor_gives_messages_a_number_that_selectors_see_too() -> None:
    driver = Driver(
        Settings(
            acceptors=(
                Acceptor("stomp"),
                with_parameters(Acceptor("numbered"), stomp_enable_message_id=True),
            )
        )
    )
    driver.connect(1)
    driver.open(2, acceptor="numbered")
    driver.feed(2, "CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    driver.feed(1, subscribe(headers="selector:amqMessageId LIKE 'STOMP%' OR plain = 'yes'\n"))
    sent = driver.feed(2, send("a", headers="amqMessageId:mine\nk:v\n") * 2) + driver.feed(
        1, send("b", headers="plain:yes\n")
    )
    got = [frame for frame in frames(sent, 1) if frame.command == "MESSAGE"]
    assert [each.headers.get("amqMessageId") for each in got] == ["STOMP1", "STOMP2", None]
    assert [each.headers.get("k") for each in got] == ["v", "v", None]
