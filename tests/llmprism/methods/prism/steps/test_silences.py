"""Which longer silences are updates between micro-batches, and which are pauses between steps."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.proposals import Proposals
from llmprism.methods.prism.steps.silences import follow_at_once, updates_between
from rings import lines

PART_NS, MESSAGES = 1_000_000, ((0, 90_000, 500), (100_000, 300_000, 3000), (310_000, 790_000, 900))
PARTS = 32


def traffic_with(longer_ns: int, seed: int) -> Traffic:
    """Parts of three messages; the silence after every second one is longer."""
    rng = np.random.default_rng(seed)
    rests = 200_000 + rng.normal(0, 25_000, PARTS)
    rests[1::2] += longer_ns
    begins = np.concatenate(([0], np.cumsum(790_000 + rests)[:-1]))
    start, end, size = (
        np.array([begin * (i < 2) + one[i] for begin in begins for one in MESSAGES], np.int64)
        for i in range(3)
    )
    rows, couple = np.arange(size.size), np.zeros(size.size, np.int64)
    return Traffic(rows, start, end, size, couple, np.ones(size.size, np.bool_))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("longer_ns", "expected"),
    [(70_000, True), (400_000, False), (0, False)],  # an update; a pause; steps without either
)
def test_a_brief_silence_after_every_second_part_is_an_update(longer_ns, expected, seed):
    traffic = traffic_with(longer_ns, seed)
    parts = divisions(traffic)
    fine = next(one for one in parts if len(one) == PARTS)
    # without the cuts inside steps, as a threshold on silences finds them where none overlaps
    found = [fine, _every_second(fine)]
    classes: Any = (SimpleNamespace(traffic=traffic, connections=np.zeros(1), bytes=1.0),)
    assert are_pieces(Proposals(classes, [found]), PARTS, PARTS // 2) == expected


@pytest.mark.parametrize(("first", "expected"), [(1, True), (0, False)])
def test_parts_of_one_class_tell_which_silences_of_another_are_updates(first, expected):
    """The other class has no equal coarser parts of its own: it may rest as long elsewhere."""
    traffic = traffic_with(70_000, 0)
    fine = next(one for one in divisions(traffic) if len(one) == PARTS)
    shown = replace(fine, cuts=fine.cuts[first::2], volumes=fine.volumes[: PARTS // 2], clarity=1.0)
    classes: Any = (SimpleNamespace(traffic=traffic, connections=np.zeros(1), bytes=1.0),) * 2
    found = [[fine, shown], [fine]]
    assert updates_between(Proposals(classes, found), PARTS, PARTS // 2) == expected


def _every_second(fine: Any) -> Any:
    volumes = fine.volumes.reshape(-1, 2).sum(axis=1)
    return replace(fine, cuts=fine.cuts[1::2], volumes=volumes, clarity=1.0)


def regular(rest_ns: int, longer: float, every: int) -> Traffic:
    """Parts of six messages in 600 us, each silence ``rest_ns``; every so many are ``longer``."""
    begin, rows = 0, []
    for part in range(PARTS):
        rows += [(begin + 100_000 * i, begin + 100_000 * i + 99_000, 500) for i in range(6)]
        begin += 600_000 + int(rest_ns * (longer if part % every == every - 1 else 1))
    start, end, size = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    numbers, couple = np.arange(size.size), np.zeros(size.size, np.int64)
    return Traffic(numbers, start, end, size, couple, np.ones(size.size, np.bool_))


@pytest.mark.parametrize(
    ("rest_ns", "longer", "single", "expected"),
    [
        (300_000, 1.6, False, True),  # a forward pass; an evaluation of two more would be longer
        (300_000, 2.5, False, False),
        (300_000, 1.6, True, False),  # no shards inside a server that could be updated
        (900_000, 1.6, False, False),  # passes of several micro-batches that send nothing
    ],
)
def test_parts_that_accumulate_gradients_in_silence_are_steps(rest_ns, longer, single, expected):
    traffic = regular(rest_ns, longer, every=4)
    found = divisions(traffic)
    classes: Any = (SimpleNamespace(traffic=traffic, connections=np.zeros(1), bytes=1.0),)
    assert are_pieces(Proposals(classes, [found], single), PARTS, PARTS // 4) == expected


@pytest.mark.parametrize(("later_ns", "expected"), [(200_000, True), (0, False)])
def test_classes_that_gather_and_reduce_in_all_parts_accumulate_nothing(later_ns, expected):
    """One direction of a ring gathers parameters in both passes, the other reduces gradients."""
    gathers = regular(300_000, 1.25, every=2)
    reductions = replace(
        gathers, start_ns=gathers.start_ns + later_ns, end_ns=gathers.end_ns + later_ns
    )
    both = (gathers, reductions)
    classes: Any = tuple(
        SimpleNamespace(traffic=one, connections=np.zeros(1), bytes=1.0) for one in both
    )
    found = [divisions(one) for one in both]
    assert are_pieces(Proposals(classes, found, single=True), PARTS, PARTS // 2) == expected


@pytest.mark.parametrize(("gathered_ns", "expected"), [(600_000, False), (300_000, True)])
def test_halves_of_steps_take_different_times(gathered_ns, expected):
    """An evaluation after every second step, or gathers that are faster than reductions."""
    traffic = regular(300_000, 3.0, every=2)
    second = (np.arange(len(traffic)) // 6) % 2 == 1
    first = traffic.start_ns[::6].repeat(6)
    start, end = (
        np.where(second, first + (times - first) * gathered_ns // 600_000, times)
        for times in (traffic.start_ns, traffic.end_ns)
    )
    traffic = replace(traffic, start_ns=start, end_ns=end)
    found = divisions(traffic)
    classes: Any = (SimpleNamespace(traffic=traffic, connections=np.zeros(1), bytes=1.0),)
    assert are_pieces(Proposals(classes, [found]), PARTS, PARTS // 2) == expected


@pytest.mark.parametrize(("rest_ms", "follow"), [(0.0, True), (1.0, False)])
def test_only_buckets_follow_each_other_at_once(rest_ms, follow):
    """Each bucket is two messages; four buckets make a step."""
    each = 2 + rest_ms
    starts = [40 * step + each * part + half for step in range(10) for part in range(4)
              for half in (0, 1)]  # fmt: skip
    fine, coarse = (
        Division(np.arange(few, 80, few), np.full(80 // few, 1000.0 * few), 0.01, 1.0, 1.0, 2.0)
        for few in (2, 8)
    )
    assert follow_at_once(lines(starts), fine, coarse) == follow
