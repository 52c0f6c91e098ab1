"""1F1B: after a warm-up, every forward is followed by a backward.

Stage *i* of *p* runs p - i - 1 forwards ahead, so that it never holds more activations than
that. The bubble is the same as GPipe's, (p - 1) of (m + p - 1) slots; the order of messages
is not.

Reference: Narayanan et al., PipeDream, SOSP'19; Megatron-LM, SC'21 (non-interleaved 1F1B).
"""

from __future__ import annotations

from prism_sim.training.schedules.work import BACKWARD, FORWARD, Work


def one_f_one_b(stage: int, stages: int, micro_batches: int) -> list[Work]:
    """The work of ``stage`` in one step.

    >>> [("FB"[kind], mb) for kind, mb in one_f_one_b(0, 2, 3)]
    [('F', 0), ('F', 1), ('B', 0), ('F', 2), ('B', 1), ('B', 2)]
    """
    ahead = min(stages - stage - 1, micro_batches)
    order = [Work(FORWARD, mb) for mb in range(ahead)]
    for mb in range(ahead, micro_batches):
        order += [Work(FORWARD, mb), Work(BACKWARD, mb - ahead)]
    order += [Work(BACKWARD, mb) for mb in range(micro_batches - ahead, micro_batches)]
    return order
