"""How long the passes of a schedule take, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.stages import passes_ns

WORK_NS = 30.0


@pytest.mark.parametrize("at_once", [False, True], ids=["1f1b", "gpipe"])
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 2), (3, 8), (4, 4), (8, 32)])
def test_equal_stages_take_the_bubble_of_the_schedule(
    stages: int, micro_batches: int, at_once: bool
) -> None:
    """Work of one stage, and (stages - 1) / micro-batches of it more (Narayanan et al., 2.2)."""
    takes = passes_ns(np.full(stages, WORK_NS), micro_batches, 0.0, at_once=at_once)
    assert takes == pytest.approx(WORK_NS * (1 + (stages - 1) / micro_batches))


@pytest.mark.parametrize("long", [1, 2, 3])
def test_a_long_stage_decides_and_those_before_it_fill_and_drain(long: int) -> None:
    """With many micro-batches: its work, and one pass of each stage before it there and back."""
    work = np.full(4, WORK_NS)
    work[long] *= 4
    takes = passes_ns(work, 64, 0.0, at_once=False)
    assert takes == pytest.approx(work[long] + work[:long].sum() / 64)


def test_hops_add_their_time_to_the_way_there_and_back() -> None:
    none, some = (passes_ns(np.full(4, WORK_NS), 4, hop, at_once=True) for hop in (0.0, 1.0))
    assert some - none == pytest.approx(2 * 3)
