"""From slow endpoints to ranks, servers and stages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.suspects.ranks import Slowness, lost_in
from llmprism.methods.prism.faults.suspects.stages import stages_of

STEPS = 20


def test_who_comes_and_goes_loses_what_it_loses_in_the_mean():
    """Two long pauses and a few short ones, as the steps of its job are longer."""
    lost = np.array([[0.0, 0.3, 0.1, 0.1, 0.1, 0.3, 0.1, 0.1, 0.0]])
    assert lost_in(lost, np.array([0]), 1, 7) == pytest.approx(0.8 / 6)
    lost[0, 1:8:2] = 0.3  # in every second step: the middle one is long
    assert lost_in(lost, np.array([0]), 1, 7) == pytest.approx(0.3)
    assert lost_in(np.full((1, 9), np.nan), np.array([0]), 1, 7) is None


@pytest.mark.parametrize("shown", [2, 4])
def test_a_stage_of_which_one_server_is_seen_is_not_slow_as_a_whole(shown):
    """Four ranks in two servers, and four of another stage; nothing is known of some ranks."""
    ratio = np.ones((8, STEPS))
    ratio[:shown, 8:14] = 1.5
    ratio[shown:4] = np.nan
    seen = Slowness("slow_passes", ratio, np.full(8, 0.01), ratio > 1.2, ratio - 1, ratio - 1)
    context: Any = SimpleNamespace(
        topology=SimpleNamespace(servers=np.array([0, 0, 1, 1, 2, 2, 3, 3]))
    )
    job: Any = SimpleNamespace(
        name="job-0",
        phases=SimpleNamespace(endpoints=np.arange(8)),
        pipelines=SimpleNamespace(length=2, stage=np.repeat([0, 1], 4)),
    )
    found = [one.culprit for one, _, _ in stages_of(context, job, seen)]
    assert found == (["job-0 stage 0"] if shown == 4 else [])
