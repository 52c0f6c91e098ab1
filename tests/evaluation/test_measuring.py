"""Grades: a method that knows the truth is right everywhere, one that says nothing nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.exam import truth
from evaluation.exam.measuring import STRUCTURE, graded
from llmprism.io.tables import DIAGNOSIS
from perfect import perfect
from prism_sim.families import Family, bundled_families, draw
from prism_sim.toolkit import Run, Scenario, simulate

ERRORS = ("DP-end error", "step error")
WORLDS = [("pipelines", 1), ("replicas", 6), ("tenants", 3), ("long-runs", 2)]


def small(name: str) -> Family:
    """A family of smaller worlds in which no ranks share a NIC, and so a timeline in records."""
    values = bundled_families()[name].model_dump()
    values["hardware"] |= {"gpus_per_nic": (1,)}
    values["work"] |= {"steps": (8, 70 if name == "long-runs" else 14)}
    return Family.model_validate(values | {"rows": 12_000})


@pytest.fixture(scope="module", params=WORLDS, ids=lambda world: f"{world[0]}-{world[1]}")
def run(request, tmp_path_factory):
    name, seed = request.param
    scenario = Scenario.model_validate(draw(small(name), seed))
    run = Run(tmp_path_factory.mktemp(name) / "run")
    simulate(scenario, run)
    return run, scenario


def test_a_method_that_knows_the_truth_is_right_everywhere(run):
    made, scenario = run
    grade, known = graded(perfect(made)), truth.of_world(made, scenario)
    for name in STRUCTURE:
        value, right = grade["structure"][name], 0.0 if name in ERRORS else 1.0
        assert value is None or value == pytest.approx(right, abs=1e-9), name
    assert grade["structure"]["steps matched"] == 1.0
    assert grade["structure"]["jobs exact"] == 1.0
    assert len(grade["findings"]) == len(known["faults"])
    assert all(row["first"] and row["server"] for row in grade["findings"])
    for fault in grade["faults"]:
        marks = [fault[name] for name in ("steps_right", "detected", "first", "cause", "server")]
        assert all(marks)
        assert fault["set_size"] == 1
        assert fault["cost_right"] in (None, True)
    assert all(row[3] == 0 for counts in grade["answers"].values() for row in counts)


def test_a_method_that_says_nothing_is_right_nowhere(run):
    made, _ = run
    case = perfect(made)
    nothing = {name: schema.empty_table().to_pandas() for name, schema in DIAGNOSIS.items()}
    grade = graded(replace(case, diagnosis=nothing))
    assert grade["structure"]["jobs exact"] == 0
    assert grade["structure"]["steps matched"] == 0
    assert grade["findings"] == []
    for fault in grade["faults"]:
        assert not any(fault[name] for name in ("steps_right", "detected", "first", "in_set"))
    assert all(sum(row) == 0 for counts in grade["answers"].values() for row in counts)


def test_a_fault_of_a_job_with_half_its_steps_has_wrong_steps(run):
    made, _ = run
    case = perfect(made)
    steps = case.diagnosis["steps"]
    halved = replace(case, diagnosis=case.diagnosis | {"steps": steps[steps["step"] % 2 == 0]})
    for fault in graded(halved)["faults"]:
        assert fault["detected"]
        assert not fault["steps_right"]
