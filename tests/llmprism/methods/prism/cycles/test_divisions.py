"""Traffic divided into equal parts: a repetition is found for any length of a step."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.cycles.parts import regularity

MS = 1_000_000


def traffic(records: list[tuple[int, int, int]]) -> Traffic:
    """Records (start, end, bytes) of one connection."""
    start, end, size = (np.array(column, np.int64) for column in zip(*records, strict=True))
    rows = np.arange(len(records))
    couple = np.zeros(len(records), np.int64)
    return Traffic(rows, start, end, size, couple, np.ones(len(records), np.bool_))


def steps(lengths: list[int], sizes: list[int]) -> list[tuple[int, int, int]]:
    """Steps of different length, each with the same records ten apart at its end."""
    records, begin = [], 0
    for length in lengths:
        at = begin + length - 12 * len(sizes)
        for size in sizes:
            records.append((at, at + 2, size))
            at += 12
        begin += length
    return records


def best(found):
    return max(found, key=lambda division: division.weight)


def test_steps_of_unequal_length_are_parts_of_equal_volume():
    division = best(divisions(traffic(steps([500, 900, 400, 2000, 600, 450], [7, 30, 11]))))
    assert len(division) == 6
    assert division.volumes.tolist() == [48.0] * 6
    assert division.quality > 0.98


def test_a_long_silence_inside_a_step_does_not_split_it():
    records = steps([500] * 8, [7, 30, 11])
    slow = [(s - 400, e - 400, b) if i == 9 else (s, e, b) for i, (s, e, b) in enumerate(records)]
    division = best(divisions(traffic(sorted(slow))))
    assert len(division) == 8
    assert set(division.volumes.tolist()) == {48.0}


def test_a_rank_that_is_stopped_after_its_first_bytes_does_not_split_a_step():
    whole = [(500 * i + 400, 500 * i + 490, 10_000) for i in range(24)]
    after = [(s + 900, e + 900, b) for s, e, b in whole[13:]]
    stopped = [(6400, 6410, 700), (7310, 7390, 9300)]
    division = best(divisions(traffic([*whole[:12], *stopped, *after])))
    assert set(division.volumes.tolist()) == {10_000.0}


def test_a_rank_that_is_late_in_a_third_of_the_steps_splits_none():
    """Its server's hops begin late, the others' send their first chunks: 10 of 28 steps are two."""
    records, at = [], 0
    for i in range(28):
        late = 10 <= i < 20
        records += [(at, at + 10, 436)] if late else []
        at += 400 if late else 0
        records += [(at, at + 90, 5170 if late else 5606)]
        at += 200
    division = best(divisions(traffic(records)))
    assert division.volumes.tolist() == [5606.0] * 28


def test_two_servers_whose_ring_rests_for_a_late_rank_have_steps():
    """A reduction and a gather in ten records each; the hop back sends its first chunk in time."""
    records, at = [], 0
    for i in range(28):
        late = 400 if 10 <= i < 20 else 0
        records += [(at, at + 10, 2400, 0)] if late else []
        at += late
        for bucket in range(10):
            begin, size = at + 10 * bucket + 2 * (bucket > 4), 4000 if bucket > 4 else 8000
            first = 2400 if late and not bucket else 0
            records += [(begin, begin + 10, size, 1), (begin, begin + 10, size - first, 0)]
        at += 500
    start, end, size, forth = np.array(records, np.int64).T
    rows = np.arange(start.size)
    lines = Traffic(rows, start, end, size, np.zeros(rows.size, np.int64), forth > 0)
    division = best(divisions(lines))
    assert division.volumes.tolist() == [120_000.0] * 28


def test_steps_that_a_slow_link_joins_are_parted_before_their_last_record():
    apart = [(500 * i, 500 * i + 100, 1000) for i in range(12)]
    joined = [(6000, 6400, 996), (6000, 6400, 996), (6000, 6400, 1009)]
    found = divisions(traffic(apart + joined))
    assert all(division.cuts.max() < 15 for division in found)


def test_two_steps_without_a_long_silence_part_at_the_longest_one_if_records_were_lost():
    """Most updates take 100, one takes 30, and each step is silent for 40 in its middle."""
    rng = np.random.default_rng(3)
    records, begins, at = [], [], 0
    for step in range(12):
        begins.append(at)
        for message in range(200):
            records.append((at, at + 8, 10))
            at += 50 if message == 100 else 10
        at += 30 if step == 5 else 100
    kept = rng.random(len(records)) > 0.01
    kept[1010:1090:8] = False  # more of one step, so that its half is not its volume
    lossy = traffic([one for one, keep in zip(records, kept, strict=True) if keep])
    division = best([one for one in divisions(lossy) if len(one) == 12])
    found = lossy.start_ns[division.firsts]
    assert (np.abs(found - begins) < 25).all()


def test_traffic_without_repetition_has_no_regular_division():
    rng = np.random.default_rng(3)
    start = np.sort(rng.integers(0, 100_000, 60))
    size = rng.lognormal(8, 2, 60).astype(int) + 1
    records = [(int(s), int(s) + 1, int(b)) for s, b in zip(start, size, strict=True)]
    found = divisions(traffic(records), fewest=3)
    assert max(division.quality for division in found) < 0.5


@pytest.mark.parametrize("lost", [0.02, 0.05])
def test_lost_records_widen_the_tolerance_and_keep_the_parts(lost):
    rng = np.random.default_rng(5)
    records = steps([900] * 30, [4 + i % 7 for i in range(40)])
    kept = [record for record in records if rng.random() > lost]
    division = best(divisions(traffic(kept)))
    assert len(division) == 30
    assert 0.01 <= division.tolerance <= 0.25


def test_parts_cut_by_the_window_do_not_change_the_rest():
    tolerance, parts, share = regularity(np.array([10.0, 48, 48, 48, 48, 20]))
    assert (tolerance, parts, share) == (0.01, 1.0, 1.0)


def halves(steps: int) -> Traffic:
    """Four messages forth, a pause, four back, and a pause: GPipe between two stages."""
    starts, forth = [], []
    for step in range(steps):
        for half in range(2):
            starts += [step * 200 * MS + half * 100 * MS + i * MS for i in range(4)]
            forth += [half == 0] * 4
    start = np.array(starts, np.int64)
    count = start.size
    # the last message back is lost, so that the balance of both directions shows no step
    keep = np.arange(count) != count - 1
    return Traffic(
        np.arange(count)[keep], start[keep], start[keep] + MS // 2,
        np.full(count, 1000)[keep], np.zeros(count, np.int64)[keep], np.array(forth)[keep],
    )  # fmt: skip


def test_a_half_that_moves_one_way_only_is_no_step():
    found = {len(one): one for one in divisions(halves(10), 3)}
    assert found[20].two_sided == 0
    assert found[20].quality == 0
