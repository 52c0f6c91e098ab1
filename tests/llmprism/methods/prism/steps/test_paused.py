"""Coarser parts that are several steps each, with pauses between them."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.steps.paused import is_paused
from llmprism.methods.prism.steps.proposals import Proposals
from rings import ring


def division(cuts) -> Division:
    return Division(np.array(cuts), np.ones(len(cuts) + 1), 0.0, 1.0, 1.0, 2.0)


@pytest.mark.parametrize(("pipeline", "paused"), [(21, False), (20, False), (40, True), (41, True)])
def test_halves_of_steps_are_steps_and_pauses_only_if_the_pipeline_shows_them(pipeline, paused):
    """Gradients are reduced, then as many bytes gathered: each half may be a step, then a pause.

    Records that begin and end within a step show the pipeline one part more.
    """
    halves, steps = division(range(8, 320, 8)), division(range(16, 320, 16))
    own = division(np.linspace(8, 312, pipeline - 1).astype(int))
    classes = ring(np.arange(80.0)).classes * 2
    assert (
        is_paused(Proposals(classes, [[halves, steps], [own]]), len(halves), len(steps)) is paused
    )


def test_pauses_may_be_at_another_place_of_a_step_than_its_end():
    """Evaluations follow the update, and the longest silence of a step the gathers after it."""
    steps, pauses = division(range(16, 320, 16)), division(range(40, 320, 64))
    classes = ring(np.arange(80.0)).classes
    assert is_paused(Proposals(classes, [[steps, pauses]]), len(steps), len(pauses))
