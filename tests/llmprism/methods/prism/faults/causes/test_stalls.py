"""A NIC that stops now and then: the messages that were under way stall."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

import prism_sim as ps
from llmprism.methods.prism.faults.causes.stalls import _active, _at_nic, _near
from llmprism.methods.prism.faults.measures.stalled_records import Stalls

STALLS = importlib.import_module("llmprism.methods.prism.faults.causes.stalls")

pytestmark = pytest.mark.slow  # most tests simulate a world

WORLD = """\
seed: 3
cluster: {servers: 16, gpus_per_server: 1, nics_per_server: 1,
          fabric: {kind: tor, leaf_ports: 4, spines: 2}}
collector: {effects: [{kind: headers}]}
jobs:
  - {name: train, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048},
     dp: 4, pp: 4, micro_batches: 6, steps: 26, mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 5}
faults:
  - {job: train, %s}
"""
FLAPS = "kind: flapping_nic, server: %s, nic: 0, from_step: 9, to_step: 19, every_s: 0.14"


def found(tmp_path, fault: str):
    """Findings of a world with one fault."""
    (tmp_path / "world.yaml").write_text(WORLD % fault)
    return ps.run(tmp_path / "world.yaml", out=tmp_path / "run").diagnosis.findings


@pytest.mark.parametrize(("server", "address"), [("s0006", "10.0.6.1"), ("s0015", "10.0.15.1")])
def test_a_nic_that_stops_for_moments_is_named(tmp_path, server, address):
    findings = found(tmp_path, f"{FLAPS % server}, lasts_s: 0.03")
    assert len(findings) == 1
    one = findings.iloc[0]
    assert (one["cause"], one["level"]) == ("flapping_nic", "network")
    assert address in one["evidence"]
    assert one["first_step"] >= 8
    assert one["last_step"] <= 20
    if server == "s0006":  # messages from both neighbours stall, so it is no other
        assert one["culprit"] == address


def test_a_nic_that_is_slow_all_the_time_does_not_flap(tmp_path):
    fault = "kind: slow_nic, server: s0006, nic: 0, factor: 0.02, from_step: 9, to_step: 19"
    findings = found(tmp_path, fault)
    assert "flapping_nic" not in set(findings["cause"])
    assert "10.0.6.1" in set(findings["culprit"])


@pytest.mark.parametrize("at_ns", [5_000_000, 50_000_000])
def test_of_two_nics_the_one_that_carries_anything_while_a_record_stalls_has_not_stopped(at_ns):
    """A record of 10 ms between ``a`` and ``b`` stalls for 9 ms; ``b`` gets another one."""
    flows = SimpleNamespace(
        src=np.array([0, 2]), dst=np.array([1, 1]),
        start_ns=np.array([0, at_ns]), end_ns=np.array([10_000_000, at_ns + 100]),
    )  # fmt: skip
    flows.lengths_ns = lambda rows: (flows.end_ns - flows.start_ns)[rows]
    found = Stalls(np.array([0], np.int32), np.array([3]), np.array([9e6]), np.array([True]))
    context = SimpleNamespace(flows=flows)
    assert _active(context, found, 0) == 0.0
    assert _active(context, found, 1) == float(at_ns < 10_000_000)


def test_a_nic_that_stops_in_collectives_is_named(tmp_path):
    """Of the rings of two NICs a server, one record in each direction of the NIC stalls."""
    world = WORLD.replace("servers: 16, gpus_per_server: 1, nics_per_server: 1",
                          "servers: 4, gpus_per_server: 2, nics_per_server: 2")  # fmt: skip
    world = world.replace("dp: 4, pp: 4, micro_batches: 6", "dp: 4, tp: 2, micro_batches: 4")
    fault = "kind: flapping_nic, server: s0002, nic: 1, from_step: 9, to_step: 14, every_s: 0.042"
    (tmp_path / "world.yaml").write_text(world % f"{fault}, lasts_s: 0.012")
    findings = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").diagnosis.findings
    assert [*findings["cause"]] == ["flapping_nic"]
    assert [*findings["culprit"]] == ["10.0.2.2"]


@pytest.mark.parametrize(("hops", "near"), [([0, 1], [1]), ([0, 1, 2, 3, 4, 5], [])])
def test_where_parts_of_collectives_all_over_a_ring_wait_no_nic_stopped(hops, near):
    """Of a ring of six hops two are held up, which have a NIC in common, or all of them."""
    src = np.array(hops)
    flows = SimpleNamespace(src=src, dst=(src + 1) % 6, start_ns=0 * src, end_ns=0 * src + 10**7)
    found = Stalls(
        np.arange(src.size, dtype=np.int32), 0 * src + 3, np.full(src.size, 9e6), src < 0
    )
    assert _near(SimpleNamespace(flows=flows), found) == near


def test_a_short_wait_elsewhere_does_not_hide_the_nic_at_both_ends_of_all_long_stops():
    """Hops to and from NIC 2 stall in four steps for 20 ms; then one to NIC 1 waits for 3 ms."""
    src, step = np.array([1, 2] * 4 + [0]), np.array([3, 3, 4, 4, 5, 5, 6, 6, 7])
    start_ns = 100_000_000 * step
    flows = SimpleNamespace(src=src, dst=src + 1, start_ns=start_ns, end_ns=start_ns + 30_000_000)
    lost_ns = np.where(step < 7, 20e6, 3e6)
    found = Stalls(np.arange(9, dtype=np.int32), step, lost_ns, src < 0)
    assert _near(SimpleNamespace(flows=flows), found) == [2]


@pytest.mark.parametrize(("nics", "named"), [(32, 1), (2, 0)])
def test_stalls_that_hardly_make_steps_longer_are_shown_by_where_they_are(monkeypatch, nics, named):
    """Eight stops of 20 ms at one NIC of many, or of two, in steps that are 3 ms longer."""
    lengths_ns = 100e6 + 1e5 * np.random.default_rng(5).standard_normal(30)
    lengths_ns[10:18] += 3e6
    job = SimpleNamespace(
        name="job-0", count=30, period_ns=100e6, tick_ns=0.0, duration_ns=lengths_ns,
        between_ends_ns=lengths_ns, phases=SimpleNamespace(endpoints=np.arange(nics)),
    )  # fmt: skip
    steps, src = np.arange(10, 18), np.arange(8) % (nics - 1) + 1
    start_ns = steps * 100_000_000
    flows = SimpleNamespace(
        src=src, dst=0 * src, start_ns=start_ns, end_ns=start_ns + 30_000_000
    )  # fmt: skip
    flows.lengths_ns = lambda rows: (flows.end_ns - flows.start_ns)[rows]
    addresses = [f"a{one}" for one in range(nics)]
    context = SimpleNamespace(flows=flows, topology=SimpleNamespace(addresses=addresses))
    monkeypatch.setattr(STALLS, "_lost_by_gradients", lambda *_: [0.0] * nics)
    found = Stalls(np.arange(8, dtype=np.int32), steps, np.full(8, 20e6), steps > 0)
    assert [one.culprit for one in _at_nic(context, job, found)] == ["a0"] * named


@pytest.mark.parametrize("longer", [0.0, 0.2])
def test_records_that_stall_in_steps_no_longer_than_others_accuse_nobody(monkeypatch, longer):
    """Five of 30 steps have a record that stalls; some of any five steps are longer than most."""
    steps = np.array([3, 9, 14, 20, 26])
    lengths_ns = 100e6 * (1 + 0.02 * np.random.default_rng(5).standard_normal(30))
    lengths_ns[steps] = 100e6 * (1 + np.array([0.04, -0.04, 0.04, -0.04, 0.0]) + longer)
    job = SimpleNamespace(
        name="job-0", count=30, period_ns=100e6, tick_ns=0.0,
        duration_ns=lengths_ns, between_ends_ns=lengths_ns,
        phases=SimpleNamespace(endpoints=np.arange(2)),
    )  # fmt: skip
    start_ns = steps * 100_000_000
    flows = SimpleNamespace(
        src=np.zeros(5, np.int64), dst=np.ones(5, np.int64),
        start_ns=start_ns, end_ns=start_ns + 30_000_000,
    )  # fmt: skip
    flows.lengths_ns = lambda rows: (flows.end_ns - flows.start_ns)[rows]
    context = SimpleNamespace(flows=flows, topology=SimpleNamespace(addresses=["a", "b"]))
    monkeypatch.setattr(STALLS, "_lost_by_gradients", lambda *_: [0.0, 0.0])
    found = Stalls(np.arange(5, dtype=np.int32), steps, np.full(5, 20e6), steps > 0)
    assert len([*_at_nic(context, job, found)]) == int(longer > 0)


def test_where_hops_stall_at_other_nics_as_well_messages_alone_show_which_one_stops(monkeypatch):
    """Hops all over a ring wait for late ranks, while each message that stalls has one end."""
    message = np.arange(8) < 4
    found = Stalls(np.arange(8, dtype=np.int32), np.arange(8), np.full(8, 9e6), message)
    seen = []

    def at_nic(_context, _job, own):
        seen.append(own.row.tolist())
        return ["a"] if own.message.all() else []

    monkeypatch.setattr(STALLS, "stalled_records", lambda *_: found)
    monkeypatch.setattr(STALLS, "_at_nic", at_nic)
    assert [*STALLS.stalls(SimpleNamespace(jobs=[None]))] == ["a"]
    assert seen == [[*range(8)], [*range(4)]]
