"""Updates after which nothing is gathered in the same step: they end it, and send nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from llmprism.methods.prism.classes.sizes import distinct
from llmprism.methods.prism.timeline.update_times import _doubled
from step_ends import steps_beside_truth

MS = 1_000_000
WORLD = """\
cluster: {servers: %(servers)d, gpus_per_server: %(gpus)d, nics_per_server: %(gpus)d, nic_gbps: 400,
          gpu: %(gpu)s, fabric: {kind: rail, leaf_ports: 16, spines: 2}}
jobs:
  - name: solo
    model: {layers: 8, hidden: 2048, heads: 16, vocab: 64000, sequence_length: 1024}
    dp: 4
    zero_stage: %(zero)d
    overlap_param_gather: %(late)s
    schedule: %(schedule)s
    pp: 4
    micro_batches: 8
    steps: 8
    mfu: 0.4
    compute_jitter: 0.005
    step_overhead_ms: %(host)d
"""


def compared(scored, text=WORLD, **values) -> pd.DataFrame:
    """True and inferred steps of a world, and the time of each update [ns]."""
    usual = {"servers": 16, "gpus": 1, "gpu": "a100", "zero": 0, "host": 0, "late": "false"}
    usual["schedule"] = "1f1b"
    run = scored(text % (usual | values))
    spans = run.truth("spans")
    update = spans[spans["kind"] == "opt"]
    update = update.assign(update_ns=update["end_ns"] - update["start_ns"])
    both = steps_beside_truth(run).merge(update[["rank", "step", "update_ns"]], on=["rank", "step"])
    assert len(both) == 16 * 8
    return both


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize(("servers", "gpus"), [(16, 1), (8, 2)])
def test_without_host_work_a_step_lasts_until_the_next_one_begins(scored, gpu, servers, gpus):
    """Replicas that share a server divide their gradients over as many rings."""
    both = compared(scored, gpu=gpu, servers=servers, gpus=gpus)
    assert both["update_ns"].min() > 0.3 * MS
    middle = both[both["step"] < 7]
    assert np.abs(middle["end_ns_found"] - middle["end_ns"]).max() < 0.1 * MS
    length, found = (both[f"end_ns{end}"] - both[f"start_ns{end}"] for end in ("", "_found"))
    assert (np.abs(found - length) / length).mean() < 0.001


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_host_work_is_no_update(scored, gpu):
    """Memory may be a third faster or slower than usual; hosts take 20 ms."""
    both = compared(scored, gpu=gpu, host=20)
    wrong = (both["end_ns_found"] - both["end_ns"]).abs() / both["update_ns"]
    assert wrong.max() < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("zero", [1, 2])
def test_gathers_end_a_step_themselves(scored, zero):
    """Host work of 1 ms could be an update, if nothing were gathered after the true one."""
    both = compared(scored, zero=zero, host=1)
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS


@pytest.mark.slow
def test_gathers_of_as_many_bytes_end_a_step_themselves(scored):
    """Gradients in half precision have the sizes of parameters: both move the same buckets."""
    text = WORLD.replace("zero_stage: %(zero)d", "zero_stage: 1\n    gradient_bytes: 2\n"
                         "    bucket_params: 30000000\n    overlap_gradients: false")  # fmt: skip
    both = compared(scored, text, host=1)
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS


@pytest.mark.slow
@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("collector", ["", "\ncollector: {message_boundary: false}"])
def test_gathers_follow_updates_that_begin_after_the_passes(scored, zero, collector):
    """With equal sizes, and joined records, only a silence parts gradients and parameters."""
    text = WORLD.replace("pp: 4", "pp: 4\n    chunks: 2\n    gradient_bytes: 2") + collector
    both = compared(scored, text, zero=zero, host=2, schedule="interleaved", gpu="h100")
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize(
    "values",
    [
        {"zero": 1, "late": "true"},
        {"zero": 2, "late": "true"},
        {"zero": 3},
        {"zero": 3, "schedule": "gpipe"},
        {"zero": 1, "late": "true", "servers": 8, "gpus": 2},
    ],
)
def test_an_update_of_shards_lasts_until_the_next_step_gathers(scored, gpu, values):
    both = compared(scored, gpu=gpu, **values)
    wrong = (both["end_ns_found"] - both["end_ns"]).abs() / both["update_ns"]
    assert wrong.max() < 0.1


@pytest.mark.slow
def test_parts_of_an_interleaved_stage_are_reduced_before_its_last_pass(scored):
    text = WORLD.replace("pp: 4", "pp: 4\n    chunks: 2")
    both = compared(scored, text, schedule="interleaved")
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS


@pytest.mark.slow
@pytest.mark.parametrize(("host", "allowed"), [(0, 0.001), (20, 0.001 + 0.25 * 20 / 600)])
def test_gradients_inside_servers_and_their_update_belong_to_a_step(scored, host, allowed):
    """All four replicas of a stage share a server: nothing shows their gradients."""
    text = WORLD.replace("sequence_length: 1024", "sequence_length: 4096")
    both = compared(scored, text, servers=4, gpus=4, host=host)
    both = both[both["step"] > 0]
    length, found = (both[f"end_ns{end}"] - both[f"start_ns{end}"] for end in ("", "_found"))
    assert 200 * MS < length.mean() < 600 * MS
    assert (np.abs(found - length) / length).mean() < allowed


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "chunks"), [(2, 2), (2, 3), (4, 2)])
def test_an_interleaved_pipeline_alone_ends_a_step_after_its_last_pass(scored, stages, chunks):
    """A rank updates all chunks that it holds; between two stages, gradients pass both ways."""
    text = WORLD.replace("dp: 4", "dp: 1").replace("pp: 4", f"pp: {stages}\n    chunks: {chunks}")
    text = text.replace("layers: 8", f"layers: {4 * stages * chunks}")
    text = text.replace("sequence_length: 1024", "sequence_length: 4096")
    run = scored(text % {"servers": stages, "gpus": 1, "gpu": "h100", "zero": 0, "late": "false",
                         "schedule": "interleaved", "host": 0})  # fmt: skip
    assert run.score["timeline"]["step_error_mean"] < 0.001


@pytest.mark.parametrize(
    ("sizes", "share"),
    [
        ([80, 62, 120, 120, 71, 60, 60], 360 / 573),  # the first two gathers are joined: 71
        ([80, 62, 120, 120], 0),  # reduced only
        ([80, 40], 0),  # too few for a pattern
    ],
)
def test_gathers_show_by_sizes_and_their_doubles(sizes, share):
    """Gradients have twice the bytes of parameters; a record may hold several messages."""
    assert _doubled(*distinct(np.sort(np.array(sizes)))) == pytest.approx(share)
