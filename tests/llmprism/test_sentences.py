"""Findings in words: who, since when, at what cost, how sure; for any method and any evidence."""

import json

import pytest

from llmprism.evidence import NEXT, next_step, numbers
from llmprism.finding_fields import cost_share, evidence_of, number, step_of, text
from llmprism.part_names import Parts
from llmprism.sentences import PHRASES, JobFacts, finding_text

TEN = 1_795_255_200_000_000_000  # 2026-11-21 10:00:00 UTC
S = 1_000_000_000
TOPOLOGY = {
    "endpoints": [
        {"address": f"10.0.12.{nic}", "server": "s12", "nic": nic, "gpus": [nic]}
        for nic in range(4)
    ]
    + [{"address": "10.0.13.0", "server": "s13", "nic": 0, "gpus": [0, 1, 2, 3]}]
}
PARTS = Parts.of(TOPOLOGY)
JOB = JobFacts(gpus=64, last_step=30, start_ns=TEN, end_ns=TEN + 40 * S)


def finding(**values):
    row = {
        "finding": 0, "level": "rank", "symptom": "slow_passes", "cause": "slow_gpu",
        "job": "job-0", "culprit_kind": "address", "culprit": "10.0.12.3", "first_step": 17,
        "last_step": 30, "start_ns": TEN + 21 * S, "end_ns": TEN + 35 * S, "magnitude": 0.08,
        "cost": 0.9 * S, "confidence": 0.91,
    }  # fmt: skip
    evidence = values.pop("evidence", {"step_share": 0.065, "deviations": 12.5})
    return row | {"evidence": json.dumps(evidence)} | values


def test_the_sentence_that_an_operator_reads():
    text = str(finding_text(finding(), PARTS, JOB))
    assert text == (
        "GPU 3 of server s12 computes 8.0 % slower since 10:00:21.000 UTC (step 17). "
        "It costs job-0 6.5 % of its step time: 900 ms in 14 steps, 0.016 GPU-hours. "
        "Confidence 91 %. "
        "Evidence: that is 12.5 times the usual deviation; steps are 6.5 % longer."
    )


def test_what_is_slow_from_the_first_to_the_last_step_began_at_no_known_time():
    row = finding(first_step=0, last_step=30, evidence={"ratio_to_replicas": 1.5})
    text = finding_text(row, PARTS, JOB)
    assert text.what == "GPU 3 of server s12 computes 8.0 % slower in all steps."
    assert text.evidence == "takes 1.5 times as long as ranks that do the same"


def test_a_finding_that_ends_has_both_times_and_one_step_has_one():
    some = finding_text(finding(last_step=18, end_ns=TEN + 24 * S), PARTS, JOB)
    assert "from 10:00:21.000 UTC (step 17) to 10:00:24.000 UTC (step 18)" in some.what
    one = finding_text(finding(last_step=17), PARTS, JOB)
    assert "in step 17, at 10:00:21.000 UTC" in one.what


def test_a_time_on_another_day_than_the_end_of_the_job_has_a_date():
    job = JobFacts(64, 30, TEN, TEN + 86_400 * S)
    assert "2026-11-21 10:00:21.000 UTC" in finding_text(finding(), PARTS, job).what


@pytest.mark.parametrize("cause", PHRASES)
def test_every_cause_makes_a_sentence_with_and_without_a_magnitude(cause):
    """A magnitude that is no share of speed, as of other methods, is left out."""
    for magnitude, shown in ((0.25, True), (3.0, False), (None, False)):
        text = finding_text(finding(cause=cause, magnitude=magnitude), PARTS, JOB).what
        assert "{" not in text
        assert "  " not in text
        assert " ," not in text
        assert ("25.0 %" in text) == (shown and "{by}" in PHRASES[cause])


def test_an_unknown_cause_is_written_out():
    row = finding(cause="unknown", symptom="slow_step", magnitude=2.5, evidence={})
    text = finding_text(row, PARTS, JOB).what
    assert text.startswith("NIC 3 of server s12 stands out (slow step, 2.5 times the normal value)")


def test_parts_of_the_network_have_their_names():
    link = finding(cause="slow_link", culprit_kind="link", culprit="leaf0|spine1")
    assert (
        "The link between leaf0 and spine1 has lost 8.0 % of its rate"
        in finding_text(link, PARTS, JOB).what
    )
    cable = finding(cause="slow_link", culprit_kind="link", culprit="10.0.12.1|leaf0")
    assert "between NIC 1 of server s12 and leaf0" in finding_text(cable, PARTS, JOB).what
    switch = finding(cause="slow_switch", culprit_kind="switch", culprit="leaf0")
    assert "Switch leaf0 has lost 8.0 % of its rate" in finding_text(switch, PARTS, JOB).what
    shared = finding(culprit="10.0.13.0")
    assert "A GPU behind NIC 0 of server s13" in finding_text(shared, PARTS, JOB).what
    bare = Parts.of({"endpoints": [{"address": "10.0.0.1", "server": "s1", "nic": 2},
                                   {"address": "10.0.0.2", "server": "s2"}]})  # fmt: skip
    gpu = finding_text(finding(culprit="10.0.0.1"), bare, JOB).what
    assert gpu.startswith("The GPU behind NIC 2 of server s1 computes")
    nic = finding_text(finding(culprit="10.0.0.2", cause="slow_nic"), bare, JOB).what
    assert nic.startswith("NIC 10.0.0.2 has lost")


def test_stages_and_jobs_have_their_names():
    row = finding(cause="uneven_stage", culprit_kind="stage", culprit="job-0 stage 1")
    assert finding_text(row, PARTS, JOB).what.startswith("Job-0 stage 1 has more work")
    row = finding(cause="hang", culprit_kind="job", culprit="job-0")
    assert finding_text(row, PARTS, JOB).what.startswith("Job job-0 stopped since")


def test_storage_that_is_slow_does_not_wait_for_storage():
    row = finding(cause="slow_storage", culprit_kind="server", culprit="s12", magnitude=0.5)
    assert finding_text(row, PARTS, JOB).what.startswith("Server s12 has lost 50.0 % of its rate")
    row = finding(cause="slow_storage", culprit_kind="job", culprit="job-0")
    assert finding_text(row, PARTS, JOB).what.startswith("Job job-0 waits for storage")


def test_a_link_is_shared_and_a_job_shares_it():
    row = finding(cause="job_congestion", culprit_kind="link", culprit="leaf0|spine1")
    assert "spine1 is shared with another job, and carries" in finding_text(row, PARTS, JOB).what
    row = finding(cause="job_congestion", culprit_kind="job", culprit="job-0")
    assert "Job job-0 shares links with another job" in finding_text(row, PARTS, JOB).what


def test_how_unequal_work_is_is_no_speed():
    """By how much bytes differ is not by how much the job is slower, which the cost says."""
    for cause in ("length_imbalance", "expert_imbalance"):
        row = finding(cause=cause, culprit_kind="job", culprit="job-0", magnitude=0.25)
        assert "slower" not in finding_text(row, PARTS, JOB).what


def test_a_stop_costs_the_time_until_the_job_goes_on():
    evidence = {"step_share": 400.0, "traffic_ended_ns": TEN}
    row = finding(symptom="stopped", cause="hang", cost=50.0 * S, evidence=evidence)
    assert finding_text(row, PARTS, JOB).cost == "The records show no further step of job-0."
    row["evidence"] = json.dumps(evidence | {"went_on_ns": TEN + 50 * S})
    cost = finding_text(row, PARTS, JOB).cost
    assert cost == "It costs job-0 the time until it went on: 50.0 s, 0.889 GPU-hours."


def test_the_suspects_are_ranked():
    names = [{"name": "leaf0|spine1"}, {"name": "spine1"}, {"name": "10.0.12.1"}]
    row = finding(cause="slow_link", culprit_kind="link", culprit="leaf0|spine1",
                  evidence={"suspects": names, "one_of": ["spine1"]})  # fmt: skip
    assert finding_text(row, PARTS, JOB).suspects == (
        "the link between leaf0 and spine1 (leaf0|spine1)",
        "spine1",
        "NIC 1 of server s12 (10.0.12.1)",
    )


def test_suspects_with_a_direction_and_servers_are_named():
    names = ["10.0.12.1>out", "10.0.12.1>in", "leaf0>up", "leaf0>down", "leaf0>spine1", "s13"]
    row = finding(cause="slow_nic", culprit="10.0.12.1",
                  evidence={"suspects": [{"name": name} for name in names[:5]]})  # fmt: skip
    assert finding_text(row, PARTS, JOB).suspects[1:] == (
        "all that NIC 1 of server s12 sends (10.0.12.1)",
        "all that NIC 1 of server s12 receives (10.0.12.1)",
        "all that leaf0 sends upwards",
        "all that leaf0 sends downwards",
        "all that leaf0 sends to spine1",
    )
    row = finding(culprit_kind="server", culprit="s12", evidence={"one_of": ["s13"]})
    assert finding_text(row, PARTS, JOB).suspects[1:] == ("server s13",)


def test_the_gpus_of_a_server_are_one_suspect():
    row = finding(culprit_kind="server", culprit="s12",
                  evidence={"one_of": ["10.0.12.0", "10.0.12.2"]})  # fmt: skip
    suspects = finding_text(row, PARTS, JOB).suspects
    assert suspects == ("server s12: flows cannot tell which of its GPUs 0, 2",)


def test_causes_that_flows_cannot_tell_apart_are_both_named():
    row = finding(cause="slow_link", evidence={"or_causes": ["lossy_link", "slow_nic"]})
    assert "Possible causes: slow link, lossy link, slow NIC." in str(finding_text(row, PARTS, JOB))
    row = finding(cause="polarised_hashing", evidence={"or_causes": ["ecmp", "unknown"]})
    causes = finding_text(row, PARTS, JOB).causes
    assert causes == "Possible causes: polarised hashing, chance (ECMP), or another cause."
    row = finding(cause="unknown", evidence={"or_causes": ["slow_gpu"]})
    assert finding_text(row, PARTS, JOB).causes == "Possible causes: slow GPU, or another cause."


def test_pauses_cost_time_only_in_their_own_steps():
    row = finding(symptom="pauses", cause="slow_compute", evidence={"steps": [17, 21, 30]})
    text = finding_text(row, PARTS, JOB)
    assert text.what.startswith("GPU 3 of server s12 pauses in some of its steps")
    assert "in 3 steps" in text.cost


def test_a_job_that_is_slow_without_a_known_cause_says_so():
    row = finding(symptom="slow_steps", cause="unknown", culprit_kind="job", culprit="job-0")
    text = str(finding_text(row, PARTS, JOB))
    assert "is 8.0 % slower, for a reason that the records do not show, since 10:00:21" in text


def test_a_finding_about_a_whole_job_suspects_no_part():
    row = finding(culprit_kind="job", culprit="job-0", evidence={"silent_since_ns": TEN})
    text = finding_text(row, PARTS, JOB)
    assert text.suspects == ()
    assert text.evidence == "silent since 10:00:00.000 UTC"


@pytest.mark.parametrize(
    "values",
    [
        {"evidence": None}, {"evidence": ["list"]}, {"cost": None}, {"cost": 0.0},
        {"start_ns": None, "end_ns": None}, {"start_ns": None, "first_step": None},
        {"end_ns": None}, {"confidence": None}, {"culprit": None, "culprit_kind": None},
        {"first_step": -1, "last_step": -1}, {"job": None, "cause": None, "symptom": None},
        {"start_ns": 21 * S, "end_ns": 35 * S}, {"start_ns": 2**63 - 1},
        {"evidence": {"nested": {"a": 1}, "flag": True, "few": [1, "a"], "many": list(range(99))}},
    ],
)  # fmt: skip
def test_any_row_makes_sentences(values):
    text = str(finding_text(finding(**values), PARTS, JobFacts()))
    assert text.endswith(".")
    assert "None" not in text
    assert "nan" not in text


def test_figures_are_phrases_in_the_order_in_which_they_are_read():
    evidence = {"step_share": 0.595, "time_ratio": 1.665, "normal_step_ns": 1_070_000_000}
    assert list(numbers(evidence)) == [
        "takes 1.67 times the usual time",
        "a normal step takes 1.07 s",
        "steps are 59.5 % longer",
    ]


def test_an_unknown_figure_follows_with_its_name():
    evidence = {"lost_{packets}": 12, "deviations": 5.5, "share_of_{}": 0.25}
    assert list(numbers(evidence)) == [
        "that is 5.5 times the usual deviation",
        "lost {packets} 12",
        "share of {} 25.0 %",
    ]


def test_suspects_and_other_causes_are_no_figures():
    hidden = {"one_of": ["a"], "suspects": ["b"], "or_causes": ["c"], "server": "s1", "steps": [1]}
    assert list(numbers(hidden)) == []


def test_transfers_may_lose_more_than_a_step_together():
    one, several = ([*numbers({"lost_share_of_a_step": share})] for share in (0.25, 3.3562))
    assert one == ["the culprit itself lost 25.0 % of a step"]
    assert several == ["its transfers lost 3.36 times a step, all taken together"]


def test_a_step_of_a_job_that_stopped_is_many_times_as_long():
    stopped = {"step_share": 427.34, "step_deviations": 1e6}
    assert list(numbers(stopped)) == ["steps are 428 times as long"]


def test_every_cause_that_has_a_phrase_has_a_next_step():
    assert PHRASES.keys() <= NEXT.keys()


@pytest.mark.parametrize("step", NEXT.values())
def test_a_step_is_one_sentence(step):
    assert step[0].isupper()
    assert step.endswith(".")
    assert step.count(". ") == 0


def test_a_cause_of_another_method_gets_that_of_its_culprit():
    assert "port of the switch" in next_step("strange", "address")
    assert "llmlog" in next_step("strange", "job")


ROW = {"start_ns": 21 * S, "end_ns": 35 * S, "first_step": 17, "evidence": "{}"}


def test_the_share_of_step_time_follows_from_the_cost_if_the_method_gives_none():
    """14 s of which 4 s are lost: 10 s would have been enough."""
    assert cost_share(ROW | {"cost": 4.0 * S}) == pytest.approx(0.4)
    assert cost_share(ROW | {"cost": 20.0 * S}) is None
    assert cost_share(ROW | {"cost": None}) is None
    given = json.dumps({"step_share": 0.065})
    assert cost_share(ROW | {"cost": 4.0 * S, "evidence": given}) == 0.065


@pytest.mark.parametrize("evidence", ["not { json", None, "[1]", "3"])
def test_evidence_that_is_no_object_is_empty(evidence):
    assert evidence_of(ROW | {"evidence": evidence}) == {}


def test_wrong_values_are_unknown():
    assert [number(one) for one in (2, 0.5, True, "2", float("nan"), None)] == [
        2, 0.5, None, None, None, None,
    ]  # fmt: skip
    assert (step_of(ROW, "first_step"), step_of(ROW, "last_step")) == (17, None)
    assert step_of({"last_step": -1}, "last_step") is None
    assert (text("a"), text(None), text(3)) == ("a", "", "")
