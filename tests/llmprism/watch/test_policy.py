"""What is worth an alert: what persists, is likely, costs enough, and is no habit of the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from llmprism.watch import policy
from llmprism.watch.habits import remember
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.state import Incident, KnownJob

S = SECOND_NS
STEP_NS = 4 * S


def job(lengths_s: list[float]) -> KnownJob:
    """A job with steps of such lengths."""
    one = KnownJob("job-0", ["10.0.0.1"], ["s0"])
    ends = np.cumsum(np.array(lengths_s) * S).astype(np.int64).tolist()
    one.since_ns, one.seen_ns = ends[0], ends[-1]
    remember(one, dict(enumerate(ends)))
    return one


def steady(count: int, slow: dict[int, float]) -> list[float]:
    """Lengths of steps that vary by a percent, some of which are longer [s]."""
    vary = np.random.default_rng(3).normal(0, 0.01, count)
    return [4 * (1 + v) + slow.get(step, 0.0) for step, v in enumerate(vary.tolist())]


def incident(first: int, last: int, cost_s: float, **values: Any) -> Incident:
    """An incident of some steps of a job of 32 GPUs, which cost so much together."""
    cost_ns = cost_s * S
    one = Incident(
        key="k", place="s0", job="job-0", labels={}, start_ns=first * STEP_NS + S,
        end_ns=(last + 1) * STEP_NS, first_step=first, last_step=last,
        gpu_hours=cost_s * 32 / 3_600, magnitude=0.2, confidence=0.9, sentence="",
        seen_ns=(last + 1) * STEP_NS, cause="slow_gpu", ranges=[(first, last)], cost_ns=cost_ns,
        gpus=32,
    )  # fmt: skip
    return replace(one, **values)


def why(one: Incident, known: KnownJob, time_ns: int = 10**15) -> str:
    return policy.withheld(one, known, time_ns)


def test_three_slow_steps_are_worth_an_alert_and_one_or_two_are_a_hiccup() -> None:
    slow = dict.fromkeys(range(30, 33), 1.0)
    known = job(steady(60, slow))
    assert why(incident(30, 32, 3.0), known) == ""
    assert "hiccup" in why(incident(30, 30, 1.0), known)
    assert "hiccup" in why(incident(30, 31, 2.0), known)


def test_a_stretch_with_few_slow_steps_is_a_hiccup_however_long_it_is() -> None:
    known = job(steady(60, {30: 1.0, 34: 1.0}))
    assert "hiccup" in why(incident(30, 34, 2.0), known)


def test_the_first_steps_of_a_fault_that_grows_count_as_slow() -> None:
    growing = {30: 0.3, 31: 1.0, 32: 3.0}
    known = job(steady(60, growing))
    assert why(incident(30, 32, sum(growing.values())), known) == ""
    assert "hiccup" in why(incident(31, 33, sum(growing.values())), known)


def test_only_complete_slow_steps_need_no_further_window() -> None:
    known = job(steady(33, dict.fromkeys(range(30, 33), 1.0)))
    assert policy.is_measured(incident(30, 32, 3.0), known, known.seen_ns)
    assert not policy.is_measured(incident(31, 33, 3.0), known, known.seen_ns)
    assert why(incident(31, 33, 3.0), known) == ""


def test_hiccups_that_return_at_one_place_are_worth_an_alert() -> None:
    slow = dict.fromkeys((20, 21, 30, 31, 40), 1.0)
    one = incident(20, 40, 5.0, ranges=[(20, 21), (30, 31), (40, 40)])
    assert why(one, job(steady(60, slow))) == ""


def test_what_is_unlikely_cheap_or_before_the_first_step_is_withheld() -> None:
    known = job(steady(60, dict.fromkeys(range(30, 36), 1.0)))
    assert "wrong" in why(incident(30, 35, 6.0, confidence=0.4), known)
    assert "too little" in why(incident(30, 35, 0.2), known)
    assert "not begun" in why(incident(0, 0, 60.0, cause="hang", start_ns=0), known)
    assert "no steps" in why(incident(0, 9, 9.0), KnownJob("job-1", [], []))


@pytest.mark.parametrize(("steps", "reason"), [(9, "what is usual is not known yet"), (14, "")])
def test_the_first_steps_of_a_job_do_not_show_yet_what_is_usual(steps: int, reason: str) -> None:
    known = job(steady(steps, dict.fromkeys(range(2, 5), 1.0)))
    assert why(incident(2, 4, 3.0), known) == reason


@pytest.mark.parametrize(
    ("slow", "reason"),
    [
        ([50, 53, 62], policy.HICCUP),
        ([50, 51, 53, 54], policy.HICCUP),
        ([50, 51, 53, 54, 62], ""),
        ([60, 61, 62], ""),
    ],
)
def test_slow_steps_of_one_stretch_count_if_they_follow_each_other_or_return(
    slow: list[int], reason: str
) -> None:
    known = job(steady(90, dict.fromkeys(slow, 1.5)))
    assert why(incident(50, 62, 1.5 * len(slow)), known) == reason


def test_two_steps_suffice_that_are_each_half_as_long_again() -> None:
    reasons = [
        why(incident(30, last, sum(slow)), job(steady(60, dict(enumerate(slow, 30)))))
        for last, slow in ((31, [2.5, 3.0]), (31, [0.5, 9.0]), (30, [9.0]))
    ]
    assert reasons == ["", policy.HICCUP, policy.HICCUP]


def test_uneven_work_of_a_few_steps_is_the_luck_of_their_batches() -> None:
    reasons = [
        why(incident(30, last, 1.0 * (last - 29), cause="length_imbalance"), known)
        for last in (33, 41)
        for known in [job(steady(90, dict.fromkeys(range(30, last + 1), 1.0)))]
    ]
    assert reasons == [policy.HICCUP, ""]


def test_what_steps_vary_by_is_not_slow() -> None:
    shorter = {50: 0.05, 51: 0.06, 52: 0.05}  # a deviation or so is 0.04 s
    longer = {step: extra + 0.08 for step, extra in shorter.items()}
    found = [incident(50, 52, sum(extra.values()), gpus=8) for extra in (shorter, longer)]
    reasons = [
        why(one, job(steady(90, slow))) for one, slow in zip(found, (shorter, longer), strict=True)
    ]
    assert reasons == [policy.HICCUP, ""]


def test_a_habit_is_learned_remembered_and_no_alert_until_it_costs_more() -> None:
    evaluations = dict.fromkeys(range(9, 60, 10), 6.0)
    evaluations |= {step + 1: 6.0 for step in range(9, 60, 10)}
    evaluations |= {step + 2: 6.0 for step in range(9, 60, 10)}
    known = job(steady(60, evaluations))
    assert {one.every for one in known.habits} == {10}
    assert why(incident(49, 51, 18.0), known) == "a habit of the job"
    dearer = job(steady(60, evaluations | dict.fromkeys((49, 50, 51), 20.0)))
    assert why(incident(49, 51, 60.0), dearer) == ""
    calm = {step: (step + 61) * STEP_NS + known.seen_ns for step in range(60, 75)}
    remember(known, calm)
    assert {one.every for one in known.habits} == {10}


def test_a_habit_does_not_hide_a_fault_that_makes_the_steps_around_it_a_little_longer() -> None:
    evaluations = dict.fromkeys(range(9, 60, 10), 6.0)
    slow = dict.fromkeys(set(range(43, 53)) - {49}, 0.3)
    known = job(steady(60, evaluations | slow))
    assert {one.every for one in known.habits} == {10}
    assert why(incident(45, 51, 1.8), known) == ""
    assert why(incident(49, 51, 0.6), known) == "a habit of the job"


def test_a_habit_ends_when_its_steps_are_usual_again() -> None:
    known = job(steady(60, dict.fromkeys(range(9, 60, 10), 6.0)))
    assert known.habits
    remember(known, {step: (step - 59) * STEP_NS + known.seen_ns for step in range(60, 1_200)})
    assert known.habits == []


@pytest.mark.parametrize(
    "slow", [np.random.default_rng(5).choice(200, 12, replace=False).tolist(), [*range(150, 190)]]
)
def test_slow_steps_at_random_or_in_a_row_are_no_habit(slow: list[int]) -> None:
    assert job(steady(200, dict.fromkeys(slow, 1.0))).habits == []


def test_a_job_that_stops_is_worth_an_alert_after_three_steps_and_longer_than_its_pauses() -> None:
    hang = incident(60, 60, 0.0, cause="hang", start_ns=60 * STEP_NS, end_ns=62 * STEP_NS)
    assert "hiccup" in why(replace(hang, seen_ns=hang.end_ns), job(steady(60, {})))
    long = replace(hang, end_ns=64 * STEP_NS, seen_ns=64 * STEP_NS)
    assert why(long, job(steady(60, {}))) == ""
    saves = job(steady(60, dict.fromkeys(range(9, 60, 10), 20.0)))
    assert "hiccup" in why(long, saves)


def test_how_a_job_is_built_is_no_news_unless_it_changes() -> None:
    known = job(steady(60, dict.fromkeys(range(30, 60), 1.0)))
    assert "built" in why(incident(0, 59, 30.0, cause="uneven_stage"), known)
    assert why(incident(30, 59, 30.0, cause="uneven_stage"), known) == ""


@pytest.mark.parametrize(
    ("steps", "cost_s", "expected"),
    [(10, 20.0, "warning"), (100, 200.0, "critical"), (100, 8.0, "info"), (4, 15.9, "warning")],
)
def test_severity_is_by_the_rate_of_cost_and_its_sum(
    steps: int, cost_s: float, expected: str
) -> None:
    assert policy.severity(incident(0, steps - 1, cost_s)) == expected
