"""The worlds of the exam: sets, keys, and simulations that are kept."""

from __future__ import annotations

import pytest

from evaluation.exam.command import pieces
from evaluation.exam.worlds import families, simulated, worlds
from prism_sim.families import bundled_families
from prism_sim.faults import KINDS
from prism_sim.toolkit import Scenario
from prism_sim.training.data_parallel import STRATEGIES
from prism_sim.training.schedules import SCHEDULES
from tiny import TINY_MODEL


def test_held_out_families_are_no_part_of_the_package():
    ours = families()
    assert {name for name, family in ours.items() if family.set == "develop"} == {
        *bundled_families()
    }
    held_out = [family for family in ours.values() if family.set == "exam"]
    assert len(held_out) >= 9
    assert len(ours) - len(held_out) >= 9


@pytest.mark.parametrize("of", ["develop", "exam"])
def test_a_set_covers_what_a_reader_of_records_cannot_choose(of):
    own = [family for family in families().values() if family.set == of]
    models = {model.name for family in own for model in family.work.models}
    assert len(models) >= 8
    assert min(family.work.steps[0] for family in own) <= 8
    assert max(family.work.steps[1] for family in own) >= 150
    fabrics = {kind for family in own for kind in family.hardware.fabrics}
    assert fabrics == {"rail", "tor", "rail_only"}
    assert {gpus for family in own for gpus in family.hardware.gpus_per_server} == {1, 2, 4, 8}
    schedules = {schedule for family in own for schedule in family.work.schedules}
    assert {"1f1b", "gpipe", "interleaved", "zb-h1"} <= schedules <= {*SCHEDULES}
    stages = {kind.zero_stage for kind in STRATEGIES.values()}
    assert {stage for family in own for stage in family.work.zero_stages} == stages
    assert max(family.work.jobs[1] for family in own) >= 4
    assert max(len(family.faults.counts) for family in own) >= 3
    assert any(family.hardware.oversubscribed for family in own)
    routings = {kind.kind for family in own for kind in family.hardware.routings}
    assert {"spray", "adaptive", "flowlet"} <= routings
    assert {ep for family in own for ep in family.work.ep} >= {1, 2, 4, 8}
    assert {cp for family in own for cp in family.work.cp} >= {1, 2, 4}
    assert any(family.faults.from_first == 1 for family in own)


def test_most_faults_of_the_held_out_families_have_to_cost_their_job_something():
    held_out = [family for family in families().values() if family.set == "exam"]
    faulty = [family for family in held_out if len(family.faults.counts) > 1]
    assert all(family.faults.due and family.faults.due.share >= 0.8 for family in faulty)
    healthy = len(held_out) - len(faulty)
    assert healthy >= 3
    kinds = {kind for family in faulty for kind in family.faults.kinds}
    assert kinds == {*KINDS}


def test_worlds_come_in_turn_so_that_an_interrupted_run_has_some_of_every_family():
    asked = worlds("exam", 2)
    half = len(asked) // 2
    assert [world.family for world in asked[:half]] == [world.family for world in asked[half:]]
    assert {families()[world.family].set for world in asked} == {"exam"}
    assert len({(world.family, world.seed) for world in asked}) == len(asked)


def test_a_result_is_kept_for_its_world_and_its_methods():
    asked = worlds("develop", 1)[:2]
    first, second = (piece.key for piece in pieces(asked, "prism"))
    assert first != second
    assert [piece.key for piece in pieces(asked, "prism")] == [first, second]
    assert first != next(piece.key for piece in pieces(asked, "paper"))


def test_a_simulation_is_made_once(tmp_path):
    job = {"name": "a", "model": TINY_MODEL, "dp": 2, "micro_batches": 1, "steps": 3}
    values = {"cluster": {"servers": 2, "gpus_per_server": 1, "nics_per_server": 1}, "jobs": [job]}
    scenario = Scenario.model_validate(values)
    run = simulated(scenario, tmp_path)
    before = run.flows.stat().st_mtime_ns
    assert simulated(scenario, tmp_path).flows.stat().st_mtime_ns == before
    assert [path.name for path in tmp_path.iterdir()] == [run.folder.name]
