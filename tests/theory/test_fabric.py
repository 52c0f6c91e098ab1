"""The fabric against max-min fairness, token buckets and SimGrid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_bench import Bench
from prism_sim.training.collectives.segmented import follow
from reference_maxmin import rates


def test_one_flow_takes_size_over_rate_plus_latency():
    b = Bench(50.0, 50.0)
    b.flow("a", [0, 1], size=1_000_000, latency=2_000)
    assert b.run() == [(1_000_000 // 50 + 2_000, "a")]


def test_a_flow_gets_the_capacity_that_another_one_leaves():
    b = Bench(10.0)
    b.flow("long", [0], size=2_000)
    b.flow("short", [0], size=500, at=100)
    # 100 ns alone (1,000 bytes), 100 ns shared (500 each), 50 ns alone (500).
    assert b.run() == [(200, "short"), (250, "long")]


def test_capacity_changes_act_at_once():
    b = Bench(10.0)
    b.flow("a", [0], size=1_000)
    b.set_capacity(0, 0.0, at=50)
    b.set_capacity(0, 5.0, at=80)
    # 500 bytes by 50 ns, a standstill until 80 ns, 500 bytes at 5 a ns.
    assert b.run() == [(180, "a")]


def test_a_coupled_entity_takes_its_weight_of_a_link_and_moves_at_one_pace():
    b = Bench(12.0, 3.0)
    b.flow("ring", [0, 0, 1], size=300)  # two hops on link 0, one on the slow link 1
    b.flow("flow", [0], size=1_200)
    # The ring runs at 3 a hop because of link 1; it takes 6 of link 0; the flow gets 6.
    assert b.run() == [(100, "ring"), (150, "flow")]  # 600 by 100 ns, then 600 at 12


def test_an_empty_flow_ends_at_once_and_disturbs_no_other():
    b = Bench(10.0)
    b.flow("a", [0], size=1_000)
    b.flow("nothing", [0], size=0, at=50, latency=3)
    assert b.run() == [(53, "nothing"), (100, "a")]


def test_places_and_batches_grow_when_many_flows_start_at_once():
    b = Bench(*[1.0] * 3_000)
    for i in range(3_000):
        b.flow(str(i), [i], size=10 + i % 7)
    log = b.run()
    assert sorted(log) == sorted((10 + i % 7, str(i)) for i in range(3_000))


CAPACITY = st.integers(1, 400).map(float)


@st.composite
def instances(draw):
    """Random links, and entities with random weights and caps."""
    capacity = draw(st.lists(CAPACITY, min_size=1, max_size=8))
    link = st.integers(0, len(capacity) - 1)
    use = st.dictionaries(link, st.integers(1, 5).map(float), min_size=1, max_size=5)
    uses = draw(st.lists(use, min_size=1, max_size=14))
    cap = st.one_of(st.just(float("inf")), st.integers(1, 100).map(float))
    return capacity, uses, draw(st.lists(cap, min_size=len(uses), max_size=len(uses)))


@settings(max_examples=150)
@given(instances())
def test_rates_agree_with_textbook_progressive_filling(instance):
    capacity, uses, caps = instance
    b = Bench(*capacity)
    names = [
        b.flow(str(i), list(use), 10**9, cap=caps[i], weights=list(use.values()))
        for i, use in enumerate(uses)
    ]
    b.env.run(until=1)
    active = b.fabric.active()
    by_template = dict(zip(active["template"].tolist(), active["rate"].tolist(), strict=True))
    ours = [by_template[name] for name in names]
    expected = [float(rate) for rate in rates(capacity, uses, caps)]
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


@settings(max_examples=60)
@given(instances(), st.randoms(use_true_random=False))
def test_after_any_history_rates_are_as_if_solved_afresh(instance, random):
    """Arrivals and departures re-solve only a component; the whole must still be right."""
    capacity, uses, caps = instance
    b = Bench(*capacity)
    templates = {}
    for i, use in enumerate(uses):
        at, size = random.randrange(50), random.randrange(1, 2_000)
        name = b.flow(str(i), list(use), size, at, cap=caps[i], weights=list(use.values()))
        templates[name] = (use, caps[i])
    b.env.run(until=random.randrange(1, 200))
    active = b.fabric.active()
    alive = [templates[t] for t in active["template"].tolist()]
    expected = rates(capacity, [use for use, _ in alive], [cap for _, cap in alive])
    np.testing.assert_allclose(active["rate"], [float(r) for r in expected], rtol=1e-9)


@settings(max_examples=60)
@given(instances(), st.randoms(use_true_random=False))
def test_every_byte_arrives_and_no_flow_beats_its_links(instance, random):
    capacity, uses, caps = instance
    b = Bench(*capacity)
    sizes, starts = {}, {}
    for i, use in enumerate(uses):
        starts[str(i)], sizes[str(i)] = random.randrange(50), random.randrange(1, 2_000)
        b.flow(str(i), list(use), sizes[str(i)], starts[str(i)], cap=caps[i],
               weights=list(use.values()))  # fmt: skip
    ended = {name: at for at, name in b.run()}
    assert ended.keys() == sizes.keys()
    for i, use in enumerate(uses):
        name = str(i)
        best = min([caps[i], *(capacity[link] / weight for link, weight in use.items())])
        assert ended[name] - starts[name] >= sizes[name] / best - 1e-6


def bench(*buckets: float) -> Bench:
    """Links of one byte per nanosecond, with buckets of these sizes."""
    made = Bench(*(1.0 for _ in buckets))
    made.fabric.net.link["bucket_bytes"] = made.fabric.net.link["tokens"] = buckets
    return made


def test_a_burst_passes_at_once_and_the_rest_at_the_rate():
    b = bench(300)
    b.flow("long", [0], 1000)
    assert b.run() == [(700, "long")]


def test_a_message_within_the_burst_takes_no_time():
    b = bench(300)
    b.flow("short", [0], 300, at=10)
    assert b.run() == [(10, "short")]


def test_the_bucket_fills_only_while_the_link_is_idle():
    """It is empty at 700, has 100 bytes at 800, and cannot hold more than 300."""
    b = bench(300)
    b.flow("first", [0], 1000)
    b.flow("soon", [0], 500, at=800)
    b.flow("late", [0], 500, at=9000)
    assert b.run() == [(700, "first"), (1200, "soon"), (9200, "late")]


def test_a_flow_that_joins_a_busy_link_finds_the_bucket_empty():
    """From 100 on both have half of the rate."""
    b = bench(300)
    b.flow("one", [0], 1000)
    b.flow("two", [0], 300, at=100)
    assert b.run() == [(700, "two"), (1000, "one")]


def test_a_slower_flow_leaves_tokens_for_the_next():
    """The first one takes half of the rate, so 200 ns refill 100 bytes."""
    b = bench(300)
    b.flow("slow", [0], 1000, cap=0.5)
    b.flow("next", [0], 100, at=200)
    assert b.run() == [(200, "next"), (1400, "slow")]


def test_the_smallest_bucket_of_a_path_decides():
    b = bench(300, 100)
    b.flow("both", [0, 1], 1000)
    b.flow("after", [0], 300, at=900)  # 200 tokens are left in the first bucket
    assert b.run() == [(900, "both"), (1000, "after")]


flows = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 2000)), min_size=1, max_size=8)


@given(flows, st.integers(0, 500))
def test_a_bucket_saves_at_most_its_size_in_a_busy_period(sent, size):
    """The link ends its work earlier than without a bucket, by at most the bucket's time."""
    ends = []
    for bucket in (0, size):
        b = bench(bucket)
        for number, (at, length) in enumerate(sent):
            b.flow(str(number), [0], length, at=at)
        ends.append(max(at for at, _ in b.run()))
    plain, bursty = ends
    assert plain - size - len(sent) <= bursty <= plain + len(sent)


@pytest.mark.parametrize(("burst_ns", "ends"), [(0.0, [10, 20, 33, 43]), (3.0, [10, 20, 30, 40])])
def test_a_ring_makes_up_for_the_silence_between_its_rounds(burst_ns, ends):
    """Two segments a round, and 3 ns of silence between the rounds."""
    handling = np.full((2, 4), 3.0)
    run = follow([0, 0], np.full(2, 10.0), np.zeros(2), handling, 2, burst_ns=burst_ns)
    assert run.end[0].tolist() == ends
