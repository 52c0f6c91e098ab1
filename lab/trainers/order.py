"""The order of passes of one pipeline stage: one forward, one backward (1F1B)."""

from __future__ import annotations

from collections.abc import Iterator


def one_forward_one_backward(
    stage: int, stages: int, micro_batches: int
) -> Iterator[tuple[str, int]]:
    """Yield ``fwd`` or ``bwd`` and the micro-batch, in the order of a stage's work.

    >>> " ".join(f"{kind}{m}" for kind, m in one_forward_one_backward(0, 2, 3))
    'fwd0 fwd1 bwd0 fwd2 bwd1 bwd2'
    """
    ahead = min(stages - stage - 1, micro_batches)
    for micro_batch in range(ahead):
        yield "fwd", micro_batch
    for micro_batch in range(micro_batches - ahead):
        yield "fwd", ahead + micro_batch
        yield "bwd", micro_batch
    for micro_batch in range(micro_batches - ahead, micro_batches):
        yield "bwd", micro_batch
