"""Rates under every kind of routing, compared with exact fractions and with closed forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fabrics import clusters
from link_records import lateness_ns, records_by_link
from prism_common.errors import UserError
from prism_sim.cluster.ways import FAILED
from prism_sim.loading.size import estimate
from prism_sim.toolkit import Cluster, Run, Scenario, simulate
from reference_maxmin import rates
from routed import Wires, even_shares, two_leaves
from tiny import TINY_MODEL

KINDS: list[Any] = [
    "ecmp", "flowlet", "adaptive", "spray", {"kind": "adaptive", "per": "message"},
    {"kind": "spray", "weights": [1, 3, 2]},
]  # fmt: skip


def exact(wires: Wires, ends: list[tuple[int, int]], capacity: Any, failed: Any) -> list[float]:
    uses: Any = [even_shares(wires.layout, src, dst, failed) for src, dst in ends]
    found = rates(capacity.tolist(), uses, [float("inf")] * len(ends))
    return [float(rate) for rate in found]


@given(clusters(), st.data())
@settings(max_examples=60)
def test_sprayed_rates_are_those_of_exact_fractions(cluster: Cluster, data: st.DataObject) -> None:
    fabric = cluster.fabric.model_copy(update={"routing": spray()})
    wires = Wires(cluster.model_copy(update={"fabric": fabric}))
    nics = len(wires.layout.addresses)
    nic = st.integers(0, nics - 1)
    ends = data.draw(st.lists(st.tuples(nic, nic), min_size=1, max_size=8, unique=True))
    ends = [(src, dst) for src, dst in ends if src != dst]
    assume(ends)
    capacity = wires.layout.capacity.copy()
    templates = [wires.send(src, dst) for src, dst in ends]
    wires.run()
    for _ in range(3):
        link, speed = data.draw(st.integers(0, len(capacity) - 1)), data.draw(st.integers(1, 4))
        capacity[link] = wires.layout.capacity[link] * speed / 4
        wires.fabric.set_capacity(link, capacity[link])
        wires.run()
    found = wires.rates()
    expected = exact(wires, ends, capacity, set())
    np.testing.assert_allclose([found[t] for t in templates], expected, rtol=1e-9)
    leaf, count = data.draw(st.integers(0, cluster.leaves - 1)), data.draw(st.integers(1, 2))
    try:
        moved = wires.router.fail(leaf, range(count))
    except UserError:
        return
    wires.fabric.reroute(moved)
    ends.append(data.draw(st.sampled_from([(a, b) for a in range(nics) for b in range(nics)
                                           if a != b and (a, b) not in ends])))  # fmt: skip
    try:
        templates.append(wires.send(*ends[-1]))
    except UserError:
        ends.pop()
    wires.run()
    found = wires.rates()
    expected = exact(wires, ends, capacity, {(leaf, up) for up in range(count)})
    np.testing.assert_allclose([found[t] for t in templates], expected, rtol=1e-9)


def spray() -> Any:
    return Cluster.model_validate({"servers": 1, "fabric": {"routing": "spray"}}).fabric.routing


@pytest.mark.parametrize("k", [2, 7, 64])
@pytest.mark.parametrize("r", [0.5, 0.9])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_of_k_paths_one_is_slow(k: int, r: float, direction: str) -> None:
    """Spraying waits for the slow path; adaptive routing loses only what the path has less."""
    for routing, share in (("spray", r), ("adaptive", (k - 1 + r) / k)):
        wires = two_leaves(k, routing)
        link = wires.layout.up(0, 0) if direction == "up" else wires.layout.down(1, 0)
        wires.fabric.set_capacity(link, float(wires.layout.capacity[link]) * r)
        wires.router.conditions.speed[link] = r
        template = wires.send(0, 1)
        wires.run()
        assert wires.rates()[template] == pytest.approx(50 * share, rel=1e-12)


def test_weights_load_the_heaviest_path_most() -> None:
    wires = two_leaves(4, {"kind": "spray", "weights": [2, 1, 1, 1]})
    template = wires.send(0, 1)
    wires.run()
    assert wires.rates()[template] == pytest.approx(50 / 4 / (2 / 5))


@pytest.mark.parametrize("repeats", [0.0, 0.005 * 100, 0.05 / 0.95])
def test_losses_on_one_of_k_paths_cost_all_of_the_message(repeats: float) -> None:
    wires = two_leaves(8, "spray")
    wires.router.conditions.repeats[wires.layout.up(0, 3)] = repeats
    template = wires.send(0, 1)
    wires.run()
    assert wires.rates()[template] == pytest.approx(50 / (1 + repeats / 8))


def test_the_least_loaded_path_is_free() -> None:
    """Eight messages over eight uplinks: each has one of its own, in whatever order they start."""
    wires = two_leaves(8, {"kind": "adaptive", "per": "message"}, servers=8)
    for server in range(8):
        wires.send(server, 8 + server)
    wires.run()
    assert sorted(wires.rates().values()) == pytest.approx([50.0] * 8)


@pytest.mark.parametrize(("silent_ns", "paths"), [(400, 1), (2_000, 8)])
def test_a_flowlet_takes_a_new_path_only_after_a_silence(silent_ns: int, paths: int) -> None:
    wires = two_leaves(8, {"kind": "flowlet", "gap_us": 1})
    template = wires.send(0, 1, 500)
    for _ in range(80):
        wires.env.run(until=wires.env.now + 500 // 6 + 1 + silent_ns)
        wires.send(0, 1, 500)
    wires.env.run(until=wires.env.now + 1_000)
    assert wires.fabric.templates.chooses(template)
    assert len(set(wires.fabric.drain()["path"].tolist())) == paths


def test_a_failed_path_is_not_chosen() -> None:
    for routing in ("flowlet", {"kind": "adaptive", "per": "message"}):
        wires = two_leaves(8, routing)
        wires.send(0, 1, 500)
        wires.run()
        wires.fabric.reroute(wires.router.fail(0, range(7)))
        assert wires.router.failed()[0, 3, FAILED]
        for _ in range(20):
            wires.env.run(until=wires.env.now + 1_000_000)
            wires.send(0, 1, 500)
        wires.env.run(until=wires.env.now + 1_000_000)
        assert set(wires.fabric.drain()["path"].tolist()[1:]) == {8}


def world(routing: Any, folder: Path, **more: Any) -> Path:
    """Two servers on two leaves, with pipelines, rings and a slow uplink."""
    fabric = {"kind": "tor", "leaf_ports": 8, "uplinks": 4, "spines": 4, "routing": routing}
    job = {"name": "a", "model": TINY_MODEL, "dp": 2, "pp": 2, "tp": 4, "micro_batches": 4,
           "steps": 3, "compute_jitter": 0.05}  # fmt: skip
    faults = [
        {"kind": "slow_link", "a": "leaf000", "b": "spine00", "factor": 0.4, "from_s": 0.005},
        {"kind": "failed_uplinks", "leaf": "leaf001", "failed": 1, "from_s": 0.01},
    ]
    cluster = {"servers": 2, "fabric": fabric}
    values = {"name": "test", "cluster": cluster, "jobs": [job], "faults": faults, **more}
    run = Run(folder)
    simulate(Scenario.model_validate(values), run)
    return folder


def split(folder: Path, routing: Any, how: str) -> pd.DataFrame:
    effects = {"effects": [{"kind": "paths", "split": how}]}
    path = world(routing, folder, collector=effects) / "flows.parquet"
    return pd.read_parquet(path).astype({"src": str, "dst": str, "path": str})


@pytest.mark.parametrize("routing", KINDS, ids=str)
def test_the_records_of_all_paths_fit_their_links(routing: Any, tmp_path: Path) -> None:
    split(tmp_path, routing, "all")
    for link, capacity, records in records_by_link(tmp_path):
        late_ns = lateness_ns(records, capacity * 1.01)
        assert late_ns <= 1_502, f"{link}: {late_ns:,.0f} ns too late"  # grain, and three latencies


def test_records_of_all_paths_have_all_bytes_in_equal_shares(tmp_path: Path) -> None:
    flows = split(tmp_path / "all", "spray", "all")
    one = split(tmp_path / "one", "spray", "one")
    message = ["src", "dst", "src_port", "start_ns", "end_ns"]
    whole = one.groupby(message)["bytes"].sum()
    pd.testing.assert_series_equal(flows.groupby(message)["bytes"].sum(), whole)
    early = flows[flows["end_ns"] < flows["start_ns"].min() + 10_000_000]
    crossing = early[early["path"].str.contains("spine")]
    parts = crossing.groupby(message)["bytes"]
    assert (parts.size() == 4).all()
    assert (parts.max() - parts.min() <= 1).all()
    assert set(one["path"].str.split("|").str[1].dropna()) == {f"spine0{i}" for i in range(4)}


def test_what_one_record_cannot_say_is_a_question_mark(tmp_path: Path) -> None:
    flows = pd.read_parquet(world("spray", tmp_path) / "flows.parquet")
    assert set(flows["path"].astype(str)) == {"leaf000|?|leaf001", "leaf001|?|leaf000"}


@pytest.mark.parametrize("routing", KINDS, ids=str)
def test_the_same_seed_gives_the_same_records(routing: Any, tmp_path: Path) -> None:
    files = [world(routing, tmp_path / name) / "flows.parquet" for name in ("one", "two")]
    assert pq.read_table(files[0]).equals(pq.read_table(files[1]))


def test_the_size_of_a_world_counts_the_records_of_all_paths(tmp_path: Path) -> None:
    def rows(how: str) -> tuple[float, int]:
        folder = tmp_path / how
        found = len(split(folder, "spray", how))
        resolved = json.loads((folder / "manifest.json").read_text())["scenario"]
        return estimate(Scenario.model_validate(resolved)).rows, found

    (expected_one, one), (expected_all, every) = rows("one"), rows("all")
    assert expected_all / expected_one == pytest.approx((1 + every / one) / 2, rel=0.2)
