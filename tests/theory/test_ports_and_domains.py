"""NICs of several ports, and NVLink domains larger than a server, against closed forms."""

from __future__ import annotations

import pytest

from one_ring import GIB, ring_ns
from prism_sim.toolkit import Cluster, Job, stage_costs
from tiny import TINY_MODEL, simulate_one

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
