"""Flow records from files, pipes and memory; some inputs are refused before they are read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.io.loading import COLUMNS, adopt, load, row_count
from llmprism.io.topology import read_topology
from llmprism.pipeline import diagnose
from prism_common.errors import UserError
from small_jobs import make_world

FRAME = pd.DataFrame(
    {
        "start_ns": [10, 20],
        "end_ns": [15, 25],
        "src": ["a", "b"],
        "dst": ["b", "a"],
        "bytes": [100, 200],
    }
)


def as_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path)


def as_arrow_file(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def as_arrow_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


FORMATS = [as_parquet, as_arrow_file, as_arrow_stream]


@pytest.fixture(params=FORMATS, ids=lambda one: one.__name__)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "flows"
    request.param(pa.Table.from_pandas(FRAME), path)
    return path


@pytest.fixture
def piped() -> Callable[[bytes], str]:
    """Feed some bytes through a pipe; returns its name."""
    ends: list[int] = []

    def feed(content: bytes) -> str:
        read_end, write_end = os.pipe()
        ends.append(read_end)

        def write() -> None:
            with suppress(BrokenPipeError), os.fdopen(write_end, "wb") as pipe:
                pipe.write(content)

        threading.Thread(target=write, daemon=True).start()
        return f"/dev/fd/{read_end}"

    yield feed
    for end in ends:
        os.close(end)


def test_each_format_is_read(file: Path) -> None:
    assert load(file).to_pandas()["bytes"].tolist() == [100, 200]


def test_each_format_is_read_from_a_pipe(file: Path, piped: Callable[[bytes], str]) -> None:
    assert load(piped(file.read_bytes())).to_pandas()["bytes"].tolist() == [100, 200]


def test_a_pipe_is_not_opened_to_count_its_records(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    assert row_count(tmp_path / "pipe") == row_count("-") == row_count(tmp_path / "none") == 0


def test_records_are_counted_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    pq.write_table(pa.table({"start_ns": [1, 2, 3]}), path)
    assert row_count(path) == 3
    path.write_bytes(path.read_bytes()[:-9])
    assert row_count(path) == 0


def test_a_pipe_of_anything_else_is_refused(piped: Callable[[bytes], str]) -> None:
    with pytest.raises(UserError, match="not a readable Parquet file"):
        load(piped(b"start_ns,end_ns\n1,2\n"))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/", "a\0b"])
def test_devices_folders_and_names_of_no_file_are_refused(path: str) -> None:
    for read in (load, read_topology):
        with pytest.raises(UserError, match=r"this is a (device|folder)|cannot read this"):
            read(path)


def test_a_frame_may_have_other_types_as_long_as_values_fit() -> None:
    times = pd.to_datetime(FRAME["start_ns"], unit="us", utc=True)
    names = FRAME["src"].astype("category")
    frame = FRAME.assign(start_ns=times, src=names, src_port=[1.0, None], dst_port=4791)
    table = adopt(frame)
    assert {name: table.schema.field(name).type for name in ("start_ns", "src_port")} == {
        "start_ns": pa.int64(),
        "src_port": pa.int32(),
    }
    assert table["start_ns"].to_pylist() == [10_000, 20_000]
    assert table["src_port"].to_pylist() == [1, None]


def test_values_that_do_not_fit_are_refused_all_at_once() -> None:
    frame = FRAME.assign(start_ns=["soon", "late"], bytes=[1.5, 2.0], src_port=2**40)
    with pytest.raises(UserError) as caught:
        adopt(frame.drop(columns="end_ns"))
    reported = str(caught.value)
    assert "'end_ns' (int64) is missing" in reported
    assert all(f"{name!r} does not fit" in reported for name in ("start_ns", "bytes", "src_port"))


@pytest.mark.parametrize("column", sorted(set(COLUMNS) & set(FRAME.columns)))
def test_a_column_of_objects_is_refused_and_one_of_nothing_accepted(column: str) -> None:
    """A value that is none of a flow record's types is refused with a message; none is null."""
    for values in ([object(), 1], [1j, 2], [[1], [2]], [b"\xff", "x"]):
        with pytest.raises(UserError, match=f"{column!r} does not fit|not a table of flow records"):
            adopt(FRAME.assign(**{column: pd.Series(values, dtype=object)}))
    empty = adopt(FRAME.assign(**{column: pd.Series([None, None], dtype=object)}))
    assert empty[column].to_pylist() == [None, None]
    assert empty.schema.field(column).type == COLUMNS[column]


def test_flows_and_topology_may_be_given_in_memory(tmp_path: Path) -> None:
    world = make_world()
    from_files = diagnose(*world.save(tmp_path))
    from_memory = diagnose(world.flows, world.topology)
    pd.testing.assert_frame_equal(from_memory.steps, from_files.steps)
    table = pa.Table.from_pandas(world.flows, preserve_index=False)
    assert len(diagnose(table, world.topology).jobs) == len(from_files.jobs)
