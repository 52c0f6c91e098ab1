"""Records between random addresses at random times contain no job: one line states it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from llmprism.cli import app

RECORDS, ADDRESSES = 40_000, 60


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Options of the command: independent records of an hour that connect all addresses."""
    draw = np.random.default_rng(7)
    names = np.array([f"10.0.0.{i}" for i in range(ADDRESSES)])
    src = draw.integers(0, ADDRESSES, RECORDS)
    start = 1_700_000_000 * 10**9 + np.sort(draw.integers(0, 3600 * 10**9, RECORDS))
    pd.DataFrame(
        {
            "start_ns": start,
            "end_ns": start + draw.integers(10**6, 10**10, RECORDS),
            "src": names[src],
            "dst": names[(src + draw.integers(1, ADDRESSES, RECORDS)) % ADDRESSES],
            "bytes": np.exp(draw.normal(11, 2, RECORDS)).astype(np.int64) + 40,
            "src_port": draw.integers(1024, 65536, RECORDS).astype(np.int32),
            "dst_port": draw.choice([80, 443, 4791], RECORDS).astype(np.int32),
        }
    ).to_parquet(tmp_path / "flows.parquet", index=False)
    ends = [{"address": name, "server": f"s{i // 4}", "nic": i % 4} for i, name in enumerate(names)]
    topology = {"endpoints": ends, "switches": [], "links": []}
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    return [str(tmp_path / "flows.parquet"), "--topology", str(tmp_path / "topology.json")]


@pytest.mark.parametrize("at_once", [RECORDS, RECORDS // 4])
def test_that_nothing_circulates_is_one_line(files: list[str], at_once: int) -> None:
    result = CliRunner().invoke(app, [*files, "--quiet", "--at-once", str(at_once)])
    assert result.exit_code == 4
    assert result.output.count("nothing circulates") == 1
    assert "job-0" not in result.output


def test_windows_are_counted_to_the_end_of_the_recording(files: list[str]) -> None:
    whole, parts = (
        json.loads(CliRunner().invoke(app, [*files, "--json", "--quiet", *more]).stdout)
        for more in ([], ["--at-once", str(RECORDS // 4)])
    )
    assert whole["verdict"]["reasons"] == parts["verdict"]["reasons"]
    assert (
        whole["verdict"]["figures"]["kept"] == parts["verdict"]["figures"]["kept"] > 0.9 * RECORDS
    )
    assert whole["jobs"] == parts["jobs"] == []
