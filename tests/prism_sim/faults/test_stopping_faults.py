"""Faults that stop a job: who stops first, what the others do, and what comes afterwards."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from pydantic import ValidationError

from faulty import compute_ms, fault_of, run_with, step_ms
from prism_sim.faults import KINDS
from prism_sim.loading.checks import errors
from prism_sim.toolkit import Run, Scenario, find_scenario, load_scenario, simulate
from tiny import TINY_MODEL

STOPS = [
    {"kind": "hang", "job": "a", "rank": 9},
    {"kind": "crash", "job": "a", "rank": 9, "into_step_s": 1.0},
    {"kind": "stopped_nic", "job": "a", "rank": 9},
]
NAMES = [fault["kind"] for fault in STOPS]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return run_with(tmp_path_factory.mktemp("healthy"))


@pytest.mark.parametrize("fault", STOPS, ids=NAMES)
def test_all_traffic_stops_and_the_job_ends(healthy, tmp_path, fault):
    run = run_with(tmp_path, fault | {"from_step": 3, "noticed_after_s": 30})
    truth, steps = fault_of(run), run.truth("steps")
    assert steps["step"].max() <= 3, "no rank finishes a step that needs the others"
    assert (steps.query("step < 3").groupby("step").size() == 16).all(), "earlier ones are whole"
    flows = pd.read_parquet(run.flows)
    quiet_ns = truth["start_ns"] + 3e9 * step_ms(healthy).median() / 1e3
    assert (flows["start_ns"] < quiet_ns).all()
    assert len(flows.query(f"start_ns < {truth['start_ns']}")) > 0
    assert truth["end_ns"] - truth["start_ns"] == pytest.approx(30e9, abs=1.1e9)
    assert (truth["magnitude"], truth["rank"]) == (1, 9)


@pytest.mark.parametrize("fault", STOPS, ids=NAMES)
def test_it_has_to_begin(fault):
    with pytest.raises(ValidationError, match="no beginning; add from_step or from_s"):
        KINDS[fault["kind"]].model_validate(fault)


@pytest.mark.parametrize("fault", STOPS, ids=NAMES)
def test_the_job_restarts_and_does_all_its_steps(healthy, tmp_path, fault):
    stop = fault | {"from_step": 3, "noticed_after_s": 20, "down_s": 10}
    run = run_with(tmp_path, stop)
    steps = run.truth("steps")
    whole = steps.groupby("step").size() == 16
    assert whole.sum() == 8, "as many whole steps as without the fault"
    last = steps["step"].max()
    later = steps.query(f"step > {last - 3}")
    assert later["start_ns"].min() > fault_of(run)["start_ns"] + 30e9
    took = step_ms(run)
    assert took[last] == pytest.approx(step_ms(healthy)[7], rel=0.01)


ONE_RING = {
    "cluster": {"servers": 8, "gpus_per_server": 1, "nics_per_server": 1}, "pp": 1, "zero_stage": 0,
    "micro_batches": 1, "mfu": 0.01, "overlap_gradients": False,
}  # fmt: skip
"""Eight ranks, each in a server of its own, with one all-reduce a step."""


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("noticed_after_s", [2, 30])
def test_the_ring_sends_until_it_lacks_the_rank_that_stopped(tmp_path, kind, noticed_after_s):
    """The hop after that rank sends one chunk, the next two; none ends or begins at the rank."""
    stop = {"kind": kind, "job": "a", "rank": 5, "from_step": 3}
    stop |= {"noticed_after_s": noticed_after_s, "down_s": 1}
    run = run_with(tmp_path, stop, **ONE_RING)
    usual, sent = sent_in_three_steps_and_after(run)
    ring = [address_of(run, 5)]
    after = dict(usual.index.to_list())
    while len(ring) < 8:
        ring.append(after[ring[-1]])
    one_chunk = usual.iloc[0] / (2 * 7)  # an all-reduce of eight
    expected = {hop: (number + 1) * one_chunk for number, hop in enumerate(pairwise(ring[1:]))}
    assert sent.to_dict() == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("kind", NAMES)
def test_collectives_of_processes_that_are_gone_send_nothing(tmp_path, kind):
    """Gradients in several buckets, of which most wait when the NIC stops and works again."""
    stop = {"kind": kind, "job": "a", "rank": 5, "from_step": 3, "noticed_after_s": 30, "down_s": 5}
    job = ONE_RING | {"overlap_gradients": True, "micro_batches": 2}
    healthy = pd.read_parquet(run_with(tmp_path / "healthy", **job).flows)
    run = run_with(tmp_path / "stopped", stop, **job)
    flows, began_ns = pd.read_parquet(run.flows), fault_of(run)["start_ns"]
    again = flows[flows["start_ns"] > began_ns + 20e9]
    steps = run.truth("steps").query(f"start_ns > {began_ns + 20e9}")["step"].nunique()
    assert again["bytes"].sum() == healthy["bytes"].sum() * steps / 8


@pytest.mark.parametrize("kind", ["hang", "crash"])
def test_a_socket_library_sends_segments_until_it_lacks_the_rank(tmp_path, kind):
    """Nothing reaches the rank or leaves it, but requests to send and answers."""
    stop = {"kind": kind, "job": "a", "rank": 5, "from_step": 3, "noticed_after_s": 30}
    run = run_with(tmp_path, stop, library={"control_bytes": 48}, **ONE_RING)
    _, sent = sent_in_three_steps_and_after(run)
    rank = address_of(run, 5)
    own = [rank in pair for pair in sent.index]
    assert (sent[own] < 1_000).all()
    data = sent[[not one for one in own]]
    assert (data > 100_000).sum() == 6  # the hops between the seven others


def test_a_request_to_send_to_the_rank_that_stopped_is_written(tmp_path):
    """A socket library asks first. Rank 1 stops in its first pass; rank 0 asks in vain."""
    job = ONE_RING | {"dp": 1, "pp": 2, "micro_batches": 2, "library": {"control_bytes": 48}}
    healthy = run_with(tmp_path / "healthy", **job)
    middle_s = step_ms(healthy)[2] / 1e3 / 6  # of the second pass of nine in a row
    stop = {"kind": "crash", "job": "a", "rank": 1, "from_step": 3, "into_step_s": middle_s}
    run = run_with(tmp_path / "stopped", stop | {"noticed_after_s": 30}, **job)
    usual, sent = sent_in_three_steps_and_after(run)
    pair = (address_of(run, 0), address_of(run, 1))
    assert list(sent.index) == [pair]
    answers = 4 * 48  # to two gradients, and requests of two activations
    assert sent[pair] == pytest.approx((usual[pair] - answers) / 2 + 2 * 48, rel=1e-6)


def sent_in_three_steps_and_after(run):
    """Bytes between each two addresses: in a step, and after the fault began."""
    flows = pd.read_parquet(run.flows)
    began_ns = fault_of(run)["start_ns"]
    flows = flows[flows["start_ns"] < began_ns + 2e9]  # before the job restarts
    late = flows["start_ns"] > began_ns
    every = flows.groupby(["src", "dst", late])["bytes"].sum()
    return every.xs(False, level=2) / 3, every.xs(True, level=2)


def address_of(run, rank):
    ranks = run.truth("ranks")
    return ranks[ranks["rank"] == rank]["address"].iloc[0]


def test_a_hanging_rank_is_the_first_that_computes_no_more(tmp_path):
    run = run_with(tmp_path, {**STOPS[0], "from_step": 3, "noticed_after_s": 30})
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(["fwd", "bwd"])]
    last = spans.groupby("rank")["end_ns"].max()
    assert last.idxmin() == 9
    assert compute_ms(run)[3].isna()[9], "it computes nothing in the step"


def test_a_crash_is_added_to_planned_restarts(tmp_path):
    """The crash in step 2, then the planned failure, which keeps its own step."""
    restart = {"step": 5, "rank": 0, "noticed_after_s": 5, "down_s": 5}
    crash = {**STOPS[1], "from_step": 2, "noticed_after_s": 7, "down_s": 3}
    run = run_with(tmp_path, crash, restarts=[restart])
    steps = run.truth("steps").groupby("step").agg({"start_ns": "min", "rank": "size"})
    assert (steps["rank"] == 16).sum() == 8
    gaps = steps["start_ns"].diff() / 1e9
    assert (gaps > 9).sum() == 2


def test_another_job_continues(tmp_path):
    jobs = [
        {"name": name, "model": TINY_MODEL, "dp": 2, "pp": 2, "micro_batches": 2, "steps": 5,
         "mfu": 0.01, "placement": "packed"}
        for name in ("a", "b")
    ]  # fmt: skip
    cluster = {"servers": 8, "gpus_per_server": 1, "nics_per_server": 1}
    ends = {}
    for name, faults in (
        ("healthy", []),
        (
            "hanging",
            [{"kind": "hang", "job": "a", "rank": 0, "from_step": 2, "noticed_after_s": 60}],
        ),
    ):
        scenario = Scenario.model_validate({"cluster": cluster, "jobs": jobs, "faults": faults})
        run = Run(tmp_path / name)
        simulate(scenario, run)
        ends[name] = run.truth("steps").groupby(["job", "step"])["end_ns"].max()
    assert ends["hanging"]["b"].equals(ends["healthy"]["b"])
    assert list(ends["hanging"]["a"].index) == [0, 1]


def test_a_window_has_no_end():
    for kind in NAMES:
        place = {"job": "a", "rank": 0}
        with pytest.raises(ValidationError, match="ends when the job restarts"):
            KINDS[kind].model_validate({**place, "from_step": 1, "to_step": 2})


def test_a_job_of_a_measured_timeline_is_refused():
    scenario = load_scenario(find_scenario("workloads/import-timeline"), {})
    job = scenario.jobs[0].name
    fault = KINDS["hang"].model_validate({"job": job, "rank": 0, "from_step": 0})
    found = errors(scenario.model_copy(update={"faults": (fault,)}))
    assert any("follows a trace" in remark.what for remark in found)
