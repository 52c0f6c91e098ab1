"""The front on records of jobs whose steps, bytes and layout follow a rule."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from llmprism.io.flows import place
from llmprism.io.loading import adopt
from llmprism.io.topology import parse_topology
from llmprism.methods.prism.front import diagnose

MS = 1_000_000
EPOCH_NS = 1_700_000_000_000_000_000


def record(at_ms, for_ms, src, dst, size):
    """One record; NICs are numbers, each in a server of its own."""
    start = EPOCH_NS + round(at_ms * MS)
    return start, start + round(for_ms * MS), f"10.0.{src}.1", f"10.0.{dst}.1", size


def ring(members, begins_ms, size=60_000_000, for_ms=20.0):
    """A ring of ``members`` that reduces gradients in the last part of each step."""
    after = [*members[1:], members[0]]
    hops = list(zip(members, after, strict=True))
    return [record(at + 60, for_ms, a, b, size) for at in begins_ms for a, b in hops]


def pipeline(stages, begins_ms, micro_batches=4, size=8_000_000):
    """All forward passes, then all backward passes; a pass takes 4 and 8 ms, a message 1 ms."""
    rows, last = [], len(stages) - 1
    for at in begins_ms:
        for batch in range(micro_batches):
            rows += [
                record(at + 4 * (batch + s + 1) + s, 1, stages[s], stages[s + 1], size)
                for s in range(last)
            ]
        turn = at + 4 * (micro_batches + last) + last
        for batch in range(micro_batches):
            rows += [
                record(turn + 8 * (batch + last - s + 1), 1, stages[s + 1], stages[s], size)
                for s in range(last)
            ]
    return rows


def tables_of(rows, servers=16):
    """The tables of the front."""
    columns = ["start_ns", "end_ns", "src", "dst", "bytes"]
    ends = [{"address": f"10.0.{i}.1", "server": f"s{i}", "nic": 0} for i in range(servers)]
    topology = parse_topology({"endpoints": ends, "switches": [], "links": []})
    frame = pd.DataFrame(rows, columns=columns).sort_values("start_ns")
    flows, _ = place(adopt(frame), topology)
    return diagnose(flows, topology, lambda *_: None)


def every(period_ms, steps, pause_after=None, pause_ms=0.0):
    """Begins of steps [ms], a little irregular, with a pause after every ``pause_after``-th."""
    numbers = np.arange(steps)
    begins = numbers * period_ms + np.random.default_rng(steps).uniform(-1, 1, steps)
    return begins + (numbers // pause_after * pause_ms if pause_after else 0.0)


@pytest.mark.parametrize("members", [6, 8, 12])
def test_a_ring_shows_its_members_its_steps_and_their_ends(members):
    begins = every(100, 12)
    tables = tables_of(ring(range(members), begins, size=1_000_003 * (members - 1)))
    assert tables["layouts"][["dp", "pp"]].to_numpy().tolist() == [[members, 1]]
    assert set(tables["pairs"]["kind"]) == {"dp"}
    for _, own in tables["steps"].groupby("address"):
        assert own["dp_end_ns"].tolist() == [
            EPOCH_NS + round((at + 60) * MS) + 20 * MS for at in begins
        ]


def test_pauses_after_every_fourth_step_are_no_steps():
    tables = tables_of(ring(range(6), every(100, 24, pause_after=4, pause_ms=250)))
    assert tables["steps"].groupby("address").size().tolist() == [24] * 6


def test_a_pipeline_shows_its_stages_in_order_and_what_each_pair_carries():
    begins = every(140, 15)
    rows = [*pipeline([2, 0, 1], begins), *pipeline([5, 3, 4], begins)]
    gradients = ((0, 3), (1, 4), (2, 5), (3, 0), (4, 1), (5, 2))
    rows += [record(at + 100, 20, a, b, 30_000_000) for at in begins for a, b in gradients]
    tables = tables_of(rows)
    assert tables["jobs"]["job"].nunique() == 1
    assert tables["layouts"][["dp", "pp"]].to_numpy().tolist() == [[2, 3]]
    chains = tables["groups"].query("kind == 'pp'").sort_values("position")
    assert sorted(chains.groupby("group")["address"].agg(tuple)) == [
        ("10.0.2.1", "10.0.0.1", "10.0.1.1"),
        ("10.0.5.1", "10.0.3.1", "10.0.4.1"),
    ]
    assert tables["pairs"]["kind"].value_counts().to_dict() == {"pp": 8, "dp": 6}
    assert tables["steps"].groupby("address").size().tolist() == [15] * 6


def test_other_traffic_between_two_jobs_does_not_join_them():
    rows = [*ring(range(6), every(100, 20)), *ring(range(6, 12), every(137, 14))]
    rows += [record(at, 3, 2, 9, 400_000) for at in (333, 901, 1555)]
    rows += [record(at, 3, 9, 2, 400_000) for at in (431, 1203)]
    tables = tables_of(rows)
    members = tables["jobs"].groupby("job")["address"].agg(len)
    assert sorted(members) == [6, 6]
    stray = tables["pairs"].query("src == '10.0.2.1' and dst == '10.0.9.1'")
    assert stray["kind"].tolist() == ["other"]


def test_records_that_last_longer_than_a_step_are_refused():
    rows = [
        record(at, 290 + 7 * (a % 3), a, (a + 1) % 6, 10**8 * (1 + a % 2) + int(at) * 10**5)
        for at in every(310, 4)
        for a in range(6)
    ]
    (layout,) = tables_of(rows)["layouts"].to_dict("records")
    assert layout["dp"] == -1
    assert json.loads(layout["evidence"])["unknown"]


def test_no_training_traffic_gives_no_jobs():
    rows = [record(at, 1, 0, 1, 2_000) for at in range(0, 1000, 100)]
    assert not len(tables_of(rows).get("jobs", []))
