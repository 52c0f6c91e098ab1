"""A NIC that stops now and then: the messages that were under way stall."""

from __future__ import annotations

import pytest

import prism_sim as ps

pytestmark = pytest.mark.slow  # each test simulates a world

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
