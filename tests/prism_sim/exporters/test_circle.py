"""What exporters send is what the readers take back: the same records, as exact as the format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from llmprism.ingest.ingesting import ingest
from llmprism.ingest.options import Options
from llmprism.ingest.sources import find
from prism_common.errors import UserError
from prism_sim.exporters import EXPORTERS

NS, MS = 1, 1_000_000
EXACT = {"ipfix": NS, "netflow9": MS, "csv": NS}
"""Exactness of times [ns] of the formats that have every record."""
BEGIN_NS = 1_767_225_600_123_456_789
COLUMNS = ["src", "dst", "bytes", "src_port", "dst_port", "protocol"]


@pytest.fixture(scope="module")
def flows() -> pd.DataFrame:
    """Records of twelve hosts that are no round numbers, in an order that no exporter has."""
    draws = np.random.default_rng(5)
    count = 500
    host = draws.integers(1, 13, (2, count))
    start = BEGIN_NS + draws.integers(0, 3 * 10**9, count)
    return pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": start + draws.integers(2 * MS, 40 * MS, count),
            "src": [f"10.0.0.{one}" for one in host[0]],
            "dst": [f"10.0.1.{one}" for one in host[1]],
            "bytes": draws.integers(1, 5 * 10**9, count),
            "src_port": draws.integers(1024, 65_536, count).astype(np.int32),
            "dst_port": np.int32(4791),
            "protocol": np.int32(17),
        }
    )


def taken_back(flows: pd.DataFrame, name: str, folder: Path, sampling: int = 1) -> pd.DataFrame:
    path = folder / f"flows{EXPORTERS[name].suffix}"
    with path.open("wb") as stream:
        EXPORTERS[name].write(flows, stream, sampling)
    done = ingest(find([str(path)]), folder / "back.parquet", Options())
    assert done.notes.set_aside == {}
    return pd.read_parquet(folder / "back.parquet")


@pytest.mark.parametrize("name", EXACT)
def test_records_come_back(flows: pd.DataFrame, name: str, tmp_path: Path) -> None:
    back = taken_back(flows, name, tmp_path).astype({"src": str, "dst": str})
    order = ["src", "dst", "src_port", "bytes"]
    mine = flows.sort_values(order).reset_index(drop=True)
    back = back.sort_values(order).reset_index(drop=True)
    pd.testing.assert_frame_equal(back[COLUMNS], mine[COLUMNS], check_dtype=False)
    for column in ("start_ns", "end_ns"):
        assert (back[column] - mine[column]).abs().max() < EXACT[name]


def test_sampled_packets_show_volumes(flows: pd.DataFrame, tmp_path: Path) -> None:
    """The estimate of all bytes is as exact as the number of samples allows."""
    sampling = 50_000
    back = taken_back(flows, "sflow", tmp_path, sampling)
    samples = flows["bytes"].sum() / 4096 / sampling
    assert back["bytes"].sum() == pytest.approx(flows["bytes"].sum(), rel=4 / np.sqrt(samples))
    assert set(back["src"].astype(str)) <= set(flows["src"])
    assert back["start_ns"].min() >= flows["start_ns"].min()
    assert back["end_ns"].max() <= flows["end_ns"].max()


def test_names_that_are_no_addresses_are_an_error(flows: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="export as csv"):
        taken_back(flows.assign(src="server-1"), "ipfix", tmp_path)


@pytest.mark.parametrize("name", ["ipfix", "netflow9", "sflow"])
def test_no_records_are_a_file_without_records(
    flows: pd.DataFrame, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "none"
    with path.open("wb") as stream:
        EXPORTERS[name].write(flows.iloc[:0], stream, 1)
    assert path.stat().st_size < 100
