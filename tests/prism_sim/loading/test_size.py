"""The estimated size of a simulation: compared with runs, and refused if it is too large."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from prism_common.errors import UserError
from prism_sim.loading.loader import load_with_warnings
from prism_sim.loading.size import estimate
from prism_sim.toolkit import Run, find_scenario, load_scenario, simulate


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tiny/pair", {}),
        ("tiny/pair", {"jobs.0.steps": 60}),
        ("workloads/interleaved", {}),
        ("workloads/fsdp", {"jobs.0.steps": 2}),
    ],
)
def test_the_estimate_of_rows_is_good_to_a_factor_of_three(
    name: str, changes: dict[str, int], tmp_path: Path
) -> None:
    scenario = load_scenario(find_scenario(name), changes)
    simulate(scenario, Run(tmp_path))
    files = (tmp_path / "flows.parquet", tmp_path / "truth/spans.parquet")
    measured = sum(pq.read_metadata(file).num_rows for file in files)
    assert measured / 3 < estimate(scenario).rows < measured * 3


WORLD = """\
cluster: {servers: 4}
jobs:
  - name: a
    model: {layers: 4, hidden: 64, heads: 4, vocab: 100, sequence_length: 32}
    dp: 2
    micro_batches: 2
    steps: 2
    placement: spread
faults: [{kind: slow_nic, server: s0000, nic: 0, factor: 0.5, from_s: 0}]
background: [{name: b, flows_per_s: 1, median_bytes: 100}]
duration_s: 1
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    path = tmp_path / "world.yaml"
    path.write_text(WORLD)
    load_scenario(path)
    return path


_LIMITS: dict[str, float] = {
    "cluster.fabric.spines": 10_000, "cluster.servers": 65_536, "jobs.0.model.hidden": 10_000_000,
    "jobs.0.model.layers": 10_000, "jobs.0.steps": 1_000_000_000,
    "jobs.0.micro_batches": 1_000_000, "jobs.0.start_s": 1e8,
    "jobs.0.sequence_length": 1_000_000_000, "background.0.flows_per_s": 1e9,
    "background.0.median_bytes": 1e15, "epoch_ns": 8 * 10**18, "cluster.nic_gbps": 1e-6,
    "jobs.0.mfu": 1e-6, "faults.0.factor": 1e-9,
}  # fmt: skip


@pytest.mark.parametrize("place", _LIMITS)
def test_the_largest_allowed_number_is_judged_at_once(place: str, world: Path) -> None:
    began = time.monotonic()
    with contextlib.suppress(UserError):
        load_with_warnings(world, {place: _LIMITS[place]})
    assert time.monotonic() - began < 5


def test_a_scenario_too_large_for_any_machine_is_refused_with_a_reason(world: Path) -> None:
    changes = {"cluster.servers": 65_536, "cluster.nics_per_server": 128,
               "cluster.gpus_per_server": 128, "cluster.fabric.leaf_ports": 1,
               "cluster.fabric.spines": 10_000}  # fmt: skip
    with pytest.raises(UserError, match="GiB of memory, and this machine has"):
        load_scenario(world, changes)
    endless = {"jobs.0.steps": 10**9, "jobs.0.micro_batches": 10**6, "duration_s": None}
    with pytest.raises(UserError, match="rows"):
        load_scenario(world, endless)


def test_times_beyond_64_bits_are_refused(world: Path) -> None:
    changes = {"duration_s": None, "background": None, "jobs.0.mfu": 1e-6,
               "cluster.gpu.peak_tflops": 1e-6, "jobs.0.steps": 10**6}  # fmt: skip
    with pytest.raises(UserError, match="would end after"):
        load_scenario(world, changes)


def test_a_long_run_is_warned_of(world: Path) -> None:
    changes = {"duration_s": None, "background": None, "jobs.0.steps": 10**8}
    (warning,) = [one for one in load_with_warnings(world, changes).warnings if "hours" in one.what]
    assert "rows" in warning.what
