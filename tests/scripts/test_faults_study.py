"""The study of findings: worlds are valid and follow from their seed, and shares have intervals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from fault_curves import draw_responses
from fault_figures import (
    REFERENCE,
    content_of,
    false_rate,
    job_size,
    page_of,
    pairs_table,
    reliability,
    responses,
    smallest,
    wilson,
    wrong_costs,
)
from fault_pairs import draw_pair
from fault_study import cost_error, known_cost_error
from fault_worlds import FAULTS, draw_world, telemetry_of
from prism_sim.faults import KINDS
from prism_sim.loading import checks
from prism_sim.loading.scenario import Scenario


@pytest.mark.parametrize("kind", [*FAULTS, None])
def test_every_drawn_world_is_valid_and_follows_from_its_seed(kind):
    for seed in range(20):
        world = draw_world(seed, kind)
        assert world == draw_world(seed, kind)
        assert list(checks.errors(Scenario.model_validate(world))) == []
        assert telemetry_of(world)


def test_worlds_with_two_faults_are_valid_and_have_them_at_once_or_in_turn():
    orders = []
    for seed in range(30):
        world = draw_pair(seed)
        assert world == draw_pair(seed)
        assert list(checks.errors(Scenario.model_validate(world))) == []
        first, second = world["faults"]
        assert first["kind"] != second["kind"]
        orders.append(second["from_step"] > first.get("to_step", 99))
    assert 5 < sum(orders) < 25


def test_faults_of_pairs_are_counted_by_whether_they_overlap():
    big = {"slowdown": 0.2, "stops": False, "detected": True, "first": True, "cause_right": True}
    small = big | {"slowdown": 0.01, "detected": False, "cost_error": None}
    missed = big | {"detected": False, "first": False, "cause_right": False, "cost_error": None}
    rows = [
        {
            "at_once": True,
            "findings": 2,
            "false": 1,
            "faults": [big | {"cost_error": 0.02}, missed],
        },
        {"at_once": False, "findings": 1, "false": 0, "faults": [big | {"cost_error": 0.0}, small]},
    ]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]]
             for line in pairs_table(rows).splitlines()[2:4]]  # fmt: skip
    shares = [[cell.split(" (")[0] for cell in line] for line in lines]
    assert shares == [
        ["one after the other", "1", "1", "100 %", "100 %", "100 %", "100 %", "0 of 1"],
        ["at once", "1", "2", "50 %", "50 %", "100 %", "0 %", "1 of 2"],
    ]


def test_every_kind_of_fault_is_drawn():
    assert set(FAULTS) == set(KINDS)


def test_a_cost_is_that_of_the_finding_about_the_job_that_is_slowed_most():
    """Two jobs share a slow link, and the finding about the other one is the surer one."""
    step_ns = 10**9
    steps = pd.DataFrame({"job": ["a", "b"], "step": 0, "start_ns": 0, "end_ns": step_ns})
    members = pd.DataFrame({"job": ["a", "a", "b", "b"], "address": ["1", "2", "3", "4"]})
    findings = pd.DataFrame({
        "finding": [0, 1, 2], "job": ["job-1", "job-0", "job-0"], "confidence": [0.9, 0.5, 0.7],
        "cost": [8.0 * step_ns, 0.9 * step_ns, 0.4 * step_ns],
    })  # fmt: skip
    found = members.assign(job=members["job"].map({"a": "job-0", "b": "job-1"}))
    case = SimpleNamespace(
        truth={"ranks": members, "steps": steps}, diagnosis={"findings": findings, "jobs": found}
    )
    fault = pd.Series({"slowed_job": "a", "slowdown": 0.5, "extra_ns": step_ns})
    top = findings.head(1)
    assert cost_error(case, fault, [0, 1], top) == pytest.approx(-0.1 * 0.5)
    assert cost_error(case, fault, [0], top) == pytest.approx(7 * 0.5), "job a has no finding"


def test_a_reader_of_the_true_steps_compares_those_of_the_fault_with_the_others():
    """Steps of 10, the fault adds 4 to two of them, one of which would have taken 1 longer."""
    ends = pd.Series([10, 20, 30, 44, 59, 69, 79])
    steps = pd.DataFrame({"job": "a", "step": ends.index, "end_ns": ends})
    fault = {"slowed_job": "a", "slowdown": 8 / 21, "extra_ns": 8, "start_ns": 30, "end_ns": 59}
    assert known_cost_error(steps, pd.Series(fault)) == pytest.approx(1 / 21)
    assert known_cost_error(steps, pd.Series(fault | {"start_ns": 0, "end_ns": 99})) is None


def test_wrong_costs_are_counted_by_whether_the_true_steps_are_wrong_too():
    due = {"slowdown": 0.2, "stops": False, "detected": True}
    rows = [
        due | {"cost_error": error, "known_cost_error": known}
        for error, known in ((0.03, 0.02), (-0.02, 0.001), (-0.05, None), (0.004, 0.5), (None, 0.5))
    ]
    rows.append(rows[0] | {"detected": False})
    figure = wrong_costs(rows)
    assert (figure["hits"], figure["of"]) == (1, 3)


def test_an_interval_holds_its_share_and_narrows():
    for hits, of in ((0, 5), (3, 5), (5, 5)):
        low, high = wilson(hits, of)
        assert 0 <= low <= hits / of + 1e-9
        assert hits / of - 1e-9 <= high <= 1
        assert wilson(10 * hits, 10 * of)[1] - wilson(10 * hits, 10 * of)[0] < high - low


def test_false_findings_are_counted_by_job_steps():
    rows = [{"false": 2, "job_steps": 500}, {"false": 0, "job_steps": 1500}]
    figure = false_rate(rows)
    assert figure["rate"] == pytest.approx(1.0)
    assert figure["low"] <= 1.0 <= figure["high"]


def test_the_smallest_slowdown_is_where_nearly_all_larger_ones_are_found():
    rows = [
        {"slowdown": share, "stops": False, "detected": share > 0.02}
        for share in (0.005, 0.01, 0.03, 0.05, 0.2)
    ]
    assert smallest(rows) == 0.03


def test_responses_count_found_named_and_drawn_faults_at_each_slowdown():
    def fault(slowdown, detected, first, **more):
        row = {"dp": 4, "pp": 1, "tp": 2, "stops": False, "slowdown": slowdown}
        return row | {"detected": detected, "first": first} | more

    rows = [
        fault(0.04, True, True),
        fault(0.05, True, False),
        fault(0.05, False, False),
        fault(0.5, True, True, dp=16),
        fault(None, True, True),
        fault(0.2, True, True, stops=True),
    ]
    lines = [line.split("|")[1:-1] for line in responses(rows, job_size).splitlines()[2:] if line]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["8 ranks", "", "", "2 / 1 / 3", "", "", ""],
        ["17 to 64 ranks", "", "", "", "", "", "1 / 1 / 1"],
    ]


def test_curves_have_a_panel_for_each_group_and_the_share_at_each_slowdown():
    def fault(kind, slowdown, detected):
        row = {"kind": kind, "telemetry": "exact", "dp": 4, "pp": 1, "tp": 2, "injected": True}
        row |= {"stops": False, "slowdown": slowdown, "detected": detected, "first": False}
        return row

    rows = [fault("slow_gpu", 0.02, True), fault("slow_gpu", 0.02, False), {"injected": False}]
    rows += [fault("slow_nic", 0.3, True), fault("hang", None, True)]
    panels = [axes for axes in draw_responses(rows).axes if axes.get_title(loc="left")]
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["slow_gpu", "slow_nic", "telemetry: exact", "8 ranks"]
    (found, named) = (panels[2].containers[number].lines[0] for number in range(2))
    assert found.get_ydata().tolist() == [50, 100]
    assert named.get_ydata().tolist() == [0, 0]


def test_confidences_are_compared_with_what_was_right():
    def world(sure, detected, first, injected=True):
        found = [["rank", "slow_gpu", "a", "1", "2", "job-0", 0.1, sure]]
        row = {"confidence": sure if detected else None, "found": found, "injected": injected}
        return row | {"detected": detected, "first": first}

    rows = [world(0.9, True, True), world(0.9, True, False), world(0.9, False, False, False)]
    rows += [world(0.6, True, True), {"found": [], "injected": False}]
    lines = [line.split("|")[1:-1] for line in reliability(rows).splitlines()[2:] if line]
    assert [[cell.split("(")[0].strip() for cell in line] for line in lines] == [
        ["0.5 to 0.7", "0.60", "1", "100 %", "100 %"],
        ["0.85 to 0.95", "0.90", "3", "67 %", "33 %"],
    ]


def test_the_committed_page_follows_from_the_committed_rows():
    content = json.loads((REFERENCE / "faults.json").read_text())
    again = content_of(content["rows"], content["pairs"], content["first_seed"])
    assert json.loads(json.dumps(again)) == content
    assert page_of(content) == (REFERENCE / "faults.md").read_text()
