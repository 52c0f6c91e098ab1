"""Faults of fabrics that spray: gray links, uneven weights, paused ports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from prism_sim.toolkit import Run, Scenario, simulate

K = 8
"""Uplinks of a leaf, each as fast as a NIC."""
LINE = 50.0
"""Bytes a nanosecond: 400 Gbit/s."""
MESSAGE = 10_000_000
PER_MESSAGE = {"kind": "adaptive", "per": "message"}


def scenario(fault: dict[str, Any], routing: Any = "spray") -> Scenario:
    """Two servers of two NICs on two leaves, messages between them, and one fault from 0 s on."""
    fabric = {
        "kind": "tor", "leaf_ports": 2, "uplinks": K, "spines": K, "uplink_gbps": 800 / K,
        "routing": routing,
    }  # fmt: skip
    cluster = {"servers": 2, "gpus_per_server": 2, "nics_per_server": 2, "fabric": fabric}
    traffic = {"name": "t", "flows_per_s": 100, "median_bytes": MESSAGE, "sigma": 0}
    values = {
        "name": "test", "cluster": cluster, "jobs": [], "duration_s": 1.0,
        "background": [traffic], "faults": [{"from_s": 0.0, **fault}],
    }  # fmt: skip
    return Scenario.model_validate(values)


def flows(folder: Path, fault: dict[str, Any], routing: Any = "spray") -> pd.DataFrame:
    run = Run(folder)
    simulate(scenario(fault, routing), run)
    table = pd.read_parquet(run.flows).astype({"src": str, "dst": str, "path": str})
    return table.assign(rate=table["bytes"] / (table["end_ns"] - table["start_ns"]))


def gray(probability: float, transport: str) -> dict[str, Any]:
    ends = {"a": "leaf000", "b": "spine03"}
    return {"kind": "lossy_link", **ends, "probability": probability, "transport": transport}


@pytest.mark.parametrize("probability", [0.001, 0.005, 0.05])
@pytest.mark.parametrize("transport", ["go_back_n", "selective_repeat"])
def test_a_gray_link_costs_every_sprayed_message_its_share(tmp_path, probability, transport):
    """Go-back-N sends 100 packets for each loss; of a message, an eighth crosses the link."""
    table = flows(tmp_path, gray(probability, transport))
    window, one = probability * 100, probability / (1 - probability)
    repeats = (window if transport == "go_back_n" else one) / K
    assert table["rate"].max() == pytest.approx(LINE / (1 + repeats), rel=1e-5)
    assert table["rate"].median() == pytest.approx(LINE / (1 + repeats), rel=1e-5)


def test_only_messages_that_chose_the_gray_link_are_slow(tmp_path):
    routing = {"kind": "flowlet", "gap_us": 1}
    table = flows(tmp_path, gray(0.01, "go_back_n"), routing)
    over = table["path"].str.contains("spine03")
    line = 800 / K / 8  # one uplink
    assert table[over]["rate"].max() == pytest.approx(line / 2, rel=1e-5)
    assert table[~over]["rate"].median() == pytest.approx(line, rel=1e-5)
    assert over.any()


def test_a_repaired_gray_link_costs_nothing_more(tmp_path):
    table = flows(tmp_path, gray(0.01, "go_back_n") | {"to_s": 0.5})
    late = table[table["start_ns"] > table["start_ns"].min() + 520_000_000]
    assert late["rate"].max() == pytest.approx(LINE, rel=1e-5)
    assert table["rate"].min() < LINE / (1 + 1 / K) * 1.001


def test_messages_wait_for_the_uplink_that_uneven_spraying_prefers(tmp_path):
    table = flows(tmp_path, {"kind": "uneven_spraying", "leaf": "leaf000", "times": 3.0})
    from_leaf = table["src"].str.startswith("10.0.0.")
    line = 800 / K / 8
    assert table[from_leaf]["rate"].max() == pytest.approx(line * (3 + K - 1) / 3, rel=1e-5)
    assert table[~from_leaf]["rate"].max() == pytest.approx(LINE, rel=1e-5)


@pytest.mark.parametrize(("kind", "waits"), [("paused_port", True), ("flapping_nic", False)])
def test_a_paused_port_holds_up_what_shares_its_upstream_queue(tmp_path, kind, waits):
    """Another NIC on the leaf waits with it, unlike where the NIC's link alone is down."""
    fault = {"kind": kind, "server": "s0001", "nic": 0, "every_s": 0.1, "lasts_s": 0.05}
    table = flows(tmp_path, fault)
    other = table[table["dst"] == "10.0.1.2"]
    lasted_ns = other["end_ns"] - other["start_ns"]
    assert (lasted_ns.max() > 10_000_000) == waits
    own = table[table["dst"] == "10.0.1.1"]
    assert (own["end_ns"] - own["start_ns"]).max() > 10_000_000
    back = table[table["dst"].str.startswith("10.0.0.") & (table["src"] == "10.0.1.2")]
    assert (back["end_ns"] - back["start_ns"]).max() < 1_000_000


@pytest.mark.parametrize("routing", ["ecmp", "spray", "adaptive", "flowlet", PER_MESSAGE], ids=str)
def test_while_a_plane_is_down_all_messages_cross_the_other_one(tmp_path, routing):
    """NICs have a port in each plane: leaves 0 and 1 are one plane, 2 and 3 the other."""
    fabric = {"kind": "tor", "leaf_ports": 2, "planes": 2, "spines": 2, "routing": routing}
    cluster = {"servers": 4, "gpus_per_server": 1, "nics_per_server": 1, "nic_ports": 2,
               "fabric": fabric}  # fmt: skip
    traffic = {"name": "t", "flows_per_s": 300, "median_bytes": MESSAGE, "sigma": 0}
    fault = {"kind": "failed_plane", "plane": 1, "from_s": 0.3, "to_s": 0.6}
    values = {
        "name": "planes", "cluster": cluster, "jobs": [], "duration_s": 1.0,
        "background": [traffic], "faults": [fault],
    }  # fmt: skip
    run = Run(tmp_path)
    scenario = Scenario.model_validate(values)
    simulate(scenario, run)
    table = pd.read_parquet(run.flows).astype({"path": str})
    second = (table["start_ns"] - scenario.epoch_ns) / 1e9
    first_plane = table["path"].str.contains("leaf000|leaf001")
    during = (second > 0.3) & (second < 0.6)
    assert first_plane[during].all()
    assert not first_plane[~during].all()
    rate = 8 * table["bytes"] / (table["end_ns"] - table["start_ns"])
    assert rate.max() == pytest.approx(200, rel=1e-5)
