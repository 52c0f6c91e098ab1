"""A job whose steps get longer because it has more to do is not slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.more_work import more_work
from llmprism.methods.prism.faults.suspects.suspects import Suspect

STEPS, FIRST, LAST = 30, 12, 20
STEP_NS = 100_000_000.0
RANKS = 8


def suspect(
    longer: float, growth: list[float], kind: str = "pp", symptom: str = "slow_passes"
) -> tuple[Any, Suspect]:
    """A job with steps that are ``longer`` by a factor, whose connections have bytes that grow."""
    length_ns = np.full(STEPS, STEP_NS)
    length_ns[FIRST : LAST + 1] *= longer
    size = np.full((len(growth), STEPS), 1e6)
    size[:, FIRST : LAST + 1] *= np.array(growth)[:, None]
    part = SimpleNamespace(kind=kind, volumes=lambda *_: size)
    phases = SimpleNamespace(classes=[part])
    job: Any = SimpleNamespace(
        name="job-0", count=STEPS, between_ends_ns=length_ns, phases=phases, tick_ns=0.0
    )
    one = Suspect(
        job, "group", symptom, "uneven_stage", "stage", "job-0 stage 1", FIRST, LAST, 0.5, 0.9
    )
    connections = SimpleNamespace(sample_bytes=0.0)
    return SimpleNamespace(connections=connections, measured={}), one


@pytest.mark.parametrize(
    ("longer", "growth", "explained"),
    [
        (2.0, [2.0] * RANKS, True),  # sequences of twice the length, or twice the micro-batches
        (3.5, [2.0] * RANKS, True),  # and attention takes most of the time
        (4.5, [2.0] * RANKS, False),  # nothing takes so long
        (2.0, [1.0] * RANKS, False),
        (1.2, [1.5, 0.7] * (RANKS // 2), False),  # unevenly divided, and no more on the whole
        (1.2, [1.3] * (RANKS - 1) + [1.0], True),  # one that lost records
        (1.2, [1.01] * RANKS, False),  # as much as ever
    ],
)
def test_longer_steps_are_explained_by_more_bytes_of_nearly_all(longer, growth, explained):
    context, one = suspect(longer, growth)
    assert more_work(context, one) is explained


def test_gradients_do_not_grow_with_work():
    context, one = suspect(2.0, [2.0] * RANKS, kind="dp")
    assert not more_work(context, one)


def test_a_rank_that_stopped_has_stopped():
    context, one = suspect(2.0, [2.0] * RANKS, symptom="stopped")
    assert not more_work(context, one)
