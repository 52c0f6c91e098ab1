"""Which connections count as slow, as healthy, or as neither."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.bundles import Bundle, bundles_of
from llmprism.methods.prism.faults.measures.wire_time import LostTime
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from paces import STEPS, rates_of

SLOW_NETWORK = importlib.import_module("llmprism.methods.prism.faults.causes.slow_network")


def test_a_connection_too_noisy_to_look_slow_is_no_evidence_of_health():
    bundles = bundles_of(rates_of([4.0, 1.0, 1.0], [0.05, 0.05, 2.0]), 6, 11)
    assert [sorted(one.crosses) for one in bundles] == [["nic0"], ["nic1"]]


def test_what_is_nearer_to_slow_than_to_healthy_clears_nothing():
    """Its pace is 2.5 times as long, and varies too much for single steps to stand out."""
    bundles = bundles_of(rates_of([4.5, 2.5, 1.2], [0.05, 0.4, 0.05]), 6, 11)
    assert [sorted(one.crosses) for one in bundles] == [["nic0"], ["nic2"]]


@pytest.mark.parametrize(
    ("kind", "wire", "healthy", "most"),
    [
        ("dp", 0.02, 1.0, 0.5),
        ("dp", 0.02, 0.2, 0.1),  # most steps are slow, and five times as long
        ("pp", 0.02, 1.0, 0.02),
        ("pp", np.nan, 1.0, 0.5),
    ],
)
def test_slow_transfers_delay_a_step_by_what_they_last_longer_at_most(kind, wire, healthy, most):
    bundles = [
        Bundle(kind, frozenset({"nic"}), True, 1.5), Bundle("dp", frozenset({"x"}), False, 1.0)
    ]  # fmt: skip
    rates = SimpleNamespace(crosses=[one.crosses for one in bundles])
    lost = LostTime(rates, np.zeros(2), np.array([wire, 0.9]), np.ones(2))
    assert SLOW_NETWORK._most_delayed(bundles, lost, "nic", healthy) == pytest.approx(most)


def test_where_no_part_is_named_nothing_limits_what_slow_messages_cost():
    """Nothing crosses a part without a name, and what crosses it lost nothing."""
    rates = SimpleNamespace(crosses=[frozenset({"nic"})])
    lost = LostTime(rates, np.zeros(1), np.array([0.02]), np.ones(1))
    slow = [Bundle("pp", frozenset({"nic"}), True, 1.5)]
    assert SLOW_NETWORK._most_delayed(slow, lost, "", 1.0) == pytest.approx(0.5)


def test_hops_of_a_ring_that_differ_by_less_than_their_noise_are_one_bundle():
    """The wires differ by 7 %, and that much they differ from step to step as well."""
    merged = rates_of([3.0] * 4, [0.05] * 4, busy=[3.0, 2.9, 2.8, 2.8], group=[0] * 4)
    (one,) = bundles_of(merged, 6, 11)
    assert len(one.crosses) == 4


def test_the_hop_of_a_ring_whose_wire_is_never_silent_is_the_slow_one():
    exact = rates_of([3.0] * 4, [0.002] * 4, busy=[3.0, 1.4, 1.3, 1.4], group=[0] * 4)
    assert [one.slow for one in bundles_of(exact, 6, 11)] == [True, False, False, False]


def test_hops_whose_paces_differ_by_their_noise_are_as_slow_as_the_slowest_one():
    """The pace of a hop that waits seems the slowest by a hundredth: its wire is not busy."""
    coarse = rates_of([3.0, 3.03, 3.0, 3.0], [0.02] * 4, busy=[3.0, 0.5, 1.0, 1.1], group=[0] * 4)
    assert [one.slow for one in bundles_of(coarse, 6, 11)] == [True, False, False, False]


def test_short_records_of_other_hops_do_not_hide_which_wire_is_busy():
    """By a coarse clock, what their short records take in healthy steps varies by a half."""
    noises = [0.01, 0.01, 0.5, 0.5, 0.5]
    short = rates_of([9.0, 9.0, 4.0, 4.0, 4.0], noises, [9.0, 9.0, 2.0, 2.0, 2.0], [0] * 5)
    assert [one.slow for one in bundles_of(short, 6, 11)][:2] == [True, True]
    assert not any(one.slow for one in bundles_of(short, 6, 11)[2:])


def test_hops_of_a_ring_beside_healthy_ones_are_slow_though_their_wires_differ():
    """A slow link, which two of five hops cross, is the reason of both."""
    ring = rates_of([4.0, 3.0, 1.0, 1.0, 1.0], [0.002] * 5, [3.0, 2.0, 1.0, 1.0, 1.0], [0] * 5)
    assert [one.slow for one in bundles_of(ring, 6, 11)] == [True, True, False, False, False]


@pytest.mark.parametrize(("steps", "found"), [((6, 7, 8), []), ((6, 6, 8), [(6, 8)])])
def test_what_is_slow_together_in_one_step_alone_is_no_stretch(monkeypatch, steps, found):
    """Two connections across a NIC, out from ``steps[0]`` and ``steps[1]`` on."""
    begin, other, last = steps
    rates = rates_of([3.0, 3.0], [0.05, 0.05])
    rates.crosses = [frozenset({"nic"})] * 2
    rates.pace.out[:] = False
    rates.pace.out[0, begin : last + (begin == other)] = True
    rates.pace.out[1, other : last + 1] = True
    rates.pace.lasting = rates.pace.out
    clock = np.arange(STEPS)
    job = SimpleNamespace(
        name="job-0", start_ns=clock, end_ns=clock + 1, duration_ns=np.ones(STEPS), period_ns=1.0,
        pipelines=SimpleNamespace(length=2),
    )  # fmt: skip

    def blamed(*given):
        facts = ("network", "slow_transfers", "slow_nic", "address", "nic", *given[3], 0.5, 0.9)
        return "nic", Suspect(job, *facts)

    monkeypatch.setattr(SLOW_NETWORK, "rates_of", lambda *_: rates)
    monkeypatch.setattr(SLOW_NETWORK, "_by_saving", lambda *_: False)
    monkeypatch.setattr(SLOW_NETWORK, "_windows", lambda *_: [(begin, last)])
    monkeypatch.setattr(SLOW_NETWORK, "by_pace", blamed)
    context = SimpleNamespace(jobs=[job], topology=SimpleNamespace(codes={}, endpoints=[]))
    suspects = SLOW_NETWORK.slow_network(context)
    assert [(one.first, one.last) for one in suspects] == found


@pytest.mark.parametrize(
    ("kind", "longer", "slow", "waits"),
    [
        ("switch", [9, 3, 14, 5, 8, 2], [4, 6, 8], True),
        ("link", [9, 3, 14, 5, 8, 2], [4, 6, 8], True),
        ("link", [9, 3, 14, 5, 8, 2], [4, 5, 6, 8, 9], False),  # it may lose packets in each step
        ("switch", [9, 3, 14, 5, 8, 2], [4, 5, 6, 8, 9], True),  # so many transfers differ less
        ("switch", [9.1, 9, 9, 9, 9, 8.9], [4, 6, 8], False),  # steps that are alike
        ("address", [9, 3, 14, 5, 8, 2], [4, 6, 8], False),  # the NIC of a rank that waits
    ],
)
def test_transfers_that_are_slow_in_unlike_steps_accuse_no_switch(kind, longer, slow, waits):
    """Steps 4 to 9 are ``longer``; transfers through the culprit are ``slow`` in some of them."""
    rates = rates_of([1.0, 1.0], [0.05, 0.05])
    rates.crosses = [frozenset({"part>down"}), frozenset({"other"})]
    rates.pace.out[0, slow] = True
    rates.pace.out[1] = True
    duration = 60 + np.sin(np.arange(STEPS)) * 0.1
    duration[4:10] += longer
    job = SimpleNamespace(duration_ns=duration * 1e6)
    one = Suspect(job, "network", "slow_transfers", "", kind, "part", 4, 9, 0.5, 0.9)
    assert SLOW_NETWORK._by_waits(rates, one) is waits


@pytest.mark.parametrize(
    ("culprit", "saves", "explained"),
    [
        ("leaf", {0: (4, 7), 1: (4, 7)}, True),
        ("leaf", {0: (4, 7)}, False),  # half of the NICs are no reason for all of them
        ("leaf", {0: (4, 6), 1: (4, 7)}, False),  # one has ended before
        ("leaf", {0: (0, STEPS), 1: (0, STEPS)}, False),  # ... as in all other steps
        ("a", {0: (4, 7)}, True),
        ("a", {1: (4, 7)}, False),
    ],
)
def test_a_checkpoint_explains_slow_transfers_of_the_nics_that_send_it(
    monkeypatch, culprit, saves, explained
):
    """Two NICs, ``a`` and ``b``, are slow in steps 4 to 6; ``saves`` has who sends when."""
    busy = np.zeros((2, STEPS), bool)
    for end, (first, after) in saves.items():
        busy[end, first:after] = True
    job = SimpleNamespace(count=STEPS, phases=SimpleNamespace(endpoints=np.arange(2)))
    context = SimpleNamespace(topology=SimpleNamespace(codes={"a": 0, "b": 1}))
    monkeypatch.setattr(SLOW_NETWORK, "saving", lambda *_: busy)
    kind = "switch" if culprit == "leaf" else "address"
    one = Suspect(job, "network", "slow_transfers", "", kind, culprit, 4, 6, 0.5, 0.9)
    assert SLOW_NETWORK._by_saving(context, one) is explained


@pytest.mark.parametrize(("waits", "number"), [([0, 1, 1, 0, 0], 2), ([0, 0, 0, 0, 0], None)])
def test_hops_of_the_same_ring_that_end_earlier_wait_for_the_part(monkeypatch, waits, number):
    """The first hop crosses the link; the fourth is of another ring, and the last one of none."""
    monkeypatch.setattr(SLOW_NETWORK, "waiting", lambda *_: np.array(waits, bool))
    monkeypatch.setattr(SLOW_NETWORK, "culprit_of", lambda _, name: ("link", name, "slow_link"))
    rates = SimpleNamespace(
        crosses=[frozenset(part) for part in ("l", "a", "b", "c", "l")],
        group=np.array([0, 0, 0, 1, -1]),
    )
    evidence = {"suspects": [{"name": "l"}, {"name": "a"}]}
    one = Suspect(None, "network", "", "", "link", "l", 4, 9, 0.5, 0.9, evidence)
    seen = SLOW_NETWORK._with_hops(None, rates, one)
    assert seen.evidence.get("waiting_hops") == number


@pytest.mark.parametrize(
    ("slow", "another", "sure"), [(4, False, 0.9), (20, False, 0.9 * 0.5**0.5), (20, True, 0.9)]
)
def test_a_late_rank_explains_as_well_that_most_transfers_of_one_job_last_longer(
    slow, another, sure
):
    """32 transfers of the job, and one of another job, which waits for none of its ranks."""
    share = np.array([0.1 * another])
    other = LostTime(SimpleNamespace(crosses=[frozenset({"leaf"})]), share, share, 1 + share)
    evidence = {"slow_bundles": slow, "bundles": 32, "suspects": [{"name": "leaf"}]}
    one = Suspect(
        None, "network", "slow_transfers", "", "switch", "leaf", 8, 15, 0.2, 0.9, evidence
    )
    assert SLOW_NETWORK._or_a_rank(one, [other]).confidence == pytest.approx(sure)


def test_hops_whose_wires_are_busy_for_half_as_long_are_no_evidence_of_health():
    """Two hops cross a slow link; what two more cross is shared with another one. The rest wait."""
    wires = [10.0, 10.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0]
    ring = rates_of([10.0] * 8, [0.002] * 8, wires, [0] * 8)
    seen = {min(one.crosses): one.slow for one in bundles_of(ring, 6, 11)}
    assert seen == {f"nic{i}": i < 2 for i in (0, 1, 4, 5, 6, 7)}


@pytest.mark.parametrize(("stages", "named"), [(2, {"b", "d", "s0", "s1"}), (1, set())])
def test_collectives_as_long_as_ever_are_those_of_ranks_that_nobody_waits_for(stages, named):
    """One of two NICs of the second server is slow, and one of the first has no collective.

    Without a pipeline, those of a late rank are as long as ever: it is the last to begin them.
    """
    rates = rates_of([5.0, 1.1, 4.0], [0.01] * 3)
    rates.kind = ["dp", "dp", "pp"]
    rates.crosses = [frozenset(ends) for ends in ({"a", "c", "leaf"}, {"b", "d"}, {"e", "c"})]
    endpoints = [SimpleNamespace(server=name) for name in ("s0", "s0", "s1", "s1", "s0")]
    topology = SimpleNamespace(codes=dict(zip("abcde", range(5), strict=True)), endpoints=endpoints)
    job = SimpleNamespace(duration_ns=np.ones(STEPS), pipelines=SimpleNamespace(length=stages))
    facts = ("slow_nic", "address", "c", 6, 11, 0.8, 0.5, {"pace_ratio": 5.0})
    one = Suspect(job, "network", "slow_transfers", *facts)
    context = SimpleNamespace(topology=topology)
    assert SLOW_NETWORK._with_others(context, rates, one).as_ever == named
