"""Descriptions of a network, each from a file as its tool prints it, become topology.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmprism.ingest.commands import ingest_app
from llmprism.io.notes import Notes
from llmprism.network import read_network
from llmprism.network.containerlab import OUTSIDE
from llmprism.network.hosts import read_hosts
from llmprism.network.ibnetdiscover import LEFT_OUT
from llmprism.network.lldp import NAMELESS
from llmprism.network.parts import Content
from llmprism.network.slurm import expanded
from prism_common.errors import UserError

NETWORKS = Path(__file__).parents[2] / "fixtures" / "networks"


def network(*names: str, hosts: dict[str, str] | None = None) -> tuple[Content, Notes]:
    notes = Notes()
    return read_network([NETWORKS / name for name in names], hosts or {}, notes), notes


def ends(content: Content, *names: str) -> set[tuple[Any, ...]]:
    return {tuple(end[name] for name in names) for end in content["endpoints"]}


def tiers(content: Content) -> dict[str, str]:
    return {one["name"]: one["tier"] for one in content["switches"]}


def cables(content: Content) -> list[tuple[Any, ...]]:
    """Cables between switches, sorted, with their rates."""
    switches = tiers(content)
    between = [one for one in content["links"] if {one["a"], one["b"]} <= switches.keys()]
    return sorted((*sorted((one["a"], one["b"])), one["gbps"]) for one in between)


def test_ibnetdiscover_lists_nics_by_guid_and_every_cable_once() -> None:
    content, notes = network("ibnetdiscover.txt")
    assert ends(content, "server", "nic", "switch", "address") == {
        ("gpu01", 0, "ib-leaf1", "0x0c42a10300679a10"),
        ("gpu01", 1, "ib-leaf2", "0x0c42a10300679a11"),
        ("gpu02", 0, "ib-leaf1", "0x0c42a10300679b20"),
        ("gpu02", 1, "ib-leaf2", "0x0c42a10300679b21"),
    }
    assert tiers(content) == {"ib-leaf1": "leaf", "ib-leaf2": "leaf", "ib-spine1": "spine"}
    up = [("ib-leaf1", "ib-spine1", 200.0)] * 2 + [("ib-leaf2", "ib-spine1", 200.0)] * 2
    assert cables(content) == up
    assert notes.set_aside == {LEFT_OUT: 1}  # the node that reduces data in the switch


def test_switches_of_one_chassis_have_different_names(tmp_path: Path) -> None:
    text = (NETWORKS / "ibnetdiscover.txt").read_text()
    for unit, name in (("L01", "leaf1"), ("L02", "leaf2"), ("S01", "spine1")):
        text = text.replace(f"MF0;ib-{name}:MQM8700/U1", f"MF0;ib:CS8500/{unit}/U1")
    path = tmp_path / "net.txt"
    path.write_text(text)
    content = read_network([path], {}, Notes())
    assert set(tiers(content)) == {"ib/L01/U1", "ib/L02/U1", "ib/S01/U1"}


def test_lldp_neighbours_of_two_switches_join_in_one_cable() -> None:
    """Files of a real lldpd 1.0.16; leaf1 lists spine1, and spine1 lists leaf1."""
    content, notes = network("lldp")
    assert ends(content, "server", "switch", "address") == {
        ("gpu01", "leaf1", "10.0.1.1"), ("gpu02", "leaf1", "10.0.1.2"),
    }  # fmt: skip
    assert tiers(content) == {"leaf1": "leaf", "spine1": "spine"}
    assert cables(content) == [("leaf1", "spine1", None)]
    assert not notes.set_aside


def test_both_forms_of_lldpcli_give_the_same(tmp_path: Path) -> None:
    (tmp_path / "leaf1.json").write_bytes((NETWORKS / "leaf1.json0").read_bytes())
    one = read_network([tmp_path / "leaf1.json"], {}, Notes())
    assert one == network("lldp/leaf1.json")[0]


def test_sonic_gives_rates_and_ports_without_a_name_are_counted() -> None:
    content, notes = network("sonic")
    assert ends(content, "server", "switch", "address") == {
        ("gpu01", "tor-leaf1", "10.9.0.1"), ("gpu02", "tor-leaf1", "10.9.0.2"),
    }  # fmt: skip
    rates = {(one["a"], one["b"]): one["gbps"] for one in content["links"]}
    assert rates == {
        ("10.9.0.1", "tor-leaf1"): 400.0, ("10.9.0.2", "tor-leaf1"): None,
        ("tor-leaf1", "tor-spine1"): 800.0,
    }  # fmt: skip
    assert notes.set_aside == {NAMELESS: 1}


def test_an_address_that_two_nics_report_is_the_servers_and_not_theirs(tmp_path: Path) -> None:
    """LLDP gives a management address; that of a server with two NICs belongs to no NIC."""
    text = (NETWORKS / "lldp/leaf1.json").read_text()
    (tmp_path / "leaf1.json").write_text(text)
    (tmp_path / "leaf2.json").write_text(text.replace('"descr": "eth0"', '"descr": "eth1"'))
    notes = Notes()
    content = read_network([tmp_path], {}, notes)
    assert ends(content, "address", "nic") == {
        ("gpu01:eth0", 0), ("gpu01:eth1", 1), ("gpu02:eth0", 0), ("gpu02:eth1", 1),
    }  # fmt: skip
    assert "4 of 4 NICs have no address" in notes.remarks[0]
    hosts = {f"gpu0{s}-eth{n}": f"10.{n}.0.{s}" for s in (1, 2) for n in (0, 1)}
    named = read_network([tmp_path], hosts, Notes())
    assert ends(named, "address") == {("10.0.0.1",), ("10.1.0.1",), ("10.0.0.2",), ("10.1.0.2",)}


def test_the_hosts_file_names_the_lldp_neighbours_that_are_servers(tmp_path: Path) -> None:
    """A server that runs containers reports itself as a bridge and router."""
    text = (NETWORKS / "lldp/spine1.json").read_text().replace("leaf1", "gpu09")
    (tmp_path / "leaf7.json").write_text(text)
    with pytest.raises(UserError, match=r"no server with a cable.*\n.*--hosts FILE"):
        read_network([tmp_path], {}, Notes())
    content = read_network([tmp_path], {"gpu09": "10.0.0.9"}, Notes())
    assert ends(content, "server", "address", "switch") == {("gpu09", "10.0.0.9", "leaf7")}


def test_slurm_names_nodes_and_their_switches() -> None:
    hosts = {f"gpu00{i}": f"10.0.0.{i}" for i in range(1, 6)}
    content, notes = network("topology.conf", hosts=hosts)
    assert ends(content, "server", "switch", "address") == {
        ("gpu001", "leaf0", "10.0.0.1"), ("gpu002", "leaf0", "10.0.0.2"),
        ("gpu005", "leaf0", "10.0.0.5"), ("gpu003", "leaf1", "10.0.0.3"),
        ("gpu004", "leaf1", "10.0.0.4"), ("login", "leaf1", "login"),
    }  # fmt: skip
    assert tiers(content) == {"leaf0": "leaf", "leaf1": "leaf", "pod0": "spine", "core0": "core"}
    assert [one[:2] for one in cables(content)] == [
        ("core0", "pod0"), ("leaf0", "pod0"), ("leaf1", "pod0"),
    ]  # fmt: skip
    assert any("LinkSpeed" in one for one in notes.remarks)
    assert any("1 of 6 NICs" in one for one in notes.remarks)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a[9-11]", ["a9", "a10", "a11"]),
        ("a[08-10,3]", ["a08", "a09", "a10", "a3"]),
        ("r[0-1]n[1,3],b", ["r0n1", "r0n3", "r1n1", "r1n3", "b"]),
        ("", []),
    ],
)
def test_slurm_lists_of_names(text: str, names: list[str]) -> None:
    assert expanded(text) == names


@pytest.mark.parametrize("text", ["a[1-", "a[x]", "a[0-99999999]", "a[0-9999][0-9999]b[0-999]"])
def test_lists_that_are_none_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text(f"# first line\nSwitchName=s0 Nodes={text}\n")
    with pytest.raises(UserError, match=r"topology\.conf:2"):
        read_network([path], {}, Notes())


def test_containerlab_distinguishes_servers_and_switches_and_has_addresses() -> None:
    content, notes = network("clos.clab.yml")
    assert ends(content, "server", "switch", "address") == {
        ("client1", "leaf1", "10.0.1.11"), ("client2", "leaf2", "10.0.2.12"),
        ("client3", "leaf2", "10.0.2.13"),
    }  # fmt: skip
    assert tiers(content) == {"leaf1": "leaf", "leaf2": "leaf", "spine1": "spine"}
    assert [one[:2] for one in cables(content)] == [("leaf1", "spine1"), ("leaf2", "spine1")]
    assert notes.set_aside == {OUTSIDE: 2}


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.clab.yml", "topology:\n  nodes: [\n", r"a\.clab\.yml:3: not valid YAML"),
        ("a.clab.yml", "name: x\n", "not a containerlab file"),
        ("b.yml", "topology:\n  nodes: {a: {}}\n  links:\n  - endpoints: [a:1, b:1]\n", "'b'"),
        ("leaf1.json", '{"lldp": {"interface": [{"e0": {}}]}}', "lldpcli show neighbors"),
        ("leaf1.json", '{"lldp": ', "broken JSON"),
        ("ib.txt", 'switchguid=0x1(1)\nSwitch 24 "S-1" # "x"\n[1] rubbish\n', r"ib\.txt:3"),
        ("t.conf", "BlockName=b0 Nodes=a[0-3]\n", "topology/block"),
        ("t.txt", "hello\n", "no description of a network is recognised"),
        ("leaf1.json", '{"neighbours": [{"to": "a"}]}', r"is recognised(.|\n)*lldp"),
        ("cables.csv", "server,address,switch,gbps\na,b,c,fast\n", r"cables\.csv:2: 'fast'"),
    ],
)
def test_mistakes_are_named_with_their_places(
    name: str, text: str, match: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=match):
        read_network([tmp_path / name], {}, Notes())


def test_names_of_hosts_are_read_as_etc_hosts_has_them(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# ours\n10.0.0.1  gpu01 gpu01.example.com  # first\n\nFD00::0:1 gpu02\n")
    assert read_hosts(path) == {
        "gpu01": "10.0.0.1", "gpu01.example.com": "10.0.0.1", "gpu02": "fd00::1",
    }  # fmt: skip
    path.write_text("10.0.0.1\n")
    with pytest.raises(UserError, match="hosts:1"):
        read_hosts(path)


def test_a_network_that_lacks_the_addresses_of_flows_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,start,end,bytes\n10.0.0.1,10.0.0.7,1,2,3\n")
    arguments = [str(tmp_path / "a.csv"), "--out", str(tmp_path / "out")]
    arguments += ["--topology", str(NETWORKS / "topology.conf")]
    done = CliRunner().invoke(ingest_app, arguments)
    assert done.exit_code == 0, done.output
    assert "2 of 2 addresses of flows are not in the description" in done.stderr
    (tmp_path / "hosts").write_text("10.0.0.1 gpu001\n10.0.0.7 gpu002\n")
    done = CliRunner().invoke(ingest_app, [*arguments, "--hosts", str(tmp_path / "hosts")])
    assert "are not in the description" not in done.stderr
    content = json.loads((tmp_path / "out" / "topology.json").read_text())
    assert ("gpu001", "10.0.0.1") in {
        (end["server"], end["address"]) for end in content["endpoints"]
    }


def test_exporters_have_the_names_of_switches_that_hosts_gives_them(tmp_path: Path) -> None:
    line = "10.0.0.1,10.0.0.3,1,2,30,5,6,{}\n"
    text = "src,dst,start,end,bytes,sport,dport,exporter\n"
    (tmp_path / "a.csv").write_text(text + "".join(map(line.format, ["192.0.2.7", "192.0.2.9"])))
    arguments = [str(tmp_path / "a.csv"), "--out", str(tmp_path / "out")]
    arguments += ["--topology", str(NETWORKS / "topology.conf"), "--hosts", str(tmp_path / "hosts")]
    names = "10.0.0.1 gpu001\n10.0.0.3 gpu003\n"
    (tmp_path / "hosts").write_text(names)
    done = CliRunner().invoke(ingest_app, arguments)
    assert "2 of 2 observation points are no switches of the network" in done.stderr
    (tmp_path / "hosts").write_text(names + "192.0.2.9 leaf0\n192.0.2.7 leaf1\n")
    done = CliRunner().invoke(ingest_app, arguments)
    assert "observation points" not in done.stderr.replace("another observation point", "")
    assert pq.read_table(tmp_path / "out/flows.parquet")["path"].to_pylist() == ["leaf0|leaf1"]


def test_a_wrong_description_is_reported_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,start,end,bytes\n10.0.0.1,10.0.0.7,1,2,3\n")
    (tmp_path / "net").write_text("nonsense")
    arguments = [str(tmp_path / "a.csv"), "--topology", str(tmp_path / "net")]
    done = CliRunner().invoke(ingest_app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", sorted(one.name for one in (NETWORKS / "switches").iterdir()))
def test_neighbours_as_each_kind_of_switch_prints_them(tmp_path: Path, file: str) -> None:
    path = tmp_path / f"leaf1{Path(file).suffix}"
    path.write_bytes((NETWORKS / "switches" / file).read_bytes())
    hosts = {"node07": "10.7.0.7", "node08": "10.7.0.8"}
    content = read_network([path], hosts, Notes())
    assert ends(content, "server", "switch", "address") == {
        ("node07", "leaf1", "10.7.0.7"),
        ("node08", "leaf1", "10.7.0.8"),
    }
    assert {name.split(".")[0] for name in tiers(content)} <= {"leaf1", "spine1"}
