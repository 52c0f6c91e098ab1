"""Jobs, kinds of pairs, and layouts: found, wrong, missing, or shared."""

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


ALL_BYTES = 4 * 4000 + 4 * 500 + 2 * 1000


def relabel(kind, **where):
    def change(pairs):
        hit = (pairs["src"] == where["src"]) & (pairs["dst"] == where["dst"])
        return pairs.assign(**{where.get("column", "kind"): pairs["kind"].mask(hit, kind)})

    return change


def test_one_swapped_kind_of_ten_costs_a_tenth(world):
    world.change("pairs", relabel("pp", src="a0", dst="a1"))
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 0.9
    assert pairs["accuracy_unrefined"] == 1.0
    assert pairs["accuracy_bytes"] == 1 - 4000 / ALL_BYTES
    assert pairs["confusion"] == {"dp": {"dp": 5, "pp": 1}, "pp": {"pp": 4}}


def test_pairs_that_refinement_corrected_are_wrong_only_without_it(world):
    world.change("pairs", relabel("pp", src="a0", dst="a1", column="kind_unrefined"))
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 1.0
    assert pairs["accuracy_unrefined"] == 0.9
    assert pairs["confusion_unrefined"] == {"dp": {"dp": 5, "pp": 1}, "pp": {"pp": 4}}


def test_direction_matters(world):
    world.change("pairs", lambda pairs: pairs[pairs["src"] != "b1"])
    pairs = world.score()["pairs"]
    assert pairs["total"] == 10
    assert pairs["accuracy"] == 0.9
    assert pairs["missing"] == 1
    assert pairs["confusion"]["dp"] == {"dp": 5, "missing": 1}


def test_an_invented_pair_is_counted_apart(world):
    ghost = pd.DataFrame([{"job": "job0", "src": "a0", "dst": "b0", "kind": "dp"}])
    world.change("pairs", lambda pairs: pd.concat([pairs, ghost]))
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 1.0
    assert pairs["spurious"] == 1


def test_a_pair_without_a_kind_is_unknown(world):
    world.change("pairs", relabel(None, src="a0", dst="a2"))
    assert world.score()["pairs"]["confusion"]["pp"] == {"pp": 3, "unknown": 1}


def test_two_kinds_on_one_couple_of_nics_are_two_pairs(world):
    both = pd.DataFrame([{"job": "A", "src": "a0", "dst": "a1", "kind": "pp", "bytes": 2000}])
    world.truth["pairs"] = pd.concat([world.truth["pairs"], both])
    assert world.score()["pairs"]["accuracy"] == 10 / 11
    reverse = both.assign(job="job0", kind_unrefined="pp", confidence=0.1)
    world.change("pairs", lambda pairs: pd.concat([pairs, reverse]))
    assert world.score()["pairs"]["accuracy"] == 1.0


def test_a_truth_without_sizes_has_no_weighted_figure(world):
    world.truth["pairs"] = world.truth["pairs"].assign(bytes=None)
    pairs = world.score()["pairs"]
    assert pairs["accuracy"] == 1.0
    assert pairs["accuracy_bytes"] is None


def job(score, name):
    return next(job for job in score["parallelism"]["jobs"] if job["job"] == name)


def test_numbers_that_flows_do_not_show_are_not_claimed(world):
    a = job(world.score(), "A")
    assert a["true"] == {"dp": 2, "pp": 2, "tp": 1, "ep": 1, "cp": 1}
    assert a["inferred"] == {"dp": 2, "pp": 2, "tp": None, "ep": None, "cp": None}
    assert a["micro_batches"] == {"true": 1, "inferred": None}


def test_a_reversed_pipeline_has_the_right_members_in_the_wrong_order(world):
    def reverse(groups):
        hit = (groups["kind"] == "pp") & (groups["group"] == 0)
        return groups.assign(position=groups["position"].mask(hit, 1 - groups["position"]))

    world.change("groups", reverse)
    score = world.score()
    assert score["parallelism"]["groups_exact"] == 1.0
    assert score["parallelism"]["stage_order"] == 0.5
    assert job(score, "A")["stage_order_exact"] is False
    assert job(score, "B")["stage_order_exact"] is None


def test_a_pipeline_without_positions_is_not_recovered(world):
    world.change("groups", lambda groups: groups.assign(position=None))
    score = world.score()["parallelism"]
    assert score["groups_exact_pp"] == 1.0
    assert score["stage_order"] == 0.0


def test_two_groups_fused_are_two_groups_lost(world):
    def fuse(groups):
        hit = (groups["kind"] == "dp") & (groups["job"] == "job0")
        return groups.assign(group=groups["group"].mask(hit, 0))

    world.change("groups", fuse)
    score = world.score()
    assert score["parallelism"]["groups_exact_dp"] == 1 / 3
    assert score["parallelism"]["groups_exact"] == 3 / 5
    assert job(score, "A")["inferred"]["dp"] == 4
    assert job(score, "A")["sizes_exact"] is False
    assert score["parallelism"]["sizes_exact"] == 0.5


def test_without_pipelines_pp_is_one_and_without_groups_it_is_not_known(world):
    world.change("groups", lambda groups: groups[groups["kind"] != "pp"])
    world.change("groups", lambda groups: groups[groups["job"] != "job1"])
    score = world.score()
    assert job(score, "A")["inferred"]["pp"] == 1
    assert job(score, "B")["inferred"] == {
        "dp": None,
        "pp": None,
        "tp": None,
        "ep": None,
        "cp": None,
    }


def test_ranks_that_share_nics_share_groups(world):
    ranks = world.truth["ranks"]
    other = ranks[ranks["job"] == "A"].assign(rank=lambda r: r["rank"] + 4, tp=1)
    world.truth["ranks"] = pd.concat([ranks, other], ignore_index=True)
    score = world.score()
    assert job(score, "A")["groups"]["dp"] == {"true": 2, "exact": 2, "ordered": 0}
    assert job(score, "A")["true"]["tp"] == 2
    assert score["parallelism"]["groups_exact"] == 1.0


def test_an_axis_that_the_truth_does_not_know_is_undefined(world):
    world.truth["ranks"] = world.truth["ranks"].assign(ep=None, cp=None)
    score = world.score()
    assert job(score, "A")["true"]["ep"] is None
    assert score["parallelism"]["groups_exact"] == 1.0


def test_micro_batches_come_from_a_diagnosis_that_has_them(world):
    world.score()
    jobs = world.diagnosis["jobs"].assign(micro_batches=8)
    jobs.to_parquet(world.run.diagnosis_folder / "jobs.parquet")
    from prism_sim.toolkit import score_run

    assert job(score_run(world.run).to_json(), "B")["micro_batches"] == {"true": 1, "inferred": 8}


def test_micro_batches_of_an_evaluation_are_not_those_of_a_step(world):
    """An evaluation may have more of them than a step, as here two beside one."""
    spans = world.truth["spans"]
    passes = spans[(spans["job"] == "A") & (spans["kind"] == "fwd")]
    evaluation = [passes.assign(kind="eval_fwd", micro_batch=number) for number in (0, 1)]
    world.truth["spans"] = pd.concat([spans, *evaluation]).astype({"micro_batch": "Int64"})
    assert job(world.score(), "A")["micro_batches"]["true"] == 1


def test_micro_batches_are_those_of_most_steps(world):
    """A trainer may pass on one more in its first step, as some do to warm up."""
    spans = world.truth["spans"]
    first = (spans["job"] == "A") & (spans["kind"] == "fwd") & (spans["step"] == 0)
    more = spans[first].assign(micro_batch=1)
    world.truth["spans"] = pd.concat([spans, more]).astype({"micro_batch": "Int64"})
    assert job(world.score(), "A")["micro_batches"]["true"] == 1


def test_sizes_of_the_table_of_layouts_count_before_those_of_groups(world):
    """Ranks of a group in one server have no flows, so a group may be smaller than its axis."""
    sizes = {"dp": 4, "pp": 1, "tp": 2, "ep": -1, "cp": 1, "micro_batches": 6}
    unknown = {"schedule": "unknown", "sharding": "unknown", "period_ns": -1, "confidence": 0.5}
    table = pd.DataFrame([{"job": "job0", "evidence": "{}", **sizes, **unknown}])
    world.diagnosis["layouts"] = table
    a = job(world.score(), "A")
    assert a["inferred"] == {"dp": 4, "pp": 1, "tp": 2, "ep": None, "cp": 1}
    assert a["micro_batches"]["inferred"] == 6
    assert a["sizes_exact"] is False
