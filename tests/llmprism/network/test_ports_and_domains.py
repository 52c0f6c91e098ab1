"""Servers whose NICs have several ports, fabrics of planes, and racks that share NVLink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmprism.io.notes import Notes
from llmprism.io.topology import parse_topology
from llmprism.network import read_network
from llmprism.network.parts import Content


def lldp(folder: Path, leaf: str, ports: dict[str, str]) -> None:
    """The neighbours of ``leaf``, as lldpcli prints them: server and its port, by own port."""
    interfaces = [
        {
            own: {
                "chassis": {server: {"id": {"type": "mac", "value": "x"},
                                     "capability": [{"type": "Station", "enabled": True}]}},
                "port": {"id": {"type": "ifname", "value": theirs}},
            }
        }
        for own, (server, theirs) in ((own, end.split()) for own, end in ports.items())
    ]  # fmt: skip
    (folder / f"{leaf}.json").write_text(json.dumps({"lldp": {"interface": interfaces}}))


def read(*paths: Path, hosts: dict[str, str] | None = None) -> tuple[Content, Notes]:
    notes = Notes()
    return read_network(paths, hosts or {}, notes), notes


def rows(content: Content, *names: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(end.get(name) for name in names) for end in content["endpoints"])


def dual(folder: Path, *leaves: str) -> None:
    """Two servers with two dual-port NICs each; all functions 0 are at the first of ``leaves``."""
    folder.mkdir()
    for function, leaf in enumerate(leaves):
        name = "gpu0{} enp{}s0f{}np{}"
        ends = [name.format(s, bus, function, function) for s in (1, 2) for bus in (12, 41)]
        lldp(folder, leaf, {f"Ethernet{i}": end for i, end in enumerate(ends)})


def test_functions_of_one_device_are_ports_of_one_nic(tmp_path: Path) -> None:
    dual(tmp_path / "lldp", "leaf1", "leaf2")
    hosts = {
        f"gpu0{s}-enp{bus}s0f{f}np{f}": f"10.{f}.{bus}.{s}"
        for s in (1, 2) for bus in (12, 41) for f in (0, 1)
    }  # fmt: skip
    content, _ = read(tmp_path / "lldp", hosts=hosts)
    assert rows(content, "server", "nic", "port", "switch", "address")[:4] == [
        ("gpu01", 0, 0, "leaf1", "10.0.12.1"),
        ("gpu01", 0, 1, "leaf2", "10.1.12.1"),
        ("gpu01", 1, 0, "leaf1", "10.0.41.1"),
        ("gpu01", 1, 1, "leaf2", "10.1.41.1"),
    ]
    assert len(parse_topology(content).endpoints) == 4


def test_the_ports_of_a_bond_are_cables_of_one_endpoint(tmp_path: Path) -> None:
    dual(tmp_path / "lldp", "leaf1", "leaf2")
    hosts = {
        f"gpu0{s}-enp{bus}s0f{f}np{f}": f"10.0.{bus}.{s}"
        for s in (1, 2) for bus in (12, 41) for f in (0, 1)
    }  # fmt: skip
    content, _ = read(tmp_path / "lldp", hosts=hosts)
    assert len(content["endpoints"]) == 4
    assert parse_topology(content).leaves == (("leaf1", "leaf2"),) * 4


def test_a_server_with_one_bonded_nic_has_the_address_of_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "lldp"
    folder.mkdir()
    for function, leaf in enumerate(("leaf1", "leaf2")):
        lldp(folder, leaf, {"swp1": f"gpu01 ens1f{function}np{function}"})
    content, _ = read(folder, hosts={"gpu01": "10.0.0.1"})
    assert rows(content, "server", "nic", "address") == [("gpu01", 0, "10.0.0.1")]
    assert parse_topology(content).leaves == (("leaf1", "leaf2"),)


def test_names_of_switches_tell_planes_if_nics_agree(tmp_path: Path) -> None:
    dual(tmp_path / "apart", "plane0-leaf1", "plane1-leaf1")
    content, _ = read(tmp_path / "apart")
    assert {one["name"]: one.get("plane") for one in content["switches"]} == {
        "plane0-leaf1": 0,
        "plane1-leaf1": 1,
    }
    dual(tmp_path / "letters", "leaf1-planeA", "leaf1-planeB")
    switches = read(tmp_path / "letters")[0]["switches"]
    assert [one.get("plane") for one in switches] == [0, 1]
    dual(tmp_path / "joined", "plane0-leaf1", "plane0-leaf2")
    switches = read(tmp_path / "joined")[0]["switches"]
    assert [one.get("plane") for one in switches] == [None, None]


def test_a_table_of_cables_has_ports_and_domains(tmp_path: Path) -> None:
    path = tmp_path / "cables.csv"
    path.write_text(
        "server,nic,nic_port,address,switch,gbps,domain\n"
        "gpu01,0,0,10.0.0.1,leaf1,200,rack1\n"
        "gpu01,0,1,10.1.0.1,leaf2,200,rack1\n"
        "gpu02,0,,10.0.0.2,leaf1,200,rack1\n"
        "gpu02,0,,10.0.0.2,leaf2,200,rack1\n"
    )
    content, _ = read(path)
    assert rows(content, "server", "nic", "port", "address", "domain") == [
        ("gpu01", 0, 0, "10.0.0.1", "rack1"),
        ("gpu01", 0, 1, "10.1.0.1", "rack1"),
        ("gpu02", 0, None, "10.0.0.2", "rack1"),
    ]
    topology = parse_topology(content)
    assert topology.leaves == (("leaf1", "leaf2"),) * 2
    assert topology.servers.tolist() == [0, 0]


@pytest.mark.parametrize(
    "text",
    ["BlockName=rack1 Nodes=gpu[01-02]\n",
     "- topology: t\n  block: {block_sizes: [2], blocks: [{block: rack1, nodes: 'gpu[01-02]'}]}\n"],
)  # fmt: skip
def test_blocks_of_slurm_are_nvlink_domains(text: str, tmp_path: Path) -> None:
    cables = tmp_path / "cables.csv"
    cables.write_text(
        "server,nic,address,switch\n" + "".join(f"gpu0{s},0,10.0.0.{s},leaf1\n" for s in (1, 2, 3))
    )
    blocks = tmp_path / ("topology.yaml" if text.startswith("-") else "topology.conf")
    blocks.write_text(text)
    content, notes = read(cables, blocks)
    assert rows(content, "server", "domain") == [
        ("gpu01", "rack1"), ("gpu02", "rack1"), ("gpu03", None),
    ]  # fmt: skip
    assert any("NVLink domains" in one for one in notes.remarks)
