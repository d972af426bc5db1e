"""The addresses of a broker that we did not configure: queries, comparisons and bisection."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.harness.inference import own_addresses
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.full_addresses import SHIPPED, FullAddresses
from brokerproof.harness.targets.process import ProcessTarget

BROKER: dict[str, dict[str, Any]] = {
    "full.block.": {"addressFullMessagePolicy": "BLOCK", "maxSizeBytes": 30_000},
    "full.fail.": {"addressFullMessagePolicy": "FAIL", "maxSizeBytes": 30_000},
    "full.page.": {
        "addressFullMessagePolicy": "PAGE",
        "maxSizeBytes": 30_000,
        "pageSizeBytes": 10_240,
    },
}
"""A broker's answers: settings by prefix of an address."""


class Answers:
    def __init__(self, settings: dict[str, dict[str, Any]] | None) -> None:
        self.known = settings

    def settings(self, name: str) -> dict[str, Any]:
        if self.known is None:
            raise ControlFailed("no such operation")
        beginnings = [prefix for prefix in self.known if name.startswith(prefix)]
        return self.known[max(beginnings, key=len)] if beginnings else {}


def asked(
    settings: dict[str, dict[str, Any]] | None, named: dict[str, str] | None = None
) -> tuple[FullAddresses, dict[str, str]]:
    absent: dict[str, str] = {}
    admin = cast(Admin, Answers(settings))
    found = own_addresses.asked_artemis(admin, FullAddresses(named or {}), absent)
    return found, absent


def test_the_addresses_of_the_printed_configuration_are_found_with_their_limits() -> None:
    found, absent = asked(BROKER)
    assert set(found.prefixes) == {"block", "fail", "page"}
    assert (found.max_size_bytes, found.page_size_bytes) == (30_000, 10_240)
    assert found.stated == {"max_size_bytes", "page_size_bytes"}
    assert absent == {}


def test_a_broker_without_such_addresses_has_none() -> None:
    found, _ = asked({})
    assert found.prefixes == {}


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("addressFullMessagePolicy", "DROP", "have the policy DROP, not FAIL"),
        ("maxSizeBytes", 40_000, "is 40000, others have 30000"),
        ("maxSizeBytes", 10**9, "cases need 16384 to 131072"),
        ("maxSizeBytes", None, "is None, cases need"),
    ],
)
def test_a_named_address_with_other_settings_is_left_out_with_the_reason(
    setting: str, value: object, sentence: str
) -> None:
    changed = {**BROKER["full.fail."], setting: value}
    settings = {**BROKER, "mine.": changed}
    found, absent = asked(settings, {"block": "full.block.", "fail": "mine."})
    assert set(found.prefixes) == {"block"}
    assert absent == {}  # block is there: the capability stays
    found, absent = asked(settings, {"page": "full.page.", "pages": "mine."})
    assert set(found.prefixes) == {"page"}
    assert "mine." in absent["page-limits"]
    if setting == "maxSizeBytes" and value == 40_000:
        return
    _, absent = asked({"mine.": changed}, {"fail": "mine."})
    assert sentence in absent["address-full"]


def test_named_addresses_are_believed_where_management_cannot_tell() -> None:
    named = {"block": "mine."}
    found, absent = asked(None, named)
    assert (found.prefixes, absent) == (named, {})
    assert asked(None)[0].prefixes == {}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ProcessTarget]:
    target = target_file.load("reference-real")
    assert isinstance(target, ProcessTarget)
    target.start(tmp_path)
    yield target
    target.stop()


def test_the_limit_of_a_named_address_is_bisected(broker: ProcessTarget, tmp_path: Path) -> None:
    endpoints = "".join(
        f'{name} = "{host}:{port}"\n'
        for name, (host, port) in broker.endpoints.items()
        if name in ("stomp", "amqp")
    )
    file = tmp_path / "mine.target.toml"
    file.write_text(
        'kind = "address"\nlike = "reference-real"\nlogin = "brokerproof"\n'
        f'passcode = "brokerproof"\n[endpoints]\n{endpoints}[addresses]\nfail = "full.fail."\n'
    )
    target = target_file.load(str(file))
    assert isinstance(target, AddressTarget)
    target.start(tmp_path)
    try:
        own_addresses.complete(target, seed=1)
    finally:
        target.stop()
    assert target.identity.addresses.max_size_bytes == SHIPPED.max_size_bytes
    assert "max_size_bytes" in target.identity.addresses.stated
    assert {"address-full", "admin"} <= target.identity.capabilities
