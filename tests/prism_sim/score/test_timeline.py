"""Timeline: steps that are split, merged, missed, shifted or stretched.

There are 60 true (rank, step) pairs; steps of A take 1000 us, and those of B 800 us. The errors are
in rank 0 of A, address a0.
"""

import numpy as np
import pandas as pd
import pytest

from prism_sim.toolkit import Run

US = 1_000


def at(frame, step=None, address="a0"):
    hit = frame["address"] == address
    return hit if step is None else hit & (frame["step"] == step)


def shifted(world, by_us, *columns):
    """Move times of the steps of a0."""

    def shift(steps):
        moved = steps[["start_ns", "end_ns", *columns]] + by_us * US
        return steps.assign(**moved.where(at(steps), steps))

    world.change("steps", shift)


def test_a_split_step_is_unmatched(world):
    def split(steps):
        one = steps[at(steps, 3)]
        middle = int(one["start_ns"].iloc[0]) + 490 * US
        halves = [one.assign(end_ns=middle), one.assign(start_ns=middle)]
        return pd.concat([steps[~at(steps, 3)], *halves])

    world.change("steps", split)
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 59 / 60
    assert timeline["steps_split"] == 1
    assert timeline["step_error_mean"] == 0.0
    assert timeline["step_error_all_mean"] == pytest.approx(1 / 60)
    assert timeline["step_error_all_bias"] == pytest.approx(-1 / 60)
    assert timeline["step_error_all_max"] == 1.0
    assert timeline["steps_unexplained"] == 2
    assert timeline["per_job"]["A"]["coverage"] == 39 / 40
    assert timeline["per_job"]["B"]["coverage"] == 1.0


def test_merged_steps_are_both_unmatched_even_if_one_is_nearly_all_of_it(world):
    """Step 3 is cut to 30 us in the truth: the merged step fits step 2 within 3 %."""
    cut = world.begin("A", 4) - 30 * US

    def shorten(steps, border, step):
        hit = (steps["job"] == "A") & (steps["rank"] == 0) & (steps["step"] == step)
        return steps.assign(**{border: steps[border].mask(hit, cut)})

    world.truth["steps"] = shorten(shorten(world.truth["steps"], "start_ns", 3), "end_ns", 2)

    def merge(steps):
        steps = steps[~at(steps, 3)]
        return steps.assign(end_ns=steps["end_ns"].mask(at(steps, 2), world.begin("A", 4)))

    world.change("steps", merge)
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 58 / 60
    assert timeline["steps_merged"] == 2
    assert timeline["steps_unexplained"] == 1
    assert timeline["step_error_all_mean"] == pytest.approx(2 / 60)


def test_a_missed_step_is_unmatched(world):
    world.change("steps", lambda steps: steps[~at(steps, 9)])
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 59 / 60
    assert timeline["steps_missed"] == 1
    assert timeline["step_error_all_mean"] == pytest.approx(1 / 60)


def test_a_shift_moves_borders_and_not_durations(world):
    shifted(world, 100, "dp_end_ns")
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 1.0
    assert timeline["step_error_max"] == 0.0
    assert timeline["dp_end_error_max"] == 0.0
    assert timeline["boundary_abs_error_ns_mean"] == pytest.approx(100 * US * 10 / 60)
    assert timeline["boundary_abs_error_ns_max"] == 100 * US
    assert timeline["boundary_bias_ns"] == pytest.approx(100 * US * 10 / 60)
    assert timeline["start_boundary_bias_ns"] == pytest.approx(100 * US * 10 / 60)


def test_half_is_not_more_than_half(world):
    """Steps moved by exactly half a step lie half in one true step and half in the next."""
    shifted(world, 500)
    assert world.score()["timeline"]["steps_missed"] == 10


def test_longer_and_shorter_cancel_in_the_bias_only(world):
    def stretch(steps):
        end = steps["end_ns"]
        end = end.mask(at(steps, 2), end + 50 * US).mask(at(steps, 6), end - 50 * US)
        return steps.assign(end_ns=end)

    world.change("steps", stretch)
    timeline = world.score()["timeline"]
    assert timeline["step_error_mean"] == pytest.approx(2 * 0.05 / 60)
    assert timeline["step_error_max"] == pytest.approx(0.05)
    assert timeline["step_error_bias"] == pytest.approx(0.0, abs=1e-15)
    assert timeline["step_error_p50"] == 0.0
    assert timeline["boundary_abs_error_ns_max"] == 50 * US


def test_percentiles_are_those_of_all_samples(world):
    """Errors of 0.001 ... 0.010 on the ten steps of a0, nothing elsewhere."""
    world.change(
        "steps",
        lambda steps: steps.assign(
            end_ns=steps["end_ns"] + at(steps).astype(int) * (steps["step"] + 1) * US
        ),
    )
    timeline = world.score()["timeline"]
    expected = np.sort(np.append(np.zeros(50), np.arange(1, 11) / 1000))
    assert timeline["step_error_p95"] == pytest.approx(np.percentile(expected, 95))
    assert timeline["step_error_p99"] == pytest.approx(np.percentile(expected, 99))


def test_a_late_end_of_dp_counts_in_the_two_periods_it_borders(world):
    """9 periods of 1000 us a rank of A, 9 of 800 us a rank of B: 54 in all."""
    world.change(
        "steps",
        lambda steps: steps.assign(
            dp_end_ns=steps["dp_end_ns"].mask(at(steps, 5), steps["dp_end_ns"] + 20 * US)
        ),
    )
    timeline = world.score()["timeline"]
    assert timeline["dp_end_error_mean"] == pytest.approx(2 * 0.02 / 54)
    assert timeline["dp_end_error_bias"] == pytest.approx(0.0, abs=1e-12)
    assert timeline["step_error_max"] == 0.0


def test_an_unmatched_step_breaks_two_periods(world):
    world.change("steps", lambda steps: steps[~at(steps, 5)])
    timeline = world.score()["timeline"]
    assert timeline["dp_end_coverage"] == 52 / 54
    assert timeline["dp_end_error_mean"] == 0.0
    assert timeline["dp_end_error_all_mean"] == pytest.approx(2 / 54)


def test_a_step_without_dp_records_affects_two_periods(world):
    def unsee(steps):
        ends = steps["dp_end_ns"].astype("Int64")  # a null would make it float, good to 256 ns
        return steps.assign(dp_end_ns=ends.mask(at(steps, 5)))

    world.change("steps", unsee)
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 1.0
    assert timeline["dp_end_coverage"] == 52 / 54
    assert timeline["dp_end_error_max"] == 0.0


def test_time_of_each_kind_is_scored_apart(world):
    """The 180 us of DP in one step are diagnosed as 90 us; PP and compute are right."""

    def halve(spans):
        hit = at(spans, 4) & (spans["kind"] == "dp")
        return spans.assign(end_ns=spans["end_ns"].mask(hit, spans["end_ns"] - 90 * US))

    world.change("spans", halve)
    timeline = world.score()["timeline"]
    assert timeline["dp_time_error_max"] == pytest.approx(0.5)
    assert timeline["dp_time_error_mean"] == pytest.approx(0.5 / 60)
    assert timeline["dp_time_error_bias"] == pytest.approx(-0.5 / 60)
    assert timeline["pp_time_error_max"] == timeline["compute_time_error_max"] == 0.0


def test_spans_that_overlap_are_not_counted_twice(world):
    world.change("spans", lambda spans: pd.concat([spans, spans[spans["kind"] == "dp"]]))
    assert world.score()["timeline"]["dp_time_error_max"] == 0.0


def test_time_of_a_kind_without_true_spans_is_in_nanoseconds(world):
    """Job B has no PP: its 20 steps have no relative error, and 1 of them has 40 us of it."""
    start = world.begin("B", 2)
    ghost = {"job": "job1", "address": "b0", "step": 2, "kind": "pp"}
    ghost |= {"start_ns": start, "end_ns": start + 40 * US}
    world.change("spans", lambda spans: pd.concat([spans, pd.DataFrame([ghost])]))
    timeline = world.score()["timeline"]
    assert timeline["pp_time_error_max"] == 0.0
    assert timeline["pp_time_phantom_ns_mean"] == pytest.approx(40 * US / 20)


def test_a_kind_that_the_truth_does_not_record_is_undefined(world):
    spans = world.truth["spans"]
    world.truth["spans"] = spans[spans["kind"] != "allreduce"]
    timeline = world.score()["timeline"]
    assert timeline["dp_time_error_mean"] is timeline["dp_time_error_all_mean"] is None
    assert timeline["dp_end_error_mean"] is timeline["dp_end_coverage"] is None
    assert timeline["pp_time_error_mean"] == 0.0


def test_ranks_that_share_a_nic_are_each_compared_with_it(world):
    ranks, steps = world.truth["ranks"], world.truth["steps"]
    other = ranks[ranks["job"] == "B"].assign(rank=lambda r: r["rank"] + 2, tp=1)
    world.truth["ranks"] = pd.concat([ranks, other])
    more = steps[steps["job"] == "B"].assign(rank=lambda s: s["rank"] + 2)
    world.truth["steps"] = pd.concat([steps, more])
    world.change("steps", lambda steps: steps[~at(steps, 0, "b0")])
    timeline = world.score()["timeline"]
    assert timeline["steps_true"] == 80
    assert timeline["steps_missed"] == 2  # both ranks of b0
    assert timeline["step_error_max"] == 0.0


def test_a_nic_of_two_jobs_is_followed_in_the_right_one(world):
    """Rank 0 of B moves to the NIC of A's rank 0; the diagnosis has both jobs there."""
    swap = {"b0": "a0"}
    world.truth["ranks"] = world.truth["ranks"].replace({"address": swap})
    for name in ("jobs", "steps", "spans"):
        world.change(name, lambda frame: frame.replace({"address": swap}))
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 1.0
    assert timeline["step_error_max"] == timeline["compute_time_error_max"] == 0.0


def test_an_absurd_time_does_not_disturb_other_records(world):
    stray = {"job": "job0", "address": "a0", "step": 99, "start_ns": 0, "end_ns": 10}
    stray |= {"dp_end_ns": 5, "confidence": 0.0}
    world.change("steps", lambda steps: pd.concat([steps, pd.DataFrame([stray])]))
    timeline = world.score()["timeline"]
    assert timeline["coverage"] == 1.0
    assert timeline["steps_unexplained"] == 1


def test_missing_truth_is_a_user_error(tmp_path):
    from prism_common.errors import UserError
    from prism_sim.toolkit import score_run

    with pytest.raises(UserError, match=r"no ranks\.parquet here"):
        score_run(Run(tmp_path))
