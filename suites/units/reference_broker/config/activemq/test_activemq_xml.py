"""activemq.xml: the resulting settings, and the messages about input that is not accepted."""

from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerproof.reference_broker.config.activemq import activemq_xml
from brokerproof.reference_broker.runtime import virtual
from brokerproof.reference_broker.runtime.command import broker as command
from brokerproof.reference_broker.settings.activemq import (
    GIB,
    ActiveMq,
    Cursor,
    DestinationPolicy,
    SystemUsage,
)
from brokerproof.reference_broker.settings.settings import BadSetting, Settings
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

FIXTURES = Path(str(files("brokerproof.fixtures"))) / "brokers" / "activemq"
STOMP = (
    '<transportConnectors><transportConnector name="stomp"'
    ' uri="stomp://127.0.0.1:61613{}"/></transportConnectors>'
)


def written(
    tmp_path: Path, inside: str = STOMP.format(""), attributes: str = "", beside: str = ""
) -> Path:
    """Write a file whose broker has ``attributes`` and ``inside``; ``beside`` has other beans."""
    path = tmp_path / "activemq.xml"
    path.write_text(f"""<beans xmlns="http://www.springframework.org/schema/beans"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b">
{beside}
<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>
{inside}
</broker></beans>""")
    return path


def read(tmp_path: Path, inside: str = "", attributes: str = "", query: str = "") -> Settings:
    return activemq_xml.read(
        written(tmp_path, inside + STOMP.format(query), attributes), {"HOME": "here"}
    )


def policies(*entries: str) -> str:
    return f"<destinationPolicy><policyMap><policyEntries>{''.join(entries)}</policyEntries></policyMap></destinationPolicy>"  # noqa: E501


def of(settings: Settings) -> ActiveMq:
    assert settings.activemq is not None
    return settings.activemq


def test_the_defaults_are_those_of_activemq(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert of(settings) == ActiveMq()
    assert of(settings).usage == SystemUsage(memory=GIB, store=100 * GIB, temp=50 * GIB)
    assert (settings.name, settings.security_enabled, settings.users) == ("localhost", False, {})
    (stomp,) = settings.acceptors
    assert stomp.protocols == ("STOMP",)
    assert stomp.host == "127.0.0.1"
    assert stomp.port == 61613
    assert stomp.handshake_timeout_ms == 30_000
    assert stomp.stomp.heart_beat_grace == 1.0


def test_policies(tmp_path: Path) -> None:
    entries = (
        (
            '<policyEntry queue="A.>" memoryLimit="1 mb" producerFlowControl="false"'
            ' cursorMemoryHighWaterMark="50"/>'
        ),
        (
            '<policyEntry queue="A.B" memoryLimit="20kb" queuePrefetch="7">'
            "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>"
        ),
        (
            '<policyEntry topic=">" topicPrefetch="3" sendFailIfNoSpace="true"'
            ' sendFailIfNoSpaceAfterTimeout="5"/>'
        ),
    )
    activemq = of(read(tmp_path, policies(*entries)))
    assert activemq.policy("queue://A.C") == DestinationPolicy(
        "queue://A.>",
        memory_limit=1024**2,
        producer_flow_control=False,
        cursor_memory_high_water_mark=50,
    )
    assert activemq.policy("queue://A.B") == DestinationPolicy(
        "queue://A.B", memory_limit=20480, queue_prefetch=7, cursor=Cursor.VM
    )
    topic = activemq.policy("topic://anything.else")
    assert topic.topic_prefetch == 3
    assert topic.send_fail_if_no_space is True
    assert topic.send_fail_after_ms == 5
    assert activemq.policy("queue://other") == DestinationPolicy()


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("queue://A", "queue://A.>"),
        ("queue://A.B", "queue://A.*"),
        ("queue://A.B.C", "queue://A.B.>"),
        ("queue://A.X.C", "queue://A.>"),
        ("queue://A.X.D", "queue://A.X.D"),
        ("queue://B", "queue://>"),
        ("topic://A.B", "topic://A.B"),
        ("topic://A", ""),
    ],
)
def test_the_closest_policy_holds(name: str, closest: str) -> None:
    patterns = (
        "queue://>",
        "queue://A.>",
        "queue://A.B.>",
        "queue://A.*",
        "queue://A.X.D",
        "topic://A.B",
    )
    for order in (patterns, tuple(reversed(patterns))):
        found = ActiveMq(policies=tuple(map(DestinationPolicy, order))).policy(name).pattern
        assert found == closest


def test_a_default_entry_holds_where_no_other_does(tmp_path: Path) -> None:
    entry = '<defaultEntry><policyEntry memoryLimit="5"/></defaultEntry>'
    inside = f"<destinationPolicy><policyMap>{entry}</policyMap></destinationPolicy>"
    assert of(read(tmp_path, inside)).policy("queue://x").memory_limit == 5


def test_system_usage(tmp_path: Path) -> None:
    inside = """<systemUsage><systemUsage sendFailIfNoSpace="true" sendFailIfNoSpaceAfterTimeout="3000">
        <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
        <storeUsage><storeUsage limit="100 gb"/></storeUsage>
        <tempUsage><tempUsage percentLimit="10" total="1g"/></tempUsage></systemUsage></systemUsage>"""  # noqa: E501
    assert of(read(tmp_path, inside, 'persistent="false" brokerName="b"')) == ActiveMq(
        persistent=False,
        usage=SystemUsage(
            memory_percent=70,
            store=100 * GIB,
            temp_percent=10,
            temp_total=GIB,
            send_fail_if_no_space=True,
            send_fail_after_ms=3000,
        ),
    )


def test_users_and_plugins(tmp_path: Path) -> None:
    inside = """<plugins><statisticsBrokerPlugin/><simpleAuthenticationPlugin><users>
        <authenticationUser username="a" password="${HOME}" groups="x,y"/><authenticationUser username="b" password=""/>
        </users></simpleAuthenticationPlugin></plugins>"""  # noqa: E501
    settings = read(tmp_path, inside)
    assert settings.security_enabled is True
    assert settings.users == {"a": "here", "b": ""}
    assert of(settings).statistics is True


def test_connectors(tmp_path: Path) -> None:
    inside = """<transportConnectors>
        <transportConnector name="s" uri="stomp://localhost:0?transport.hbGracePeriodMultiplier=1.5&amp;transport.soTimeout=3"/>
        <transportConnector name="t" uri="stomp+nio://[::1]:1?transport.hbGracePeriodMultiplier=0.5"/>
        <transportConnector name="a" uri="amqp://127.0.0.1:5672?transport.wireFormat.idleTimeout=900&amp;transport.producerCredit=10"/>
        <transportConnector name="o" uri="tcp://127.0.0.1:61616" updateClusterClients="true"/>
        </transportConnectors>"""
    reading = activemq_xml.read_with_notes(written(tmp_path, inside))
    s, t, a, o = reading.settings.acceptors
    assert s.stomp.heart_beat_grace == 1.5
    assert t.stomp.heart_beat_grace == 1.0
    assert t.host == "::1"
    assert t.port == 1
    assert (a.amqp.idle_timeout_ms, a.amqp.credits, a.amqp.low_credits) == (900, 10, 3)
    assert o.protocols == ("OPENWIRE",)
    expected = ["connector 's', transport.soTimeout", "transportConnector, updateClusterClients"]
    assert [note.where.name for note in reading.notes] == expected


def test_what_has_no_effect_is_noted(tmp_path: Path) -> None:
    beside = (
        '<bean class="org.springframework.context.support.PropertySourcesPlaceholderConfigurer"/>'
    )
    attributes = 'useJmx="false" dataDirectory="${nowhere}" advisorySupport="true"'
    inside = (
        policies('<policyEntry queue="a" optimizedDispatch="true"/>')
        + "<persistenceAdapter><kahaDB/></persistenceAdapter>"
    )
    path = written(tmp_path, inside + STOMP.format(""), attributes, beside)
    names = [note.where.name for note in activemq_xml.read_with_notes(path).notes]
    assert names == [
        "bean",
        "broker, useJmx",
        "broker, dataDirectory",
        "broker, advisorySupport",
        "policyEntry, optimizedDispatch",
        "persistenceAdapter",
    ]


@pytest.mark.parametrize(
    ("inside", "attributes", "said"),
    [
        *(("", *row) for row in TABLES["attributes"]),
        *((inside, "", said) for inside, said in TABLES["elements"]),
        *((policies(*entries), "", said) for *entries, said in TABLES["policies"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, inside: str, attributes: str, said: str
) -> None:
    with pytest.raises(BadSetting) as refused:
        read(tmp_path, inside, attributes)
    text = str(refused.value)
    assert said in text
    assert text.startswith(f"{tmp_path / 'activemq.xml'}, line ")
    assert "\n" not in text


@pytest.mark.parametrize(("uri", "said"), TABLES["connectors"])
def test_what_is_wrong_with_a_connector_is_said(tmp_path: Path, uri: str, said: str) -> None:
    inside = (
        f'<transportConnectors><transportConnector name="c" uri="{uri}"/></transportConnectors>'
    )
    with pytest.raises(BadSetting, match="line 5: ") as refused:
        activemq_xml.read(written(tmp_path, inside))
    assert said in str(refused.value)


@pytest.mark.parametrize(("text", "said"), TABLES["files"])
def test_what_is_no_such_file_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(text)
    with pytest.raises(BadSetting) as refused:
        activemq_xml.read(path)
    assert said in str(refused.value)


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.xml")))
def test_what_starts_the_real_broker_starts_this_one(name: str) -> None:
    made = virtual.make(
        str(FIXTURES / name), {"broker": {"disk_space": 10**9, "heap": 10**9}}, start=0
    )
    assert {"stomp", "amqp"} <= made.acceptors.keys()
    result = CliRunner().invoke(
        command, ["--profile", "activemq", "--config", str(FIXTURES / name), "--check"]
    )
    assert result.exit_code == 0, result.output
    assert ": valid; " in result.output
