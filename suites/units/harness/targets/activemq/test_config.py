"""activemq.xml as the harness reads it: connectors, policies, limits, and refusals."""

from pathlib import Path

import pytest
from lxml import etree

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import parameters, target_file
from brokerproof.harness.targets.activemq import broker, config
from brokerproof.harness.targets.activemq.target import ActivemqTarget
from brokerproof.harness.targets.failure import SetUpFailed

SHIPPED = broker.RELEASES.our_files / "activemq.xml"


def test_connectors_are_known_by_name_and_get_other_ports() -> None:
    ports = config.connectors(SHIPPED)
    assert ports["stomp"] == 61613
    assert ports["amqp"] == 5672
    root = etree.fromstring(config.with_ports(SHIPPED, {"stomp-grace": 1234}))
    uris = {
        connector.get("name"): connector.get("uri")
        for connector in root.iter("{*}transportConnector")
    }
    assert uris["stomp-grace"] == "stomp://127.0.0.1:1234?transport.hbGracePeriodMultiplier=1.5"
    assert uris["stomp"] == "stomp://127.0.0.1:61613"
    assert config.user(SHIPPED) == ("brokerproof", "brokerproof")


CONNECTOR = '<transportConnector name="stomp" uri="stomp://127.0.0.1:61613"/>'


@pytest.mark.parametrize(
    ("connectors", "sentence"),
    [
        ("", "has no <transportConnector>"),
        (CONNECTOR * 2, "line 1: two transportConnectors are called stomp"),
        (CONNECTOR.replace(' name="stomp"', ""), "line 1: the transportConnector has no name"),
        (CONNECTOR.replace("127.0.0.1", "0.0.0.0"), "listens on 0.0.0.0; only 127.0.0.1"),
        (
            CONNECTOR.replace(":61613", ""),
            "has the uri 'stomp://127.0.0.1', not SCHEME://HOST:PORT",
        ),
        ("<", "line 1: is not XML"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(
    tmp_path: Path, connectors: str, sentence: str
) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(
        "<beans><broker"
        f' xmlns="http://activemq.apache.org/schema/core">{connectors}</broker></beans>'
    )
    with pytest.raises(SetUpFailed, match=sentence) as caught:
        config.connectors(path)
    assert str(path) in str(caught.value)
    with pytest.raises(
        SetUpFailed, match=r"read \(No such file or directory\); name an activemq\.xml"
    ):
        config.connectors(tmp_path / "none.xml")


def configured(path: Path, inside: str, connectors: str = CONNECTOR) -> Path:
    file = path / "activemq.xml"
    file.write_text(
        "<beans><broker"
        f' xmlns="http://activemq.apache.org/schema/core">{inside}{connectors}</broker></beans>'
    )
    return file


ENTRIES = """<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue=">" memoryLimit="1mb"/>
  <policyEntry queue="a.>" memoryLimit="20 kb" producerFlowControl="false"/>
  <policyEntry queue="a.*.c" memoryLimit="2 Mb"><pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>
  <policyEntry topic="a.b" memoryLimit="7"><pendingSubscriberPolicy><vmCursor/></pendingSubscriberPolicy></policyEntry>
</policyEntries></policyMap></destinationPolicy>"""  # noqa: E501


@pytest.mark.parametrize(
    ("routing", "name", "limit", "flow_control", "cursor"),
    [
        (RoutingType.ANYCAST, "x", 1024**2, True, ""),
        (RoutingType.ANYCAST, "ab", 1024**2, True, ""),
        (RoutingType.ANYCAST, "a.b", 20 * 1024, False, ""),
        (RoutingType.ANYCAST, "a.b.c", 2 * 1024**2, True, "vm"),
        (RoutingType.ANYCAST, "a.b.c.d", 20 * 1024, False, ""),
        (RoutingType.MULTICAST, "a.b", 7, True, ""),
        (RoutingType.MULTICAST, "a.c", 0, True, ""),
    ],
)
def test_the_policy_with_most_words_in_common_counts(
    tmp_path: Path, routing: RoutingType, name: str, limit: int, flow_control: bool, cursor: str
) -> None:
    wanted = config.Policy(limit, flow_control, cursor)
    assert config.policy(configured(tmp_path, ENTRIES), routing, name) == wanted


def test_what_holds_for_all_of_the_broker_and_for_a_connector(tmp_path: Path) -> None:
    usage = """<systemUsage><systemUsage sendFailIfNoSpace="true" sendFailIfNoSpaceAfterTimeout="3000">
        <memoryUsage><memoryUsage limit="20 mb"/></memoryUsage><storeUsage><storeUsage limit="1 gb"/></storeUsage>
        <tempUsage><tempUsage percentLimit="50"/></tempUsage></systemUsage></systemUsage>"""  # noqa: E501
    slow = (
        '<transportConnector name="slow"'
        ' uri="stomp://127.0.0.1:2?transport.hbGracePeriodMultiplier=2.5"/>'
    )
    hasty = (
        '<transportConnector name="hasty"'
        ' uri="stomp://127.0.0.1:3?transport.hbGracePeriodMultiplier=0.5"/>'
    )
    idle = (
        '<transportConnector name="idle"'
        ' uri="amqp://127.0.0.1:4?a=b&amp;transport.wireFormat.idleTimeout=2000"/>'
    )
    wire = '<transportConnector name="wire" uri="tcp://127.0.0.1:5"/>'
    file = configured(tmp_path, usage, CONNECTOR + slow + hasty + idle + wire)
    found = parameters.from_file(file, {"heart_beat_grace_multiplier": 1.0})
    assert {
        name: (each["protocols"], each["heart_beat_grace_multiplier"])
        for name, each in found.items()
    } == {
        "stomp": ("STOMP", 1.0),
        "slow": ("STOMP", 2.5),
        "hasty": ("STOMP", 1.0),
        "idle": ("AMQP", 1.0),
        "wire": ("OPENWIRE", 1.0),
    }
    assert found["idle"]["amqp_idle_timeout_ms"] == 2000
    assert "amqp_idle_timeout_ms" not in found["stomp"]
    about = found["stomp"]
    assert (about["memory_usage_limit"], about["store_usage_limit"]) == (20 * 1024**2, 1024**3)
    assert "temp_usage_limit" not in about
    assert about["send_fail_if_no_space"] is True
    assert about["send_fail_if_no_space_after_timeout_ms"] == 3000


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        ('<memoryUsage limit="much"/>', "line 1: 'much' should be a size in bytes"),
        (
            '<systemUsage sendFailIfNoSpaceAfterTimeout="soon"/>',
            "line 1: 'soon' should be a number",
        ),
        (
            '<transportConnector name="bad" uri="stomp://127.0.0.1:1]"/>',
            "line 1: 'stomp://127.0.0.1:1.' is not a URI",
        ),
    ],
)
def test_a_wrong_value_is_one_sentence(tmp_path: Path, inside: str, sentence: str) -> None:
    file = configured(tmp_path, inside)
    with pytest.raises(SetUpFailed, match=sentence):
        config.acceptors(file, {})
    entry = configured(tmp_path, '<policyEntry queue="&gt;" memoryLimit="1 tb"/>')
    with pytest.raises(
        SetUpFailed, match="'1 tb' should be a size in bytes, such as 20480, 20 kb or 1 mb"
    ):
        config.policy(entry, RoutingType.ANYCAST, "x")


@pytest.mark.parametrize("name", ["flow", "usage", "fail", "timeout"])
def test_every_shipped_configuration_says_what_the_cases_need(name: str) -> None:
    target = target_file.load(f"activemq-{name}")
    assert isinstance(target, ActivemqTarget)
    file = broker.RELEASES.our_files / f"{name}.xml"
    assert set(config.connectors(file)) == {"stomp", "amqp", "openwire"}
    assert config.policy(file, RoutingType.ANYCAST, "full.vm.x").cursor == "vm"
    about = parameters.from_file(file, {})["stomp"]
    assert about.get("send_fail_if_no_space", False) is (name == "fail")
    assert about.get("send_fail_if_no_space_after_timeout_ms", 0) == (
        3000 if name == "timeout" else 0
    )
