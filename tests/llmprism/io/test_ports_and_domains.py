"""NICs of several ports, planes and NVLink domains, as ``topology.json`` has them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from llmprism.io.flows import place
from llmprism.io.nics import frame_by_nic, named_by_nic
from llmprism.io.topology import as_content, in_nic_order, parse_topology
from llmprism.page.leaves import leaf_rates
from llmprism.page.tables import Tables
from llmprism.part_names import Parts


def endpoint(server: int, nic: int, port: int, **more: Any) -> dict[str, Any]:
    own = {"address": f"10.{port}.{server}.{nic}", "server": f"s{server}", "nic": nic}
    return {**own, "port": port, "switch": f"leaf{nic}{port}", **more}


def network(**more: Any) -> dict[str, Any]:
    """Two servers of two NICs with two ports, in two planes that only cables show."""
    ends = [endpoint(s, n, p, **more) for s in range(2) for n in range(2) for p in range(2)]
    leaves = [(n, p) for n in range(2) for p in range(2)]
    names = [f"leaf{n}{p}" for n, p in leaves]
    return {
        "endpoints": ends,
        "switches": [{"name": name, "tier": "leaf"} for name in names]
        + [{"name": f"spine{p}", "tier": "spine"} for p in range(2)],
        "links": [{"a": end["address"], "b": end["switch"], "gbps": 200} for end in ends]
        + [{"a": f"leaf{n}{p}", "b": f"spine{p}", "gbps": 400} for n, p in leaves],
    }


def test_all_addresses_of_a_nic_have_one_code() -> None:
    topology = parse_topology(network())
    assert topology.addresses == ["10.0.0.0", "10.0.0.1", "10.0.1.0", "10.0.1.1"]
    assert [topology.codes[f"10.{p}.1.0"] for p in range(2)] == [2, 2]
    assert topology.leaves[2] == ("leaf00", "leaf01")
    assert topology.servers.tolist() == [0, 0, 1, 1]
    assert topology.lone.tolist() == [False] * 4


def test_addresses_without_ports_are_nics_of_their_own() -> None:
    content = network()
    for end in content["endpoints"]:
        del end["port"]
    assert len(parse_topology(content).endpoints) == 8


def test_records_of_both_ports_are_those_of_one_nic() -> None:
    columns = {"src": ["10.0.0.0", "10.1.0.0"], "dst": ["10.0.1.0", "10.1.1.0"]}
    numbers = {"start_ns": [0, 1], "end_ns": [5, 6], "bytes": [10, 20]}
    table = pa.table(columns | {name: pa.array(own, pa.int64()) for name, own in numbers.items()})
    topology = parse_topology(network())
    flows, intake = place(table, topology)
    assert intake.kept == 2
    assert (flows.src.tolist(), flows.dst.tolist()) == ([0, 0], [2, 2])
    assert named_by_nic(table, topology)["src"].to_pylist() == ["10.0.0.0"] * 2


def test_planes_are_listed_or_shown_by_cables() -> None:
    by_cables = parse_topology(network()).planes
    assert by_cables["leaf10"] == by_cables["spine0"] == "plane 0"
    assert by_cables["leaf11"] == by_cables["spine1"] == "plane 1"
    joined = network()
    joined["links"].append({"a": "leaf00", "b": "spine1", "gbps": 400})
    assert parse_topology(joined).planes == {}
    listed = copy.deepcopy(joined)
    for switch in listed["switches"]:
        switch["plane"] = 3
    assert set(parse_topology(listed).planes.values()) == {"plane 3"}


def test_a_bond_is_one_endpoint_with_two_cables() -> None:
    content = network()
    content["endpoints"] = [end for end in content["endpoints"] if end.pop("port") == 0]
    for link in content["links"]:
        link["a"] = link["a"].replace("10.1.", "10.0.")
    topology = parse_topology(content)
    assert topology.leaves[0] == ("leaf00", "leaf01")
    assert topology.planes["leaf01"] == "plane 1"


def test_servers_of_one_domain_count_as_one_and_their_nics_count_on() -> None:
    topology = parse_topology(network(domain="rack0"))
    assert topology.servers.tolist() == [0, 0, 0, 0]
    assert topology.positions.tolist() == [0, 1, 2, 3]
    assert in_nic_order(topology, np.array([3, 1, 2], np.int32)).tolist() == [1, 2, 3]
    assert parse_topology(network()).positions.tolist() == [0, 1, 0, 1]
    names = Parts.of(network(domain="rack0"))
    assert names.name("server", "rack0") == "NVLink domain rack0"
    assert names.name("server", "s0") == "server s0"


@pytest.mark.parametrize("more", [{}, {"domain": "rack0"}])
def test_what_is_written_is_what_was_read(more: dict[str, Any]) -> None:
    topology = parse_topology(network(**more))
    again = parse_topology(as_content(topology))
    assert (again.ports, again.switches, again.links) == (
        topology.ports,
        topology.switches,
        topology.links,
    )


def test_a_page_counts_records_at_the_leaf_that_their_path_names(tmp_path: Path) -> None:
    content = network()
    content["endpoints"] = [end for end in content["endpoints"] if end.pop("port") == 0]
    for link in content["links"]:
        link["a"] = link["a"].replace("10.1.", "10.0.")
    paths = ["leaf00", "leaf01", "leaf01"]
    frame = pd.DataFrame(
        {"start_ns": 0, "end_ns": 1000, "src": "10.0.0.0", "dst": "10.0.1.0", "bytes": 100,
         "path": paths}
    )  # fmt: skip
    frame.to_parquet(tmp_path / "flows.parquet")
    (tmp_path / "topology.json").write_text(json.dumps(content))
    rates = leaf_rates(Tables.of(tmp_path))
    assert rates is not None
    sent = {name: sum(own) for name, own in zip(rates["names"], rates["sent"], strict=True)}
    assert sent["leaf01"] == pytest.approx(2 * sent["leaf00"], rel=1e-3)


def test_records_of_all_ports_have_the_name_of_the_nic_on_a_page() -> None:
    frame = pd.DataFrame({"src": ["10.0.0.0", "10.1.0.0"], "dst": ["10.0.1.0", "10.1.1.0"]})
    named = frame_by_nic(frame, network())
    assert (set(named["src"]), set(named["dst"])) == ({"10.0.0.0"}, {"10.0.1.0"})
