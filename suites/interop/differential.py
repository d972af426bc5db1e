"""Differential search over STOMP: the same generated conversations on real brokers and on the
reference with the profile of their family: ``python -m brokerproof.suites.interop.differential``.

A conversation is a CONNECT and a few frames of a grammar with mistakes in it. Its transcript has,
for each frame, what the broker sent until its receipt, or until it was silent, without what brokers
may choose: ids, texts, further headers. An ERROR is the end: whether the connection closes behind
it is left to the suite ``stomp.errors``. Where two transcripts part first, the frame and the two
answers are the key of a cluster. It is played again, with more patience, before it counts. A
cluster that ``differential_stomp.toml`` does not explain is a failure.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import secrets
import socket
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import click

from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.sockets import SocketTarget

REFERENCES = {
    "artemis": "reference-real",
    "activemq": "reference-activemq-real",
    "rabbitmq": "reference-rabbitmq-real",
}
"""The reference with the profile of its family, by real broker."""
EXPLANATIONS = Path(__file__).with_suffix(".toml").with_stem("differential_stomp")
QUIET_S, PATIENT_S = 0.1, 0.6
"""Seconds without a byte after which a broker is silent, in the search and when a cluster is
confirmed."""
AFTER_RECEIPT_S = 0.02, 0.3
"""The silence awaited behind a receipt: all that was sent before it has arrived by then."""
ABSENT = "(absent)"


@dataclass(frozen=True)
class Step:
    """One frame of a conversation; ``label`` names its kind and its mistake. Placeholders in
    values: ``{queue}``, ``{host}``, ``{ack}``, ``{message}``."""

    label: str
    command: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    raw: bytes | None = None
    """Bytes in place of a frame."""


@dataclass(frozen=True)
class Conversation:
    """Frames that one connection sends, CONNECT first."""

    version: str
    steps: tuple[Step, ...]


# --- the grammar ----------------------------------------------------------------------------------

CONNECTS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("without host", {"host": ABSENT}),
    ("without heart-beat", {"heart-beat": ABSENT}),
    ("heart-beat:0", {"heart-beat": "0"}),
    ("heart-beat:a,b", {"heart-beat": "a,b"}),
    ("heart-beat:-1,0", {"heart-beat": "-1,0"}),
    ("several versions", {"accept-version": "1.0,1.1,1.2"}),
    ("an unknown version", {"accept-version": "9.9"}),
    ("an unknown version beside", {"accept-version": "9.9,{version}"}),
    ("without accept-version", {"accept-version": ABSENT}),
    ("with client-id", {"client-id": "differential-{name}"}),
)
SENDS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("without destination", {"destination": ABSENT}),
    ("an empty destination", {"destination": ""}),
    ("content-length:0", {"content-length": "0"}),
    ("content-length:-1", {"content-length": "-1"}),
    ("content-length:x", {"content-length": "x"}),
    ("a shorter content-length", {"content-length": "2"}),
    ("an unknown transaction", {"transaction": "nobody"}),
    ("an empty transaction", {"transaction": ""}),
    ("in t", {"transaction": "t"}),
    ("expires:x", {"expires": "x"}),
    ("expires:-1", {"expires": "-1"}),
    ("priority:x", {"priority": "x"}),
    ("priority:11", {"priority": "11"}),
    ("persistent:maybe", {"persistent": "maybe"}),
    ("a header that needs escapes", {"k:e\ny": "v:a\\l"}),
    ("an empty receipt", {"receipt": ""}),
)
SUBSCRIBES: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("without id", {"id": ABSENT}),
    ("an empty id", {"id": ""}),
    ("without destination", {"destination": ABSENT}),
    ("an empty destination", {"destination": ""}),
    ("ack:maybe", {"ack": "maybe"}),
    ("ack:client", {"ack": "client"}),
    ("ack:client-individual", {"ack": "client-individual"}),
    ("without ack", {"ack": ABSENT}),
    ("a bad selector", {"selector": "a = = 1"}),
    ("prefetch-count:x", {"prefetch-count": "x"}),
)
LITERAL = (
    Step("an unknown command", "", raw=b"WIBBLE\n\n\0"),
    Step("a command in small letters", "", raw=b"send\ndestination:{queue}\n\nx\0"),
    Step("ends of line", "", raw=b"\n\n\r\n"),
    Step("a NUL before SEND", "", raw=b"\0SEND\ndestination:{queue}\nreceipt:{receipt}\n\nx\0"),
    Step("a header line without colon", "", raw=b"SEND\ndestination:{queue}\nnothing\n\nx\0"),
    Step("an empty header name", "", raw=b"SEND\ndestination:{queue}\n:v\n\nx\0"),
    Step("an undefined escape", "", raw=b"SEND\ndestination:{queue}\nk:a\\tb\n\nx\0"),
    Step("a backslash at the end", "", raw=b"SEND\ndestination:{queue}\nk:a\\\n\nx\0"),
    Step("a body on BEGIN", "", raw=b"BEGIN\ntransaction:b\nreceipt:{receipt}\n\nbody\0"),
    Step("header bytes that are no UTF-8", "", raw=b"SEND\ndestination:{queue}\nk:\xff\n\nx\0"),
    Step("MESSAGE from the client", "", raw=b"MESSAGE\ndestination:{queue}\n\nx\0"),
    Step("repeated destination", "", raw=b"SEND\ndestination:{queue}\ndestination:x\n\nx\0"),
)


def frame(label: str, command: str, headers: Mapping[str, str], body: bytes = b"") -> Step:
    """Return a step without the headers that are absent, with a receipt unless it has its own."""
    given = {"receipt": "{receipt}", **headers} if command not in ("CONNECT", "STOMP") else headers
    pairs = tuple((name, value) for name, value in given.items() if value != ABSENT)
    return Step(label, command, pairs, body)


def conversation(draw: random.Random) -> Conversation:
    """Return a conversation of the grammar; half of its frames are as they should be."""
    version = draw.choice(codec.VERSIONS)

    def mistake(choices: Sequence[tuple[str, Mapping[str, str]]]) -> tuple[str, Mapping[str, str]]:
        return ("", {}) if draw.random() < 0.5 else draw.choice(choices)

    label, changed = ("", {}) if draw.random() < 0.8 else draw.choice(CONNECTS)
    command = draw.choice(("CONNECT", "CONNECT", "STOMP"))
    opening = {
        "accept-version": "{version}",
        "host": "{host}",
        "login": "{login}",
        "passcode": "{passcode}",
        "heart-beat": "0,0",
        **changed,
    }
    steps = [frame(f"{command} {label}".strip(), command, opening)]
    names: set[str] = set()  # s of the subscription and t of the transaction, while in use
    for _ in range(draw.randint(1, 5)):
        kind = draw.choice(
            ("SEND", "SEND", "SUBSCRIBE", "SUBSCRIBE", "ACK", "tx", "end", "literal")
        )
        if kind == "SEND":
            label, changed = mistake(SENDS)
            headers = {"destination": "{queue}", **changed}
            label = f"SEND {label}".strip() + (
                " not begun" if label == "in t" and "t" not in names else ""
            )
            if label == "SEND expires:-1":
                names.add("expired")
            steps.append(frame(label, "SEND", headers, b"body"))
        elif kind == "SUBSCRIBE":
            label, changed = mistake(SUBSCRIBES)
            headers = {"destination": "{queue}", "id": "s", "ack": "client", **changed}
            label = f"SUBSCRIBE {label}".strip() + (" again" if headers["id"] in names else "")
            label += " behind expires:-1" if "expired" in names else ""
            names.add(headers["id"])
            steps.append(frame(label, "SUBSCRIBE", headers))
        elif kind == "ACK":
            steps.append(acknowledgement(draw, version))
        elif kind == "tx":
            command = draw.choice(("BEGIN", "BEGIN", "COMMIT", "ABORT"))
            name = draw.choice(("t", "t", "t", "nobody", "", ABSENT))
            label = f"{command} {name}" + (" in use" if name in names else "")
            names = names | {"t"} if command == "BEGIN" and name == "t" else names - {"t"}
            steps.append(frame(label, command, {"transaction": name}))
        elif kind == "end":
            command = draw.choice(("UNSUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT", "CONNECT"))
            headers = {"id": draw.choice(("s", "s", "nobody", ABSENT))}
            headers = headers if command == "UNSUBSCRIBE" else {}
            name = headers.get("id", "")
            label = f"{command} {name}".strip() + (" in use" if name in names else "")
            names.discard(name)
            steps.append(frame(label, command, headers))
        else:
            steps.append(draw.choice(LITERAL))
    return Conversation(version, tuple(steps))


def acknowledgement(draw: random.Random, version: str) -> Step:
    """Return an ACK or NACK of the last message, of none or of an unknown one."""
    command = draw.choice(("ACK", "NACK"))
    name = draw.choice(("the last", "the last", "nobody", ABSENT, "the last in nobody"))
    value = "{ack}" if name.startswith("the last") else name
    headers = {"id": value} if version == "1.2" else {"message-id": value}
    if version != "1.2":
        headers["subscription"] = "s"
    if name.endswith("in nobody"):
        headers["transaction"] = "nobody"
    return frame(f"{command} {name}", command, headers)


# --- playing a conversation -----------------------------------------------------------------------


class Player:
    """Plays conversations on one broker."""

    def __init__(self, target: SocketTarget) -> None:
        self.endpoint = target.endpoints["stomp"]
        parameters = target.identity.profile.parameters
        self._destination = str(parameters["anycast_destination"])
        self._values = {
            "host": str(parameters["stomp_host"]),
            "login": target.identity.login or "",
            "passcode": target.identity.passcode or "",
        }
        self._routing = {
            command: _pair(str(parameters.get(f"anycast_{command.lower()}_headers", "")))
            for command in ("SEND", "SUBSCRIBE")
        }

    def play(self, conversation: Conversation, name: str, patient: bool) -> list[str]:
        """Return what was answered to each step, up to the first ERROR or close."""
        queue = self._destination.replace("{name}", f"differential.{name}")
        values = {**self._values, "queue": queue, "name": name, "version": conversation.version}
        reader = codec.Reader(conversation.version)
        answers = []
        with socket.create_connection(self.endpoint, timeout=5) as connection:
            for number, step in enumerate(conversation.steps):
                values["receipt"] = f"r{number}"
                data = self._encoded(step, values, conversation.version)
                answers.append(_exchange(connection, data, reader, values, patient))
                if answers[-1] in ("ERROR", "closed"):
                    break
        return answers

    def _encoded(self, step: Step, values: Mapping[str, str], version: str) -> bytes:
        if step.raw is not None:
            raw = step.raw
            for name in ("queue", "receipt"):
                raw = raw.replace(b"{%b}" % name.encode(), values[name].encode())
            return raw
        headers = [(name, _filled(value, values)) for name, value in step.headers]
        headers += self._routing.get(step.command, ())
        return codec.encode(step.command, headers, step.body, version=version)


def _pair(text: str) -> tuple[tuple[str, str], ...]:
    name, colon, value = text.partition(":")
    return ((name, value),) if colon else ()


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{ack}", "nothing")


def _exchange(
    connection: socket.socket,
    data: bytes,
    reader: codec.Reader,
    values: dict[str, str],
    patient: bool,
) -> str:
    """Send a frame and return what is answered, sorted: a message may overtake a receipt."""
    answers = []
    quiet = PATIENT_S if patient else QUIET_S
    try:
        connection.sendall(data)
        connection.settimeout(quiet)
        while received := connection.recv(1 << 16):
            for item in reader.feed(received):
                if isinstance(item, codec.Frame):
                    answers.append(_normalised(item))
                    _remember(item, values)
                    if item.command == "ERROR":
                        return "ERROR"
                    if item.command in ("RECEIPT", "CONNECTED"):
                        connection.settimeout(AFTER_RECEIPT_S[patient])
                elif isinstance(item, codec.Unreadable):
                    answers.append("unreadable")
        answers.append("closed")
    except TimeoutError:
        pass
    except OSError:
        answers.append("closed")
    if "closed" in answers:
        return "closed"
    return " ".join(sorted(answers)) or "silence"


def _normalised(frame: codec.Frame) -> str:
    match frame.command:
        case "CONNECTED":
            return f"CONNECTED({frame.get('version', 'no version')})"
        case "MESSAGE":
            return f"MESSAGE({frame.body.decode('utf-8', 'replace')})"
        case command:
            return command


def _remember(frame: codec.Frame, values: dict[str, str]) -> None:
    if frame.command == "MESSAGE":
        values["ack"] = frame.get("ack") or frame.get("message-id") or ""


# --- clusters -------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Cluster:
    """Conversations of a version that part at the same kind of frame in the same way."""

    broker: str
    frame: str
    reference: str
    answer: str
    version: str


def cluster_of(
    broker: str, talk: Conversation, reference: Sequence[str], answers: Sequence[str]
) -> Cluster | None:
    """Return the cluster of the first frame that is answered otherwise, None if none is."""
    for step, expected, answer in zip(talk.steps, reference, answers, strict=False):
        if expected != answer:
            if _kind(expected) != _kind(answer):  # then messages beside it are of no account
                expected, answer = _kind(expected), _kind(answer)
            return Cluster(broker, step.label, expected, answer, talk.version)
    return None


def _kind(answer: str) -> str:
    return "RECEIPT" if answer.endswith("RECEIPT") else answer


def search(
    broker: str, players: tuple[Player, Player], talks: Sequence[Conversation], run: str
) -> dict[Cluster, Conversation]:
    """Return the shortest conversation of each cluster that showed itself twice."""
    clusters: dict[Cluster, Conversation] = {}
    for patient in (False, True):
        play = functools.partial(_played, talks=talks, run=f"{run}.{patient}", patient=patient)
        with ThreadPoolExecutor(len(players)) as pool:
            references, answers = pool.map(play, players)
        clusters = {}
        for talk, expected, answer in zip(talks, references, answers, strict=True):
            cluster = cluster_of(broker, talk, expected, answer)
            if cluster is not None and len(talk.steps) < _length(clusters.get(cluster)):
                clusters[cluster] = talk
        talks = list(clusters.values())
    return clusters


def _played(
    player: Player, talks: Sequence[Conversation], run: str, patient: bool
) -> list[list[str]]:
    return [player.play(talk, f"{run}.{number}", patient) for number, talk in enumerate(talks)]


def _length(talk: Conversation | None) -> int:
    return sys.maxsize if talk is None else len(talk.steps)


def explanation_of(cluster: Cluster) -> str:
    """Return why the answers differ, as ``differential_stomp.toml`` has it; empty if it has not.
    An entry is for some brokers, versions (all, where it names none) and patterns of frames."""
    for entry in tomllib.loads(EXPLANATIONS.read_text("utf-8"))["cluster"]:
        if (
            cluster.broker in entry["brokers"]
            and cluster.version in entry.get("versions", codec.VERSIONS)
            and any(fnmatchcase(cluster.frame, pattern) for pattern in entry["frames"])
            and (cluster.reference, cluster.answer) == (entry["reference"], entry["answer"])
        ):
            return str(entry["why"])
    return ""


def sentences(clusters: Iterable[Cluster]) -> Iterator[str]:
    """Yield clusters, one line for those that differ in the version alone."""
    for (broker, label, reference, answer), alike in itertools.groupby(
        sorted(clusters),
        lambda cluster: (cluster.broker, cluster.frame, cluster.reference, cluster.answer),
    ):
        versions = " ".join(cluster.version for cluster in alike)
        yield f"{broker} {label} ({versions}): reference {reference}, {broker} {answer}"


@contextmanager
def started(name: str, folder: Path) -> Iterator[Player]:
    """The broker of a target file, and what plays conversations on it."""
    broker = target_file.load(name)
    assert isinstance(broker, SocketTarget)
    broker.start(folder)
    try:
        yield Player(broker)
    finally:
        broker.stop()


@click.command()
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--conversations", type=click.IntRange(1), default=5000, show_default=True)
@click.option(
    "--broker",
    "brokers",
    type=click.Choice(list(REFERENCES)),
    multiple=True,
    default=list(REFERENCES),
    help="Real brokers to compare; all without this option.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
def main(seed: int, conversations: int, brokers: tuple[str, ...], out: Path) -> None:
    """Search for disagreements and report those that nothing explains."""
    out.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    talks = [conversation(draw) for _ in range(conversations)]
    clusters: dict[Cluster, Conversation] = {}
    for broker in brokers:
        with (
            tempfile.TemporaryDirectory(prefix="brokerproof-differential-") as name,
            started(REFERENCES[broker], Path(name)) as reference,
            started(broker, Path(name)) as real,
        ):
            clusters |= search(broker, (reference, real), talks, f"{seed}.{secrets.token_hex(4)}")
    explained = {cluster: explanation_of(cluster) for cluster in clusters}
    with (out / "clusters.jsonl").open("w", encoding="utf-8") as rows:
        for cluster, talk in sorted(clusters.items(), key=lambda item: item[0]):
            row = {
                **asdict(cluster),
                "why": explained[cluster],
                "conversation": [step.label for step in talk.steps],
            }
            rows.write(json.dumps(row) + "\n")
    unexplained = [cluster for cluster, why in explained.items() if not why]
    counts = f"{len(clusters)} clusters, {len(unexplained)} unexplained"
    click.echo(f"{conversations} conversations, {counts}")
    for sentence in sentences(unexplained):
        click.echo(sentence)
    sys.exit(bool(unexplained))


if __name__ == "__main__":
    main()
