"""Sessions, commands and refusals in the three versions: inputs and their expected effects."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, frames


def opened(data: str, settings: Settings | None = None) -> tuple[Driver, list[object]]:
    driver = Driver(settings)
    assert driver.open(1) == []
    return driver, list(driver.feed(1, data))


@pytest.mark.parametrize(
    ("data", "requirement"),
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
def test_refused_openings(data: str, requirement: str) -> None:
    driver, effects = opened(data)
    assert (driver.observed, driver.closed) == ([requirement], [1])
    assert frames(effects, 1)[0].command == "ERROR"  # type: ignore[arg-type]


ACKED = "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0"


@pytest.mark.parametrize(
    ("version", "data", "requirement"),
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
def test_refused_frames(version: str, data: str, requirement: str) -> None:
    driver = Driver()
    driver.connect(1, version)
    effects = driver.feed(1, data)
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
