"""What NICs with several ports and NVLink domains hide from records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from llmprism.check.facts import measure
from llmprism.check.stages import CAN, CANNOT, PARTLY, Stage, stages
from llmprism.io.flows import place
from llmprism.io.topology import parse_topology

PORTS, DOMAINS = "all ports of NICs", "groups in NVLink domains"


def network(domain: str | None) -> dict[str, Any]:
    """Three servers whose only NIC has a port at each of two leaves."""
    ends = [{"address": f"10.0.0.{s}", "server": f"s{s}", "nic": 0} for s in range(3)]
    for end in ends[:2]:
        end |= {"domain": domain} if domain else {}
    leaves = ["leaf0", "leaf1"]
    return {
        "endpoints": ends,
        "switches": [{"name": name, "tier": "leaf"} for name in leaves],
        "links": [{"a": end["address"], "b": leaf, "gbps": 200} for end in ends for leaf in leaves],
    }


def judged(pairs: list[tuple[int, int]], leaves: list[str], **of: Any) -> dict[str, Stage]:
    """What each stage can do with one record of each pair at each of ``leaves``."""
    topology = parse_topology(network(of.get("domain")))
    rows = [(f"10.0.0.{a}", f"10.0.0.{b}", leaf) for a, b in pairs for leaf in leaves]
    src, dst, path = zip(*rows, strict=True)
    start_ns = pa.array(range(len(rows)), pa.int64())
    size = pa.array([100] * len(rows), pa.int64())
    times = {"start_ns": start_ns, "end_ns": pc.add(start_ns, 50)}
    table = pa.table({**times, "bytes": size, "src": src, "dst": dst, "path": path})
    flows, intake = place(table, topology)
    return {one.stage: one for one in stages(measure(flows, intake, topology, None))}


@pytest.mark.parametrize(("leaves", "answer"), [(["leaf0", "leaf1"], CAN), (["leaf0"], PARTLY)])
def test_a_leaf_that_exports_nothing_hides_a_part_of_what_a_nic_sends(
    leaves: list[str], answer: str
) -> None:
    found = judged([(0, 2), (2, 0)], leaves)
    assert found[PORTS].answer == answer
    assert f"{2 * len(leaves)} of 4 ports" in found[PORTS].figures
    assert DOMAINS not in found


def test_groups_in_domains_are_not_seen_and_records_inside_show_that_domains_are_wrong() -> None:
    across = judged([(0, 2), (2, 1)], ["leaf0"], domain="rack")
    assert across[DOMAINS].answer == CANNOT
    assert "2 servers share 1 domain" in across[DOMAINS].figures
    inside = judged([(0, 2), (0, 1)], ["leaf0"], domain="rack")
    assert inside[DOMAINS].answer == PARTLY
    assert "50.0 % of the bytes" in inside[DOMAINS].figures
