"""Jobs: wrong members, jobs merged, jobs invented."""

import pandas as pd


def test_one_wrong_member_spoils_that_job_only(world):
    world.change("jobs", lambda jobs: jobs[jobs["address"] != "a3"])
    assert world.score()["jobs"] == {"true": 2, "found": 2, "exact": 1, "accuracy": 0.5}


def test_two_jobs_found_as_one_are_none_right(world):
    world.change("jobs", lambda jobs: jobs.assign(job="job0"))
    assert world.score()["jobs"] == {"true": 2, "found": 1, "exact": 0, "accuracy": 0.0}


def test_an_invented_job_costs_accuracy(world):
    extra = pd.DataFrame({"job": ["ghost"], "address": ["c0"]})
    world.change("jobs", lambda jobs: pd.concat([jobs, extra]))
    assert world.score()["jobs"] == {"true": 2, "found": 3, "exact": 2, "accuracy": 2 / 3}


def test_finding_the_same_job_twice_counts_once(world):
    twin = pd.DataFrame({"job": "twin", "address": ["b0", "b1"]})
    world.change("jobs", lambda jobs: pd.concat([jobs, twin]))
    assert world.score()["jobs"] == {"true": 2, "found": 3, "exact": 2, "accuracy": 2 / 3}


def test_a_job_and_its_part_are_scored_against_the_one_that_fits_best(world):
    shred = pd.DataFrame({"job": "shred", "address": ["a3"]})
    world.change("jobs", lambda jobs: pd.concat([shred, jobs[jobs["address"] != "a3"]]))
    found = {job["job"]: job["found"] for job in world.score()["parallelism"]["jobs"]}
    assert found == {"A": "job0", "B": "job1"}


def test_several_ranks_on_one_nic_are_one_member(world):
    ranks = world.truth["ranks"]
    other = ranks[ranks["job"] == "B"].assign(rank=lambda r: r["rank"] + 2, tp=1)
    world.truth["ranks"] = pd.concat([ranks, other])
    assert world.score()["jobs"]["exact"] == 2
