"""Conversations as captured packets, built with dpkt: their reader and writer share no code."""

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import dpkt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from brokerproof.harness.capture.conversion import Converter
from brokerproof.harness.capture.packet_order import Series
from brokerproof.harness.model.time import NS_PER_S, Instant, ms
from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.protocols.amqp091 import codec as amqp091_codec
from brokerproof.harness.protocols.amqp10 import codec as amqp10_codec
from brokerproof.harness.protocols.amqp10 import types
from brokerproof.harness.protocols.core import codec as core_codec
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace import stamp
from brokerproof.harness.trace.events import Event

BROKER = (b"\x0a\x00\x00\x01", 61613)
EPOCH = 1_790_000_000 * NS_PER_S
TICK = ms(2)
ETHERNET, COOKED, COOKED2, LOOPBACK, RAW = 1, 113, 276, 0, 101


@dataclass(frozen=True)
class Segment:
    at: Instant
    source: tuple[bytes, int]
    target: tuple[bytes, int]
    seq: int
    ack: int
    flags: int
    data: bytes = b""

    def encode(self, link: int = ETHERNET, tag: bool = False) -> bytes:
        tcp = dpkt.tcp.TCP(
            sport=self.source[1],
            dport=self.target[1],
            seq=self.seq,
            ack=self.ack,
            flags=self.flags,
            data=self.data,
        )
        six = len(self.source[0]) == 16
        if six:
            ip = dpkt.ip6.IP6(
                src=self.source[0], dst=self.target[0], nxt=6, plen=len(tcp), data=tcp
            )
        else:
            ip = dpkt.ip.IP(src=self.source[0], dst=self.target[0], p=6, data=tcp)
            ip.len = len(ip)
        packet = bytes(ip)
        kind = b"\x86\xdd" if six else b"\x08\x00"
        if link == ETHERNET:
            return b"\x02" * 12 + (b"\x81\x00\x00\x07" if tag else b"") + kind + packet
        if link == COOKED:
            return bytes(14) + kind + packet
        if link == COOKED2:
            return kind + bytes(18) + packet
        return bytes(4) + packet if link == LOOPBACK else packet


@dataclass
class Line:
    """A TCP connection of a client to the broker. ``client`` and ``broker`` write, and each write
    is acknowledged immediately."""

    wire: "Wire"
    here: tuple[bytes, int]
    numbers: list[int]
    there: tuple[bytes, int] = BROKER

    def open(self) -> None:
        self._packet(0, 2)
        self._packet(1, 18)
        self._packet(0, 16)

    def client(self, data: bytes) -> None:
        self._say(0, data)

    def broker(self, data: bytes) -> None:
        self._say(1, data)

    def close(self) -> None:
        """Close the client's side, then the broker's."""
        for side in (0, 1):
            self._packet(side, 17)
            self._packet(1 - side, 16)

    def reset(self, side: int = 0) -> None:
        self._packet(side, 20)

    def _say(self, side: int, data: bytes) -> None:
        for at in range(0, len(data), self.wire.most):
            self._packet(side, 24, data[at : at + self.wire.most])
            self._packet(1 - side, 16)

    def _packet(self, side: int, flags: int, data: bytes = b"") -> None:
        ends = (self.here, self.there)
        self.wire.segments.append(
            Segment(
                self.wire.now,
                ends[side],
                ends[1 - side],
                self.numbers[side] % 2**32,
                self.numbers[1 - side] % 2**32 if flags & 16 else 0,
                flags,
                data,
            )
        )
        self.wire.now += TICK
        self.numbers[side] += len(data) + (flags & 2) // 2 + (flags & 1)


@dataclass
class Wire:
    """The captured packets, each with at most ``most`` bytes of payload. ``first`` is the first
    sequence number."""

    most: int = 1448
    first: int = 1000
    now: Instant = EPOCH
    segments: list[Segment] = field(default_factory=list)

    def line(self, port: int) -> Line:
        """A client's connection, not yet open."""
        return Line(self, (b"\x0a\x00\x00\x02", port), [self.first, self.first + 7])


def pcap(
    packets: Sequence[tuple[Instant, bytes]], link: int = ETHERNET, snap: int = 65535
) -> bytes:
    """Return a pcap file with nanoseconds. dpkt's writer supports only microseconds and whole
    packets."""
    head = dpkt.pcap.FileHdr(magic=dpkt.pcap.TCPDUMP_MAGIC_NANO, snaplen=snap, linktype=link)
    records = (
        struct.pack("!IIII", *divmod(at, NS_PER_S), min(len(data), snap), len(data)) + data[:snap]
        for at, data in packets
    )
    return bytes(head) + b"".join(records)


def pcapng(packets: Sequence[tuple[Instant, bytes]]) -> bytes:
    """A pcapng file as dpkt writes it (Ethernet, microseconds)."""
    file = io.BytesIO()
    writer = dpkt.pcapng.Writer(file)
    for at, data in packets:
        writer.writepkt(data, at / NS_PER_S)
    return file.getvalue()


def written(
    path: Path, segments: Sequence[Segment], *, link: int = ETHERNET, snap: int = 65535
) -> Path:
    """Return a pcap file of these packets in this order."""
    path.write_bytes(pcap([(segment.at, segment.encode(link)) for segment in segments], link, snap))
    return path


def events_of(*paths: Path) -> list[Event]:
    series, converter = Series(list(paths)), Converter()
    recorded = chain(converter.events(series), _rest(converter, series))
    return [event.event for event in recorded]


def _rest(converter: Converter, series: Series) -> Iterator[object]:
    yield from converter.finish(series.last)


def without(segments: Sequence[Segment], lost: set[int]) -> list[Segment]:
    return [each for at, each in enumerate(segments) if at not in lost]


def renumbered(segments: Sequence[Segment], by: int) -> list[Segment]:
    return [
        replace(
            segment,
            seq=(segment.seq + by) % 2**32,
            ack=(segment.ack + by) % 2**32 if segment.flags & 16 else 0,
        )
        for segment in segments
    ]


def frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    return stomp_codec.encode(command, headers, body)


@dataclass
class Plan:
    """A session of a producer and a consumer with a window, and the broker's faults: ``lose`` and
    ``double`` name messages by number, ``overrun`` delivers without waiting for acknowledgements,
    and ``silent`` omits the heartbeats."""

    count: int = 6
    size: int = 300
    lose: int | None = None
    double: int | None = None
    overrun: bool = False
    silent: bool = False


QUIET = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
PLANS = st.builds(
    Plan,
    count=st.integers(1, 7),
    size=st.sampled_from([0, 40, 300]),
    lose=st.none() | st.integers(0, 5),
    double=st.none() | st.integers(0, 5),
    overrun=st.booleans(),
    silent=st.booleans(),
)


def session(plan: Plan, wire: Wire | None = None) -> Wire:
    wire = wire or Wire()
    producer, consumer = wire.line(40001), wire.line(40002)
    for line in (producer, consumer):
        line.open()
        line.client(
            frame("CONNECT", {"accept-version": "1.2", "host": "h", "heart-beat": "1000,500"})
        )
        line.broker(frame("CONNECTED", {"version": "1.2", "heart-beat": "500,1000"}))
    consumer.client(
        frame(
            "SUBSCRIBE",
            {
                "id": "0",
                "destination": "/queue/a:b",
                "ack": "client-individual",
                "consumer-window-size": "0",
                "receipt": "s",
            },
        )
    )
    consumer.broker(frame("RECEIPT", {"receipt-id": "s"}))
    held: list[str] = []
    for number in range(plan.count):
        body = stamp.stamp(7, number) + b"." * plan.size
        producer.client(
            frame(
                "SEND",
                {
                    "destination": "/queue/a:b",
                    "receipt": f"r{number}",
                    "content-length": f"{len(body)}",
                },
                body,
            )
        )
        producer.broker(frame("RECEIPT", {"receipt-id": f"r{number}"}))
        if number == plan.lose:
            continue
        for copy in range(2 if number == plan.double else 1):
            token = f"{number}-{copy}"
            headers = {
                "subscription": "0",
                "message-id": token,
                "destination": "/queue/a:b",
                "ack": token,
            }
            consumer.broker(frame("MESSAGE", {**headers, "content-length": f"{len(body)}"}, body))
            held.append(token)
            if not plan.overrun:
                consumer.client(frame("ACK", {"id": held.pop(0), "receipt": f"a{token}"}))
                consumer.broker(frame("RECEIPT", {"receipt-id": f"a{token}"}))
        if number % 3 == 2:
            wire.now += ms(400)
            for line in (producer, consumer):
                line.client(b"\n")
                if not plan.silent:
                    line.broker(b"\n")
    if plan.silent:
        wire.now += 10 * NS_PER_S
    consumer.client(frame("UNSUBSCRIBE", {"id": "0", "receipt": "u"}))
    consumer.broker(frame("RECEIPT", {"receipt-id": "u"}))
    for line in (producer, consumer):
        line.client(frame("DISCONNECT", {"receipt": "bye"}))
        line.broker(frame("RECEIPT", {"receipt-id": "bye"}))
        line.close()
    return wire


def amqp_session(*, over: bool = False, silent: bool = False) -> Wire:
    """Return a session of an AMQP 1.0 client that grants credit for three messages and requests
    signs of life every second. ``over``: the broker sends a fourth; ``silent``: it sends no empty
    frame for ten seconds."""
    wire = Wire()
    line = wire.line(40003)
    line.open()

    def say(performative: str, payload: bytes = b"", **fields: object) -> bytes:
        return amqp10_codec.encode_frame(
            types.encode(amqp10_codec.composite(performative, fields)) + payload
        )

    line.client(amqp10_codec.protocol_header())
    line.broker(amqp10_codec.protocol_header())
    line.client(say("open", container_id="c", idle_time_out=1000))
    line.broker(say("open", container_id="b"))
    line.client(say("begin", next_outgoing_id=0, incoming_window=10, outgoing_window=10))
    line.broker(
        say("begin", remote_channel=0, next_outgoing_id=0, incoming_window=10, outgoing_window=10)
    )
    line.client(
        say(
            "attach",
            name="l",
            handle=0,
            role=True,
            source=amqp10_codec.composite("source", address="q"),
        )
    )
    line.broker(say("attach", name="l", handle=0, role=False, initial_delivery_count=0))
    window = {
        "next_incoming_id": 0,
        "incoming_window": 10,
        "next_outgoing_id": 0,
        "outgoing_window": 10,
    }
    line.client(say("flow", handle=0, delivery_count=0, link_credit=3, **window))
    for number in range(4 if over else 3):
        tag = {"delivery_id": number, "delivery_tag": bytes([number]), "message_format": 0}
        line.broker(say("transfer", b"\x00\x53\x75\xa0\x02ab", handle=0, more=False, **tag))
        state = amqp10_codec.composite("accepted")
        line.client(say("disposition", role=True, first=number, settled=True, state=state))
    for _ in range(12):
        wire.now += ms(900)
        if not silent:
            line.broker(amqp10_codec.encode_frame(b""))
    line.client(say("close"))
    line.broker(say("close"))
    line.close()
    return wire


def amqp091_session(*, over: bool = False, silent: bool = False, again: bool = False) -> Wire:
    """Return a session of an AMQP 0-9-1 client with a prefetch of two and a heartbeat every second.
    ``over``: a third delivery arrives; ``again``: a tag is used twice; ``silent``: the broker sends
    no heartbeat for ten seconds."""
    wire = Wire()
    line = wire.line(40004)
    line.open()

    def say(name: str, channel: int = 1, **fields: object) -> bytes:
        return amqp091_codec.encode_frame(
            amqp091_codec.METHOD, channel, amqp091_codec.encode_method(name, fields)
        )

    line.client(amqp091_codec.protocol_header())
    line.broker(say("connection.start", 0, version_minor=9, mechanisms=b"PLAIN", locales=b"en_US"))
    line.client(say("connection.start-ok", 0, mechanism="PLAIN", response=b"", locale="en_US"))
    line.broker(say("connection.tune", 0, channel_max=10, frame_max=131072, heartbeat=1))
    line.client(say("connection.tune-ok", 0, channel_max=10, frame_max=131072, heartbeat=1))
    line.client(say("connection.open", 0, virtual_host="/"))
    line.broker(say("connection.open-ok", 0))
    line.client(say("channel.open"))
    line.broker(say("channel.open-ok"))
    line.client(say("basic.qos", prefetch_count=2))
    line.broker(say("basic.qos-ok"))
    line.client(say("basic.consume", queue="q"))
    line.broker(say("basic.consume-ok", consumer_tag="c"))
    for number in range(1, 5):
        tag = 1 if again and number == 3 else number
        deliver = say("basic.deliver", consumer_tag="c", delivery_tag=tag, routing_key="q")
        line.broker(deliver + amqp091_codec.encode_content(1, b"body" * 30, {}, frame_max=131072))
        if number > 1 and not over:
            line.client(say("basic.ack", delivery_tag=number - 1))
    for _ in range(12):
        wire.now += ms(900)
        if not silent:
            line.broker(amqp091_codec.encode_frame(amqp091_codec.HEARTBEAT, 0))
    line.client(say("connection.close", 0, reply_code=200))
    line.broker(say("connection.close-ok", 0))
    line.close()
    return wire


def core_session(*, over: bool = False, unasked: bool = False) -> Wire:
    """Return a session of a CORE client that grants credit for two messages. ``over``: a third
    message arrives; ``unasked``: the broker grants a producer more than it requested."""
    wire = Wire()
    line = wire.line(40005)
    line.open()

    def say(name: str, channel: int = core_codec.FIRST, /, **fields: object) -> bytes:
        return core_codec.encode_packet(name, fields, channel=channel)

    about = {
        "name": "s",
        "version": core_codec.NEWEST,
        "auto_commit_sends": True,
        "auto_commit_acks": True,
    }
    line.client(
        core_codec.MAGIC
        + say("create-session", core_codec.SESSIONS, session_channel=core_codec.FIRST, **about)
    )
    line.broker(say("create-session-response", core_codec.SESSIONS, version=core_codec.NEWEST))
    line.client(say("request-producer-credits", credits=1000, address="a"))
    line.broker(say("producer-credits", credits=1001 if unasked else 1000, address="a"))
    message = Message("a", stamp.stamp(1, 0) + b"x" * 70)
    line.client(say("send", message=message, requires_response=True))
    line.broker(say("null-response"))
    line.client(say("create-consumer", consumer=0, queue="a") + say("session-start"))
    delivered = [
        say("receive", message=replace(message, id=number), consumer=0, delivery_count=1)
        for number in range(3)
    ]
    line.client(say("consumer-credits", consumer=0, credits=2 * len(delivered[0])))
    for number in range(2 + over):
        line.broker(delivered[number])
    for _ in range(3):
        wire.now += ms(900)
        line.broker(say("ping", core_codec.LIVENESS, connection_ttl=60_000))
    line.close()
    return wire


GROUND = Expectations("artemis", {"consumer-window-size": "octets"}, 10_240, 2.0, 2000, queues=True)


def read(segments: Sequence[Segment], snap: int = 65535) -> list[ev.Event]:
    """Return the events of packets in this order."""
    with TemporaryDirectory() as folder:
        return events_of(written(Path(folder) / "x.pcap", segments, snap=snap))


def surely(events: Sequence[ev.Event]) -> set[tuple[str, str]]:
    """Return the anomalies that are certain."""
    found = [*recorded_anomalies.find_anomalies(events, GROUND)]
    for life in connection_lifetimes.lifetimes(events).values():
        found += connection_lifetimes.find_anomalies(life, GROUND)
    return {(anomaly.kind, anomaly.what) for anomaly in found if not anomaly.uncertain}


def frames(events: Sequence[ev.Event]) -> list[tuple[int | None, str, bool, int]]:
    """Return frames and heartbeats by connection, in order."""
    told = [
        (
            event.conn,
            getattr(event, "command", "beat"),
            isinstance(event, (ev.FrameSent, ev.HeartBeatSent)),
            event.size,
        )
        for event in events
        if isinstance(
            event, (ev.FrameSent, ev.FrameReceived, ev.HeartBeatSent, ev.HeartBeatReceived)
        )
    ]
    return sorted(told, key=lambda each: each[0] or 0)
