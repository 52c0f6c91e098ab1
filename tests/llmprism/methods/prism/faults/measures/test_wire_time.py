"""Which part of the network the time that is lost on the wire belongs to."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.bundles import bundles_of
from llmprism.methods.prism.faults.measures.last_ends import Ends
from llmprism.methods.prism.faults.measures.rates import Rates
from llmprism.methods.prism.faults.measures.series import judged
from llmprism.methods.prism.faults.measures.wire_time import (
    explained,
    heaviest,
    lost_in,
    windows_of,
)

STEPS = 20
SLOW = slice(8, 15)


def rates_of(connections, groups=None, seed=0):
    """Connections (source, destination, what each loses in a slow step), with some noise.

    All paces are healthy: where one message of many stalls, their median does not show it.
    """
    stream = np.random.default_rng(seed)
    lost = stream.normal(0, 1e-4, (len(connections), STEPS))
    for row, (_, _, more) in enumerate(connections):
        lost[row, SLOW] += more
    return Rates(
        kind=["pp"] * len(connections),
        group=np.array(groups or [-1] * len(connections)),
        conversation=np.arange(len(connections)),
        crosses=[frozenset({a, b, f"{a}>out", f"{b}>in"}) for a, b, _ in connections],
        pace=judged(np.ones_like(lost), 0.1),
        busy=1 + 10 * lost,
        lost=lost,
        finest=np.zeros(len(connections)),
    )


def always(*_):
    """The job is slower in every stretch."""
    return True


def named_in(rates):
    (window,) = windows_of(rates, always)
    return window, [part.name for part in explained([lost_in(rates, *window)])]


STALLS = [("a", "b", 0.2), ("b", "a", 0.15), ("b", "c", 0.05), ("c", "d", 0.01), ("d", "a", 0.0)]


def test_stalls_are_found_where_no_pace_is_slow():
    window, parts = named_in(rates_of(STALLS))
    assert window == (SLOW.start, SLOW.stop - 1)
    assert parts[0] == "b"


def test_stalls_that_hit_another_connection_of_a_nic_in_each_step_are_one_stretch():
    rates = rates_of([("a", "b", 0.0), ("b", "c", 0.0), ("c", "d", 0.0), ("d", "a", 0.0)])
    for step in range(SLOW.start, SLOW.stop):
        rates.lost[step % 2, step] += 0.2
    window, parts = named_in(rates)
    assert window == (SLOW.start, SLOW.stop - 1)
    assert parts[0] == "b"


def test_a_stretch_in_which_the_job_is_slower_needs_an_explanation_first():
    """Transfers that took longer before the fault overlap with those that did in its first step."""
    weighed = [(-9.0, 0, 8), (-3.0, 8, 14)]
    assert heaviest(weighed, always) == [(0, 8)]
    assert heaviest(weighed, lambda first, _: first >= 8) == [(8, 14)]


def test_what_all_hops_of_a_ring_lose_is_waiting():
    """Records that bridge silences show every hop as long as the slowest one."""
    ring = [
        ("a", "b", 0.30),
        ("b", "c", 0.31),
        ("c", "d", 0.27),
        ("d", "e", 0.27),
        ("e", "a", 0.27),
    ]
    rates = rates_of(ring, groups=[0] * len(ring))
    assert named_in(rates)[1][0] == "b"


def test_what_only_one_direction_of_one_transfer_loses_is_of_either_end():
    rates = rates_of([("a", "b", 0.2), ("b", "a", 0.0), ("a", "c", 0.0), ("d", "b", 0.0)])
    parts = explained([lost_in(rates, 8, 14)])
    best = pytest.approx(parts[0].score, rel=0.01)
    assert {part.name for part in parts if part.score == best} == {"a>out", "b>in"}


def test_little_time_that_may_be_chance_is_not_lost():
    rates = rates_of([("a", "b", 0.0), ("b", "a", 0.0)])
    assert not lost_in(rates, 8, 14).share.any()
    assert windows_of(rates, always) == []


def test_time_lost_by_another_fault_is_not_what_a_step_usually_takes():
    """Of the other steps, nearly half were longer for another reason."""
    rates = rates_of([("a", "b", 0.1), ("c", "d", 0.0)])
    rates.lost[0, 15:] += 0.3
    rates.lost[0, :1] += 0.3
    lost = lost_in(rates, SLOW.start, SLOW.stop - 1)
    assert lost.share[0] == pytest.approx(0.1, abs=0.01)


def test_the_time_of_a_coarse_clock_is_no_loss():
    rates = rates_of([("a", "b", 0.0), ("b", "a", 0.0)])
    ticks = np.tile([0.0, 0.0, 0.02, 0.02, 0.02], STEPS // 5)  # healthy records round up or down
    rates.lost[0] = ticks
    coarse = Rates(**{**vars(rates), "finest": np.full(2, 0.01)})
    assert windows_of(coarse, always) == []


def rings_of_one_collective(lost: list[float]) -> Rates:
    """Two servers and a ring through each pair of NICs; all rings seem to go at one pace."""
    both = [(f"{a}{number}", f"{b}{number}", more)
            for number, more in enumerate(lost) for a, b in ("ab", "ba")]  # fmt: skip
    rates = rates_of(both, groups=[row // 2 for row in range(len(both))])
    crosses = [crossed | {"leaf"} for crossed in rates.crosses]
    slow = np.ones_like(rates.lost)
    slow[:, SLOW] = 3.0
    pace = judged(slow + 1e-4 * rates.lost, 0.1)
    none = np.zeros(len(both), np.int64)
    ends = Ends(none, none, np.zeros_like(rates.lost), 0.0)
    kinds = ["dp"] * len(both)
    return Rates(
        **{**vars(rates), "crosses": crosses, "pace": pace, "ends": ends, "kind": kinds,
           "group": np.arange(len(both)) // 2}
    )  # fmt: skip


def test_rings_of_a_collective_wait_for_the_slow_one():
    """The rings end together, and the wires of the others are idle meanwhile."""
    rates = rings_of_one_collective([0.2, 0.5, 0.2, 0.21])
    assert named_in(rates)[1][:2] == ["a1", "b1"]
    slow = [one for one in bundles_of(rates, SLOW.start, SLOW.stop - 1) if one.slow]
    assert [one.crosses >= {"a1", "b1"} for one in slow] == [True]


def test_a_ring_that_is_slow_but_less_than_another_one_is_no_evidence_of_health():
    """Its wires are busy for longer than in healthy steps, and those of an idle ring are not."""
    rates = rings_of_one_collective([0.5, 0.01, 0.2])
    bundles = bundles_of(rates, SLOW.start, SLOW.stop - 1)
    assert all("a0" in one.crosses for one in bundles if one.slow)
    seen = {name for one in bundles for name in ("a0", "a1", "a2") if name in one.crosses}
    assert seen == {"a0", "a1"}


def test_rings_that_lose_alike_are_all_slow():
    rates = rings_of_one_collective([0.5, 0.5, 0.49, 0.5])
    assert named_in(rates)[1][0] == "leaf"
    slow = [one for one in bundles_of(rates, SLOW.start, SLOW.stop - 1) if one.slow]
    assert len(slow) == 4


def rings_beside(busy: list[list[float]], pace: list[float]) -> Rates:
    """Rings of one collective: the time on the wire of each of their hops, and their paces."""
    hops = [(f"{ring}{hop}", f"{ring}{(hop + 1) % len(own)}", 0.0)
            for ring, own in enumerate(busy) for hop in range(len(own))]  # fmt: skip
    rates = rates_of(hops, groups=[ring for ring, own in enumerate(busy) for _ in own])
    slow, wires = np.ones_like(rates.lost), np.ones_like(rates.lost)
    slow[:, SLOW] = np.repeat(pace, [len(own) for own in busy])[:, None]
    wires[:, SLOW] = np.concatenate(busy)[:, None]
    family = np.zeros(len(hops), np.int64)
    return Rates(
        **{**vars(rates), "kind": ["dp"] * len(hops), "busy": wires, "lost": (wires - 1) / 10,
           "pace": judged(slow + 1e-4 * rates.lost, 0.1),
           "ends": Ends(family, rates.group, np.zeros_like(wires), 0.0)}
    )  # fmt: skip


@pytest.mark.parametrize(("first", "bundled"), [([7.7, 5.1, 5.1, 5.1], 4), ([5.1] * 4, 1)])
def test_hops_of_a_ring_that_never_rests_are_slow_each_where_another_ring_rests(first, bundled):
    """All hops cross one slow switch. Three of the first ring may wait for the fourth, too.

    If none of these rests, records may hide that in each ring all hops wait for one.
    """
    rates = rings_beside([first, [5.1] * 4], [max(first), 5.1])
    bundles = bundles_of(rates, SLOW.start, SLOW.stop - 1)
    assert all(one.slow for one in bundles)  # what may be slow is no evidence of health
    second = [one for one in bundles if any(name.startswith("1") for name in one.crosses)]
    assert len(second) == bundled


def test_steps_that_lose_far_less_than_the_others_do_not_belong_to_a_stretch():
    """One connection is so steady that a fiftieth of what the fault costs stands out."""
    rates = rates_of([("a", "b", 0.5), ("b", "c", 0.0)])
    rates.lost[0, SLOW.start - 4 : SLOW.start] += 0.012
    rates.lost[0, SLOW.stop : SLOW.stop + 1] += 0.012
    assert windows_of(rates, always) == [(SLOW.start, SLOW.stop - 1)]
