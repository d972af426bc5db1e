"""The configuration shipped with a release, which applies unless a user changes it."""

from lxml import etree

from brokerproof.suites.api import Bench, case

DEFAULT_BLOCKS = "ARTEMIS-FLOW-block-4"
LIMIT = 10 * 1024 * 1024
_CORE = "{urn:activemq:core}"
_UNITS = {"k": 1024, "kb": 1024, "m": 1024**2, "mb": 1024**2, "mib": 1024**2, "g": 1024**3}


def setting_of_all_addresses(text: str) -> tuple[str, int]:
    """Return address-full-policy and max-size-bytes of a broker.xml's address setting for all
    addresses; PAGE and -1 if they are absent."""
    policy, size = "PAGE", "-1"
    for setting in etree.fromstring(text.encode()).iter(f"{_CORE}address-setting"):
        if setting.get("match") == "#":
            policy = (setting.findtext(f"{_CORE}address-full-policy") or policy).strip()
            size = (setting.findtext(f"{_CORE}max-size-bytes") or size).strip()
    digits = size.rstrip("abgikmABGIKM").strip()
    return policy, int(digits) * _UNITS.get(size[len(digits) :].strip().lower(), 1)


@case(DEFAULT_BLOCKS, needs={"shipped-configuration"})
def test_all_addresses_block_at_ten_mebibytes(target: Bench) -> None:
    """In the shipped broker.xml, the setting for all addresses blocks producers at 10 MiB."""
    policy, size = setting_of_all_addresses(target.target.shipped_configuration())
    words = f"the shipped setting for all addresses is {policy} at {size} bytes;"
    words += f" expected BLOCK at {LIMIT}"
    target.record_finding(DEFAULT_BLOCKS, (policy, size) == ("BLOCK", LIMIT), words)
