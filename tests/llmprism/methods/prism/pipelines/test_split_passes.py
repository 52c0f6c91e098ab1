"""Backward passes that are split, and the gradients of weights that follow the last message."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.pipelines.last_stage import Answers
from llmprism.methods.prism.pipelines.split_passes import halves_passes, weights_ns
from prism_sim.training.schedules.work import BACKWARD, Place
from prism_sim.training.schedules.zero_bubble import zb_h1

WORLD = """\
cluster: {servers: %(stages)d, gpus_per_server: 2, nics_per_server: 2, nic_gbps: 400}
jobs:
  - name: solo
    model: {layers: 12, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 4096}
    dp: 2
    pp: %(stages)d
    schedule: zb-h1
    micro_batches: 8
    steps: 6
    mfu: 0.4
"""


def test_exchanges_of_shared_sequences_hide_whether_backward_passes_are_split():
    """A backward pass of twice a forward pass is whole, unless it exchanges more."""
    pipelines = SimpleNamespace(backward_ns=2.0, middle_ns=1.0)
    sent = {"pp": SimpleNamespace(sent_ns=np.array([[1, 3, 8]]))}
    for kind, answer in (("ep", False), ("cp", None)):
        phases = SimpleNamespace(moments=sent, classes=[SimpleNamespace(kind=kind)])
        assert halves_passes(phases, pipelines) is answer


@pytest.mark.parametrize("micro_batches", [2, 3, 4, 9])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_stage_computes_the_gradients_of_weights_that_its_schedule_delays(stages, micro_batches):
    """Between two stages, those of the first one are part of its backward passes."""
    order = [zb_h1(Place(stage, stages, micro_batches)) for stage in range(stages)]
    after = [[work.kind for work in own[::-1]].index(BACKWARD) for own in order]
    assert after[0] == 1
    pipelines = SimpleNamespace(
        stage=np.arange(stages), length=stages, micro_batches=micro_batches, chunks=1,
        forward_ns=5.0, backward_ns=5.0, middle_ns=5.0 if stages > 2 else np.nan,
        answers=Answers(1.5),
    )  # fmt: skip
    phases = SimpleNamespace(
        moments={"pp": SimpleNamespace(sent_ns=np.array([[1, 3, 8]]))}, classes=[]
    )
    expected = [5.0 * number for number in after]
    expected[0] *= stages > 2
    assert weights_ns(phases, pipelines).tolist() == expected
    pipelines.answers = Answers(1.0)
    assert not weights_ns(phases, pipelines).any()


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4])
def test_delayed_gradients_of_weights_belong_to_a_step(scored, stages):
    """Gradients stay in servers, so all stages end a step after messages and passes alone."""
    run = scored(WORLD % {"stages": stages})
    assert run.diagnosis.layouts["schedule"].tolist() == ["zb-h1"]
    both = run.truth("steps").merge(run.truth("ranks"), on=["job", "rank"])
    both = both.merge(run.diagnosis.steps, on=["address", "step"], suffixes=("", "_found"))
    late_ns = (both["end_ns_found"] - both["end_ns"])[both["step"] < 5]
    forward_ns = 2 * 12 * 2048**2 * (12 / stages) * 4096 / (989e12 * 0.4) * 1e9
    assert late_ns.abs().max() < forward_ns
