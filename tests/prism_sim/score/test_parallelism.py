"""Layout: sizes, groups as sets, pipelines in order. Three true DP groups, two pipelines."""

import pandas as pd


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
