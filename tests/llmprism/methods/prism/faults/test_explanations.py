"""Of several suspects in the same steps: which of them explain the others."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism import faults
from llmprism.methods.prism.faults.suspects import alternatives
from llmprism.methods.prism.faults.suspects.cost import Cost, cost_at
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from slow_jobs import STEP_NS, STEPS, job_with


def rank(job: Any, name: str, first: int, last: int, sure: float = 0.9, **more: Any) -> Suspect:
    evidence = {"one_of": [name]} | more
    return Suspect(
        job, "rank", "slow_passes", "slow_gpu", "address", name, first, last, 0.3, sure, evidence
    )


def imbalance(job: Any, first: int, last: int) -> Suspect:
    return Suspect(
        job, "group", "unequal_bytes", "expert_imbalance", "job", job.name, first, last, 0.3, 0.9
    )


def network(job: Any, slow: int, **evidence: Any) -> Suspect:
    evidence = {"slow_bundles": slow, "bundles": 64, "time_ratio": 1.3} | evidence
    return Suspect(
        job, "network", "slow_transfers", "slow_switch", "switch", "leaf", 10, 19, 0.2, 0.7,
        evidence,
    )  # fmt: skip


@pytest.fixture
def findings_of(monkeypatch):
    """``lost`` has shares of a step by address and step; a and b are in one server, c and d too."""

    def found(*suspects: Suspect, lost: Any = None) -> list[Any]:
        monkeypatch.setattr(faults, "CAUSES", (lambda _: suspects,))
        for of_records in ("more_work", "shares_links"):  # there are none
            monkeypatch.setattr(faults, of_records, lambda *_: False)
        monkeypatch.setattr(alternatives, "lost_share", lambda *_, **__: lost)
        topology = SimpleNamespace(
            codes={"a": 0, "b": 1, "c": 2, "d": 3}, addresses=["a", "b", "c", "d"],
            servers=np.array([0, 0, 1, 1]),
            endpoints=[SimpleNamespace(server=name) for name in ("s0", "s0", "s1", "s1")],
        )  # fmt: skip
        context: Any = SimpleNamespace(jobs=[], topology=topology)
        return [*faults.find_findings(context).itertuples()]

    return found


@pytest.fixture
def culprits_of(findings_of):
    def found(*suspects: Suspect) -> list[str]:
        return sorted(one.culprit for one in findings_of(*suspects))

    return found


@pytest.fixture
def confidence_in(findings_of):
    def found(*suspects: Suspect) -> dict[str, float]:
        return {one.culprit: one.confidence for one in findings_of(*suspects)}

    return found


def test_of_ranks_that_are_slow_in_the_same_steps_no_more_than_one_is_sure(confidence_in):
    job = job_with({(10, 19): 0.3})
    one, other = (
        replace(rank(job, name, 10, 19), lost_share=lost) for name, lost in (("a", 0.3), ("b", 0.2))
    )
    assert confidence_in(one) == {"a": pytest.approx(0.9)}
    sure = confidence_in(one, other)
    assert sure["a"] == pytest.approx(0.9 * 0.6)
    assert sum(sure.values()) <= 1
    apart = rank(job_with({(10, 19): 0.3}), "c", 10, 19)
    assert confidence_in(one, apart)["a"] == pytest.approx(0.9)


def test_a_server_that_may_be_a_stage_and_a_rank_of_its_pipeline_are_one_finding(findings_of):
    job = job_with({(10, 19): 0.3})
    job.pipelines = SimpleNamespace(number=np.zeros(4, np.int64))
    server = rank(job, "a", 10, 19, one_of=["a", "job-0 stage 1"])
    [found] = findings_of(server, rank(job, "c", 10, 19, 0.6))
    assert json.loads(found.evidence)["one_of"] == ["a", "job-0 stage 1", "c"]


def test_a_rank_that_is_slow_for_a_part_of_the_time_of_another_explains_nothing(culprits_of):
    job = job_with({(10, 19): 0.3})
    own = rank(job, "a", 10, 19, 0.8)
    assert culprits_of(own, rank(job, "b", 12, 13), rank(job, "c", 17, 19)) == ["a"]


def test_a_rank_that_makes_these_steps_longer_still_is_named_as_well(culprits_of):
    job = job_with({(10, 19): 0.3, (12, 15): 0.3})
    assert culprits_of(rank(job, "a", 10, 19), rank(job, "b", 12, 15)) == ["a", "b"]


def test_two_ranks_that_are_slow_for_as_long_are_both_named(culprits_of):
    job = job_with({(10, 19): 0.3})
    assert culprits_of(rank(job, "a", 10, 19), rank(job, "b", 10, 19)) == ["a", "b"]


def test_a_rank_that_loses_less_than_half_of_what_steps_are_longer_is_not_the_reason(culprits_of):
    job = job_with({(10, 19): 0.3})
    assert culprits_of(replace(rank(job, "a", 10, 19), lost_share=0.12)) == []
    assert culprits_of(replace(rank(job, "a", 10, 19), lost_share=0.16)) == ["a"]
    assert culprits_of(replace(network(job, 2), lost_share=0.12)) == ["leaf"]


def test_a_rank_that_is_late_in_a_few_of_the_slow_steps_in_a_row_is_not_the_reason(culprits_of):
    job = job_with({(10, 19): 0.3})
    assert culprits_of(replace(rank(job, "a", 10, 11), lost_share=0.3)) == []
    assert culprits_of(replace(rank(job, "a", 11, 18), lost_share=0.3)) == ["a"]


@pytest.mark.parametrize(
    ("late", "culprits"), [(["cd"], ["c"]), (["ab"], ["a"]), (["ba"], ["a"]), (["cd", "ab"], ["a"])]
)
def test_a_rank_is_slow_only_in_a_replica_that_is_late(culprits_of, late, culprits):
    """Passes of a seem slow; each late replica has two ranks."""
    job = job_with({(10, 19): 0.2})
    replicas = [
        replace(
            rank(job, names[0], 10, 19, 0.5, one_of=[*names]), symptom="late_replica",
            lost_share=0.2,
        )
        for names in late
    ]  # fmt: skip
    assert culprits_of(rank(job, "a", 10, 19), *replicas)[: len(culprits)] == culprits


@pytest.mark.parametrize(("late", "named"), [(0.2, ["c"]), (0.05, ["job-0 stage 0"])])
def test_a_stage_is_not_slow_as_a_whole_where_one_replica_is_late(culprits_of, late, named):
    """By most of what the steps take longer, or by a little of it."""
    job = job_with({(10, 19): 0.2})
    stage = replace(
        rank(job, "job-0 stage 0", 10, 19, 0.9), level="group", culprit_kind="stage",
        cause="uneven_stage", evidence={},
    )  # fmt: skip
    replica = replace(rank(job, "c", 10, 19, 0.5), symptom="late_replica", lost_share=late)
    assert culprits_of(stage, replica) == named


@pytest.mark.parametrize(("first", "last"), [(0, 9), (26, STEPS - 1)])
@pytest.mark.parametrize(("symptom", "named"), [("rerouted", []), ("stalled_messages", ["link"])])
def test_steps_over_other_uplinks_that_are_shorter_do_not_make_those_beside_them_slow(
    culprits_of, first, last, symptom, named
):
    """Steps 10 to 25 take other uplinks, or not; they are shorter than those before and after."""
    job = job_with({(0, 9): 0.2, (26, STEPS - 1): 0.2})
    slow = replace(network(job, 2), culprit="link", culprit_kind="link", first=first, last=last)
    other = replace(
        network(job, 2), symptom=symptom, culprit="leaf", first=10, last=25, evidence={}
    )
    assert slow.is_believed
    assert not other.is_believed
    assert [one for one in culprits_of(slow, other) if one == "link"] == named


def test_a_part_that_becomes_slow_when_connections_take_their_first_uplinks_again_is_named(
    culprits_of,
):
    job = job_with({(20, STEPS - 1): 0.2})
    slow = replace(network(job, 2), culprit="link", culprit_kind="link", first=20, last=STEPS - 1)
    other = replace(network(job, 2), symptom="rerouted", culprit="leaf", last=19, evidence={})
    assert culprits_of(slow, other) == ["link"]


def pauses(job: Any, name: str, steps: list[int]) -> Suspect:
    evidence = {"one_of": [name], "steps": steps}
    return Suspect(
        job, "rank", "pauses", "slow_compute", "address", name, steps[0], steps[-1], 0.3, 0.9,
        evidence, cost_at(job, np.array(steps)), 0.5,
    )  # fmt: skip


def test_two_steps_that_are_longer_still_in_a_slow_stretch_are_no_pauses(findings_of):
    """All other steps, most of them slow, do not show what a healthy one takes."""
    job = job_with({(10, 39): 0.3, (14, 15): 0.2})
    (one,) = findings_of(rank(job, "a", 10, 39), pauses(job, "a", [14, 15]))
    assert (one.symptom, one.first_step, one.last_step) == ("slow_passes", 10, 39)


def test_pauses_between_which_steps_are_healthy_are_no_slow_stretch(findings_of):
    steps = [10, 12, 14, 16, 18]
    job = job_with(dict.fromkeys([(one, one) for one in steps], 0.5))
    (one,) = findings_of(rank(job, "a", 10, 18), pauses(job, "a", steps))
    assert one.symptom == "pauses"


@pytest.mark.parametrize("symptom", ["late_in_turns", "unequal_bytes"])
def test_uneven_work_explains_a_stage_and_transfers_that_name_no_part(findings_of, symptom):
    job = job_with({(10, 19): 0.3})
    slow = replace(network(job, 2), culprit_kind="job", culprit=job.name, cause="slow_network")
    uneven = replace(imbalance(job, 10, 19), symptom=symptom)
    assert [one.cause for one in findings_of(slow, uneven)] == ["expert_imbalance"]
    assert [one.cause for one in findings_of(slow)] == ["slow_network"]
    stage = replace(slow, level="group", culprit_kind="stage", cause="uneven_stage", evidence={})
    assert [one.cause for one in findings_of(stage, uneven)] == ["expert_imbalance"]


def test_ranks_that_have_more_work_than_others_are_not_slow(culprits_of):
    job = job_with({(10, 19): 0.3})
    late = rank(job, "a", 11, 18, 0.95)
    assert culprits_of(late, imbalance(job, 10, 19)) == ["job-0"]


def test_a_rank_that_is_late_before_and_after_work_is_uneven_is_slow(culprits_of):
    job = job_with({(10, 29): 0.3})
    assert "a" in culprits_of(rank(job, "a", 10, 29), imbalance(job, 14, 18))


def test_where_most_transfers_take_longer_at_the_usual_pace_they_wait_for_the_late_rank(
    culprits_of,
):
    job = job_with({(10, 19): 0.3})
    assert culprits_of(rank(job, "a", 10, 19), network(job, 50)) == ["a"]


def test_where_a_few_transfers_take_longer_or_their_pace_shows_it_the_network_is_slow(culprits_of):
    job = job_with({(10, 19): 0.3})
    assert culprits_of(rank(job, "a", 10, 19), network(job, 4)) == ["leaf"]
    assert culprits_of(rank(job, "a", 10, 19), network(job, 50, pace_ratio=3.0)) == ["leaf"]


@pytest.mark.parametrize(("purity", "culprit"), [(0.1, "leaf"), (0.6, "a")])
def test_a_part_whose_many_transfers_hardly_take_longer_waits_for_nobody(
    culprits_of, purity, culprit
):
    """Nearly all of the time is lost across a link; the rest of a switch lost what varies."""
    parts = [
        {"name": "leaf|spine", "coverage": 1.0, "purity": 0.9, "slow": 4},
        {"name": "leaf", "coverage": 1.0, "purity": purity, "slow": 40},
    ]
    job = job_with({(10, 19): 0.3})
    assert culprits_of(network(job, 4, suspects=parts), rank(job, "a", 10, 19)) == [culprit]


@pytest.mark.parametrize(("longer", "last"), [(0.3, 27), (0.0, 14)])
def test_a_rank_that_is_slow_again_is_one_finding_if_its_job_is_slower_again(
    findings_of, longer, last
):
    job = job_with({(10, 14): 0.3, (24, 27): longer})
    (finding,) = findings_of(rank(job, "a", 10, 14), rank(job, "a", 24, 27))
    assert (finding.first_step, finding.last_step) == (10, last)


@pytest.mark.parametrize(("between", "stretches"), [(0.3, [(12, 20)]), (0.0, [(12, 15), (18, 20)])])
def test_stretches_of_uneven_work_are_one_if_the_steps_between_them_are_as_long(
    findings_of, between, stretches
):
    job = job_with({(12, 15): 0.3, (16, 17): between, (18, 20): 0.3})
    found = findings_of(imbalance(job, 12, 15), imbalance(job, 18, 20))
    assert [(one.first_step, one.last_step) for one in found] == stretches


@pytest.mark.parametrize(("sure", "culprit"), [(0.6, "leaf"), (0.9, "a")])
def test_a_sure_rank_explains_collectives_that_wait_for_it(culprits_of, sure, culprit):
    job = job_with({(10, 19): 0.2})
    slow = replace(rank(job, "a", 10, 19, sure), lost_share=0.2)
    assert culprits_of(slow, network(job, 2, kinds=["dp"], pace_ratio=1.5)) == [culprit]


def test_messages_of_the_pipeline_that_are_slow_do_not_wait_for_a_rank(culprits_of):
    job = job_with({(10, 19): 0.2})
    slow = replace(rank(job, "a", 10, 19), lost_share=0.2)
    assert culprits_of(slow, network(job, 2, kinds=["dp", "pp"], pace_ratio=1.5)) == ["leaf"]


def test_a_part_for_which_hops_of_its_rings_wait_does_not_wait_for_a_rank(culprits_of):
    job = job_with({(10, 19): 0.2})
    slow = replace(rank(job, "a", 10, 19), lost_share=0.2)
    seen = network(job, 2, kinds=["dp"], pace_ratio=1.5, waiting_hops=3)
    assert culprits_of(slow, seen) == ["leaf"]


@pytest.mark.parametrize("sure", [0.95, 0.4])
def test_ranks_that_are_late_in_turns_explain_no_stage_that_is_surer(culprits_of, sure):
    job = job_with({(10, 19): 0.3})
    stage = replace(
        rank(job, "a", 10, 19, sure), level="group", cause="uneven_stage", culprit_kind="stage",
        culprit="job-0 stage 0", lost_share=0.3, evidence={"stage": 0},
    )  # fmt: skip
    turns = replace(imbalance(job, 10, 19), symptom="late_in_turns", confidence=0.5, lost_share=0.3)
    assert ("job-0 stage 0" in culprits_of(stage, turns)) == (sure > turns.confidence)


def test_collectives_that_wait_for_a_slow_stage_accuse_no_link(culprits_of):
    job = job_with({(10, 19): 0.2})
    stage = replace(
        rank(job, "a", 10, 19), level="group", cause="uneven_stage", culprit_kind="stage",
        culprit="job-0 stage 0", lost_share=0.2, evidence={"stage": 0},
    )  # fmt: skip
    waits = network(job, 1, kinds=["dp"], pace_ratio=1.5)
    assert culprits_of(stage, waits) == ["job-0 stage 0"]
    assert culprits_of(replace(stage, confidence=0.5), waits) == ["leaf"]


def test_who_was_not_named_is_in_the_evidence(findings_of):
    job = job_with({(10, 19): 0.2})
    parts = [{"name": name, "coverage": share, "purity": 1.0}
             for name, share in (("leaf", 0.9), ("leaf|spine", 0.6), ("spine", 0.2))]  # fmt: skip
    other = rank(job, "a", 10, 19, 0.6)
    (found,) = findings_of(other, network(job, 2, pace_ratio=1.5, suspects=parts))
    assert json.loads(found.evidence)["one_of"] == ["leaf", "leaf|spine", "a"]


def lost_by(*shares: float) -> np.ndarray:
    """What each address loses in the steps that are slow, as shares of a step."""
    lost = np.zeros((4, STEPS))
    lost[:, 10:20] = np.array([[*shares]]).T
    return lost


@pytest.mark.parametrize(
    ("lost", "named", "sure"),
    [
        ((0.2, 0.0, 0.0, 0.0), ["a"], 0.9),
        ((0.2, 0.0, 0.18, 0.0), ["a", "c"], 0.72),  # merged records show that one waits as work
        ((0.2, 0.2, 0.18, 0.0), ["a", "c"], 0.72),  # b shares the server of a
        ((0.2, 0.0, 0.1, 0.0), ["a"], 0.9),
    ],
)
def test_a_rank_of_another_server_that_lost_as_much_is_named_too(findings_of, lost, named, sure):
    job = job_with({(10, 19): 0.2})
    (found,) = findings_of(rank(job, "a", 10, 19), lost=lost_by(*lost))
    assert json.loads(found.evidence)["one_of"] == named
    assert found.confidence == pytest.approx(sure)


def test_ranks_of_the_culprits_server_and_others_are_named_in_turn(findings_of):
    job = job_with({(10, 19): 0.2})
    slow = replace(rank(job, "a", 10, 19), culprit_kind="server", culprit="s0")
    slow = replace(slow, evidence={"one_of": ["a", "b", "c", "d"]})
    (found,) = findings_of(slow)
    assert json.loads(found.evidence)["one_of"] == ["a", "s1", "b"]


@pytest.mark.parametrize(("kind", "culprits"), [("switch", ["leaf"]), ("job", ["leaf", "s9"])])
def test_saves_through_a_slow_part_of_the_network_accuse_no_storage(culprits_of, kind, culprits):
    job = job_with({(10, 19): 0.2})
    saves = Suspect(
        job, "network", "slow_saves", "slow_storage", "server", "s9", 12, 19, 0.5, 0.9
    )  # fmt: skip
    part = replace(network(job, 2, pace_ratio=1.5), culprit_kind=kind)
    assert culprits_of(saves, part) == culprits


def test_a_nic_that_receives_the_traffic_of_others_is_not_one_that_pauses(findings_of):
    """Each would explain the other, and nothing would be found."""
    steps = [10, 12, 14, 16]
    job = job_with({(step, step): 0.2 for step in steps})
    burst = replace(network(job, 1), symptom="other_traffic", culprit="a", first=10, last=16)
    slow = rank(job, "a", 10, 16, steps=steps)
    (found,) = findings_of(burst, replace(slow, symptom="pauses"))
    assert (found.symptom, found.culprit) == ("other_traffic", "a")


@pytest.mark.parametrize(("elsewhere", "named"), [(0.0, ["leaf"]), (0.3, ["job-0", "leaf"])])
def test_a_network_that_is_slow_only_while_uplinks_are_missing_is_no_second_finding(
    culprits_of, elsewhere, named
):
    """Some transfers look slow for longer; steps do not."""
    job = job_with({(15, 19): 0.6, (6, 14): elsewhere, (20, 28): elsewhere})
    uplinks = replace(network(job, 8), symptom="fewer_uplinks", first=15, last=19)
    whole = network(job, 8, pace_ratio=1.5)
    whole = replace(whole, cause="slow_network", culprit_kind="job", culprit=job.name)
    assert culprits_of(uplinks, replace(whole, first=6, last=28)) == named


@pytest.mark.parametrize(("first", "moment", "named"), [(1, 21, 0), (1, 30, 1), (8, 21, 1)])
def test_a_job_that_is_slower_until_another_one_stops_shared_something_with_it(
    culprits_of, first, moment, named
):
    job = job_with({(first, 20): 0.2})
    other = job_with({})
    other.name, at_ns = "job-1", int(job.end_ns[moment])
    hang = Suspect(
        other, "rank", "stopped", "hang", "address", "d", 20, 20, 1.0, 0.6, {"one_of": ["d"]},
        Cost(STEP_NS, 9 * STEP_NS, 8 * STEP_NS, np.inf), None, (at_ns, at_ns + int(8 * STEP_NS)),
    )  # fmt: skip
    slow = replace(network(job, 1), first=first, last=20)
    assert culprits_of(slow, hang) == ["d", "leaf"][: 1 + named]


@pytest.mark.parametrize(("first", "begin", "named"), [(1, 25, 0), (1, 30, 1), (8, 25, 1)])
def test_a_job_that_is_slower_until_another_one_is_slow_shared_something_with_it(
    culprits_of, first, begin, named
):
    """The other one sends less in a second from then on."""
    job, other = job_with({(first, 20): 0.2}), job_with({(begin, 35): 0.5})
    other.name = "job-1"
    slow = replace(network(job, 1), first=first, last=20)
    assert culprits_of(slow, rank(other, "d", begin, 35)) == ["d", "leaf"][: 1 + named]


def test_what_stalls_because_of_other_traffic_is_no_second_finding(findings_of):
    job = job_with({(10, 19): 0.3})
    burst, stall = (
        replace(network(job, 1), symptom=symptom, culprit_kind="address", culprit="a")
        for symptom in ("other_traffic", "stalled_messages")
    )
    (found,) = findings_of(stall, burst)
    assert found.symptom == "other_traffic"


def test_ranks_that_are_late_in_turns_by_little_explain_no_long_steps(culprits_of):
    """A good part of the transfers takes longer, as where they wait; steps are twice as long."""
    job = job_with({(10, 19): 1.0})
    turns = Suspect(
        job, "group", "late_in_turns", "length_imbalance", "job", job.name, 10, 19, 0.1, 0.5
    )
    assert culprits_of(network(job, 50), replace(turns, lost_share=0.1)) == ["leaf"]
    assert culprits_of(network(job, 50), replace(turns, lost_share=0.9)) == ["job-0"]


@pytest.mark.parametrize(("last", "named"), [(12, ["job-0"]), (18, ["a"])])
def test_a_rank_that_is_late_in_some_of_the_steps_takes_its_turn(culprits_of, last, named):
    """In ten slow steps ranks are late in turns, one of them in several steps in a row."""
    job = job_with({(10, 19): 0.3})
    turns = replace(imbalance(job, 10, 19), symptom="late_in_turns", confidence=0.5, lost_share=0.3)
    late = replace(rank(job, "a", 10, last), symptom="late_to_collectives", lost_share=0.3)
    assert culprits_of(late, turns) == named


@pytest.mark.parametrize(("slow", "named"), [((10, 16), ["leaf"]), ((10, 20), ["a", "leaf"])])
def test_a_rank_that_is_slow_where_a_part_is_slow_and_nowhere_else_is_not(culprits_of, slow, named):
    """Most of the steps of the rank are after those of the part, and as long as any."""
    job = job_with({slow: 0.5})
    part = replace(network(job, 8, pace_ratio=3.0), first=10, last=16)
    assert culprits_of(part, rank(job, "a", 14, 20)) == named


def test_a_server_whose_ranks_are_a_stage_is_as_likely_as_the_stage(findings_of):
    job = job_with({(10, 19): 0.3})
    one = replace(rank(job, "a", 10, 19), culprit_kind="server", culprit="s0")
    either = replace(one, evidence={**one.evidence, "or_causes": ["uneven_stage"]})
    sure, unsure = (findings_of(each)[0].confidence for each in (one, either))
    assert unsure == pytest.approx(sure / 2)


def test_a_part_that_costs_far_less_does_not_explain_a_rank(findings_of):
    """Transfers are slower all along, and three steps among them much longer: a rank is slow."""
    job = job_with({(10, 19): 0.05, (13, 15): 0.5})
    found = findings_of(network(job, 8), rank(job, "a", 13, 15))
    assert ("a", 13, 15) in {(one.culprit, one.first_step, one.last_step) for one in found}


def test_records_that_stall_at_one_of_two_nics_wait_for_a_rank_that_is_surely_slow(findings_of):
    job = job_with({(10, 16): 0.3})
    stalled = Suspect(
        job, "network", "stalled_messages", "flapping_nic", "address", "b", 10, 16, 0.2, 0.6,
        {"one_of": ["b", "c"]},
    )  # fmt: skip
    assert [one.culprit for one in findings_of(stalled, rank(job, "a", 10, 16))] == ["a"]
    unsure = rank(job, "a", 10, 16, sure=0.4)
    assert [one.culprit for one in findings_of(stalled, unsure)] == ["b"]


@pytest.mark.parametrize(("held", "named"), [(0.25, "b"), (0.15, "a")])
def test_messages_that_stall_for_most_of_what_steps_are_longer_wait_for_no_rank(
    culprits_of, held, named
):
    job = job_with({(10, 16): 0.3})
    stalled = Suspect(
        job, "network", "stalled_messages", "flapping_nic", "address", "b", 10, 16, 0.2, 0.6,
        {"one_of": ["b", "c"], "messages_alone": True}, lost_share=held,
    )  # fmt: skip
    late = replace(rank(job, "a", 10, 16), lost_share=0.4)
    assert culprits_of(stalled, late) == [named]


@pytest.mark.parametrize(("slow", "named"), [(1, ["leaf"]), (2, ["a"])])
def test_where_fewer_collectives_are_slow_than_ranks_seem_late_the_network_is_slow(
    culprits_of, slow, named
):
    """Both ranks of a server seem to pause; a late rank keeps each of its collectives waiting."""
    job = job_with({(10, 19): 0.3})
    late = pauses(job, "a", [*range(10, 20)])
    late = replace(late, evidence={**late.evidence, "one_of": ["a", "b"]})
    ring = network(job, slow, kinds=["dp"], pace_ratio=8.0)
    assert culprits_of(late, replace(ring, culprit_kind="address")) == named


@pytest.mark.parametrize(
    ("slow", "kind", "named"),
    [(2, "address", ["leaf"]), (2, "job", ["job-0 stage 1"]), (8, "address", ["job-0 stage 1"])],
)
def test_a_late_stage_explains_slow_collectives_of_all_its_ranks(culprits_of, slow, kind, named):
    """One NIC whose two hops are slow makes its whole pipeline look slow."""
    job = job_with({(10, 19): 0.3})
    stage = Suspect(
        job, "group", "slow_passes", "uneven_stage", "stage", "job-0 stage 1", 10, 19, 0.3, 0.95,
        {"stage": 1, "ranks": 8}, lost_share=0.3,
    )  # fmt: skip
    ring = network(job, slow, kinds=["dp"], pace_ratio=8.0)
    assert culprits_of(stage, replace(ring, culprit_kind=kind)) == named


@pytest.mark.parametrize(("sure", "named"), [(0.7, ["leaf"]), (0.5, ["a"])])
def test_stalls_at_another_nic_than_the_part_that_is_surely_slow_wait_for_it(
    culprits_of, sure, named
):
    """They take most of what the steps are longer."""
    job = job_with({(10, 19): 0.3})
    stall = replace(network(job, 1), symptom="stalled_messages", culprit_kind="address")
    stall = replace(stall, culprit="a", confidence=0.6, lost_share=0.25)
    stall = replace(stall, lost=cost_at(job, np.arange(10, 20)))
    slow = replace(network(job, 8, pace_ratio=3.0), confidence=sure)
    assert culprits_of(stall, slow) == named


@pytest.mark.parametrize(
    ("held", "sure", "named"), [(0.12, 0.7, ["leaf"]), (0.25, 0.7, ["a"]), (0.12, 0.5, ["a"])]
)
def test_stalls_that_are_a_small_part_of_what_steps_are_longer_are_some_of_the_slow_transfers(
    culprits_of, held, sure, named
):
    job = job_with({(10, 19): 0.3})
    stall = replace(network(job, 1), symptom="stalled_messages", culprit_kind="address")
    stall = replace(stall, culprit="a", confidence=0.6, lost_share=held)
    stall = replace(stall, evidence={**stall.evidence, "one_of": ["a", "leaf"]})
    stall = replace(stall, lost=cost_at(job, np.arange(10, 20)))
    slow = replace(network(job, 8, pace_ratio=3.0), confidence=sure)
    assert culprits_of(stall, slow) == named


def test_few_stalls_at_another_nic_wait_for_the_slow_part_also_if_they_are_surer(culprits_of):
    job = job_with({(10, 19): 0.3})
    stall = replace(network(job, 1), symptom="stalled_messages", culprit_kind="address")
    stall = replace(stall, culprit="a", confidence=0.9, lost_share=0.12)
    stall = replace(stall, lost=cost_at(job, np.arange(10, 20)))
    assert culprits_of(stall, network(job, 8, pace_ratio=3.0)) == ["leaf"]


@pytest.mark.parametrize(("as_ever", "named"), [((), ["a"]), (("a",), ["leaf"]), (("b",), ["a"])])
def test_collectives_do_not_wait_for_a_rank_whose_own_ones_take_as_long_as_ever(
    culprits_of, as_ever, named
):
    job = job_with({(10, 19): 0.3})
    late = replace(rank(job, "a", 10, 19, 0.9), lost_share=0.3)
    slow = network(job, 2, kinds=["dp"], pace_ratio=5.0)
    assert culprits_of(late, replace(slow, as_ever=frozenset(as_ever))) == named


@pytest.mark.parametrize(("sure", "named"), [(0.25, []), (0.35, ["a"])])
def test_what_is_wrong_in_two_of_three_cases_is_not_named(culprits_of, sure, named):
    """Another rank that lost as much leaves half of the confidence."""
    job = job_with({(10, 11): 0.03})
    both = [rank(job, name, 10, 11, 2 * sure) for name in ("a", "c")]
    found = culprits_of(*(replace(one, lost_share=0.03) for one in both))
    assert found == [*named, *("c" for _ in named)]
