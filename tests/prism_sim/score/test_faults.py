"""Faults: alarms true and false, culprits right and wrong. Usual fault: a2 of job A is slow
in steps 4 and 5; 20 job-steps in all (ten steps of each of two jobs).
"""

import json

import pytest

from prism_sim.faults import KINDS
from prism_sim.score.alarms import causes_of


def test_a_false_alarm_costs_precision_only(world):
    away = {"job": "job1", "culprit": "b0", "start_ns": world.begin("B", 0), "end_ns": None}
    away["end_ns"] = world.begin("B", 1)
    world.report({}, away)
    faults = world.score()["faults"]
    assert faults["precision"] == 0.5
    assert faults["recall"] == 1.0
    assert faults["false_alarms"] == 1
    assert faults["false_alarms_per_1000_job_steps"] == 1000 / 20


def times(first, end, early_ns=0):
    """A finding about these steps of job A, in a world."""

    def of(world):
        return {"start_ns": world.begin("A", first) - early_ns, "end_ns": world.begin("A", end)}

    return of


OTHER = {"job": "job1", "culprit": "b0"}


@pytest.mark.parametrize(
    ("findings", "figures"),
    [
        ([{"culprit": "a3"}],
         {"recall": 1, "cause_accuracy": 1, "localized_top1": 0, "precision": 0}),
        ([{"culprit": "a3", "confidence": 0.5}, {"confidence": 0.8}], {"localized_top1": 1}),
        ([{"culprit": "a3", "confidence": 0.8}, {"confidence": 0.5}], {"localized_top1": 0}),
        ([times(8, 9)],
         {"recall": 0, "precision": 0, "steps_to_detect": None, "cause_accuracy": None}),
        ([times(5, 6)], {"steps_to_detect": 1}),
        ([times(4, 6, early_ns=10_000)], {"steps_to_detect": 0}),
        ([{"cause": "step_time_high"}], {"recall": 1, "cause_accuracy": None}),
        ([{"cause": "slow_switch"}], {"cause_accuracy": 0}),
        ([OTHER], {"recall": 0}),
        ([OTHER | {"evidence": json.dumps({"slow": ["x", "a2"]})}], {"recall": 1}),
        ([{"job": None, "culprit": "a2"}], {"recall": 1}),
        ([OTHER | {"evidence": '"a22"'}], {"recall": 0}),
        ([OTHER | {"evidence": "not json"}], {"recall": 0}),
        ([OTHER | {"evidence": '{"note": "a2 is slow"}'}], {"recall": 0}),
        ([times(4, 6)], {"window_overlap": 1}),
        ([times(4, 5)], {"window_overlap": 0.5}),
        ([times(5, 7)], {"window_overlap": pytest.approx(1 / 3)}),
        ([times(3, 7)], {"window_overlap": 0.5}),
    ],
)  # fmt: skip
def test_the_figures_of_the_usual_fault_follow_from_what_is_reported(world, findings, figures):
    world.report(*(one(world) if callable(one) else one for one in findings))
    faults = world.score()["faults"]
    assert {name: faults[name] for name in figures} == figures


def test_of_equally_confident_findings_the_earliest_counts(world):
    world.report({"culprit": "a3", "start_ns": world.begin("A", 5)}, {})
    match = world.score()["faults"]["matches"][0]
    assert (match["finding"], match["alarms"]) == (1, 2)


@pytest.mark.parametrize(("late_us", "detected"), [(999, 1), (1000, 0)])
def test_the_window_is_widened_by_one_step(world, late_us, detected):
    start = world.begin("A", 6) + late_us * 1000
    world.report({"start_ns": start, "end_ns": start + 1000})
    assert world.score()["faults"]["detected"] == detected


def test_a_window_in_seconds_starts_with_the_step_it_falls_in(world):
    """The fault starts in the middle of B's step 3, and the finding starts at step 5."""
    start = world.begin("B", 3) + 400_000
    given = {"job": None, "rank": None, "jobs": json.dumps(["B"]), "culprit": "b0"}
    given |= {"from_step": None, "to_step": None, "start_ns": start, "end_ns": None}
    world.inject(given)
    finding = {"job": "job1", "start_ns": world.begin("B", 5), "end_ns": world.begin("B", 7)}
    world.report(finding | {"culprit": "b0"})
    faults = world.score()["faults"]
    assert faults["steps_to_detect"] == 2.0
    assert faults["localized_top1"] == 1.0
    assert faults["matches"][0]["end_ns"] is None


def switch_fault(**values):
    usual = {"kind": "slow_switch", "culprit_kind": "switch", "culprit": "spine0"}
    usual |= {"switch": "spine0", "rank": None, "job": None, "jobs": json.dumps(["A", "B"])}
    return usual | values


def test_kinds_are_distinguished(world):
    world.inject({}, switch_fault())
    world.report({})
    faults = world.score()["faults"]
    assert (faults["injected"], faults["detected"]) == (2, 1)  # no finding is about the switch
    assert faults["localized_top1"] == 0.5
    assert faults["cause_accuracy"] == 1.0
    assert faults["by_kind"]["slow_gpu"]["localized_top1"] == 1.0
    assert faults["by_kind"]["slow_switch"]["localized_top1"] == 0.0
    assert faults["by_kind"]["slow_switch"]["detected"] == 0


def test_of_two_faults_at_once_each_has_the_finding_that_names_it(world):
    """The surer finding names the rank, so it is no alarm of the switch."""
    spine = {"culprit_kind": "switch", "culprit": "spine0", "cause": "slow_switch"}
    world.inject({}, switch_fault())
    world.report({"confidence": 0.9}, spine | {"confidence": 0.5})
    faults = world.score()["faults"]
    assert [match["finding"] for match in faults["matches"]] == [0, 1]
    assert faults["localized_top1"] == faults["cause_accuracy"] == faults["precision"] == 1.0


def test_a_finding_that_names_neither_of_two_faults_counts_for_both(world):
    world.inject({}, switch_fault())
    world.report({"culprit": "a3"})
    faults = world.score()["faults"]
    assert (faults["detected"], faults["localized_top1"]) == (2, 0.0)


def test_one_finding_may_be_right_for_two_faults_and_counts_once(world):
    world.inject({}, switch_fault())
    world.report({}, {"job": None, "culprit_kind": "switch", "culprit": "spine0"})
    faults = world.score()["faults"]
    assert faults["true_alarms"] == faults["findings"] == 2


@pytest.mark.parametrize("name", ["a2", "a2|leaf0", "leaf0|a2", "s2|leaf0"])
def test_a_nic_and_its_cable_are_one_culprit(world, name):
    world.inject({"kind": "slow_link", "culprit_kind": "link", "culprit": "a2|leaf0"})
    world.report({"culprit": name, "cause": "slow_nic"})
    assert world.score()["faults"]["localized_top1"] == 1.0
    world.inject({"kind": "slow_nic"})
    assert world.score()["faults"]["localized_top1"] == 1.0


@pytest.mark.parametrize("name", ["a3", "a3|leaf0", "leaf0", "leaf0|spine0"])
def test_another_nic_is_another_culprit(world, name):
    world.inject({"kind": "slow_link", "culprit_kind": "link", "culprit": "a2|leaf0"})
    world.report({"culprit": name})
    assert world.score()["faults"]["localized_top1"] == 0.0


def test_a_truth_that_names_no_culprit_has_one_all_the_same(world):
    """Captures made elsewhere give the rank or the switch."""
    bare = {"culprit_kind": None, "culprit": None}
    world.inject(bare)
    assert world.score()["faults"]["matches"][0]["culprit"] == "a2"
    world.inject(switch_fault(**bare, job="A", jobs=None, rank=-1))
    match = world.score()["faults"]["matches"][0]
    assert (match["culprit_kind"], match["culprit"]) == ("switch", "spine0")
    world.inject(bare | {"rank": None})
    assert world.score()["faults"]["matches"][0]["culprit"] is None


def test_a_healthy_cluster_and_a_quiet_diagnosis(world):
    world.truth["faults"] = world.truth["faults"].iloc[:0]
    world.change("findings", lambda findings: findings.iloc[:0])
    faults = world.score()["faults"]
    assert faults["injected"] == faults["detected"] == faults["false_alarms"] == 0
    assert faults["recall"] is faults["precision"] is faults["localized_top1"] is None
    assert faults["false_alarms_per_1000_job_steps"] == 0.0
    assert faults["by_kind"] == {}


def test_right_causes_are_those_that_the_registered_kinds_declare():
    for kind, fault in KINDS.items():
        assert causes_of(kind) == fault.causes | {kind}
    assert causes_of("slow_rank") == {"slow_gpu", "slow_rank", "slow_compute"}, "a capture's word"
    assert "slow_nic" in causes_of("slow_host_link")
    assert causes_of("solar_flare") == {"solar_flare"}


@pytest.mark.parametrize(
    ("culprit", "named", "right"),
    [
        (("server", "s2"), "s2", True),
        (("server", "s2"), "a2", True),
        (("server", "s2"), "a3", False),
        (("stage", "A stage 1"), "job0 stage 1", True),
        (("stage", "A stage 1"), "job0 stage 2", False),
        (("stage", "A stage 1"), "job1 stage 1", False),
        (("stage", "A stage 1"), "a2", False),
        (("job", "A"), "job0", True),
        (("job", "A"), "job1", False),
    ],
)
def test_servers_stages_and_jobs_are_named_as_a_diagnosis_knows_them(world, culprit, named, right):
    world.inject({"culprit_kind": culprit[0], "culprit": culprit[1]})
    world.report({"culprit": named})
    assert world.score()["faults"]["localized_top1"] == float(right)


def test_a_missed_fault_has_no_overlap(world):
    late = {"start_ns": world.begin("A", 8), "end_ns": world.begin("A", 9)}
    world.inject({}, {"culprit": "a0"} | late)
    world.report({})
    assert world.score()["faults"]["window_overlap"] == 0.5


MEASURED = {"slowed_job": "A", "slowdown": 0.25, "extra_ns": 500_000}
"""The two steps take 2 ms without the fault."""


@pytest.mark.parametrize(
    ("cost_ns", "error"), [(500_000, 0.0), (1_000_000, 0.25), (0, 0.25), (520_000, 0.01)]
)
def test_the_cost_error_is_a_share_of_the_time_without_the_fault(world, cost_ns, error):
    world.inject(MEASURED)
    world.report({"cost": cost_ns})
    assert world.score()["faults"]["cost_error"] == pytest.approx(error)


def test_the_cost_is_that_of_the_finding_about_the_job_that_is_slowed_most(world):
    world.inject(MEASURED | {"jobs": json.dumps(["A", "B"])})
    other = {"job": "job1", "cost": 0.0, "confidence": 1.0}
    world.report(other, {"cost": 500_000.0, "confidence": 0.5})
    assert world.score()["faults"]["cost_error"] == 0.0


@pytest.mark.parametrize("fault", [{}, MEASURED | {"slowdown": 0.0}, MEASURED | {"extra_ns": None}])
def test_a_fault_without_a_measured_cost_has_no_cost_error(world, fault):
    world.inject(fault)
    world.report({"cost": 1.0})
    assert world.score()["faults"]["cost_error"] is None
