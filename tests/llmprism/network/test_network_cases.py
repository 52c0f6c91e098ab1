"""Networks as operators describe them: the right servers, NICs and switches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llmprism.ingest.commands import ingest_app
from llmprism.io.notes import Notes
from llmprism.network import read_network
from llmprism.network.parts import Content
from prism_common.errors import UserError

FIXTURES = Path(__file__).parents[2] / "fixtures"
CASES = FIXTURES / "cases"
LLDP = FIXTURES / "networks" / "lldp"


def network(path: Path, hosts: dict[str, str] | None = None) -> Content:
    return read_network([path], hosts or {}, Notes())


def placed(content: Content, name: str = "address") -> dict[str, Any]:
    return {end[name]: end["switch"] for end in content["endpoints"]}


def test_an_address_and_its_device_come_in_either_order() -> None:
    content = network(CASES / "17-containerlab-dev-before-address" / "lab.clab.yml")
    assert {end["server"]: end["address"] for end in content["endpoints"]} == {
        "gpu1": "192.0.2.1",
        "gpu2": "192.0.2.2",
    }


@pytest.mark.parametrize(
    "command",
    [
        "ip addr add dev eth1 192.0.2.9/24",
        "ip a a 192.0.2.9/24 brd + dev eth1",
        "ip -4 address replace dev eth1 local 192.0.2.9/24 scope global",
        "sh -c 'ip link set eth1 up && ip addr add label eth1:0 dev eth1 192.0.2.9/24'",
        "/sbin/ip addr add 192.0.2.9 peer 192.0.2.10 dev eth1; ip route add default dev eth1",
        "ifconfig eth1 192.0.2.9 netmask 255.255.255.0",
    ],
)
def test_commands_that_set_an_address(command: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.clab.yml"
    path.write_text(f"""topology:
  nodes:
    leaf1: {{kind: nokia_srlinux}}
    gpu1:
      kind: linux
      exec: ["ip link set eth1 mtu 9000", "ip addr add dev eth2 198.51.100.1/24", "{command}"]
  links: [{{endpoints: ["leaf1:e1-1", "gpu1:eth1"]}}]
""")
    assert placed(network(path)) == {"192.0.2.9": "leaf1"}


def test_a_tree_of_slurms_topology_yaml() -> None:
    content = network(CASES / "18-slurm-topology-yaml" / "topology.yaml")
    assert placed(content, "server") == {
        "gpu01": "leaf1", "gpu02": "leaf1", "gpu03": "leaf2", "gpu04": "leaf2",
    }  # fmt: skip
    tiers = {one["name"]: one["tier"] for one in content["switches"]}
    assert tiers == {"leaf1": "leaf", "leaf2": "leaf", "spine": "spine"}


def test_the_clusters_default_tree_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    """The example of topology.yaml(5) has a tree beside other types."""
    path = tmp_path / "topology.yaml"
    path.write_text("""---
- topology: old
  tree: {switches: [{switch: s9, nodes: "node[01-02]"}]}
- topology: topo2
  block: {block_sizes: [4], blocks: [{block: b1, nodes: "node[01-04]"}]}
- topology: topo1
  cluster_default: true
  tree: {switches: [{switch: s1, nodes: [node01, "node[02-03]"]}]}
""")
    notes = Notes()
    content = read_network([path], {}, notes)
    assert placed(content, "server") == {"node01": "s1", "node02": "s1", "node03": "s1"}
    assert any("topology 'old' (tree) not" in one for one in notes.remarks)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("block: {block_sizes: [1], blocks: [{block: b, nodes: n1}]}", "topology/block lists"),
        ("ring: {rings: [{ring: r, nodes: 'n[1-3]'}]}", r"'t' \(ring\) lists no switches"),
        ("torus3d: {toruses: []}", r"'t' \(torus3d\) lists no switches"),
        ("flat: true", r"'t' \(flat\) lists no switches"),
        ("tree: {switches: [{nodes: n1}]}", "switch 1 of the tree: it needs a name"),
        ("tree: {switches: [{switch: s, nodes: 'n[1-'}]}", "no list of names"),
        ("tree: {switches: [{switch: s, nodes: {a: 1}}]}", "no list of names"),
        ("tree: {switches: [{switch: s}]}", "no server with a cable"),
        ("tree: 7", "no server with a cable"),
    ],
)
def test_topologies_of_slurm_without_servers_at_switches_are_refused(
    body: str, match: str, tmp_path: Path
) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(f"- topology: t\n  {body}\n")
    with pytest.raises(UserError, match=match):
        network(path)


@pytest.mark.parametrize("name", ["topology.conf", "topology.yaml"])
def test_hosts_name_the_nics_of_slurms_nodes(name: str, tmp_path: Path) -> None:
    """Slurm knows nodes; a node with several addresses has as many NICs, on the same switch."""
    texts = {
        "topology.conf": "SwitchName=leaf1 Nodes=s[1-2]\n",
        "topology.yaml": "- topology: t\n  tree: {switches: [{switch: leaf1, nodes: 's[1-2]'}]}\n",
    }
    (tmp_path / name).write_text(texts[name])
    hosts = {f"s{s}-{nic}": f"10.0.{s}.{nic}" for s in (1, 2) for nic in (0, 1, 10)}
    hosts |= {"s1": "10.9.0.1", "s1.example.com": "10.9.0.1", "s12-0": "10.0.12.0"}
    content = network(tmp_path / name, hosts)
    nics = {(end["server"], end["nic"]): end["address"] for end in content["endpoints"]}
    assert nics == {
        ("s1", 0): "10.0.1.0", ("s1", 1): "10.0.1.1", ("s1", 2): "10.0.1.10",
        ("s2", 0): "10.0.2.0", ("s2", 1): "10.0.2.1", ("s2", 2): "10.0.2.10",
        ("s1", 3): "10.9.0.1",
    }  # fmt: skip
    assert {end["switch"] for end in content["endpoints"]} == {"leaf1"}


def test_hosts_may_name_the_switches_that_report() -> None:
    content = network(LLDP, {"leaf1": "10.255.0.1", "spine1": "10.255.0.2"})
    assert content == network(LLDP)
    assert placed(content) == {"10.0.1.1": "leaf1", "10.0.1.2": "leaf1"}


def of_servers(folder: Path, servers: int = 4, says: str | None = "Router") -> Path:
    """LLDP collected on servers with two NICs, each on its own leaf."""
    for server in range(servers):
        ports = []
        for nic in (0, 1):
            kinds = [{"type": says, "enabled": True}] if says else []
            chassis = {f"leaf{nic}": {"mgmt-ip": "10.255.0.1", "capability": kinds}}
            remote = {"id": {"type": "ifname", "value": f"Ethernet{server}"}}
            ports.append({f"eth{nic}": {"chassis": chassis, "port": remote}})
        text = json.dumps({"lldp": {"interface": ports}})
        (folder / f"gpu{server}.json").write_text(text)
    return folder


NICS = {f"gpu{server}-eth{nic}": f"10.{nic}.0.{server}" for server in range(4) for nic in (0, 1)}
SWITCHES = {"leaf0": "10.255.0.1", "leaf1": "10.255.0.2"}


@pytest.mark.parametrize("says", ["Router", None])
@pytest.mark.parametrize("hosts", [NICS, NICS | SWITCHES])
def test_lldp_collected_on_servers(says: str | None, hosts: dict[str, str], tmp_path: Path) -> None:
    content = network(of_servers(tmp_path, says=says), hosts)
    assert placed(content) == {
        f"10.{nic}.0.{server}": f"leaf{nic}" for server in range(4) for nic in (0, 1)
    }


@pytest.mark.parametrize("hosts", [{}, SWITCHES])
def test_without_names_of_servers_those_that_report_are_taken(
    hosts: dict[str, str], tmp_path: Path
) -> None:
    notes = Notes()
    content = read_network([of_servers(tmp_path)], hosts, notes)
    assert {(end["server"], end["switch"]) for end in content["endpoints"]} == {
        (f"gpu{server}", f"leaf{nic}") for server in range(4) for nic in (0, 1)
    }
    assert any("4 devices list the same 2 neighbours" in one for one in notes.remarks)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net.csv", "server,address,switch\ngpu1,0.0.0.0,leaf1\ngpu2,::,leaf1\n"),
        (
            "leaf1.json",
            '{"lldp": {"interface": [{"e0": {"chassis": {"gpu1": {"mgmt-ip": "0.0.0.0"}}}},'
            ' {"e1": {"chassis": {"gpu2": {"mgmt-ip": "::"}}}}]}}',
        ),
    ],
)
def test_addresses_that_stand_for_none_are_unknown(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "hosts").write_text("0.0.0.0 gpu1\n10.0.0.2 gpu2\n")
    assert set(placed(network(tmp_path / name))) == {"gpu1", "gpu2"}
    flows = tmp_path / "flows.csv"
    flows.write_text("start,end,src,dst,bytes\n1,2,gpu1,10.0.0.2,5\n")
    arguments = [str(flows), "--topology", str(tmp_path / name), "--out", str(tmp_path / "o")]
    done = CliRunner().invoke(ingest_app, [*arguments, "--hosts", str(tmp_path / "hosts")])
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "o" / "topology.json").read_text())
    assert set(placed(content)) == {"gpu1", "10.0.0.2"}


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("t.conf", "SwitchName=s1 Switches=s[2-3]\n", "cable to one of its 3 switches"),
        ("topology.json", '{"endpoints": [], "switches": []}', "no server with a cable"),
        (
            "a.clab.yml",
            "topology: {nodes: {a: {kind: linux}, b: {kind: linux}},\n"
            " links: [{endpoints: [a:eth1, b:eth1]}]}\n",
            "link between two servers: 1",
        ),
        ("leaf1.json", '{"lldp": {"interface": [{"e0": {"chassis": {}}}]}}', "without a name: 1"),
        ("a.clab.yml", "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
         + "".join(f"{x}: &{x} [{', '.join([f'*{y}'] * 9)}]\n" for x, y in zip("bcdefgh", "abcdefg",
                                                                             strict=True)),
         "aliases repeat"),
    ],
)  # fmt: skip
def test_a_network_without_servers_is_an_error_with_the_reason(
    name: str, text: str, match: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=match):
        network(tmp_path / name)
