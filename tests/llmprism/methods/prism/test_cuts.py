"""Cuts that no single class of traffic can place: halves of a step, timers, meshes, silences."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from llmprism.io.topology import parse_topology
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.cycles.repairs import split
from llmprism.methods.prism.jobs.resolution import refusal
from llmprism.methods.prism.kinds.kinds import _meshes
from llmprism.methods.prism.layout.layout import _period_ns
from llmprism.methods.prism.tables.mirror import mirrored
from llmprism.methods.prism.timeline.pauses import find_pauses

MS = 1_000_000


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


def test_steps_that_a_slow_link_runs_together_are_parted_by_volume():
    starts = [step * 100 * MS + i * MS for step in range(12) for i in range(10)]
    starts[80:110] = [800 * MS + i * 10 * MS for i in range(30)]  # three steps without a silence
    start = np.array(starts, np.int64)
    size = np.full(start.size, 1000)
    traffic = Traffic(
        np.arange(start.size), start, start + 10 * MS, size,
        np.zeros(start.size, np.int64), np.ones(start.size, np.bool_),
    )  # fmt: skip
    best = max(divisions(traffic, 3), key=lambda one: one.quality)
    assert len(best) == 12
    assert best.cuts.tolist() == list(range(10, 120, 10))


def job_of(lengths_ms, period_ms, steps=20, rest_ms=10, beside=0):
    """A job whose one connection has records; the last ``beside`` of them are on another one."""
    end = (np.arange(steps) * period_ms * MS).astype(np.int64)
    rows = np.arange(len(lengths_ms))
    own = rows[: rows.size - beside]
    traffic = SimpleNamespace(row=own)
    one = SimpleNamespace(traffic=traffic, connections=np.array([0]))
    part = SimpleNamespace(
        component=SimpleNamespace(classes=[one]),
        stepping=SimpleNamespace(
            start_ns=end - (period_ms - rest_ms) * MS, end_ns=end, count=steps, quality=0.99
        ),
    )
    length_ns = np.array(lengths_ms) * MS
    end_ns = np.cumsum(length_ns + rest_ms * MS)
    flows = SimpleNamespace(
        lengths_ns=length_ns.__getitem__, start_ns=end_ns - length_ns, end_ns=end_ns, meta={}
    )
    connections = SimpleNamespace(
        size=np.full(rows.size, 1000), of_row=(rows >= own.size).astype(np.int32),
        src=np.array([0, 1]), dst=np.array([1, 0]), carries=np.array([True, True]),
        by=SimpleNamespace(rows=lambda number: rows[own.size :] if number else own),
    )  # fmt: skip
    return flows, connections, SimpleNamespace(endpoints=np.array([0, 1]), epochs=((part,),))


@pytest.mark.parametrize(
    ("lengths_ms", "period_ms", "meta", "refused"),
    [
        ([100] * 50, 1090, {}, False),  # short for a step
        ([990] * 50, 1090, {}, True),  # all a little shorter than a round timeout
        ([870] * 50, 1090, {}, False),  # long, but a silence ended each
        ([870] * 50, 1090, {"active_timeout_ns": "900000000"}, True),
        ([870] * 50, 1090, {"idle_gap_ns": "15000000000"}, True),
    ],
)
def test_steps_that_a_timer_made_are_refused(lengths_ms, period_ms, meta, refused):
    flows, connections, job = job_of(lengths_ms, period_ms)
    flows.meta = meta
    found = refusal(flows, connections, job)
    assert (found is not None) == refused


def test_records_as_long_as_a_timeout_that_silence_ended_are_no_work_of_a_timer():
    flows, connections, job = job_of([990] * 50, 1090, rest_ms=100)
    assert refusal(flows, connections, job) is None


@pytest.mark.parametrize(("rest_ms", "refused"), [(240, True), (1100, False)])
def test_parts_between_which_no_silence_ends_a_record_are_those_of_the_timer(rest_ms, refused):
    """Three records in each part of 3.2 s; the exporter waits for a silence of a second."""
    flows, connections, job = job_of([990] * 60, 3200, rest_ms=rest_ms)
    flows.meta = {"active_timeout_ns": "1000000000", "idle_gap_ns": "1000000000"}
    assert (refusal(flows, connections, job) is not None) == refused


def test_long_records_and_a_handful_of_parts_are_no_evidence():
    flows, connections, job = job_of([870] * 9, 1090, steps=3)
    assert refusal(flows, connections, job) is not None


@pytest.mark.parametrize("beside", [10, 80])
def test_records_of_several_steps_between_members_count_though_they_do_not_repeat(beside):
    flows, connections, job = job_of([10] * 20 + [3000] * beside, 100, beside=beside)
    assert (refusal(flows, connections, job) is not None) == (beside == 80)


def couples(*pairs, volume=None):
    """Connections both ways between each of ``pairs``, as one candidate for a pipeline."""
    src = np.array([a for a, b in pairs] + [b for a, b in pairs])
    dst = np.array([b for a, b in pairs] + [a for a, b in pairs])
    total = np.tile(volume or [1000] * len(pairs), 2)
    connections = SimpleNamespace(src=src, dst=dst, total_bytes=total)
    return connections, [SimpleNamespace(connections=np.arange(src.size))]


@pytest.mark.parametrize(
    ("arguments", "meshed"),
    [
        (couples((0, 1), (1, 2), (2, 3)), False),  # a chain
        (couples((0, 1)), False),
        (couples((0, 1), (1, 2), (2, 3), (3, 0)), True),  # a ring both ways
        (couples((0, 1), (1, 2), (2, 3), (3, 0), volume=[2, 2, 2, 1]), False),  # interleaved
        (couples((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)), True),
    ],
)
def test_a_mesh_of_equal_couples_is_no_pipeline(arguments, meshed):
    assert _meshes(*arguments, {0}) == ({0} if meshed else set())


def test_pairs_of_a_silent_leaf_are_those_of_the_other_nics():
    endpoints = [
        {"address": f"{server}.{nic}", "server": f"s{server}", "nic": nic}
        for server in range(3)
        for nic in range(3)
    ]
    topology = parse_topology({"endpoints": endpoints, "switches": [], "links": []})
    place = {(server, nic): 3 * server + nic for server in range(3) for nic in range(3)}
    seen = [(place[a, nic], place[b, nic], "dp") for a, b in ((0, 1), (1, 0)) for nic in (0, 1)]
    pairs = pd.DataFrame(seen, columns=["src", "dst", "kind"]).assign(confidence=0.9)
    found = mirrored(topology, [np.arange(6)], pairs)
    rows = {tuple(row) for row in found[["src", "dst", "kind"]].itertuples(index=False)}
    assert rows == {(place[0, 2], place[1, 2], "dp"), (place[1, 2], place[0, 2], "dp")}


def pauses(lead_ms, span_ms):
    """Pauses of one rank: traffic begins ``lead_ms`` after the last step, takes ``span_ms``."""
    lead, span = np.array(lead_ms, float) * MS, np.array(span_ms, float) * MS
    end = np.cumsum(lead + span)[None, :]
    return find_pauses(end - span, end, np.array([0])) / MS


def test_a_pause_delays_a_step_and_stretches_nothing():
    lead, span = [60] * 12, [40] * 12
    lead[6] = 160
    found = pauses(lead, span)
    assert found[6] == pytest.approx(100)
    assert np.isnan(np.delete(found, 6)).all()


def test_a_slow_step_is_no_pause():
    lead, span = [60] * 12, [40] * 12
    lead[6], span[6] = 120, 80
    assert np.isnan(pauses(lead, span)).all()


@pytest.mark.parametrize("every", [2, 3, 4])
def test_pauses_after_every_second_step_are_pauses(every):
    """Steps of 100 ms, with 60 ms until gradients begin; pauses of 300 ms delay them."""
    paused = np.arange(13) % every == 0
    paused[0] = False
    length = np.where(paused, 400.0, 100.0)
    end = np.cumsum(length)[None, :] * MS
    found = find_pauses(end - 40 * MS, end, np.array([0]))
    assert np.isfinite(found).tolist() == paused.tolist()
    assert np.allclose(found[paused], 300 * MS)


def test_the_period_is_finer_than_the_tick_of_the_clock():
    end = np.arange(1, 21) * 953 // 100 * 10 * MS
    moments = SimpleNamespace(end_ns=np.tile(end, (4, 1)))
    period = _period_ns(SimpleNamespace(moments={"dp": moments}))
    assert abs(period - 95.3 * MS) < 0.005 * 95.3 * MS


def test_a_last_record_of_more_than_a_step_is_not_cut():
    sizes = [1000.0] * 9 + [100.0, 1900.0]
    cuts = np.arange(1, 10)
    before = np.concatenate(([0.0], np.cumsum(sizes)))
    volumes = np.diff(before[np.concatenate(([0], cuts, [len(sizes)]))])
    gaps = np.arange(1, 11), np.full(10, 10)
    found = split(Division(cuts, volumes, 0.01, 1.0, 1.0, 2.0), before, gaps)
    assert found is None or found.cuts.max() < len(sizes)
