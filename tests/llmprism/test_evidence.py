"""Evidence in words: known figures as phrases in a fixed order, others by their names."""

from llmprism.evidence import numbers


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
