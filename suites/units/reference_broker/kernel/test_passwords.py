"""Authentication of clients: users files, plain and hashed passwords, and certificates, for STOMP
and AMQP."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from brokerproof.harness.model.broker_io import BytesReceived, Close, Connected, SendBytes
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.config.artemis import users_properties
from brokerproof.reference_broker.kernel import passwords
from brokerproof.reference_broker.kernel.passwords import admitted, is_hash
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import BadSetting, Settings

# Printed by `artemis mask --hash secret-word` of release 2.56.0.
MASKED = (
    "ENC(1024:B2EAB16166AED74E174FB7625E8D257AD2D1D5A2E1BABF5C8A4DD5E53B0EF917:BB7BA0522C548EBC851A64EE3965E42B45C6F9196B"
    "5456047D8E7152708643FF3438C39A14A449B87C570E5BC601AB2326171064F01A157E46A8AA4446DF3F8B)"
)
USERS = {"plain": "word", "hashed": MASKED}
ANN = "CN=ann, O=Example"
SETTINGS = Settings(
    acceptors=(
        Acceptor("stomp"),
        with_parameters(
            Acceptor("amqp", protocols=("AMQP",)), amqp_sasl_mechanisms=("EXTERNAL", "PLAIN")
        ),
    ),
    security_enabled=True,
    users=USERS,
    certificate_users={ANN: "ann"},
)


@pytest.mark.parametrize(
    ("name", "password", "good"),
    [
        ("plain", b"word", True),
        ("plain", b"Word", False),
        ("plain", b"", False),
        ("hashed", b"secret-word", True),
        ("hashed", b"secret-word ", False),
        ("hashed", MASKED.encode(), False),
        ("nobody", b"", False),
        ("nobody", b"word", False),
    ],
)
def test_name_and_password_belong_together(name: str, password: bytes, good: bool) -> None:
    assert admitted(USERS, name, password) is good


@pytest.mark.parametrize("name", ["plain", "hashed", "nobody", ""])
def test_each_login_is_one_comparison_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return first == second

    monkeypatch.setattr(passwords, "hmac", SimpleNamespace(compare_digest=compare))
    for password in (b"", b"word", b"secret-word"):
        admitted(USERS, name, password)
    assert len(compared) == 3


@pytest.mark.parametrize(
    "text",
    ["ENC(1024:AB:CD)", "ENC(0:AB:" + "CD" * 64 + ")", "ENC(3f)", MASKED.lower(), MASKED[:-1]],
)
def test_what_is_no_hash(text: str) -> None:
    assert not is_hash(text)
    assert is_hash(MASKED)


def test_users_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / users_properties.NAME
    path.write_text(f"# people\nplain = word\nhashed = {MASKED}\n")
    assert users_properties.read(path) == USERS
    certificates = tmp_path / users_properties.CERTIFICATES
    assert users_properties.read_certificates(certificates) == {}
    certificates.write_text(f"ann = {ANN}\n! more\nbob=CN=bob\n")
    assert users_properties.read_certificates(certificates) == {ANN: "ann", "CN=bob": "bob"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ann\n", "line 1: the line is not a user; write NAME = SUBJECT"),
        ("ann =\n", "line 1: ann: the user has no subject"),
        ("a = CN=x\nb = CN=x\n", "line 2: b: the subject is given twice"),
        ("a = /CN=.*/\n", "line 1: a: a pattern is not supported by this broker"),
    ],
)
def test_bad_certificate_users_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / users_properties.CERTIFICATES
    path.write_text(text)
    with pytest.raises(BadSetting) as caught:
        users_properties.read_certificates(path)
    assert sentence in str(caught.value)


def stomp_says(certificate: str | None, headers: str, settings: Settings = SETTINGS) -> str:
    broker = create_broker(settings)
    broker.handle(0, Connected(1, "stomp", "x", certificate))
    effects = broker.handle(
        0, BytesReceived(1, f"CONNECT\naccept-version:1.2\nhost:h\n{headers}\n\0".encode())
    )
    sent = b"".join(effect.data for effect in effects if isinstance(effect, SendBytes))
    assert any(isinstance(effect, Close) for effect in effects) is sent.startswith(b"ERROR")
    return sent.split(b"\n")[0].decode()


@pytest.mark.parametrize(
    ("certificate", "headers", "answer"),
    [
        (ANN, "", "CONNECTED"),
        ("CN=bob", "", "ERROR"),
        (None, "", "ERROR"),
        ("CN=bob", "login:plain\npasscode:word\n", "CONNECTED"),
        # If a login is given, it must be right, whatever the certificate states.
        (ANN, "login:plain\npasscode:wrong\n", "ERROR"),
        (None, "login:hashed\npasscode:secret-word\n", "CONNECTED"),
        (None, "login:hashed\npasscode:secret\n", "ERROR"),
    ],
)
def test_stomp_admits_by_certificate_or_login(
    certificate: str | None, headers: str, answer: str
) -> None:
    assert stomp_says(certificate, headers) == answer


def test_a_certificate_counts_for_its_connection_alone() -> None:
    broker = create_broker(SETTINGS)
    broker.handle(0, Connected(1, "stomp", "x", ANN))
    broker.handle(0, Connected(2, "stomp", "y"))
    effects = broker.handle(0, BytesReceived(2, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"))
    assert b"ERROR" in b"".join(effect.data for effect in effects if isinstance(effect, SendBytes))


def amqp_says(
    certificate: str | None, response: bytes = b"", settings: Settings = SETTINGS
) -> tuple[bool, int | None]:
    """Return True if EXTERNAL is offered, and the outcome's code when a client requests it."""
    broker = create_broker(settings)
    broker.handle(0, Connected(1, "amqp", "x", certificate))
    offered = broker.handle(0, BytesReceived(1, b"AMQP\x03\x01\x00\x00"))
    init = (
        b"\x00\x53\x41\xc0"
        + bytes([len(response) + 13, 2])
        + b"\xa3\x08EXTERNAL\xa0"
        + bytes([len(response)])
        + response
    )
    frame = (len(init) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + init
    answered = b"".join(
        effect.data
        for effect in broker.handle(0, BytesReceived(1, frame))
        if isinstance(effect, SendBytes)
    )
    code = answered[answered.index(b"\x00\x53\x44") :]
    return b"EXTERNAL" in b"".join(
        effect.data for effect in offered if isinstance(effect, SendBytes)
    ), code[-1]


def test_external_is_for_those_with_a_certificate() -> None:
    assert amqp_says(ANN) == (True, 0)
    assert amqp_says(ANN, b"ann") == (True, 0)
    assert amqp_says(ANN, b"bob") == (True, 1)
    assert amqp_says("CN=bob") == (True, 1)
    assert amqp_says(None) == (False, 1)
    assert amqp_says("CN=anybody", settings=replace(SETTINGS, security_enabled=False)) == (True, 0)
