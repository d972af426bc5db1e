"""Inference of the reference broker's hidden parameters, and arithmetic on bounds."""

import json
import random
import tomllib
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.catalogue import profiles
from brokerproof.harness.clients.artemis_management import AddressState, Admin
from brokerproof.harness.commands.cli import cli
from brokerproof.harness.inference import profile_file
from brokerproof.harness.inference.address import AddressProbes, infer_address
from brokerproof.harness.inference.credit import infer_credit
from brokerproof.harness.inference.estimate import ANY, Estimate, Range, Refuted
from brokerproof.harness.inference.liveness import Facts, infer_liveness, narrowed
from brokerproof.harness.inference.silence import Closed, grid
from brokerproof.harness.inference.window import infer_windows
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.targets import parameters
from brokerproof.harness.targets.target import Target

LONG_MAX = 2**63 - 1


def hidden(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    drawn = random.Random(seed)
    most = drawn.randint(1, 60)
    acceptor = {
        "connection_ttl_ms": drawn.choice([None, drawn.randint(1, 200_000)]),
        "connection_ttl_min_ms": drawn.choice([1000, drawn.randint(1, 20_000)]),
        "connection_ttl_max_ms": drawn.choice(
            [LONG_MAX, drawn.randint(20_000, 200_000), drawn.randint(1, 200_000)]
        ),
        "heart_beat_to_connection_ttl_modifier": drawn.choice(
            [0.5, 1.1, 2.0, 10.0, round(drawn.uniform(0.5, 5), 3)]
        ),
        "stomp_consumer_window_size": drawn.choice(
            [-1, 0, drawn.randint(1, 9000), drawn.randint(200, 9000)]
        ),
        "amqp_credits": most,
        "amqp_low_credits": drawn.randint(0, most - 1),
    }
    broker = {
        "connection_ttl_override_ms": drawn.choice([-1, drawn.randint(1, 50_000)]),
        "connection_ttl_check_interval_ms": drawn.choice([2000, drawn.randint(1, 7000)]),
    }
    return acceptor, broker


@pytest.mark.parametrize("seed", range(50))
def test_hidden_parameters_are_recovered_within_the_stated_bounds(
    reference: Target, seed: int
) -> None:
    acceptor, broker = hidden(seed)
    bench = Bench(
        reference, (), label="infer", seed=seed, overrides={"acceptor": acceptor, "broker": broker}
    )
    found = infer_liveness(bench, None, seconds(1000), 40) + infer_credit(bench, None)
    found += infer_windows(bench, None, largest=10_000, many=80)
    bench.close()
    override = broker["connection_ttl_override_ms"]
    truth = {
        **acceptor,
        **broker,
        "server_beat_floor_ms": 500,
        "stomp_consumer_window_size_auto": -1,
    }
    truth["connection_ttl_ms"] = acceptor["connection_ttl_ms"] or (
        60_000 if override == -1 else override
    )
    truth["stomp_consumer_window_size_individual"] = acceptor["stomp_consumer_window_size"]
    truth["unit of a window"] = "bytes"
    by_name = {estimate.parameter: estimate for estimate in found}
    wrong = {name: f"{by_name[name].value}, is {value}" for name, value in truth.items() if name in by_name  # noqa: E501
             and by_name[name].agrees(value) is False}  # fmt: skip
    assert not wrong
    assert truth.keys() - by_name.keys() <= {"connection_ttl_override_ms"}
    for name in (
        "connection_ttl_check_interval_ms",
        "amqp_credits",
        "amqp_low_credits",
        "server_beat_floor_ms",
    ):
        assert by_name[name].range == Range.of(truth[name], truth[name])
    window = by_name["stomp_consumer_window_size"].range
    assert window is not None
    assert window.width is not None
    assert window.width <= 4


@pytest.mark.parametrize("seed", range(6))
def test_the_hidden_limit_of_an_address_is_recovered(reference: Target, seed: int) -> None:
    drawn = random.Random(seed)
    policy = ("FAIL", "DROP", "BLOCK")[seed % 3]
    by_messages = seed >= 3
    hidden = {"address_full_policy": policy}
    limit = drawn.randint(2, 20) if by_messages else drawn.randint(12_000, 300_000)
    hidden["max_size_messages" if by_messages else "max_size_bytes"] = limit
    bench = Bench(reference, (), label="infer", seed=seed, overrides={"address": hidden})
    found = {
        estimate.parameter.removesuffix(" of q.*"): estimate
        for estimate in infer_address(bench, "q.", None)
    }
    bench.close()
    assert found["address_full_policy"].choice == policy
    limited = found["max_size_messages" if by_messages else "max_size_bytes"]
    assert limited.agrees(limit), limited.value
    if not by_messages:
        assert limited.range is not None
        assert limited.range.width is not None
        assert limited.range.width < 4
        charged = found["bytes charged beyond the body"]
        # Charges for the message, its reference, and AMQP's bytes before the body.
        assert charged.agrees(352 + 72 + 8), charged.value
    if policy == "BLOCK" and not by_messages:
        assert found["room again below"].agrees(1), found["room again below"].value


@pytest.mark.parametrize("policy", ["PAGE", "DROP"])
def test_a_paged_message_that_is_counted_late_was_not_dropped(
    reference: Target, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    read = Admin.address
    times: Counter[str] = Counter()

    def behind(admin: Admin, name: str) -> AddressState:
        state = read(admin, name)
        times[name] += 1
        uncounted = 3 if state.paging and times[name] < 5 else 0
        return replace(state, messages=max(0, state.messages - uncounted))

    monkeypatch.setattr(Admin, "address", behind)
    hidden = {"address_full_policy": policy, "max_size_bytes": 50_000}
    bench = Bench(reference, (), label="infer", overrides={"address": hidden})
    probes = AddressProbes(bench, "q.", None)
    assert probes.admin is not None
    assert probes.look([16_384] * 8).policy == policy
    bench.close()


def test_an_address_without_a_limit_is_not_found_to_have_one(reference: Target) -> None:
    bench = Bench(reference, (), label="infer")
    (found,) = infer_address(bench, "q.", None)
    bench.close()
    assert (found.known, found.value) == (False, "not measured")


def test_bounds_are_tight_where_the_range_of_products_is_wide(reference: Target) -> None:
    acceptor = {
        "connection_ttl_ms": 45_678,
        "heart_beat_to_connection_ttl_modifier": 1.7,
        "connection_ttl_max_ms": 90_001,
    }
    bench = Bench(reference, (), label="infer", overrides={"acceptor": acceptor})
    found = {
        estimate.parameter: estimate for estimate in infer_liveness(bench, None, seconds(1000), 40)
    }
    bench.close()
    widths = {
        name: float(estimate.range.width)
        for name, estimate in found.items()
        if estimate.range and estimate.range.width is not None
    }
    assert widths["heart_beat_to_connection_ttl_modifier"] < 0.001
    for name in ("connection_ttl_ms", "connection_ttl_min_ms", "connection_ttl_max_ms"):
        assert widths[name] < 40


def test_a_way_to_round_that_explains_nothing_is_refuted() -> None:
    # 1000 / 3 = 333.3, truncated to 333; a modifier known to be 3 allows no other rounding.
    facts = Facts(
        answers={0: 333, 1: 1}, silences={0: Range.of(1000, 1000), 30_000: Range.of(90_000, 90_000)}
    )
    facts.answers[30_000] = 30_000
    assert narrowed(facts, "down").default == Range.of(1000, 1000)
    with pytest.raises(Refuted):
        narrowed(facts, "up")


@pytest.mark.parametrize("check", [1, 500, 2000])
def test_the_grid_is_seen_in_instants(check: int) -> None:
    closed = []
    for since in range(0, 12 * ms(137), ms(137) + ms(1) // 3):
        look = -(-since // ms(check)) * ms(check)
        closed.append(Closed(since, look + 3 * ms(check)))
    found = grid(closed, ms(137), 0)
    assert found is not None
    assert found.check == Range.of(ms(check), ms(check))
    assert all(3 * check in found.ttl_ms(moment) for moment in closed)


def test_a_broker_that_keeps_timers_has_no_grid() -> None:
    closed = [Closed(ms(number), ms(number + 1500)) for number in range(0, 2000, 137)]
    found = grid(closed, ms(137), 0)
    assert found is not None
    assert found.check == Range.of(0, 0)
    assert found.ttl_ms(closed[0]) == Range.of(1500, 1500)


def test_a_grid_is_seen_through_jitter() -> None:
    drawn, closed = random.Random(4), []
    for since in range(0, 12 * 350, 350):
        look = -(-ms(since) // ms(2000)) * ms(2000) + ms(2000)
        closed.append(Closed(ms(since), look + drawn.randint(0, ms(40))))
    found = grid(closed, ms(410), ms(60))
    assert found is not None
    assert ms(2000) in found.check
    assert all(2000 in found.ttl_ms(moment) for moment in closed)


def test_ranges() -> None:
    assert Range.of(1, 4).meet(Range.of(3, None)) == Range.of(3, 4)
    with pytest.raises(Refuted, match="do not overlap"):
        Range.of(1, 2).meet(Range.of(3, 4))
    assert Range.of(2, 3).times(Range.of(10, None)) == Range(Fraction(20), None)
    assert Range.of(10, 20).over(Range.of(2, 5)) == Range.of(2, 10)
    assert ANY.over(Range.of(0, 0)) == Range()
    assert [str(span) for span in (Range.of(1, 1), Range.of(0.5, 2), ANY, Range.of(None, 3), Range.of(7, None))] == [  # noqa: E501
        "1", "0.5 … 2", "any", "at most 3", "7 or more",
    ]  # fmt: skip


def test_what_the_file_says_of_an_address(tmp_path: Path) -> None:
    settings = "".join(
        f'<address-setting match="{match}"><{name}>{value}</{name}></address-setting>'
        for match, name, value in (
            ("a.b", "max-size-bytes", 3),
            ("a.*", "max-size-bytes", 2),
            ("#", "max-size-bytes", 1),
            ("a.#", "address-full-policy", "FAIL"),
            ("b.#", "max-size-messages", 7),
        )
    )
    file = tmp_path / "broker.xml"
    file.write_text(
        f"<configuration><core><address-settings>{settings}</address-settings></core></configuration>"
    )
    expected = {"max_size_bytes": 3, "address_full_policy": "FAIL"}
    assert parameters.of_address(file, "a.b") == expected
    assert parameters.of_address(file, "a.c") == {
        "max_size_bytes": 2,
        "address_full_policy": "FAIL",
    }
    assert parameters.of_address(file, "a") == {"max_size_bytes": 1, "address_full_policy": "FAIL"}
    assert parameters.of_address(file, "b.c.d") == {"max_size_bytes": 1, "max_size_messages": 7}
    assert parameters.of_address(file, "ab") == {"max_size_bytes": 1}


def test_the_profile_of_what_was_found_is_one_that_is_read(tmp_path: Path) -> None:
    base = profiles.load("artemis")
    found = [
        Estimate("amqp_credits", Range.of(1000, 1000), "deliveries", ""),
        Estimate("amqp_low_credits", Range.of(29, 31), "deliveries", ""),
        Estimate("connection_ttl_ms", Range.of(Fraction(5999, 2), 3001), "ms", ""),
        Estimate("server_beat_floor_ms", None, "ms", "not seen"),
        Estimate("rounding of answers", None, "", "", "down"),
    ]
    file = tmp_path / "measured.toml"
    file.write_text(
        profile_file.compose(base, found, {"amqp_credits": 100, "amqp_low_credits": 30}, "x"),
        "utf-8",
    )
    measured = profiles.load(str(file))
    assert measured.name == "measured"
    assert measured.capabilities == base.capabilities
    changed = {
        name: value
        for name, value in measured.parameters.items()
        if base.parameters.get(name) != value
    }
    assert changed == {"amqp_credits": 1000, "connection_ttl_ms": 3000}


def test_the_command_prints_what_it_found_and_writes_the_profile(tmp_path: Path) -> None:
    out = tmp_path / "p.toml"
    done = CliRunner().invoke(
        cli, ["infer", "--target", "reference", "--only", "credit", "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    found = {load["parameter"]: load for load in json.loads(done.output)}
    assert (found["amqp_credits"]["low"], found["amqp_credits"]["agrees"]) == (100.0, True)
    assert tomllib.loads(out.read_text())["parameters"]["amqp_credits"] == 100


def test_an_acceptor_that_is_not_there_is_a_usage_error() -> None:
    done = CliRunner().invoke(cli, ["infer", "--target", "reference", "--acceptor", "stonp"])
    assert done.exit_code == 4
    assert "the target has no acceptor 'stonp'; it has " in done.output


def test_a_run_notes_how_full_addresses_may_be(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    limits = "<max-size-bytes>{}</max-size-bytes><page-limit-bytes>500</page-limit-bytes>"
    settings = (
        f'<address-setting match="full.#">{limits.format(1000)}</address-setting><address-setting'
        f' match="named.#">{limits.format("10M")}</address-setting><address-setting'
        ' match="other"><auto-create-queues>true</auto-create-queues></address-setting>'
    )
    file.write_text(
        f"<configuration><core><address-settings>{settings}</address-settings></core></configuration>"
    )
    assert parameters.address_settings(file) == [
        {"match": "full.#", "max_size_bytes": 1000, "page_limit_bytes": 500},
        {"match": "named.#", "page_limit_bytes": 500},
    ]
    assert parameters.address_settings(tmp_path / "rabbitmq.conf") == []
