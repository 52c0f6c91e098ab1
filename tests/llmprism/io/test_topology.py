"""Read topology.json, and refuse content that is not a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llmprism.io.topology import Topology, read_topology
from prism_common.errors import UserError

NETWORK: dict[str, Any] = {
    "endpoints": [
        {"address": "10.0.0.1", "server": "s0", "nic": 0, "gpus": [0, 1], "switch": "leaf0"},
        {"address": "10.0.0.2", "server": "s0", "nic": 1, "gpus": [2, 3], "switch": "leaf1"},
        {"address": "10.0.1.1", "server": "s1", "nic": 0, "gpus": [0], "switch": "leaf0"},
    ],
    "switches": [
        {"name": "leaf0", "tier": "leaf"},
        {"name": "leaf1", "tier": "leaf"},
        {"name": "spine", "tier": "spine"},
    ],
    "links": [
        {"a": "10.0.0.1", "b": "leaf0", "gbps": 400},
        {"a": "10.0.0.2", "b": "leaf1", "gbps": 400},
        {"a": "s1", "b": "leaf0", "gbps": 200},
        {"a": "leaf0", "b": "spine", "gbps": 800},
        {"a": "leaf1", "b": "spine", "gbps": None},
    ],
}


def read(tmp_path: Path, **changes: Any) -> Topology:
    path = tmp_path / "topology.json"
    path.write_text(json.dumps(NETWORK | changes))
    return read_topology(path)


def problems(tmp_path: Path, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(tmp_path, **changes)
    return str(caught.value)


def test_parts_become_numbers(tmp_path: Path) -> None:
    topology = read(tmp_path)
    assert topology.addresses == ["10.0.0.1", "10.0.0.2", "10.0.1.1"]
    assert topology.codes["10.0.1.1"] == 2
    assert topology.servers.tolist() == [0, 0, 1]
    assert topology.tiers.tolist() == [0, 0, 1]
    assert topology.switch_codes == {"leaf0": 0, "leaf1": 1, "spine": 2}


def test_rates_are_summed_and_unknown_stays_unknown(tmp_path: Path) -> None:
    topology = read(tmp_path)
    assert topology.nic_gbps == 400  # median of 400, 400, 200
    np.testing.assert_array_equal(topology.switch_gbps, [1400, np.nan, np.nan])


def test_without_links_no_rate_is_known(tmp_path: Path) -> None:
    topology = read(tmp_path, links=[])
    assert np.isnan(topology.nic_gbps)
    assert np.isnan(topology.switch_gbps).all()


def test_only_address_and_server_are_needed(tmp_path: Path) -> None:
    bare = [{"address": "x", "server": "y", "owner": "someone"}]
    topology = read(tmp_path, endpoints=bare, switches=[], links=[])
    assert topology.addresses == ["x"]


def test_all_missing_fields_are_reported_at_once(tmp_path: Path) -> None:
    reported = problems(
        tmp_path, endpoints=[{"address": "x"}, {"server": 3}], switches=[{"name": "s"}]
    )
    assert "endpoints[0].server: Field required" in reported
    assert "endpoints[1].address: Field required" in reported
    assert "endpoints[1].server" in reported
    assert "switches[0].tier: Field required" in reported


def test_a_file_without_endpoints_says_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "topology.json"
    for content in ("{}", "{"):
        path.write_text(content)
        with pytest.raises(UserError, match="llmprism ingest FLOWS --topology FILE writes"):
            read_topology(path)


def test_all_contradictions_are_reported_at_once(tmp_path: Path) -> None:
    reported = problems(
        tmp_path,
        endpoints=[*NETWORK["endpoints"], {"address": "10.0.0.1", "server": "s2", "switch": "no"}],
        switches=[
            *NETWORK["switches"],
            {"name": "spine", "tier": "x"},
            {"name": "s1", "tier": "x"},
        ],
        links=[{"a": "nowhere", "b": "leaf0"}],
    )
    assert "address '10.0.0.1' is listed 2 times" in reported
    assert "switch 'spine' is listed 2 times" in reported
    assert "'s1' names a switch and an endpoint or server" in reported
    assert "on unknown switch 'no'" in reported
    assert "links[0] names 'nowhere'" in reported
    assert "add it to endpoints or switches, or remove the link" in reported


@pytest.mark.parametrize("rate", [0, -1, "fast"])
def test_a_rate_must_be_positive(tmp_path: Path, rate: Any) -> None:
    reported = problems(tmp_path, links=[{"a": "s0", "b": "leaf0", "gbps": rate}])
    assert "links[0].gbps" in reported


@pytest.mark.parametrize("content", ["", "{", "[]", "3"])
def test_a_file_that_is_not_a_topology_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "topology.json"
    path.write_text(content)
    with pytest.raises(UserError, match=r"topology\.json"):
        read_topology(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        read_topology(tmp_path / "none.json")
