"""The setting for all addresses, read from a shipped broker.xml."""

import pytest

from brokerproof.suites.flow.test_shipped_configuration import LIMIT, setting_of_all_addresses

SETTING = """<address-setting match="{match}">
  <max-size-bytes>{size}</max-size-bytes><address-full-policy>{policy}</address-full-policy>
</address-setting>"""


def broker_xml(*settings: str) -> str:
    return f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
    <address-settings>{"".join(settings)}</address-settings></core></configuration>"""


@pytest.mark.parametrize("size", ["10485760", "10M", "10 MiB", "10mb", "10240K"])
def test_a_limit_may_have_a_unit(size: str) -> None:
    text = broker_xml(SETTING.format(match="#", size=size, policy="BLOCK"))
    assert setting_of_all_addresses(text) == ("BLOCK", LIMIT)


def test_other_settings_are_not_for_all_addresses() -> None:
    other = SETTING.format(match="activemq.management.#", size="10M", policy="BLOCK")
    assert setting_of_all_addresses(broker_xml(other)) == ("PAGE", -1)
    page = SETTING.format(match="#", size="-1", policy="PAGE")
    assert setting_of_all_addresses(broker_xml(other, page)) == ("PAGE", -1)
