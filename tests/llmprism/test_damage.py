"""Damaged and absurd input: an answer or an error message, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from evaluation.attacks.targets import Edit, damaged, edits
from llmprism.cli import app

QUICK = settings(max_examples=40)
ADDRESSES = ["a", "b", "c", "[red]", "é", ""]
TIMES = st.one_of(
    st.none(),
    st.integers(0, 1000),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1, 2**62, 2**61, -1, 0]),
)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "start_ns": TIMES,
            "end_ns": TIMES,
            "bytes": TIMES,
            "src": st.sampled_from([None, "x", *ADDRESSES]),
            "dst": st.sampled_from([None, "x", *ADDRESSES]),
            "src_port": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
            "dst_port": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
            "path": st.one_of(st.none(), st.text(max_size=6), st.just("leaf|?|leaf")),
        }
    ),
    max_size=30,
)
SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("start_ns", "end_ns", "bytes")),
        *((name, pa.string()) for name in ("src", "dst", "path")),
        *((name, pa.int32()) for name in ("src_port", "dst_port")),
    ]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["endpoints", "switches", "links", "address", "server", "a", "b"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)


def outcome(flows: Path, topology: Path) -> int:
    result = CliRunner().invoke(app, [str(flows), "--topology", str(topology), "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.stderr
    if result.exit_code != 1:
        json.loads(result.stdout)
    else:
        assert result.stderr.startswith("error: ")
    return result.exit_code


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sound")
    ends = [{"address": name, "server": f"s{i}"} for i, name in enumerate(ADDRESSES)]
    switches = [{"name": "leaf", "tier": "leaf"}]
    links = [{"a": "a", "b": "leaf", "gbps": 400}]
    content = {"endpoints": ends, "switches": switches, "links": links}
    (folder / "topology.json").write_text(json.dumps(content))
    rows = [
        {"start_ns": 100 * i, "end_ns": 100 * i + 50, "bytes": i % 3, "src": "a", "dst": "b"}
        for i in range(200)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / "flows.parquet")
    return folder / "flows.parquet", folder / "topology.json"


@QUICK
@given(records=RECORDS)
def test_any_records_have_an_answer(
    records: list[dict[str, Any]], sound: tuple[Path, Path], tmp_path: Path
) -> None:
    pq.write_table(pa.Table.from_pylist(records, schema=SCHEMA), tmp_path / "flows.parquet")
    assert outcome(tmp_path / "flows.parquet", sound[1]) in {0, 4}


@pytest.mark.parametrize("part", [0, 1], ids=["flows", "topology"])
@QUICK
@given(drawn=edits())
def test_damaged_files_are_answered_or_refused(
    part: int, drawn: list[Edit], sound: tuple[Path, Path], tmp_path: Path
) -> None:
    files = [*sound]
    files[part] = tmp_path / sound[part].name
    files[part].write_bytes(damaged(sound[part].read_bytes(), drawn))
    assert outcome(*files) in {0, 1, 4}


@QUICK
@given(content=JSON)
def test_any_json_as_topology_is_answered_or_refused(
    content: Any, sound: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "topology.json").write_text(json.dumps(content))
    assert outcome(sound[0], tmp_path / "topology.json") in {0, 1, 4}


@pytest.mark.parametrize("nest", ["[", '{"a":'])
def test_deep_nesting_is_refused(nest: str, sound: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "topology.json").write_text(nest * 100_000)
    assert outcome(sound[0], tmp_path / "topology.json") == 1
