"""The input contract: records that are accepted, set aside, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.io.flows import read_flows
from llmprism.io.topology import Link, Topology, read_topology
from prism_common.errors import UserError

GOOD = {
    "start_ns": [10, 20, 30], "end_ns": [15, 25, 30], "src": ["a", "b", "a"],
    "dst": ["b", "c", "c"], "bytes": [100, 200, 0],
}  # fmt: skip
TYPES = {
    "start_ns": pa.int64(), "end_ns": pa.int64(), "src": pa.string(), "dst": pa.string(),
    "bytes": pa.int64(), "src_port": pa.int32(), "dst_port": pa.int32(), "packets": pa.int64(),
    "payload": pa.int64(), "protocol": pa.int32(), "path": pa.string(),
}  # fmt: skip


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    path = tmp_path / "topology.json"
    path.write_text(json.dumps({"endpoints": [{"address": x, "server": x * 2} for x in "abc"]}))
    return read_topology(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "flows.parquet"


def write(file: Path, columns: dict[str, Any], **types: pa.DataType) -> Path:
    wanted = TYPES | types
    arrays = {name: encoded(values, wanted.get(name)) for name, values in columns.items()}
    pq.write_table(pa.table(arrays), file)
    return file


def encoded(values: Any, wanted: pa.DataType | None) -> pa.Array:
    """An array of any type; older libraries make no dictionaries of all types from lists."""
    if not isinstance(wanted, pa.DictionaryType):
        return pa.array(values, wanted)
    names = pa.array(values, wanted.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(names.indices.cast(wanted.index_type), names.dictionary)


def test_a_good_table_is_read_completely(file: Path, topology: Topology) -> None:
    flows, intake = read_flows(write(file, GOOD), topology)
    assert flows.start_ns.tolist() == [10, 20, 30]
    assert flows.end_ns.tolist() == [15, 25, 30]
    assert [flows.addresses[code] for code in flows.src] == ["a", "b", "a"]
    assert [flows.addresses[code] for code in flows.dst] == ["b", "c", "c"]
    assert flows.bytes.tolist() == [100, 200, 0]
    assert flows.path.tolist() == [-1, -1, -1]
    assert (intake.rows, intake.kept, intake.set_aside) == (3, 3, {})


def test_column_order_is_free_and_other_columns_are_ignored(file: Path, topology: Topology) -> None:
    plain, _ = read_flows(write(file, GOOD), topology)
    turned = dict(reversed([*GOOD.items(), ("color", ["red", "green", "blue"])]))
    same, _ = read_flows(write(file, turned), topology)
    assert same.bytes.tolist() == plain.bytes.tolist()
    assert same.src.tolist() == plain.src.tolist()
    assert same.optional == {}


def test_optional_columns_are_kept(file: Path, topology: Topology) -> None:
    extra = {"src_port": [1, 2, None], "packets": [7, 8, 9], "path": ["l0|?|l1", None, "l0"]}
    flows, _ = read_flows(write(file, GOOD | extra), topology)
    assert flows.optional["src_port"].tolist() == [1, 2, -1]
    assert flows.optional["packets"].tolist() == [7, 8, 9]
    named = [flows.paths[code] if code >= 0 else None for code in flows.path]
    assert named == ["l0|?|l1", None, "l0"]


@pytest.mark.parametrize(
    "text",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
)
def test_names_may_be_encoded_in_any_way(file: Path, topology: Topology, text: Any) -> None:
    flows, _ = read_flows(write(file, GOOD, src=text, dst=text), topology)
    assert [flows.addresses[code] for code in flows.src] == ["a", "b", "a"]


def test_dictionaries_that_differ_between_row_groups_are_joined(
    file: Path, topology: Topology
) -> None:
    write(file, GOOD)
    table = pq.read_table(file)
    pq.write_table(table, file, row_group_size=1)
    flows, _ = read_flows(file, topology)
    assert [flows.addresses[code] for code in flows.dst] == ["b", "c", "c"]


BAD_ROWS = {
    "ends before it starts": {"end_ns": 9},
    "negative size": {"bytes": -1},
    "null time or size": {"start_ns": None},
    "null address": {"dst": None},
    "address unknown to the topology": {"src": "10.9.9.9"},
    "source and destination are the same": {"src": "b"},
    "time or size beyond 2^61": {"start_ns": -(2**63), "end_ns": 2**63 - 1},
    "faster than any link could carry it": {"bytes": 2**40},
}


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_a_bad_row_is_counted_and_set_aside(file: Path, topology: Topology, reason: str) -> None:
    columns = {name: list(values) for name, values in GOOD.items()}
    for name, value in BAD_ROWS[reason].items():
        columns[name][0] = value
    flows, intake = read_flows(write(file, columns), topology)
    assert flows.start_ns.tolist() == [20, 30]
    assert (intake.rows, intake.kept, intake.set_aside) == (3, 2, {reason: 1})


def test_a_row_with_several_faults_counts_once(file: Path, topology: Topology) -> None:
    columns = {name: list(values) for name, values in GOOD.items()}
    columns["src"][0], columns["bytes"][0], columns["end_ns"][1] = None, -5, 0
    _, intake = read_flows(write(file, columns), topology)
    assert intake.set_aside == {"null address": 1, "ends before it starts": 1}
    assert intake.kept + sum(intake.set_aside.values()) == intake.rows


GBPS_400 = 50  # bytes a nanosecond


@pytest.mark.parametrize(
    ("size", "length_ns", "kept"),
    [
        (GBPS_400 * 10_000_000, 10_000_000, True),  # line rate
        (GBPS_400 * 10_000_000, 3_000_000, True),  # rates may be known badly
        (GBPS_400 * 10_000_000, 10_000, False),  # times in us, taken for ns
        (9000, 0, True),  # one packet has no duration
    ],
)
def test_a_record_must_fit_the_fastest_link(
    file: Path, topology: Topology, size: int, length_ns: int, kept: bool
) -> None:
    linked = replace(topology, links=(Link(a="a", b="aa", gbps=400),))
    columns = GOOD | {"end_ns": [10 + length_ns, 25, 30], "bytes": [size, 200, 0]}
    _, intake = read_flows(write(file, columns), linked)
    assert (intake.kept == 3) == kept


def test_the_tick_of_a_coarse_clock_is_allowed_for(file: Path, topology: Topology) -> None:
    """In whole milliseconds a bulk message may begin and end at the same time."""
    start = [1_000_000 * i for i in range(100)]
    columns = {"start_ns": start, "end_ns": start, "src": ["a"] * 100, "dst": ["b"] * 100}
    linked = replace(topology, links=(Link(a="a", b="aa", gbps=400),))
    _, intake = read_flows(write(file, columns | {"bytes": [GBPS_400 * 10**6] * 100}), linked)
    assert intake.set_aside == {}


def test_sizes_of_a_sampling_exporter_are_estimates(file: Path, topology: Topology) -> None:
    columns = GOOD | {"bytes": [2**32, 200, 0], "end_ns": [10_000, 25, 30]}
    table = pq.read_table(write(file, columns))
    pq.write_table(table.replace_schema_metadata({"sampling": "1000"}), file)
    assert read_flows(file, topology)[1].kept == 3
    pq.write_table(table.replace_schema_metadata({}), file)
    assert read_flows(file, topology)[1].kept == 2


def repeated(**more: list[int]) -> dict[str, Any]:
    twice = {name: [*values, *values[:2]] for name, values in GOOD.items()}
    return twice | {name: [*values, *values[:2]] for name, values in more.items()}


def test_repeated_records_are_counted(file: Path, topology: Topology) -> None:
    """Without ports, equal records may be parallel connections."""
    _, intake = read_flows(write(file, repeated()), topology)
    assert (intake.rows, intake.kept, intake.repeated, intake.set_aside) == (5, 5, 2, {})


def test_repeated_records_of_known_ports_are_set_aside(file: Path, topology: Topology) -> None:
    columns = repeated(src_port=[1, 2, 3], dst_port=[4791] * 3)
    flows, intake = read_flows(write(file, columns), topology)
    assert (intake.rows, intake.kept, intake.repeated) == (5, 3, 2)
    assert intake.set_aside == {"repeats another record with the same ports": 2}
    assert flows.start_ns.tolist() == GOOD["start_ns"]


def test_records_that_differ_in_a_port_are_no_repetition(file: Path, topology: Topology) -> None:
    columns = {name: values[:1] * 2 for name, values in GOOD.items()}
    columns |= {"src_port": [1, 2], "dst_port": [4791, 4791]}
    _, intake = read_flows(write(file, columns), topology)
    assert (intake.kept, intake.repeated) == (2, 0)


def test_unknown_addresses_beyond_the_named_ones_are_counted(
    file: Path, topology: Topology
) -> None:
    names = [f"x{i:02}" for i in range(40)]
    columns = {"start_ns": [0] * 40, "end_ns": [1] * 40, "bytes": [1] * 40}
    _, intake = read_flows(write(file, columns | {"src": names, "dst": ["a"] * 40}), topology)
    assert len(intake.unknown_addresses) < intake.unknown_address_count == 40


def test_unknown_addresses_are_named_most_frequent_first(file: Path, topology: Topology) -> None:
    columns = GOOD | {"src": ["x", "y", "a"], "dst": ["y", "a", "b"]}
    _, intake = read_flows(write(file, columns), topology)
    assert list(intake.unknown_addresses.items()) == [("y", 2), ("x", 1)]


def test_all_mistakes_in_the_columns_are_reported_at_once(file: Path, topology: Topology) -> None:
    columns = {"start_ns": [1.5], "src": [7], "dst": ["b"], "bytes": [1], "path": [3]}
    types = {"start_ns": pa.float64(), "src": pa.int64(), "bytes": pa.int32(), "path": pa.int64()}
    with pytest.raises(UserError) as caught:
        read_flows(write(file, columns, **types), topology)
    reported = "\n".join(problem.what for problem in caught.value.problems)
    assert "'end_ns' (int64) is missing" in reported
    for name, found in (("start_ns", "double"), ("src", "int64"), ("bytes", "int32")):
        assert f"'{name}' is {found}" in reported
    assert "'path' is int64" in reported
    assert len(caught.value.problems) == 5


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def with_a_damaged_page(file: Path) -> None:
    write(file, {name: values * 5000 for name, values in GOOD.items()})
    content = bytearray(file.read_bytes())
    content[4:400] = bytes(396)
    file.write_bytes(content)


def with_a_column_twice(file: Path) -> None:
    table = pq.read_table(file)
    pq.write_table(table.append_column("bytes", table["bytes"]), file)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "not a readable Parquet file"),
        (with_a_damaged_page, "not a readable Parquet file"),
        (lambda file: file.write_bytes(b""), "not a readable Parquet file"),
        (lambda file: file.write_bytes(b"start_ns,end_ns\n1,2\n"), "not a readable Parquet file"),
        (Path.unlink, "no such file"),
        (a_folder, "this is a folder"),
        (with_a_column_twice, "'bytes' appears 2 times"),
    ],
    ids=["cut", "damaged", "empty", "text", "missing", "folder", "column twice"],
)
def test_what_is_no_table_is_refused(
    file: Path, topology: Topology, spoil: Callable[[Path], Any], message: str
) -> None:
    spoil(write(file, GOOD))
    with pytest.raises(UserError, match=message):
        read_flows(file, topology)


def test_an_empty_table_is_fine(file: Path, topology: Topology) -> None:
    flows, intake = read_flows(write(file, {name: [] for name in GOOD}), topology)
    assert len(flows) == 0
    assert intake.rows == 0


def test_notes_of_the_exporter_are_kept(file: Path, topology: Topology) -> None:
    write(file, GOOD)
    table = pq.read_table(file).replace_schema_metadata({"idle_gap_ns": "5000000", "pandas": "{}"})
    pq.write_table(table, file)
    flows, _ = read_flows(file, topology)
    assert flows.meta == {"idle_gap_ns": "5000000"}


def test_notes_that_are_no_text_do_no_harm(file: Path, topology: Topology) -> None:
    write(file, GOOD)
    notes = {b"sampling": b"\xff\xfe", b"idle_gap_ns": b"\x80\x81"}
    pq.write_table(pq.read_table(file).replace_schema_metadata(notes), file)
    flows, intake = read_flows(file, topology)
    assert intake.kept == 3
    assert not flows.meta  # such a note says nothing


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_records_give_the_same_table(file: Path, topology: Topology, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 300  # few distinct values, so that every column has to break ties
    columns = {
        "start_ns": rng.integers(0, 5, n),
        "end_ns": rng.integers(5, 8, n),
        "src": rng.choice(["a", "b", "c"], n),
        "dst": rng.choice(["a", "b", "c"], n),
        "bytes": rng.integers(0, 3, n),
        "src_port": rng.integers(0, 3, n).astype(np.int32),
        "path": rng.choice(["l0", "l1"], n),
    }
    plain, _ = read_flows(write(file, columns), topology)
    order = rng.permutation(n)
    mixed = {name: values[order] for name, values in columns.items()}
    again, _ = read_flows(write(file, mixed), topology)
    for name in ("start_ns", "end_ns", "src", "dst", "bytes", "path"):
        assert getattr(again, name).tolist() == getattr(plain, name).tolist()
    assert again.optional["src_port"].tolist() == plain.optional["src_port"].tolist()
    assert np.all(np.diff(plain.start_ns) >= 0)


def test_pairs_are_directed_and_in_order_of_first_flow(file: Path, topology: Topology) -> None:
    columns = GOOD | {"src": ["b", "a", "b"], "dst": ["a", "b", "a"]}
    flows, _ = read_flows(write(file, columns), topology)
    src, dst, of_flow = flows.pairs
    assert (src.tolist(), dst.tolist(), of_flow.tolist()) == ([1, 0], [0, 1], [0, 1, 0])


def test_equal_records_within_a_tick_of_a_coarse_clock_are_kept(
    file: Path, topology: Topology
) -> None:
    """Two messages that begin and end in one millisecond have the same times."""
    start = [1_000_000 * (i // 2) for i in range(200)]
    columns = {"start_ns": start, "end_ns": start, "src": ["a"] * 200, "dst": ["b"] * 200}
    columns |= {"bytes": [5000] * 200, "src_port": [1] * 200, "dst_port": [4791] * 200}
    _, intake = read_flows(write(file, columns), topology)
    assert (intake.kept, intake.repeated) == (200, 100)
