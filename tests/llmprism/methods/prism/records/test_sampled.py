"""Sampled packets: bytes are estimates, and times those of packets that happened to be sampled."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.records.sampled import allowed, deviation, sample_bytes

SAMPLED = """\
cluster: {servers: 8, gpus_per_server: %d, nics_per_server: %d,
          fabric: {kind: rail, leaf_ports: 8}}
jobs:
  - name: solo
    model: {layers: %d, hidden: 2048, heads: 16, vocab: 32000, sequence_length: %d}
    dp: 4
    pp: 2
    tp: %d
    micro_batches: 3
    steps: 8
    compute_jitter: 0.01
collector:
  idle_gap_us: 1000
  message_boundary: false
  effects: [{kind: headers}, {kind: sampling, one_in: %d}]
"""


@pytest.mark.parametrize("one_in", [100, 300])
def test_messages_of_a_few_samples_are_a_pipeline(scored, one_in):
    """Volumes of both directions differ by more than exact ones would, and sizes show no count."""
    result = scored(SAMPLED % (1, 1, 24, 1024, 1, one_in))
    assert result.score["pairs"]["accuracy"] == 1
    assert result.score["parallelism"]["stage_order"] == 1
    assert result.diagnosis.layouts[["dp", "pp", "micro_batches"]].to_numpy().tolist() == [
        [4, 2, 3]
    ]


def test_nics_whose_first_packets_were_not_sampled_are_no_replicas(scored):
    (layout,) = scored(SAMPLED % (2, 2, 8, 2048, 2, 100)).diagnosis.layouts.to_dict("records")
    assert (layout["dp"], layout["pp"], layout["tp"]) == (4, 2, 2)
    assert layout["confidence"] < 0.75


def test_one_sample_stands_for_the_mean_packet_as_often_as_the_note_says():
    optional = {"packets": np.array([200, 100])}
    for note, rate in (("100", 100), ("1:100", 100), ("1", 0), ("", 0)):
        flows = SimpleNamespace(
            meta={"sampling": note}, optional=optional, bytes=np.array([60_000, 30_000])
        )
        assert sample_bytes(flows) == rate * 300
    assert sample_bytes(SimpleNamespace(meta={}, optional={}, bytes=np.array([1]))) == 0


def test_estimates_of_one_volume_differ_by_no_more_than_is_allowed():
    """Totals of 25 samples each; 5 % of them would be distinguished by what exact ones differ."""
    volumes = np.random.default_rng(1).poisson(25, 10_000) * 1000.0
    apart = np.abs(np.log(volumes[::2] / volumes[1::2]))
    assert (apart > allowed(0.15, volumes[::2], 1000.0)).mean() < 0.001
    assert (apart > allowed(0.15, volumes[::2], 0.0)).mean() > 0.4
    assert abs(volumes.std() / deviation(25_000, 1000.0) - 1) < 0.05
