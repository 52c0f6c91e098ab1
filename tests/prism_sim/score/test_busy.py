"""Busy time: unions of intervals, and when communication can move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.page.reading import complete
from prism_sim.run_folder import TRUTH
from prism_sim.score.busy import pack, union_length
from prism_sim.toolkit import ScoreTables, load_tables, true_work

US = 1_000

interval = st.tuples(st.integers(0, 4), st.integers(-30, 30), st.integers(-5, 20))


@given(st.lists(interval, max_size=40))
def test_the_union_equals_a_count_of_cells(intervals):
    cells = [set() for _ in range(5)]
    for group, start, length in intervals:
        cells[group].update(range(start, start + length))
    columns = np.array(intervals, np.int64).reshape(-1, 3).T
    length = union_length(columns[0], columns[1], columns[1] + columns[2], 5)
    assert list(length) == [len(part) for part in cells]


def test_the_union_bears_times_since_the_epoch():
    start = np.array([1_795_225_000_000_000_000, 1_795_225_000_000_000_003, 5])
    assert list(union_length(np.array([0, 0, 1]), start, start + 4, 2)) == [7, 4]


@given(
    st.lists(
        st.tuples(st.integers(-5, 5), st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1
    )
)
def test_packing_keeps_rows_separate(rows):
    columns = np.array(rows, np.int64).T
    keys = pack(*columns)
    assert len({(*row, key) for row, key in zip(rows, keys, strict=True)}) == len(set(rows))
    assert len(set(keys)) == len(set(rows))


def moving(world, work, row):
    """Intervals [us] of one kind of work of one rank in step 0."""
    world.score()
    spans = true_work(load_tables(world.run))[work]
    spans = spans[(spans["rank_row"] == row) & (spans["step"] == 0)]
    begin = world.begin("A", 0)
    borders = spans.sort_values("start_ns")[["start_ns", "end_ns"]]
    return [tuple((pair - begin) // US) for pair in borders.to_numpy()]


def test_a_message_moves_while_both_ends_are_in_it(world):
    assert moving(world, "pp", 0) == [(100, 150), (450, 500)]
    assert moving(world, "pp", 2) == [(100, 150), (450, 500)]


def test_a_sender_that_waits_long_after_the_arrival_is_not_busy(world):
    """As a real trainer's: the send is posted at 100 and waited for at the end of the step."""
    spans = world.truth["spans"]
    world.truth["spans"] = spans.assign(
        end_ns=spans["end_ns"].mask(spans["kind"] == "send_act", spans["end_ns"] + 600 * US)
    )
    assert moving(world, "pp", 0) == [(100, 150), (450, 500)]


def test_a_collective_moves_when_its_last_member_has_joined(world):
    """Replica 1 joins at 720 and ends at its own time."""
    assert moving(world, "dp", 0) == [(720, 900)]
    spans = world.truth["spans"]
    late = (spans["kind"] == "allreduce") & (spans["rank"] == 0) & (spans["job"] == "A")
    world.truth["spans"] = spans.assign(end_ns=spans["end_ns"] + late * 7 * US)
    assert moving(world, "dp", 0) == [(720, 907)]
    assert moving(world, "dp", 1) == [(720, 900)]


def test_a_span_without_a_partner_counts_unchanged(world):
    spans = world.truth["spans"]
    world.truth["spans"] = spans[spans["kind"] != "send_act"]
    assert moving(world, "pp", 2) == [(0, 150), (450, 500)]


def test_repeated_collectives_are_paired_in_their_order(world):
    """A second all-reduce at 905-915 (replica 0) and 910-915 (replica 1)."""
    spans = world.truth["spans"]
    again = spans[(spans["kind"] == "allreduce") & (spans["job"] == "A")]
    joined = 905 + 5 * again["rank"].isin([1, 3])
    start = again["step"].map(lambda step: world.begin("A", step))
    again = again.assign(start_ns=start + joined * US, end_ns=start + 915 * US)
    world.truth["spans"] = type(spans)(
        np.concatenate([again.to_numpy(object), spans.to_numpy(object)]), columns=spans.columns
    )
    assert moving(world, "dp", 0) == [(720, 900), (910, 915)]


def test_replicas_that_share_experts_reduce_only_common_parameters(world):
    """Two expert-parallel ranks: one group for dense gradients, and one group per rank."""
    ranks = world.truth["ranks"]
    world.truth["ranks"] = ranks.assign(ep=ranks["dp"], dp=0)
    together = moving(world, "dp", 0)
    spans = world.truth["spans"]
    kind = spans["kind"].replace("allreduce", "expert_all_reduce")
    world.truth["spans"] = spans.assign(kind=kind)
    alone = moving(world, "dp", 0)
    assert together == [(720, 900)]
    assert len(alone) == 1
    assert alone[0][0] < 720


@pytest.mark.parametrize("row", [0, 3])
def test_compute_is_as_the_profiler_shows_it(world, row):
    assert sum(b - a for a, b in moving(world, "compute", row)) == 400


def busy_by_rank(run, kind, *, named=True):
    """Busy time [ns] of each rank with true spans of one kind, over the whole run."""
    truth = {name: complete(run.truth(name), schema) for name, schema in TRUTH.items()}
    spans = truth["spans"]
    spans = spans[spans["kind"] == kind]
    if not named:
        spans = spans.assign(communication=None)
    work = true_work(ScoreTables(truth | {"spans": spans}, {}, {}, {}))["dp"]
    columns = (work[name].to_numpy() for name in ("rank_row", "start_ns", "end_ns"))
    return list(union_length(*columns, len(truth["ranks"])))


def since_the_last_joined(run, kind):
    """The same, rank by rank and interval by interval, from the groups that the layout gives."""
    spans = run.truth("spans")
    spans = spans[spans["kind"] == kind].sort_values(["rank", "start_ns"])
    turn = spans.groupby(["rank", "step"]).cumcount()
    shards = spans["rank"] // 2  # ranks 0 and 1 shard one copy of the state, 2 and 3 another
    joined = spans.groupby([shards, "step", turn])["start_ns"].transform("max")
    busy = []
    for rank in range(4):
        mine = spans[spans["rank"] == rank]
        total, reached = 0, 0
        for start, end in sorted(zip(joined[mine.index], mine["end_ns"], strict=True)):
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
        busy.append(total)
    return busy


@pytest.mark.parametrize("kind", ["reduce_scatter", "all_gather"])
def test_a_slow_rank_delays_only_the_sharding_group_that_it_is_in(simulated, kind):
    """Two groups of two shards. Without the named communication the groups look like one."""
    slow = {"kind": "slow_gpu", "job": "a", "rank": 0, "factor": 0.97, "from_step": 0, "to_step": 2}
    run = simulated(dp=4, tp=1, zero_stage=3, hybrid_shards=2, faults=[slow])
    true = since_the_last_joined(run, kind)
    assert busy_by_rank(run, kind) == true
    guessed = busy_by_rank(run, kind, named=False)
    assert sum(guessed[2:]) < sum(true[2:])
