"""Tables that are written during a run: they are closed with their ``with`` block."""

from __future__ import annotations

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_sim.streaming import Streaming

SCHEMA = pa.schema([("number", pa.int64())])


class Numbers(Streaming):
    """Buffers numbers to the end."""

    def __init__(self, path, fails=False):
        self.held = []
        self.fails = fails
        super().__init__(path, SCHEMA)

    def write(self, numbers):
        self._stream.write(lambda: pa.table({"number": numbers}, schema=SCHEMA))

    def _write_rest(self):
        if self.fails:
            raise OSError("disk full")
        self.write(self.held)


def writers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("write-")]


def test_buffered_rows_are_written_at_the_end(tmp_path):
    with Numbers(tmp_path / "n") as numbers:
        numbers.write([1, 2])
        numbers.held = [3]
    assert pq.read_table(tmp_path / "n")["number"].to_pylist() == [1, 2, 3]


def test_after_an_error_the_file_is_closed_without_it(tmp_path):
    def fails():
        with Numbers(tmp_path / "n") as numbers:
            numbers.write([1])
            numbers.held = [2]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert pq.read_table(tmp_path / "n")["number"].to_pylist() == [1]


def test_the_file_is_closed_also_where_the_rest_cannot_be_written(tmp_path):
    def fails():
        with Numbers(tmp_path / "n", fails=True) as numbers:
            numbers.write([1])

    with pytest.raises(OSError, match="disk full"):
        fails()
    assert not writers()
    assert pq.read_table(tmp_path / "n")["number"].to_pylist() == [1]


def test_without_a_block_there_is_no_file(tmp_path):
    Numbers(tmp_path / "n")
    assert not (tmp_path / "n").exists()
