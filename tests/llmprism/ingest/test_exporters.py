"""What exporters say of each record, in all the ways in which they do: times, rates, directions."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from datagrams import NOW_S, S, a_set, captured, ipfix, v9
from ingested import read, read_bytes

Fields = Sequence[tuple[int, ...]]
"""Of a template: (number, length) or (number, length, enterprise)."""
MS = 10**6
KEY: Fields = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1)]
COUNTS: Fields = [(1, 8), (2, 8)]
TIMES: Fields = [(152, 8), (153, 8)]
ENDS = ip_address("10.0.0.1").packed + ip_address("10.0.0.2").packed
CONNECTION = ENDS + struct.pack(">HHB", 1000, 2000, 6)
INSTANT = struct.pack(">QQ", NOW_S * 1000, NOW_S * 1000 + 10)


def learn(fields: Fields, number: int = 256) -> bytes:
    """The set of a template of IPFIX."""
    return a_set(2, struct.pack(">HH", number, len(fields)) + described(fields))


def learn_options(scope: Fields, fields: Fields) -> bytes:
    """The set of an options template of IPFIX, with number 300."""
    head = struct.pack(">HHH", 300, len(scope) + len(fields), len(scope))
    return a_set(3, head + described(scope) + described(fields))


def described(fields: Fields) -> bytes:
    out = b""
    for number, size, *enterprise in fields:
        out += struct.pack(">HH", number | (0x8000 if enterprise else 0), size)
        out += b"".join(struct.pack(">I", one) for one in enterprise)
    return out


def rows_of(content: bytes) -> tuple[list[dict[str, Any]], Any]:
    rows, done = read_bytes(content, reader="netflow")
    return rows, done.notes


SAMPLED: Fields = [*KEY, *COUNTS, (302, 4), *TIMES]


def sampled(*samplers: int) -> bytes:
    counts = struct.pack(">QQ", 1000, 10)
    return a_set(256, b"".join(CONNECTION + counts + struct.pack(">I", one) + INSTANT
                               for one in samplers))  # fmt: skip


def rate_of(sampler: int, interval: int) -> bytes:
    return struct.pack(">II", sampler, interval)


RATES = learn_options([(302, 4)], [(34, 4)])


def test_each_record_has_the_rate_of_its_own_sampler() -> None:
    announced = a_set(300, rate_of(1, 100) + rate_of(2, 1000))
    rows, notes = rows_of(ipfix(RATES, announced, learn(SAMPLED), sampled(1, 2, 1, 3)))
    assert sorted((row["sampling"], row["bytes"]) for row in rows) == [
        (1, 1_000),
        (100, 100_000),
        (100, 100_000),
        (1000, 1_000_000),
    ]
    assert any("samplers whose rates are not announced" in one for one in notes.remarks)


def test_rates_that_come_after_their_records_hold_for_them() -> None:
    content = ipfix(learn(SAMPLED), sampled(1)) + ipfix(RATES, a_set(300, rate_of(1, 64)))
    content += ipfix(sampled(1)) + ipfix(a_set(300, rate_of(1, 32))) + ipfix(sampled(1))
    rows, notes = rows_of(content)
    assert [row["sampling"] for row in rows] == [64, 64, 32]
    assert any("rates came after records" in one for one in notes.remarks)


@pytest.mark.parametrize(
    ("fields", "values", "rate"),
    [
        ([(305, 4), (306, 4)], (2, 198), 100),
        ([(305, 4)], (100,), 100),
        ([(309, 4), (310, 4)], (2, 512), 256),
        ([(50, 4)], (1000,), 1000),
        ([(34, 4)], (0,), 1),
    ],
)
def test_a_rate_is_stated_in_several_ways(
    fields: Fields, values: tuple[int, ...], rate: int
) -> None:
    announced = struct.pack(f">I{len(values)}I", 1, *values)
    by_options = ipfix(
        learn_options([(302, 4)], fields), a_set(300, announced), learn(SAMPLED), sampled(1)
    )
    own = CONNECTION + struct.pack(">QQ", 1000, 10) + INSTANT
    by_record = ipfix(
        learn([*KEY, *COUNTS, *TIMES, *fields]),
        a_set(256, own + struct.pack(f">{len(values)}I", *values)),
    )
    for content in (by_options, by_record):
        rows, _ = rows_of(content)
        assert [(row["sampling"], row["bytes"]) for row in rows] == [(rate, 1000 * rate)]


def test_interfaces_of_version_9_have_rates_of_their_own() -> None:
    options = struct.pack(">HHHHHHH", 300, 4, 4, 2, 4, 34, 4)  # scope 2: an interface
    fields = [*KEY, *COUNTS, (10, 2), *TIMES]
    records = b"".join(
        CONNECTION + struct.pack(">QQH", 1000, 10, interface) + INSTANT for interface in (7, 8)
    )
    learned = a_set(0, struct.pack(">HH", 256, len(fields)) + described(fields))
    content = v9(
        a_set(1, options), a_set(300, rate_of(7, 10) + rate_of(8, 20)), learned,
        a_set(256, records), uptime=5,
    )  # fmt: skip
    rows, _ = rows_of(content)
    assert sorted(row["sampling"] for row in rows) == [10, 20]


NTP_S = NOW_S + 2_208_988_800
HALF = 1 << 31  # of a second, as a binary fraction
FORMS = {
    "NTP": (154, NTP_S << 32 | HALF),
    "us since 1970": (154, NOW_S * 10**6 + 500_000),
    "seconds since 1900 and us": (154, NTP_S << 32 | 500_000),
    "seconds since 1970 and us": (154, NOW_S << 32 | 500_000),
    "NTP in ns": (156, NTP_S << 32 | HALF),
    "ns since 1970": (156, NOW_S * 10**9 + 500_000_000),
    "seconds since 1970 and ns": (156, NOW_S << 32 | 500_000_000),
    "ms": (152, NOW_S * 1000 + 500),
    "ms in a field of us": (154, NOW_S * 1000 + 500),
    "us in a field of ms": (152, NOW_S * 10**6 + 500_000),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_number_tells_the_form_of_its_time(form: str) -> None:
    field, value = FORMS[form]
    record = CONNECTION + struct.pack(">QQQQ", 1000, 10, value, value)
    content = ipfix(learn([*KEY, *COUNTS, (field, 8), (field + 1, 8)]), a_set(256, record))
    rows, notes = rows_of(content)
    assert [(row["start_ns"], row["end_ns"]) for row in rows] == [
        (NOW_S * S + S // 2, NOW_S * S + S // 2)
    ]
    assert not notes.set_aside


@pytest.mark.parametrize("year", [0, 1, 4_000_000_000_000, 2**64 - 1])  # ms: 1970, 2096, ...
def test_a_year_that_cannot_be_is_no_time(year: int) -> None:
    record = CONNECTION + struct.pack(">QQQQ", 1000, 10, year, year)
    rows, notes = rows_of(ipfix(learn([*KEY, *COUNTS, *TIMES]), a_set(256, record)))
    assert rows == []
    assert notes.set_aside == {"no time, or one that cannot be read": 1}


def test_the_second_clock_of_a_record_counts_where_the_first_is_unset() -> None:
    fields = [*KEY, *COUNTS, (154, 8), (155, 8), (150, 4), (151, 4)]
    record = CONNECTION + struct.pack(">QQQQII", 1000, 10, 0, 0, NOW_S, NOW_S + 1)
    rows, _ = rows_of(ipfix(learn(fields), a_set(256, record)))
    assert [(row["start_ns"], row["end_ns"]) for row in rows] == [(NOW_S * S, (NOW_S + 1) * S)]


def test_a_start_and_a_duration_are_two_times() -> None:
    record = CONNECTION + struct.pack(">QQQI", 1000, 10, NOW_S * 1000, 250)
    content = ipfix(learn([*KEY, *COUNTS, (152, 8), (161, 4)]), a_set(256, record))
    rows, _ = rows_of(content)
    assert [row["end_ns"] - row["start_ns"] for row in rows] == [250 * MS]


def test_an_uptime_that_wrapped_counts_from_the_start_of_its_record() -> None:
    days_60 = 60 * 86_400_000  # ms: more than 2^32
    since = (days_60 - 2_000) % 2**32, (days_60 - 1_000) % 2**32
    record = CONNECTION + struct.pack(">QQIIQ", 1000, 10, *since, NOW_S * 1000 - days_60)
    content = ipfix(learn([*KEY, *COUNTS, (22, 4), (21, 4), (160, 8)]), a_set(256, record))
    rows, _ = rows_of(content)
    assert [(row["start_ns"], row["end_ns"]) for row in rows] == [
        ((NOW_S - 2) * S, (NOW_S - 1) * S)
    ]


def test_the_start_that_options_tell_holds_for_earlier_records() -> None:
    record = CONNECTION + struct.pack(">QQII", 1000, 10, 5_000, 6_000)
    content = ipfix(learn([*KEY, *COUNTS, (22, 4), (21, 4)]), a_set(256, record))
    announced = struct.pack(">IQ", 1, (NOW_S - 100) * 1000)
    content += ipfix(learn_options([(149, 4)], [(160, 8)]), a_set(300, announced))
    rows, _ = rows_of(content)
    assert [row["start_ns"] for row in rows] == [(NOW_S - 95) * S]


def test_arrivals_place_the_times_of_an_exporter_without_a_clock(tmp_path: Path) -> None:
    fields = [*KEY, *COUNTS, (22, 4), (21, 4)]
    learned = a_set(0, struct.pack(">HH", 256, len(fields)) + described(fields))
    record = CONNECTION + struct.pack(">QQII", 1000, 10, 90_000, 95_000)
    sent = v9(learned, a_set(256, record), uptime=100_000, seconds=100)  # 1970 and its uptime
    rows, done = read(captured(tmp_path / "a.pcap", [(NOW_S * S, "192.0.2.1", sent)], 2055))
    assert [(row["start_ns"], row["end_ns"]) for row in rows] == [
        ((NOW_S - 10) * S, (NOW_S - 5) * S)
    ]
    rows, done = read_bytes(sent)
    assert [row["end_ns"] - row["start_ns"] for row in rows] == [5 * S]
    assert any("is not set" in one for one in done.notes.remarks)


@pytest.mark.parametrize("arriving", [(), (0, 0)])
def test_packets_that_leave_are_counted_where_those_that_arrive_are_not(
    arriving: tuple[int, ...],
) -> None:
    fields = [*KEY, *(COUNTS if arriving else ()), (23, 8), (24, 8), *TIMES]
    record = CONNECTION + struct.pack(f">{len(arriving) + 2}Q", *arriving, 5000, 50) + INSTANT
    rows, _ = rows_of(ipfix(learn(fields), a_set(256, record)))
    assert [(row["src"], row["bytes"], row["packets"]) for row in rows] == [("10.0.0.1", 5000, 50)]


def test_a_record_that_counts_both_sides_of_a_router_is_one() -> None:
    fields = [*KEY, *COUNTS, (23, 8), (24, 8), *TIMES]
    record = CONNECTION + struct.pack(">4Q", 5000, 50, 4900, 49) + INSTANT
    rows, _ = rows_of(ipfix(learn(fields), a_set(256, record)))
    assert [(row["bytes"], row["packets"]) for row in rows] == [(5000, 50)]


def test_a_direction_without_bytes_has_no_record() -> None:
    fields = [*KEY, (233, 1), (231, 4), (232, 4), *TIMES]
    volumes = [(1, 0, 0), (2, 700, 0), (2, 0, 800)]  # created; deleted, deleted
    records = b"".join(CONNECTION + struct.pack(">BII", *one) + INSTANT for one in volumes)
    rows, notes = rows_of(ipfix(learn(fields), a_set(256, records)))
    assert sorted((row["src"], row["src_port"], row["bytes"]) for row in rows) == [
        ("10.0.0.1", 1000, 700),
        ("10.0.0.2", 2000, 800),
    ]
    assert notes.set_aside == {"event of a firewall, which counts no bytes": 1}


SIX = [ip_address(one).packed for one in ("2001:db8::1", "2001:db8::2")]
OUTER: Fields = [(27, 16), (28, 16), (4, 1)]


@pytest.mark.parametrize(
    ("fields", "head", "is_inner"),
    [
        ([*OUTER, *KEY], b"".join(SIX) + b"\x04" + CONNECTION, True),
        ([*KEY, *OUTER], CONNECTION + b"".join(SIX) + b"\x04", True),
        ([*OUTER, *KEY], b"".join(SIX) + b"\x04" + bytes(13), False),  # no tunnel: unset
        ([*KEY, *KEY], bytes(4) + b"\1\1\1\1" + bytes(5) + CONNECTION, True),
        ([(27, 16), (28, 16), *KEY], bytes(32) + CONNECTION, True),  # both families, one header
    ],
)
def test_addresses_ports_and_protocol_are_of_one_header(
    fields: Fields, head: bytes, is_inner: bool
) -> None:
    record = head + struct.pack(">QQ", 1000, 10) + INSTANT
    rows, _ = rows_of(ipfix(learn([*fields, *COUNTS, *TIMES]), a_set(256, record)))
    names = ("src", "dst", "src_port", "dst_port", "protocol")
    found = [tuple(row.get(name) for name in names) for row in rows]
    inner = ("10.0.0.1", "10.0.0.2", 1000, 2000, 6)
    assert found == [inner if is_inner else ("2001:db8::1", "2001:db8::2", None, None, 4)]


def test_a_varying_field_that_is_cut_by_its_set_loses_one_record() -> None:
    fields = [*KEY, *COUNTS, *TIMES, (82, 65_535)]
    record = CONNECTION + struct.pack(">QQ", 1000, 10) + INSTANT
    for cut in (b"\x03ab", b"\xff\x01", b"\xff"):
        body = struct.pack(">HH", 256, 4 + 2 * len(record) + 4 + len(cut))
        content = ipfix(learn(fields), body + record + b"\x03abc" + record + cut)
        rows, notes = rows_of(content)
        assert [row["bytes"] for row in rows] == [1000]
        assert notes.set_aside == {"set of a datagram that does not fit its length or template": 1}


@pytest.mark.parametrize("value", [2**61 + 1, 2**63, 2**64 - 1])
def test_counters_beyond_what_fits_are_none(value: int) -> None:
    body = CONNECTION + struct.pack(">QQ", value, 10) + INSTANT
    body += CONNECTION + struct.pack(">QQ", 1000, value) + INSTANT
    rows, notes = rows_of(ipfix(learn([*KEY, *COUNTS, *TIMES]), a_set(256, body)))
    assert [(row["bytes"], row.get("packets")) for row in rows] == [(1000, None)]
    assert notes.set_aside == {"no size, or one that cannot be read": 1}
