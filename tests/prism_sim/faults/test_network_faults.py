"""Faults of NICs, cables, switches and their hashing; imbalances; storage."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from faulty import CLUSTER, compute_ms, fault_of, run_with, step_ms
from prism_sim.loading.checks import errors
from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL

FLAT = {"servers": 8, "gpus_per_server": 1, "nics_per_server": 1,
        "fabric": {"kind": "tor", "leaf_ports": 4, "uplinks": 4, "spines": 4}}  # fmt: skip
PIPES = {"cluster": FLAT, "dp": 4, "pp": 2, "micro_batches": 2, "mfu": 0.5}
"""Four pipelines over two leaves: their activations leave leaf 0 at one time."""


def flows_of(run):
    """Records with the rate [Gbit/s], and the step of the job in which each began."""
    flows = pd.read_parquet(run.flows)
    steps = run.truth("steps").groupby("step")["start_ns"].min()
    flows["step"] = np.searchsorted(steps, flows["start_ns"], "right") - 1
    took_ns = np.maximum(flows["end_ns"] - flows["start_ns"], 1)
    return flows.assign(took_ns=took_ns, gbps=8 * flows["bytes"] / took_ns)


def uplinks_used(run, leaf="leaf000"):
    """Paths out of a leaf, by step."""
    flows = flows_of(run)
    out = flows[flows["path"].str.startswith(f"{leaf}|")]
    return out.groupby("step")["path"].agg(lambda paths: len(set(paths)))


def test_polarised_hashing_leaves_uplinks_idle_and_the_other_direction_alone(tmp_path):
    fault = {"kind": "polarised_hashing", "leaf": "leaf000", "used": 1, "job": "a"}
    healthy = run_with(tmp_path / "healthy", **PIPES)
    run = run_with(tmp_path / "faulty", fault | {"from_step": 3, "to_step": 5}, **PIPES)
    before, used = uplinks_used(healthy), uplinks_used(run)
    assert before.min() > 1
    assert (used[[3, 4]] == 1).all()
    assert (used.drop([3, 4]) == before.drop([3, 4])).all(), "as before and after"
    back = [uplinks_used(one, "leaf001") for one in (healthy, run)]
    assert back[0].equals(back[1]), "what arrives takes the paths of the other leaf"
    truth = fault_of(run)
    assert (truth["culprit_kind"], truth["culprit"]) == ("switch", "leaf000")
    assert truth["magnitude"] == 0.75


def test_two_jobs_meet_on_one_uplink_and_a_third_does_not(tmp_path):
    wide = {**FLAT, "servers": 12, "fabric": {**FLAT["fabric"], "leaf_ports": 6}}
    jobs = [
        {"name": name, "model": TINY_MODEL, "pp": 2, "micro_batches": 2, "steps": 4, "dp": 2,
         "placement": {"servers": [f"s{i:04d}" for i in (k, k + 1, k + 6, k + 7)]}}
        for name, k in (("a", 0), ("b", 2), ("c", 4))
    ]  # fmt: skip
    fault = {"kind": "job_congestion", "between": ["a", "c"], "leaf": "leaf000", "uplink": 2}
    runs = {}
    for name, faults in (("healthy", []), ("faulty", [fault | {"from_s": 0}])):
        scenario = Scenario.model_validate({"cluster": wide, "jobs": jobs, "faults": faults})
        assert list(errors(scenario)) == []
        runs[name] = Run(tmp_path / name)
        simulate(scenario, runs[name])
    paths = {}
    for name, run in runs.items():
        flows = pd.read_parquet(run.flows)
        job = run.truth("ranks").set_index("address")["job"]
        out = flows[flows["path"].str.startswith("leaf000|spine")]
        paths[name] = out["path"].astype(str).groupby(out["src"].map(job)).agg(set)
    sharing = {"leaf000|spine02|leaf001"}
    assert paths["faulty"]["a"] == paths["faulty"]["c"] == sharing
    assert paths["faulty"]["b"] == paths["healthy"]["b"]
    truth = fault_of(runs["faulty"])
    assert (truth["culprit_kind"], truth["culprit"]) == ("link", "leaf000|spine02")
    assert json.loads(truth["jobs"]) == ["a", "c"]


@pytest.mark.parametrize(("direction", "slow"), [("up", 1), ("down", 0)])
def test_a_misconfigured_switch_slows_one_direction(tmp_path, direction, slow):
    """Leaf 1 has the second stage: it sends gradients, and receives activations."""
    fields = {**PIPES, "micro_batches": 1, "overlap_gradients": False}
    fault = {"kind": "misconfigured_switch", "switch": "leaf001", "factor": 0.1}
    fault |= {"direction": direction, "from_s": 0}
    took = []
    for name, faults in (("healthy", []), ("faulty", [fault])):
        run = run_with(tmp_path / name, *faults, **fields)
        flows, stage = flows_of(run), run.truth("ranks").set_index("address")["pp"]
        own = flows[flows["src"].map(stage) != flows["dst"].map(stage)]
        took.append(own["took_ns"].groupby(own["src"].map(stage).astype(int)).min())
    ratio = took[1] / took[0]
    assert ratio[slow] > 3
    assert ratio[1 - slow] < 1.01


def test_a_lossy_link_has_the_capacity_that_retransmissions_leave(tmp_path):
    fields = {**PIPES, "dp": 1, "micro_batches": 1}
    fault = {"kind": "lossy_link", "a": "10.0.0.1", "b": "leaf000", "probability": 0.01}
    rates = [
        flows_of(run_with(tmp_path / name, *faults, **fields)).groupby("src")["gbps"].max()
        for name, faults in (("healthy", []), ("faulty", [fault | {"from_s": 0}]))
    ]
    np.testing.assert_allclose(rates[1] / rates[0], 0.5, rtol=1e-3)  # 1 / (1 + 0.01 x 100)


def test_a_flapping_nic_stops_its_messages_until_it_is_back(tmp_path):
    fields = {**PIPES, "micro_batches": 8, "steps": 20}
    healthy = run_with(tmp_path / "healthy", **fields)
    step_s = float(step_ms(healthy).median()) / 1e3
    down_s = 2 * step_s
    fault = {"kind": "flapping_nic", "server": "s0001", "nic": 0, "every_s": 8 * step_s}
    fault |= {"lasts_s": down_s, "from_s": 3 * step_s}
    run = run_with(tmp_path / "faulty", fault, **fields)
    flows = flows_of(run).query("src == '10.0.1.1' or dst == '10.0.1.1'")
    truth, epoch_ns = fault_of(run), run.truth("faults")["start_ns"].iloc[0]
    at = (flows["start_ns"] - epoch_ns) / 1e9
    ends = (flows["end_ns"] - epoch_ns) / 1e9
    for turn in range(2):
        begin, end = turn * 8 * step_s, turn * 8 * step_s + down_s
        assert not ((ends > begin + 1e-5) & (ends < end)).any(), "nothing arrives while it is down"
        assert ((at < end) & (ends >= end)).any(), "what was under way arrives afterwards"
    slower = step_ms(run).sum() - step_ms(healthy).sum()
    assert slower > 1.5e3 * down_s
    assert truth["magnitude"] == pytest.approx(0.25)


def test_an_incast_slows_only_received_traffic_and_only_during_bursts(tmp_path):
    burst = {"kind": "incast_burst", "server": "s0004", "senders": 7, "burst_bytes": 10_000_000}
    healthy = run_with(tmp_path / "healthy", **PIPES)
    step_s = float(step_ms(healthy).median()) / 1e3
    run = run_with(tmp_path / "faulty", burst | {"every_s": 2 * step_s, "from_s": 0}, **PIPES)
    pairs = run.truth("pairs").query("job == 'incast'")
    assert set(pairs["dst"]) == {"10.0.4.1"}
    assert len(pairs) == 7
    assert (pairs["kind"] == "other").all()
    job = [
        flows_of(one).query("dst == '10.0.4.1' and src == '10.0.0.1'")["took_ns"]
        for one in (healthy, run)
    ]
    assert job[1].max() > 2 * job[0].max()
    truth = fault_of(run)
    assert (truth["culprit"], json.loads(truth["jobs"])) == ("10.0.4.1", ["a"])
    assert truth["magnitude"] == pytest.approx(7e7 / (2 * step_s * 50e9), rel=1e-6)


def test_an_imbalance_of_lengths_varies_passes_in_its_steps_only(tmp_path):
    healthy = compute_ms(run_with(tmp_path / "healthy"))
    fault = {"kind": "length_imbalance", "job": "a", "spread": 0.3, "from_step": 3, "to_step": 6}
    run = run_with(tmp_path / "faulty", fault)
    ratio = compute_ms(run) / healthy
    apart = (ratio - 1).abs().max()
    assert (apart[[0, 1, 2, 6, 7]] == 0).all()
    assert (apart[[3, 4, 5]] > 0.05).all()
    np.testing.assert_allclose(ratio.loc[0], ratio.loc[8], rtol=0.02)  # one replica, one length
    always = run_with(tmp_path / "always", length_spread=0.3)
    of_all = compute_ms(always) / healthy
    np.testing.assert_allclose(ratio[[3, 4, 5]], of_all[[3, 4, 5]], rtol=1e-9)
    assert fault_of(run)["culprit"] == "a"


def test_an_imbalance_of_experts_varies_exchanges_in_its_steps_only(tmp_path):
    fields = {"moe": {"experts": 8, "top_k": 2}, "ep": 4, "dp": 8, "pp": 1, "mfu": 0.5}
    fault = {"kind": "expert_imbalance", "job": "a", "spread": 0.8, "from_step": 3, "to_step": 6}
    runs = [
        run_with(tmp_path / name, *faults, **{**fields, **more})
        for name, faults, more in (
            ("healthy", [], {}),
            ("faulty", [fault], {}),
            ("always", [], {"moe": {**fields["moe"], "imbalance": 0.8}}),
        )
    ]
    healthy, faulty, always = map(step_ms, runs)
    np.testing.assert_allclose(faulty[[0, 1, 2, 7]], healthy[[0, 1, 2, 7]], rtol=1e-9)
    assert (faulty[[3, 4, 5]] > 1.1 * healthy[[3, 4, 5]]).all()
    np.testing.assert_allclose(faulty[[3, 4, 5]], always[[3, 4, 5]], rtol=0.02)


def test_slow_storage_is_noticed_at_checkpoints_only(tmp_path):
    """A save takes 1/factor of the time if storage is the limit."""
    cluster = {**CLUSTER, "servers": 9}
    fields = {"storage": ["s0008"], "checkpoint": {"every": 4}, "cluster": cluster, "mfu": 0.5}
    fault = {"kind": "slow_storage", "server": "s0008", "factor": 0.25, "from_s": 0}
    runs = [
        run_with(tmp_path / name, *faults, **fields)
        for name, faults in (("healthy", []), ("faulty", [fault]))
    ]
    saves = [run.truth("spans").query("kind == 'checkpoint'") for run in runs]
    took = [(one["end_ns"] - one["start_ns"]).groupby(one["step"]).max() for one in saves]
    np.testing.assert_allclose(took[1] / took[0], 4, rtol=0.02)
    healthy, faulty = map(step_ms, runs)
    np.testing.assert_allclose(faulty[[0, 1, 2, 5, 6]], healthy[[0, 1, 2, 5, 6]], rtol=1e-9)
    truth = fault_of(runs[1])
    assert (truth["culprit_kind"], truth["culprit"]) == ("server", "s0008")
