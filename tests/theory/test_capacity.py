"""Rates of links, and ports and domains in closed form."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from link_records import lateness_ns, peak_rate, records_by_link
from one_ring import GIB, ring_ns
from prism_sim.loading.bundled import bundled as bundled_scenarios
from prism_sim.toolkit import Cluster, Job, Run, Scenario, load_scenario, simulate, stage_costs
from tiny import TINY_MODEL, simulate_one

WITHIN = 1.01
GRAIN_NS = 2
"""Begin and end of a record are whole nanoseconds."""
HOPS_BEFORE = 3
"""Links before the last one of a path. A change of rate reaches a link after the latency of those
before it, so two flows may exceed a link for as long: what a buffer holds."""
SOCKETS = {"a2_ddp4", "b_dp4pp2", "c_two_jobs"}
"""Jobs with a socket library: a segment may be sent while another collective's is under way."""
HEAVY = {"experts", "tensor-across", "context", "fsdp", "hybrid-sharding", "hierarchical"}
HEAVY |= {"erspan", "placement-packed", "placement-fragmented", "placement-random"}
HEAVY |= {"placement-spread", "come-and-go", "late-and-lossy", "warm-up", "background"}
STEPS = 3


def bundled():
    """Every bundled scenario with a simulation; large ones only in the full run."""
    for name, path in bundled_scenarios().items():
        folder = name.partition("/")[0]
        if folder in ("tiny", "workloads", "telemetry", "twins", "published", "paper"):
            large = folder in ("published", "paper") or path.stem in HEAVY
            yield pytest.param(path, marks=[pytest.mark.full] if large else [], id=name)


def check(folder: Path, slack_ns: float = GRAIN_NS) -> None:
    for link, capacity, records in records_by_link(folder):
        late_ns = lateness_ns(records, capacity * WITHIN)
        assert late_ns <= slack_ns, f"{link}: {late_ns:,.0f} ns too late"


def simulated(scenario: Scenario, folder: Path) -> Path:
    run = Run(folder / "run")
    simulate(scenario, run)
    return folder / "run"


def shortened(job):
    """The same job with only a few steps, if it has a number of steps."""
    return job.model_copy(update={"steps": min(job.steps, STEPS)}) if hasattr(job, "steps") else job


@pytest.mark.parametrize("path", list(bundled()))
def test_the_records_of_a_bundled_scenario_fit_its_links(path, tmp_path):
    scenario = load_scenario(path, {"collector": {}})
    jobs = tuple(shortened(job) for job in scenario.jobs)
    folder = simulated(scenario.model_copy(update={"jobs": jobs}), tmp_path)
    longest_ns = 0
    if path.stem in SOCKETS:
        flows = pd.read_parquet(folder / "flows.parquet", columns=["start_ns", "end_ns"])
        longest_ns = int((flows["end_ns"] - flows["start_ns"]).max())
    check(folder, GRAIN_NS + longest_ns)


@st.composite
def worlds(draw):
    """One or two jobs on a small fabric, with few uplinks or many."""
    dp, pp = draw(st.sampled_from([(2, 1), (4, 1), (2, 2), (8, 1), (4, 2), (3, 1)]))
    spines = draw(st.sampled_from([1, 2, 4, 8]))
    fabric = {"kind": draw(st.sampled_from(["tor", "rail"])), "leaf_ports": 8, "spines": spines,
              "uplinks": draw(st.sampled_from([spines, 2 * spines]))}  # fmt: skip
    job = {
        "model": TINY_MODEL, "dp": dp, "pp": pp, "tp": draw(st.sampled_from([2, 4, 8])),
        "micro_batches": 4, "steps": 2, "zero_stage": draw(st.sampled_from([0, 1, 3])),
        "compute_jitter": draw(st.sampled_from([0.0, 0.05, 0.5])),
        "overlap_gradients": draw(st.booleans()),
    }  # fmt: skip
    if job["zero_stage"] == 0:
        job["all_reduce"] = draw(st.sampled_from(["ring", "tree"]))
    if job["zero_stage"] == 3:
        job["pp"] = 1
    jobs = [{"name": name, **job} for name in draw(st.sampled_from(["a", "ab"]))]
    servers = sum(-(-j["dp"] * j["pp"] * j["tp"] // 8) for j in jobs)
    gap_us = draw(st.sampled_from([0.001, 1, 50, 1000]))
    cluster = {"servers": max(servers, 2), "fabric": fabric}
    values = {"name": "drawn", "seed": draw(st.integers(0, 9)), "cluster": cluster, "jobs": jobs}
    return Scenario.model_validate({**values, "collector": {"idle_gap_us": gap_us}})


@pytest.mark.parametrize("worlds_drawn", [4, pytest.param(50, marks=pytest.mark.full)])
def test_the_records_of_any_scenario_fit_its_links(worlds_drawn, tmp_path_factory):
    @settings(max_examples=worlds_drawn)
    @given(scenario=worlds())
    def fit(scenario):
        latency_ns = HOPS_BEFORE * scenario.cluster.fabric.hop_latency_ns
        check(simulated(scenario, tmp_path_factory.mktemp("drawn")), GRAIN_NS + latency_ns)

    fit()


def eight_rings(folder: Path, **job) -> tuple[Path, float]:
    """Eight rings between two servers over two uplinks of 400 Gbit/s; the capacity of a link."""
    fabric = {"kind": "tor", "leaf_ports": 8, "uplinks": 2, "spines": 2}
    values = {"model": TINY_MODEL, "dp": 2, "tp": 8, "micro_batches": 4, "steps": 2, **job}
    cluster = {"servers": 2, "fabric": fabric}
    scenario = {"name": "test", "cluster": cluster, "jobs": [{"name": "a", **values}]}
    return simulated(Scenario.model_validate(scenario), folder), 50.0


@pytest.mark.parametrize("overlap", [False, True])
def test_mean_rates_of_rings_that_share_uplinks_add_up_to_the_capacity(tmp_path, overlap):
    folder, capacity = eight_rings(tmp_path, overlap_gradients=overlap)
    shared = 0
    for _, of_link, records in records_by_link(folder):
        assert peak_rate(records) <= of_link * WITHIN
        long = records[records["bytes"] > 1_000_000]
        rate = long["bytes"] / (long["end_ns"] - long["start_ns"])
        assert (rate <= capacity * WITHIN).all()
        shared += int((rate < capacity / 2 * WITHIN).sum())
    assert shared > 0


@pytest.mark.parametrize("algorithm", ["ring", "tree"])
def test_the_last_record_of_a_collective_ends_with_it(tmp_path, algorithm):
    folder, _ = eight_rings(tmp_path, zero_stage=0, overlap_gradients=False, all_reduce=algorithm)
    spans = pd.read_parquet(folder / "truth" / "spans.parquet")
    flows = pd.read_parquet(folder / "flows.parquet")
    reduced = spans[spans["kind"].astype(str) == "all_reduce"]
    ends = reduced.groupby("step")[["start_ns", "end_ns"]].max()
    for start_ns, end_ns in ends.itertuples(index=False):
        inside = flows[(flows["start_ns"] >= start_ns) & (flows["start_ns"] < end_ns)]
        assert end_ns - 20_000 <= inside["end_ns"].max() <= end_ns  # one latency, one slice


NIC = 50.0  # bytes a nanosecond
NVLINK = 450.0


def pair(ports: int, **more: object) -> dict[str, object]:
    """Four servers with one NIC of some ports, each with leaves of its own."""
    fabric = {"kind": "tor", "leaf_ports": 4, "planes": ports, "hop_latency_ns": 500}
    own = {"servers": 4, "gpus_per_server": 1, "nics_per_server": 1, "nic_ports": ports}
    return {**own, "fabric": fabric, **more}


@pytest.mark.parametrize("addresses", ["shared", "own"])
@pytest.mark.parametrize(("ports", "failed"), [(1, 0), (2, 0), (2, 1), (4, 1), (4, 2), (4, 3)])
def test_a_nic_is_as_fast_as_its_working_ports(ports: int, failed: int, addresses: str) -> None:
    took_ns = ring_ns(pair(ports, port_addresses=addresses), 4, down=range(failed))
    on_busiest = -(-ports // (ports - failed))  # queue pairs: one for each port
    assert took_ns == pytest.approx(6 * (GIB * on_busiest / (4 * NIC) + 1_000), rel=1e-6)


def test_a_ring_inside_a_domain_is_as_fast_as_nvlink() -> None:
    cluster = {"servers": 4, "gpus_per_server": 1, "nics_per_server": 1, "nvlink_domain": 4}
    assert ring_ns(cluster, 4) == pytest.approx(6 * (GIB / (4 * NVLINK) + 25), rel=1e-6)


def test_a_tensor_group_inside_a_domain_costs_nvlink_time_and_leaves_no_record(tmp_path) -> None:
    layers, tokens, width = 8, 1024, 1024
    size = 2 * tokens * width
    hop_ns = {8: size / 8 / NVLINK + 25, None: size / (4 * 8) / NIC}  # four NICs share a ring
    steps_ns, records = {}, {}
    for domain in hop_ns:
        cluster = {"servers": 2, "gpus_per_server": 4, "nics_per_server": 4}
        run = simulate_one(
            tmp_path / str(domain),
            tp=8,
            micro_batches=1,
            cluster={**cluster, "nvlink_domain": domain},
        )
        steps = run.truth("steps")
        steps_ns[domain] = int((steps["end_ns"] - steps["start_ns"]).max())
        records[domain] = len(run.truth("pairs"))
    exchanges = 4 * layers  # two a layer forward, and two backward
    longer_ns = exchanges * 2 * (8 - 1) * (hop_ns[None] - hop_ns[8])
    assert steps_ns[None] - steps_ns[8] == pytest.approx(longer_ns, rel=1e-3)
    assert records[8] == 0 < records[None]


def test_the_cost_of_a_pass_has_the_tensor_group_only_inside_a_domain() -> None:
    job = Job.model_validate(
        {"name": "a", "model": TINY_MODEL, "tp": 8, "micro_batches": 1, "steps": 1}
    )
    inside, across = (
        stage_costs(job, Cluster(servers=2, gpus_per_server=4, nics_per_server=4, nvlink_domain=n))
        for n in (8, 4)
    )
    assert inside[0].nvlink_share > across[0].nvlink_share == 0
