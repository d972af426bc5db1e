"""Reading a rabbitmq.conf."""

from importlib.resources import files
from pathlib import Path

import pytest

from brokerproof.harness.targets import parameters
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf
from brokerproof.reference_broker.settings.settings import BadSetting

OURS = Path(str(files("brokerproof.fixtures"))) / "brokers" / "rabbitmq" / "rabbitmq.conf"


def _read(folder: Path, text: str) -> rabbitmq_conf.Settings:
    path = folder / "rabbitmq.conf"
    path.write_text(text)
    return rabbitmq_conf.read(path)


def test_the_shipped_file_is_read() -> None:
    settings = rabbitmq_conf.read(OURS)
    assert settings.users == {"brokerproof": "brokerproof"}
    assert [(acceptor.name, acceptor.protocols) for acceptor in settings.acceptors] == [
        ("stomp", ("STOMP",)),
        ("amqp", ("AMQP", "AMQP091")),
        ("management", ("HTTP",)),
        ("web_stomp", ("STOMP",)),
    ]


def test_web_socket_frames_may_be_as_large_as_frames_of_stomp() -> None:
    *_, web_stomp = rabbitmq_conf.default().acceptors
    assert web_stomp.web_socket.max_frame_payload_length == 4 * 1024 * 1024


def test_what_settings_mean(tmp_path: Path) -> None:
    settings = _read(
        tmp_path,
        """
        # a comment
        listeners.tcp.default = 5673
        stomp.listeners.tcp.1 = 127.0.0.2:61614
        default_user = ann   # and another
        default_pass = 'p w'
        heartbeat = 10
        channel_max = 100
        frame_max = 8192
        vm_memory_high_watermark.absolute = 2GiB
        vm_memory_high_watermark_paging_ratio = 0.75
        disk_free_limit.relative = 1.5
        management.tcp.port = 15673
        management.tcp.ip = 127.0.0.3
        web_stomp.tcp.port = 15675
        web_stomp.ws_frame = binary
        web_stomp.ws_opts.max_frame_size = 8000
        log.console = false
        """,
    )
    stomp, amqp, management, web_stomp = settings.acceptors
    assert web_stomp.web_socket.max_frame_payload_length == 8000
    assert web_stomp.host == "127.0.0.1"
    assert web_stomp.port == 15675
    assert web_stomp.web_socket.encoder_type == "binary"
    assert (management.host, management.port) == ("127.0.0.3", 15673)
    assert (stomp.host, stomp.port, amqp.port) == ("127.0.0.2", 61614, 5673)
    assert amqp.amqp091.heartbeat_s == 10
    assert amqp.amqp091.channel_max == 100
    assert amqp.amqp091.frame_max == 8192
    assert settings.users == {"ann": "p w"}
    assert settings.rabbitmq.memory_high_watermark == 2 * 1024**3
    assert settings.rabbitmq.disk_free_limit == 1.5
    found = _read(tmp_path, "vm_memory_high_watermark.relative = 0").rabbitmq.memory_high_watermark
    assert found == 0.0
    assert _read(tmp_path, "disk_free_limit.absolute = 50MB").rabbitmq.disk_free_limit == 50_000_000
    got = [acceptor.name for acceptor in _read(tmp_path, "stomp.listeners.tcp = none").acceptors]
    assert got == ["amqp", "management", "web_stomp"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello", "line 1: the line is not a setting; write KEY = VALUE"),
        ("\nheartbeat = soon", "line 2: heartbeat: 'soon' is not a whole number"),
        ("heartbeet = 1", "line 1: heartbeet: is unknown here; did you mean heartbeat?"),
        ("heartbeat = 1\nheartbeat = 2", "line 2: heartbeat: is already set in line 1"),
        ("listeners.tcp.1 = 70000", "is not an endpoint"),
        ("web_stomp.ws_frame = both", "'both' is unknown; write one of text, binary"),
        ("listeners.tcp.1 = 1\nlisteners.tcp.2 = 2", "is a second listener"),
        ("disk_free_limit.absolute = 5 parsecs", "is not a number of bytes"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadSetting) as problem:
        _read(tmp_path, text)
    assert told in str(problem.value)
    assert str(tmp_path) in str(problem.value)


def test_the_harness_reads_it_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("heartbeat = 7\nframe_max = 5000 # bytes\n")
    found = parameters.from_file(path, {"amqp091_heartbeat_s": 60, "amqp091_channel_max": 2047})
    assert found["amqp"] == {
        **{"protocols": "AMQP", "amqp091_heartbeat_s": 7},
        **{"amqp091_channel_max": 2047, "amqp091_frame_max": 5000},
    }
