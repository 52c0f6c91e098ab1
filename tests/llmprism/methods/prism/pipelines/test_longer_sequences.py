"""First messages of steps in which sequences begin to differ in length."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.pipelines.first_messages import answered_beyond_usual

MESSAGE = 1000.0
WORLD = """\
cluster: {servers: 8, gpus_per_server: 2, nics_per_server: 2,
          fabric: {kind: tor, leaf_ports: 4, spines: 2}}
jobs:
  - name: solo
    model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}
    dp: 8
    pp: 2
    micro_batches: 8
    steps: 24
    mfu: 0.45
    compute_jitter: 0.01
    step_overhead_ms: 5
faults:
  - {kind: length_imbalance, job: solo, spread: 0.3, from_step: 8, to_step: 16}
"""


def test_gradients_beyond_the_usual_ones_answer_longer_sequences():
    returned = np.array([[8.0, 8.0, 8.3, 9.5, 7.0, 8.0, 8.0, 8.0]]) * MESSAGE
    more = answered_beyond_usual(returned, MESSAGE)
    assert more[0, 3] > MESSAGE
    assert (np.delete(more[0], 3) == 0).all()


def test_no_step_of_longer_sequences_begins_after_its_first_activation(scored):
    """In half of the steps all sequences have one length, so that most steps are alike in bytes."""
    run = scored(WORLD)
    ranks, spans = run.truth("ranks"), run.truth("spans")
    first = spans[spans["kind"] == "send_act"].groupby(["rank", "step"])["start_ns"].min()
    stage = ranks[ranks["pp"] == 0][["rank", "address"]]
    sent = first.rename("sent_ns").reset_index().merge(stage, on="rank")
    both = sent.merge(run.diagnosis.steps, on=["address", "step"])
    assert len(both) == 8 * 24
    assert (both["start_ns"] < both["sent_ns"]).all()
