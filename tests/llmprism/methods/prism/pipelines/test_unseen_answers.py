"""What the first stages show where nobody sees the answers of the second one."""

from __future__ import annotations

WORLD = """
cluster: {servers: 8, gpus_per_server: 4, nics_per_server: 4, nic_gbps: 100,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
jobs:
  - {name: solo, model: llama-7b, dp: 4, pp: 4, tp: 2, schedule: 1f1b, micro_batches: 8,
     mfu: 0.45, steps: 6, compute_jitter: 0.01}
collector: {effects: [{kind: silent_switches, switches: [leaf001]}]}
"""


def test_activations_whose_answers_nobody_sees_show_no_schedule(scored):
    """The leaf of the second stage exports nothing, so all activations seem to wait."""
    (layout,) = scored(WORLD).diagnosis.layouts.itertuples()
    assert (layout.pp, layout.schedule) != (4, "gpipe")
