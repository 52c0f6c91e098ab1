"""Worlds of families: valid, bounded, equal for equal seeds, and as varied as their ranges."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from prism_common.errors import UserError
from prism_sim.families import Family, bundled_families, draw, read_families, read_family
from prism_sim.loading import checks
from prism_sim.loading.size import estimate
from prism_sim.toolkit import Run, Scenario, simulate
from prism_sim.toolkit import scenarios_folder as folder

ROOT = Path(__file__).parents[3]
SEEDS = range(5)


def changed(family: Family, **parts: object) -> Family:
    """``family`` with some values of its parts replaced."""
    values = family.model_dump()
    for part, value in parts.items():
        values[part] = values[part] | value if isinstance(value, dict) else value
    return Family.model_validate(values)


def first_drawn(family: Family) -> Family:
    """``family`` with faults as they are drawn first, so that nothing is simulated."""
    return changed(family, faults={"due": None})


KNOWN = bundled_families() | read_families(ROOT / "evaluation" / "families")
FAMILIES = {name: first_drawn(family) for name, family in KNOWN.items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_world_is_a_scenario_without_errors_and_warnings_of_bounded_size(name):
    family = FAMILIES[name]
    for seed in SEEDS:
        scenario = Scenario.model_validate(draw(family, seed))
        assert [*checks.errors(scenario), *checks.warnings(scenario)] == []
        assert estimate(scenario).rows <= family.rows
        low, high = family.work.steps
        assert all(low <= job.steps <= high for job in scenario.jobs)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_seed_gives_one_world_whose_text_is_the_same_every_time(name):
    family = FAMILIES[name]
    assert yaml.safe_dump(draw(family, 3)) == yaml.safe_dump(draw(family, 3))
    assert draw(family, 3) != draw(family, 4)


@pytest.mark.parametrize("name", FAMILIES)
def test_faults_name_places_and_steps_of_their_world(name):
    family = FAMILIES[name]
    for seed in SEEDS:
        world = draw(family, seed)
        steps = {job["name"]: job["steps"] for job in world["jobs"]}
        faults = world.get("faults", [])
        assert len(faults) < len(family.faults.counts)
        for fault in faults:
            assert fault["kind"] in family.faults.kinds
            assert 0 <= fault["from_step"] < fault.get("to_step", steps[fault["job"]])


def test_a_change_of_telemetry_changes_neither_jobs_nor_faults():
    family = FAMILIES["replicas"]
    other = changed(family, telemetry={"idle_gap_ms": (20.0, 50.0), "tick_us": None})
    for seed in range(4):
        before, after = draw(family, seed), draw(other, seed)
        assert before["collector"] != after["collector"]
        for part in ("cluster", "jobs", "faults"):
            assert before.get(part) == after.get(part)


def test_windows_reach_from_one_step_to_the_whole_recording():
    family = FAMILIES["replicas"]
    lengths, firsts = [], []
    for seed in range(60):
        world = draw(family, seed)
        steps = {job["name"]: job["steps"] for job in world["jobs"]}
        for fault in world.get("faults", []):
            if "down_s" not in fault and "noticed_after_s" not in fault:
                end = fault.get("to_step", steps[fault["job"]])
                lengths.append((end - fault["from_step"]) / steps[fault["job"]])
                firsts.append(fault["from_step"])
    assert min(lengths) < 0.1
    assert max(lengths) == 1.0
    assert 0.05 < sum(first == 0 for first in firsts) / len(firsts) < 0.5


def test_bundled_families_are_for_development_and_carry_the_names_of_their_files():
    for path in (folder() / "families").glob("*.yaml"):
        family = read_family(path)
        assert family.name == path.stem
        assert family.set == "develop"


def test_a_model_that_the_layouts_cannot_divide_is_drawn_again():
    work = {"models": ("tinyllama-1.1b", "gpt-1.3b"), "pp": (8,), "schedules": ("1f1b",)}
    family = changed(FAMILIES["pipelines"], work=work)
    worlds = [draw(family, seed) for seed in range(4)]
    assert {job["model"]["name"] for world in worlds for job in world["jobs"]} == {"gpt-1.3b"}


def test_an_impossible_family_says_so():
    family = changed(FAMILIES["replicas"], rows=1000, work={"steps": (200, 200)})
    with pytest.raises(UserError, match="gave no possible world"):
        draw(family, 1)


def test_a_wrong_file_is_refused_with_every_line(tmp_path):
    path = tmp_path / "wrong.yaml"
    text = (folder() / "families" / "replicas.yaml").read_text()
    path.write_text(text.replace("slow_gpu", "slow_gpus").replace("[8, 200]", "[200, 8]"))
    with pytest.raises(UserError) as refused:
        read_family(path)
    whats = "\n".join(str(problem) for problem in refused.value.problems)
    assert "did you mean slow_gpu?" in whats
    assert "the first is larger" in whats
    assert whats.count(f"{path}:") == 2


def small(**due: object) -> Family:
    """Small worlds of one job with a slow GPU, of which most do not matter as they are drawn."""
    work = {"steps": (8, 10), "micro_batches": (1, 2), "ranks": (4, 8)}
    faults = {
        "counts": (0.0, 1.0),
        "kinds": ("slow_gpu",),
        "loss": (0.001, 0.7),
        "due": due or None,
    }
    return changed(FAMILIES["replicas"], rows=3000, work=work, faults=faults)


def slowdowns(family: Family, folder: Path) -> list[float]:
    """What the fault costs in each of a few worlds."""
    found = []
    for seed in range(6):
        run = Run(folder / str(seed))
        simulate(Scenario.model_validate(draw(family, seed)), run)
        found += run.truth("faults")["slowdown"].tolist()
    return found


def test_a_fault_is_drawn_again_until_it_costs_its_job_enough(tmp_path):
    assert min(slowdowns(small(), tmp_path / "any")) < 0.03
    assert min(slowdowns(small(share=1.0, cost=0.03), tmp_path / "due")) >= 0.03


def test_a_mild_fault_is_the_one_that_is_drawn_first():
    mild, severe = small(share=0.0, cost=0.03), small(share=1.0, cost=0.03)
    assert all(draw(mild, seed) == draw(small(), seed) for seed in SEEDS)
    assert any(draw(severe, seed) != draw(small(), seed) for seed in SEEDS)
    assert draw(severe, 2) == draw(severe, 2)


def test_the_number_of_draws_of_a_fault_is_bounded():
    once = small(share=1.0, cost=0.9, tries=1)
    assert all(draw(once, seed) == draw(small(), seed) for seed in SEEDS)


@pytest.mark.parametrize("name", ["planes", "dual-ports"])
def test_ports_are_drawn_in_pairs_and_planes_with_addresses_of_both_kinds(name):
    clusters = [draw(FAMILIES[name], seed)["cluster"] for seed in range(24)]
    kinds = {(one["port_addresses"], one["fabric"]["planes"] > 1) for one in clusters}
    assert len(kinds) == 4
    assert all(one["fabric"]["planes"] in (1, one["nic_ports"]) for one in clusters)


@pytest.mark.parametrize("name", ["scale-up", "wide-domains"])
def test_domains_are_whole_servers_and_some_jobs_have_tensor_groups_across_them(name):
    worlds = [draw(FAMILIES[name], seed) for seed in range(16)]
    clusters = [world["cluster"] for world in worlds]
    assert all(one["nvlink_domain"] % one["gpus_per_server"] == 0 for one in clusters)
    assert {one["fabric"]["kind"] for one in clusters} >= {"rail", "rail_only"}
    across = [
        job["tp"] > world["cluster"]["gpus_per_server"] for world in worlds for job in world["jobs"]
    ]
    assert any(across)


def test_a_family_without_topologies_draws_none():
    cluster = draw(FAMILIES["replicas"], 1)["cluster"]
    assert not {"nic_ports", "port_addresses", "nvlink_domain"} & cluster.keys()
    assert "planes" not in cluster["fabric"]
