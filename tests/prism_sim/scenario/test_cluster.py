"""Numbers and names that follow from the values of a cluster."""

import pytest

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.names import server_index, server_name


def _cluster(**values: object) -> Cluster:
    return Cluster.model_validate({"servers": 4} | values)


def test_by_default_a_leaf_has_as_much_bandwidth_up_as_down() -> None:
    cluster = _cluster(fabric={"leaf_ports": 64})
    assert cluster.uplinks * cluster.uplink_gbps == 64 * cluster.nic_gbps


def test_faster_uplinks_need_fewer() -> None:
    cluster = _cluster(nic_gbps=200, fabric={"leaf_ports": 32, "uplink_gbps": 800, "spines": 2})
    assert cluster.uplinks == 8


def test_uplinks_are_rounded_up_to_whole_links_a_spine() -> None:
    assert _cluster(fabric={"leaf_ports": 10, "spines": 4}).uplinks == 12
    assert _cluster(fabric={"leaf_ports": 1, "uplink_gbps": 10_000, "spines": 4}).uplinks == 4


def test_a_rail_leaf_takes_one_nic_of_each_server_of_its_block() -> None:
    cluster = _cluster(servers=5, nics_per_server=2, fabric={"kind": "rail", "leaf_ports": 4})
    assert cluster.leaves == 4
    slots = {(s, n): cluster.leaf_of(s, n) for s in range(5) for n in range(2)}
    assert [slot for slot, leaf in slots.items() if leaf == 1] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert [slot for slot, leaf in slots.items() if leaf == 2] == [(4, 0)]


def test_a_top_of_rack_leaf_takes_all_nics_of_its_servers() -> None:
    cluster = _cluster(servers=5, nics_per_server=2, fabric={"kind": "tor", "leaf_ports": 4})
    assert cluster.leaves == 3
    assert [cluster.leaf_of(server, 1) for server in range(5)] == [0, 0, 1, 1, 2]


def test_no_leaf_has_more_nics_than_ports() -> None:
    for kind in ("rail", "tor"):
        cluster = _cluster(servers=37, nics_per_server=4, fabric={"kind": kind, "leaf_ports": 8})
        leaves = [cluster.leaf_of(s, n) for s in range(37) for n in range(4)]
        assert max(leaves.count(leaf) for leaf in leaves) <= 8
        assert max(leaves) == cluster.leaves - 1


@pytest.mark.parametrize("name", ["s7", "s00007", "x0007", "s", "7", ""])
def test_only_a_name_in_its_one_spelling_is_a_server(name: str) -> None:
    assert server_index(name) is None


def test_servers_beyond_four_digits_have_names_too() -> None:
    assert server_index(server_name(12_345)) == 12_345
