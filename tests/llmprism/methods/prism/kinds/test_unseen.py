"""A leaf that exports nothing, where its servers have no other: only what they receive is seen."""

from __future__ import annotations

import pytest

from llmprism.methods.prism.layout.layout import UNKNOWN

WORLD = """\
cluster: {servers: 8, gpus_per_server: 1, nics_per_server: 1,
          fabric: {kind: tor, leaf_ports: %d, spines: 2}}
collector: {effects: [{kind: silent_switches, switches: [%s]}]}
jobs:
  - name: solo
    model: {layers: 8, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: %d
    pp: %d
    micro_batches: 6
    steps: 6
    compute_jitter: 0.01
"""


@pytest.mark.parametrize(
    ("ports", "dp", "pp"), [(1, 2, 4), (1, 4, 2), (1, 8, 1), (2, 4, 2), (2, 2, 4), (4, 2, 2)]
)
def test_members_that_only_receive_belong_to_the_job(scored, ports, dp, pp):
    result = scored(WORLD % (ports, "leaf001", dp, pp))
    assert result.score["jobs"]["accuracy"] == 1
    assert result.score["timeline"]["coverage"] == 1
    if ports == 1:
        assert result.score["pairs"]["accuracy"] == 1
        (layout,) = result.diagnosis.layouts.to_dict("records")
        assert (layout["dp"], layout["pp"]) == (dp, pp)
        assert result.score["parallelism"]["stage_order"] in (1, None)


def test_a_ring_that_goes_on_behind_a_silent_leaf_has_no_known_size(scored):
    result = scored(WORLD % (4, "leaf001", 8, 1))
    assert result.diagnosis.layouts[["dp", "pp", "tp"]].to_numpy().tolist() == [[UNKNOWN] * 3]
    seen = result.diagnosis.pairs
    assert (seen["kind"] == "dp").all()


def test_storage_at_a_leaf_of_its_own_that_sends_nothing_is_no_member(scored):
    text = WORLD.replace("[{kind: silent_switches, switches: [%s]}]", "[]")
    text = text.replace("servers: 8", "servers: 9") + "    checkpoint: {every: 2}\n"
    result = scored(text % (4, 4, 2) + "storage: [s0008]\n")
    assert result.score["jobs"]["accuracy"] == 1
    assert result.score["pairs"]["accuracy"] == 1


def test_nics_of_a_silent_rail_have_the_stages_of_the_others(scored):
    text = WORLD.replace(
        "gpus_per_server: 1, nics_per_server: 1", "gpus_per_server: 2, nics_per_server: 2"
    )
    text = text.replace("kind: tor", "kind: rail") + "    tp: 2\n"
    result = scored(text % (8, "leaf001", 2, 4))
    assert result.score["jobs"]["accuracy"] == result.score["pairs"]["accuracy"] == 1
    assert result.score["parallelism"]["stage_order"] == 1
