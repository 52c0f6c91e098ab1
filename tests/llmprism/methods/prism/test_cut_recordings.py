"""A recording may begin and end anywhere: within passes, within gradients, between both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.pipeline import diagnose
from shared import made_once
from tiny import simulate_one

WORLDS = {
    "sharded": {"dp": 4, "pp": 4, "zero_stage": 1, "step_overhead_ms": 5},
    "plain": {"dp": 4, "pp": 4, "zero_stage": 0},
    "deep": {"dp": 2, "pp": 8, "zero_stage": 0, "step_overhead_ms": 2},
    "wide": {"dp": 8, "pp": 2, "zero_stage": 0, "step_overhead_ms": 3},
}
MOMENTS = 9  # in one step at which recordings begin
LASTS = 12.37  # steps


@pytest.fixture(params=WORLDS)
def world(request, tmp_path_factory) -> Path:
    def make(folder: Path) -> None:
        fields = {"micro_batches": 8, "steps": 24, "compute_jitter": 0.01, **WORLDS[request.param]}
        nics = {"servers": 16, "gpus_per_server": 1, "nics_per_server": 1}
        simulate_one(folder / "run", cluster=nics, **fields)

    return made_once(tmp_path_factory, f"cut-{request.param}", make) / "run"


def recorded(records: pa.Table, begin_ns: float, end_ns: float) -> pa.Table:
    start = records["start_ns"].to_numpy()
    return records.filter((start >= begin_ns) & (start < end_ns))


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_part_of_a_recording_has_the_steps_of_the_whole(world, moment):
    records = pq.read_table(world / "flows.parquet")
    whole = diagnose(records, world / "topology.json")
    ends = whole.steps.groupby("step")["dp_end_ns"].max()
    period = float(ends.diff().median())
    begin_ns = float(ends[4]) + period * moment / MOMENTS
    part = recorded(records, begin_ns, begin_ns + LASTS * period)
    found = diagnose(part, world / "topology.json")
    axes = ["dp", "pp", "tp", "micro_batches"]
    assert found.layouts[axes].to_numpy().tolist() == whole.layouts[axes].to_numpy().tolist()
    for address, own in found.steps.groupby("address"):
        every = whole.steps[whole.steps["address"] == address]
        ended = every["dp_end_ns"].to_numpy(float)
        away = np.abs(own["dp_end_ns"].to_numpy(float)[:, None] - ended)
        nearest = away.argmin(axis=1)
        assert len(own) >= int(LASTS) - 1
        assert (np.diff(nearest) == 1).all()
        assert away.min(axis=1)[:-1].max() < 0.001 * period  # the last one may be cut off
        late = own["start_ns"].to_numpy() - every["start_ns"].to_numpy()[nearest]
        assert np.abs(late[1:]).max() < 0.03 * period  # nothing shows when the first one began
