"""The ranges of hostile worlds: every draw is a valid scenario, and depends on nothing else."""

from __future__ import annotations

import pytest

from evaluation.study import hostile


@pytest.mark.parametrize("family", hostile.families())
def test_every_draw_is_valid_and_differs_from_the_next(family):
    worlds = [hostile.scenario_of(family, seed) for seed in range(5)]
    texts = {world.model_dump_json(exclude={"seed"}) for world in worlds}
    assert len(texts) == len(worlds)
    assert hostile.scenario_of(family, 3) == worlds[3]


def test_each_job_has_its_own_draw():
    drawn = hostile.drawn("clean", 1)
    assert len({drawn[f"jobs.{job}.mfu"] for job in range(6)}) == 6
