"""Several files cost what one file with all their records costs: in work, and in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.points import SeveralPoints
from llmprism.ingest.records import batch
from llmprism.ingest.sources import find
from llmprism.io.notes import Notes

ROWS = 6_000
SECOND_NS = 1_000_000_000
PORTS: dict[str, Callable[[int], str]] = {
    "without ports": lambda _: ",",
    "one connection": lambda _: "4000,179",
    "a connection for each record": lambda n: f"{n % 50_000 + 1},179",
}


def folder_of(path: Path, files: int, ports: Callable[[int], str]) -> Path:
    """Write the same records in one or several files; in each file they are in order of time."""
    path.mkdir()
    lines = [f"10.0.0.1,10.0.0.2,{ports(n)},{1_700_000_000 + n},1,9\n" for n in range(ROWS)]
    for i in range(files):
        text = "src,dst,src_port,dst_port,start,duration,bytes\n" + "".join(lines[i::files])
        (path / f"{i}.csv").write_text(text)
    return path


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions were called: a measure of work that no other process disturbs."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", PORTS)
def test_the_work_for_each_record_does_not_grow_with_the_number_of_files(
    name: str, tmp_path: Path
) -> None:
    calls = {}
    for files in (1, 3, 12):
        sources = find([str(folder_of(tmp_path / str(files), files, PORTS[name]))])
        target = tmp_path / f"{files}.parquet"
        ingest(sources[:1], target, Options())  # what is done once, such as imports
        calls[files] = calls_of(lambda s=sources, t=target: ingest(s, t, Options()))
    for files in (3, 12):
        for_a_record = (calls[files] - files * calls[1]) / ROWS
        assert for_a_record < 20, calls


def test_records_wait_for_other_points_no_longer_than_clocks_differ() -> None:
    """However many records there are: those that wait are of the last seconds."""
    per_second = 50
    handed_in = 0

    def batches(seconds: int) -> Iterator[pa.Table]:
        nonlocal handed_in
        for second in range(seconds):
            start = [second * SECOND_NS + i for i in range(per_second)]
            handed_in += per_second
            yield batch(
                {
                    "start_ns": start, "end_ns": start, "bytes": [1] * per_second,
                    "src": ["a"] * per_second, "dst": ["b"] * per_second,
                    "src_port": range(per_second), "dst_port": [second] * per_second,
                    "observer": ["l0", "l1"] * (per_second // 2),
                }
            )  # fmt: skip

    points = SeveralPoints(1_000, Notes())
    handed_on, most = 0, 0
    for table in points.join(batches(300)):
        handed_on += table.num_rows
        most = max(most, handed_in - handed_on)
    assert handed_on == 300 * per_second
    assert most <= 8 * per_second
