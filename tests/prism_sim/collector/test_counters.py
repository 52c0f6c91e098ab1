"""Counters of ports: they add up to the flow records, and do what counters of switches do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from llmprism.counters.diagnosing import diagnose
from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.io.topology import read_topology
from prism_sim.toolkit import Run, Scenario, simulate

EPOCH_NS = 1_700_000_000 * 10**9
SCENARIO = {
    "name": "counters",
    "epoch_ns": EPOCH_NS,
    "cluster": {"servers": 4, "gpus_per_server": 2, "nics_per_server": 2, "nic_gbps": 100,
                "fabric": {"kind": "rail", "leaf_ports": 4, "spines": 1}},
    "jobs": [{"name": "a", "model": "llama-7b", "dp": 8, "micro_batches": 2, "steps": 12,
              "compute_jitter": 0.02}],
}  # fmt: skip
CONSERVED = ["in_bytes", "out_bytes"]


def made(folder: Path, **counters) -> Run:
    options = {"interval_s": 0.1, **counters}
    run = Run(folder)
    simulate(Scenario.model_validate({**SCENARIO, "collector": {"counters": options}}), run)
    return run


def moved(run: Run) -> pd.DataFrame:
    """Bytes that each port counted over the whole recording."""
    by_port = pd.read_parquet(run.counters).groupby("port", observed=True)[CONSERVED]
    return by_port.last() - by_port.first()


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Run:
    return made(tmp_path_factory.mktemp("plain"))


def sent_and_received(run: Run) -> pd.DataFrame:
    flows = pd.read_parquet(run.flows)
    sums = [flows.groupby(side, observed=True)["bytes"].sum() for side in ("src", "dst")]
    return pd.concat(sums, axis=1, keys=CONSERVED).fillna(0).astype(np.int64)


@pytest.mark.parametrize("refresh_s", [None, 0.37])
def test_counters_add_up_to_the_flow_records_of_each_port(tmp_path, plain, refresh_s):
    run = plain if refresh_s is None else made(tmp_path, refresh_s=refresh_s)
    expected = sent_and_received(run)
    counted = moved(run).loc[expected.index]
    assert (counted.to_numpy() == expected.to_numpy()).all()
    assert expected.to_numpy().sum() > 0


def test_flows_are_the_same_with_and_without_counters(tmp_path, plain):
    other = Run(tmp_path)
    simulate(Scenario.model_validate(SCENARIO), other)
    assert other.flows.read_bytes() == plain.flows.read_bytes()
    assert not other.counters.exists()


def test_readings_are_as_far_apart_as_asked_and_never_fall(plain):
    for _, port in pd.read_parquet(plain.counters).groupby("port", observed=True):
        gaps = np.diff(port["time_ns"]) / 1e9
        assert np.median(gaps) == pytest.approx(0.1, rel=0.05)
        assert (gaps > 0).all()
        assert (np.diff(port[CONSERVED], axis=0) >= 0).all()


def test_a_switch_that_refreshes_seldom_repeats_its_values(tmp_path):
    run = made(tmp_path, refresh_s=0.5)
    table = pd.read_parquet(run.counters)
    port = table[table["port"] == run.truth("ranks")["address"].iloc[0]]
    repeated = (np.diff(port["in_bytes"]) == 0).mean()
    assert repeated > 0.75


def test_words_of_32_bits_wrap(tmp_path, plain):
    run = made(tmp_path, bits=32, interval_s=0.02)
    table = pd.read_parquet(run.counters)
    assert table[CONSERVED].to_numpy().max() < 2**32
    falls = table.groupby("port", observed=True)["in_bytes"].agg(lambda v: (v.diff() < 0).sum())
    assert falls.sum() > 0
    unwrapped = read([str(run.counters)], Options())
    result = diagnose(unwrapped, read_topology(run.topology))
    assert result.diagnosis.verdict.figures["wraps at 32 bits"] >= falls.sum()
    assert len(result.diagnosis.jobs) == len(diagnosed(plain).diagnosis.jobs)


def diagnosed(run: Run):
    return diagnose(read([str(run.counters)], Options()), read_topology(run.topology))


def test_holes_have_no_readings(tmp_path):
    run = made(tmp_path, holes=[{"from_s": 1.0, "to_s": 2.5}])
    times = (pd.read_parquet(run.counters)["time_ns"] - EPOCH_NS) / 1e9
    assert not times.between(1.0, 2.5, inclusive="left").any()


def test_a_reset_begins_again_at_zero(tmp_path):
    run = made(tmp_path, resets=[{"at_s": 2.0, "switch": "leaf000"}])
    falls = {
        name: int((port["in_bytes"].diff() < 0).sum())
        for name, port in pd.read_parquet(run.counters).groupby("port", observed=True)
    }
    ends = {end.address: end.switch for end in read_topology(run.topology).endpoints}
    assert falls == {name: int(ends[name] == "leaf000") for name in falls}


def test_a_job_is_found_from_its_counters_alone(plain):
    result = diagnosed(plain)
    ranks = plain.truth("ranks")
    assert set(result.diagnosis.jobs["address"]) == set(ranks["address"])
    true = plain.truth("layouts")["period_ns"].iloc[0]
    assert result.rhythms[0].period_ns == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize("routing", ["ecmp", "spray", {"kind": "spray", "weights": [3, 1, 1, 1]}])
def test_ports_between_switches_show_how_messages_are_spread(tmp_path, routing):
    fabric = {"kind": "tor", "leaf_ports": 2, "spines": 4, "uplinks": 4, "routing": routing}
    values = {**SCENARIO, "cluster": {**SCENARIO["cluster"], "fabric": fabric}}
    counters = {"counters": {"interval_s": 0.1, "ports": "all"}}
    run = Run(tmp_path)
    simulate(Scenario.model_validate({**values, "collector": counters}), run)
    between = moved(run)
    between = between[between.index.str.contains("/")]
    flows = pd.read_parquet(run.flows)
    crossing = flows[flows["path"].astype(str).str.contains("spine|[?]")]
    leaf = crossing["path"].astype(str).str.split("|").str[0]
    sent = crossing.groupby(leaf)["bytes"].sum()
    up = between["out_bytes"].groupby(between.index.str.split("/").str[0]).sum()
    assert up.to_dict() == sent.to_dict()
    assert between["in_bytes"].sum() == crossing["bytes"].sum()
    share = between["out_bytes"] / up.reindex(between.index.str.split("/").str[0]).to_numpy()
    uneven = {"ecmp": (share.max() > 0.3), "spray": np.allclose(share, 0.25, atol=1e-6)}
    weighted = np.allclose(sorted(share), [1 / 6] * 12 + [0.5] * 4, atol=1e-6)
    assert uneven.get(str(routing), weighted)
