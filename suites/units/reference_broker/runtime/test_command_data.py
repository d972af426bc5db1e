"""``brokerproof broker --data``: the real process, its files, and another process on them."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brokerproof.suites.units.reference_broker.runtime.test_command import refused, running

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><persistence-enabled>{persistence}</persistence-enabled>
<paging-directory>my/pages</paging-directory><journal-directory>my/journal</journal-directory>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:0?protocols=STOMP</acceptor></acceptors>
<address-settings><address-setting match="#"><max-size-bytes>3000</max-size-bytes><page-size-bytes>2000</page-size-bytes>
<max-read-page-bytes>-1</max-read-page-bytes><auto-delete-queues>false</auto-delete-queues>
</address-setting></address-settings></core></configuration>
"""  # noqa: E501
WITHIN_S = 20


class Peer:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self._rest = b""
        self.say("CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert self.frame().startswith("CONNECTED")

    def say(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def frame(self) -> str:
        while b"\0" not in self._rest:
            data = self._socket.recv(65536)
            assert data, "the broker closed the connection"
            self._rest += data
        frame, _, self._rest = self._rest.partition(b"\0")
        return frame.decode().lstrip("\n")

    def close(self) -> None:
        self._socket.close()


def _send(port: int, count: int, length: int = 300) -> None:
    peer = Peer(port)
    for number in range(count):
        body = f"{number:03d}".ljust(length, "x")
        peer.say(
            f"SEND\ndestination:q\ndestination-type:ANYCAST\npersistent:true\nreceipt:{number}\n\n{body}\0"
        )
    for number in range(count):
        assert peer.frame() == f"RECEIPT\nreceipt-id:{number}\n\n"
    peer.close()


def _all(port: int, count: int) -> list[str]:
    with closing(Peer(port)) as peer:
        window = "consumer-window-size:-1\n"
        peer.say(
            f"SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:ANYCAST\nack:client\n{window}\n\0"
        )
        found = []
        for _ in range(count):
            frame = peer.frame()
            assert frame.startswith("MESSAGE"), frame
            found.append(frame.partition("\n\n")[2][:3])
        peer.say("DISCONNECT\nreceipt:bye\n\n\0")
        assert "RECEIPT" in peer.frame()
        return found


def _config(folder: Path, persistence: str = "true") -> list[str]:
    path = folder / "broker.xml"
    path.write_text(CONFIGURATION.format(persistence=persistence))
    return ["--config", str(path), "--data", str(folder / "data")]


ACTIVEMQ = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="b">
<destinationPolicy><policyMap><policyEntries><policyEntry queue=">" memoryLimit="20000"/></policyEntries></policyMap>
</destinationPolicy>
<transportConnectors><transportConnector name="stomp" uri="stomp://127.0.0.1:0"/></transportConnectors></broker>
"""  # noqa: E501


@pytest.mark.parametrize("data", [True, False])
def test_a_broker_of_activemqs_kind_keeps_what_is_persistent(tmp_path: Path, data: bool) -> None:
    config, temporary, count = tmp_path / "activemq.xml", tmp_path / "tmp", 60
    config.write_text(ACTIVEMQ)
    temporary.mkdir()
    options = [
        "--profile",
        "activemq",
        "--config",
        str(config),
        *(["--data", str(tmp_path / "data")] if data else []),
    ]
    with (
        running(*options, TMPDIR=str(temporary)) as (process, ready),
        closing(Peer(ready["stomp"])) as peer,
    ):
        for number in range(count):
            kept = f"persistent:{str(number % 3 > 0).lower()}\nreceipt:{number}\n"
            peer.say(f"SEND\ndestination:/queue/q\n{kept}\n{number:03d}{'x' * 300}\0")
        for _ in range(count):
            assert peer.frame().startswith("RECEIPT")
        folder, size = tmp_path / "data" if data else temporary, 0
        for _ in range(500):  # receipts do not wait for data that need not persist
            size = sum(path.stat().st_size for path in folder.rglob("*.page"))
            if size > 300 * count // 2:
                break
            peer.say("SEND\ndestination:/queue/p\nreceipt:p\n\n\0")
            peer.frame()
        assert size > 300 * count // 2, "memory holds few of them"
        process.send_signal(signal.SIGKILL if data else signal.SIGTERM)
        process.wait(WITHIN_S)
    assert not list(temporary.iterdir())
    with running(*options) as (_, ready), closing(Peer(ready["stomp"])) as peer:
        peer.say(
            "SEND\ndestination:/queue/q\n\nend\0SUBSCRIBE\nid:0\ndestination:/queue/q\nack:auto\n\n\0"
        )
        came = []
        while (body := peer.frame().partition("\n\n")[2]) != "end":
            came.append(int(body[:3]))
    assert came == [number for number in range(count) if data and number % 3]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_receipted_is_there_for_the_next_process(
    tmp_path: Path, how: signal.Signals
) -> None:
    options = _config(tmp_path)
    expected = [f"{number:03d}" for number in range(50)]
    with running(*options) as (process, ready):
        _send(ready["stomp"], 50)
        assert list((tmp_path / "data" / "my" / "pages" / "q").glob("*.page"))
        assert list((tmp_path / "data" / "my" / "journal").glob("*.journal"))
        process.send_signal(how)
        assert process.wait(WITHIN_S) == (0 if how == signal.SIGTERM else -how)
    with running(*options) as (_, ready):
        assert _all(ready["stomp"], 50) == expected
        assert _all(ready["stomp"], 50) == expected


def test_a_large_body_is_there_for_the_next_process_and_one_cut_short_is_not(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data" / "large-messages"
    body = "".join(f"{number:07d}," for number in range(20_000))
    head = "SEND\ndestination:q\ndestination-type:ANYCAST\npersistent:true\nreceipt:1\n\n"
    options = ("--stomp", "0", "--data", str(tmp_path / "data"))
    with running(*options) as (process, ready), closing(Peer(ready["stomp"])) as peer:
        peer.say(f"{head}{body}\0")
        assert peer.frame() == "RECEIPT\nreceipt-id:1\n\n"
        peer.say(f"{head}{body[:130_000]}")
        with closing(Peer(ready["stomp"])) as other:
            for number in range(2000):  # an unfinished body may begin to be written at any time
                if len(list(folder.glob("*.body"))) == 2:
                    break
                other.say(f"BEGIN\ntransaction:{number}\nreceipt:{number}\n\n\0")
                other.frame()
        assert len(list(folder.glob("*.body"))) == 2
        process.kill()
        process.wait(WITHIN_S)
    with running(*options) as (_, ready), closing(Peer(ready["stomp"])) as peer:
        peer.say("SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:ANYCAST\nack:client\n\n\0")
        frame = peer.frame()
        assert frame.endswith(f"\n\n{body}")
        assert len(list(folder.glob("*.body"))) == 1
        acknowledged = next(line[4:] for line in frame.splitlines() if line.startswith("ack:"))
        peer.say(f"ACK\nid:{acknowledged}\nreceipt:2\n\n\0")
        assert peer.frame() == "RECEIPT\nreceipt-id:2\n\n"
        assert not list(folder.glob("*.body"))


def test_two_brokers_do_not_share_a_folder(tmp_path: Path) -> None:
    with running("--stomp", "0", "--data", str(tmp_path)):
        code, said = refused("--stomp", "0", "--data", str(tmp_path))
        assert code == 3
        assert said.startswith(f"brokerproof broker: {tmp_path}: another broker uses this folder")


def test_without_persistence_pages_are_begun_anew(tmp_path: Path) -> None:
    options = _config(tmp_path, "false")
    pages = tmp_path / "data" / "my" / "pages"
    with running(*options) as (process, ready):
        _send(ready["stomp"], 50)
        for _ in range(500):  # receipts do not wait for a page that need not persist
            if list(pages.rglob("*.page")):
                break
            _send(ready["stomp"], 1)
        process.kill()
        process.wait()
    assert list(pages.rglob("*.page"))
    with running(*options):
        assert not list(pages.rglob("*.page"))


def test_damage_is_told_to_the_person_who_runs_it(tmp_path: Path) -> None:
    options = _config(tmp_path)
    with running(*options) as (process, ready):
        _send(ready["stomp"], 50)
        process.kill()
        process.wait()
    path = sorted((tmp_path / "data" / "my" / "pages" / "q").glob("*.page"))[1]
    data = bytearray(path.read_bytes())
    data[data.index(b"x" * 50)] ^= 1
    path.write_bytes(data)
    with running(*options) as (process, ready):
        assert len(set(_all(ready["stomp"], 49))) == 49
        process.terminate()
        assert process.stderr is not None
        report = process.stderr.read()
    assert "paging/q/000000002.page: record 1 (bytes " in report
    assert "is damaged or missing; up to 1 message of address q is lost" in report
    kept = tmp_path / "data" / "damaged" / "paging" / "q" / "000000002.page.0"
    assert kept.read_bytes() == data


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=30M", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_loses_nothing_and_is_got_over(small_disk: Path) -> None:
    with running("--stomp", "0", "--data", str(small_disk)) as (process, ready):
        peer = Peer(ready["stomp"])
        receipted = 0
        said = ""
        while not said.startswith("ERROR"):
            body = f"{receipted:03d}".ljust(200_000, "x")
            head = "SEND\ndestination:q\ndestination-type:ANYCAST\npersistent:true\nreceipt:r\n"
            peer.say(f"{head}\n{body}\0")
            said = peer.frame()
            receipted += said.startswith("RECEIPT")
        assert receipted > 20
        assert "message:cannot be stored" in said
        assert "No space left on device" in said
        peer.close()
        process.kill()
        process.wait()
    with running("--stomp", "0", "--data", str(small_disk)) as (process, ready):
        assert _all(ready["stomp"], receipted) == [f"{number:03d}" for number in range(receipted)]
        taker = Peer(ready["stomp"])
        taker.say("SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:ANYCAST\nack:auto\n\n\0")
        for _ in range(receipted):
            taker.frame()
        taker.close()
        while True:  # a retry each second repairs it
            again = Peer(ready["stomp"])
            again.say(
                "SEND\ndestination:p\ndestination-type:ANYCAST\npersistent:true\nreceipt:after\n\nx\0"
            )
            answer = again.frame()
            again.close()
            if answer == "RECEIPT\nreceipt-id:after\n\n":
                break
            assert answer.startswith("ERROR"), answer
