"""Gradients move in every step, beside exchanges that repeat more often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from equal_parts import parts_of
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.steps.gradients import lacks_gradients
from llmprism.methods.prism.steps.proposals import Proposals
from rings import ring


@pytest.mark.parametrize("later_ms", [-40, 40])
def test_gradients_between_the_passes_of_two_steps_are_of_one_of_them(later_ms):
    """They begin before or after all passes of their step, and two steps are equal parts, too."""
    passes = [step * 100 + at for step in range(8) for at in (50, 52, 54)]
    reduced = [step * 100 + 50 + later_ms + at for step in range(8) for at in range(5)]
    own = [ring(passes, members=12), ring(reduced, members=4)]
    classes = tuple(one.classes[0] for one in own)
    proposed = [
        [parts_of(one.traffic, count) for count in (4, 8)] for one in (classes[0], classes[1])
    ]
    assert not lacks_gradients(Proposals(classes, proposed), 8)


@pytest.mark.parametrize(("members", "circulates"), [(4, True), (4, False), (1, True)])
def test_a_ring_of_all_ranks_moves_gradients_though_they_are_a_small_share(members, circulates):
    """Long sequences: exchanges within micro-batches move far more than gradients."""
    often = [100.0 * i + 5 * j for i in range(18) for j in range(12)]
    seldom = [300.0 * i + 290 for i in range(6)]
    exchanges, gradients = ring(often).classes[0], ring(seldom, members=members).classes[0]
    traffic = replace(gradients.traffic, size=gradients.traffic.size * 4 // members)
    classes = (exchanges, replace(gradients, traffic=traffic, circulates=circulates))
    proposed = [divisions(one.traffic, 3) for one in classes]
    assert lacks_gradients(Proposals(classes, proposed), 18) is (members > 1 and circulates)
