"""First stages whose messages wait for each other: passes are shorter than what lies between."""

from __future__ import annotations

import numpy as np
import pytest

import prism_sim as ps
from llmprism.methods.prism.pipelines.stage_passes import forward_of_first_ns

WORLD = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1, nic_gbps: %d}
jobs:
  - name: solo
    model: {layers: 16, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: %d
    pp: %d
    schedule: %s
    overlap_param_gather: true
    zero_stage: 1
    micro_batches: 8
    steps: 5
    compute_jitter: 0.01
"""


def passes(between, free, turn=np.nan):
    shape = (4, 3)
    given = {"first": 0.0, "second": between, "free": free, "turn": turn}
    return {name: np.full(shape, value) for name, value in given.items()}


@pytest.mark.parametrize(
    ("free", "turn", "middle", "expected"),
    [
        (5.0, 90.0, 30.0, 80.0),  # the second message waits for its pass
        (0.0, 90.0, 40.0, 40.0),
        (0.0, 90.0, np.nan, 30.0),
        (0.0, np.nan, np.nan, 80.0),
        (0.0, np.nan, 100.0, 80.0),  # nothing is longer than what lies between
    ],
)
def test_a_pass_is_shorter_than_the_message_that_the_next_one_waits_for(
    free, turn, middle, expected
):
    assert forward_of_first_ns(passes(80.0, free, turn), middle) == expected


@pytest.mark.parametrize(("dp", "pp"), [(2, 4), (4, 2)])
def test_steps_on_slow_links_begin_a_forward_pass_before_the_first_message(tmp_path, dp, pp):
    (tmp_path / "world.yaml").write_text(WORLD % (25, dp, pp, "1f1b"))
    timeline = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["step_error_max"] < 0.0002


@pytest.mark.parametrize("gbps", [100, 200])
def test_gathers_that_last_longer_than_the_first_passes_are_of_one_step(tmp_path, gbps):
    text = WORLD % (gbps, 2, 4, "interleaved\n    chunks: 4")
    (tmp_path / "world.yaml").write_text(text)
    timeline = ps.run(tmp_path / "world.yaml", out=tmp_path / "run").score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["dp_end_error_max"] < 0.001
    assert timeline["step_error_mean"] < 0.001
