"""Measured timelines as compute times, and simulations compared with the measurement."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prism_sim.importers.timeline import MeasuredTimeline
from prism_sim.toolkit import Run, Scenario, load_scenario, simulate
from tiny import TINY_MODEL

PUBLIC = Path(__file__).resolve().parents[4] / "shared" / "data" / "public"
MEASURED = PUBLIC / "trace-ST.parquet"
needs_public = pytest.mark.skipif(
    not MEASURED.exists(), reason=f"the published timeline is not at {MEASURED}"
)
TRACE = {"kind": "timeline", "file": "steps.csv"}
JOB = {"model": TINY_MODEL, "overlap_gradients": False}


def rows(steps=2, stages=2, replicas=2, micro_batches=3, chunks=1):
    """Every pass has its own time [ms]: the digits are step, stage, replica, chunk, batch."""
    made = []
    for step in range(steps):
        for stage in range(stages):
            for replica in range(replicas):
                at = {"dp_rank": replica, "stage": stage, "step": step + 20}
                for mc in range(chunks):
                    for mb in range(micro_batches):
                        ms = int(f"1{step}{stage}{replica}{mc}{mb}") / 1000
                        for op, factor in (("forward-compute", 1), ("backward-compute", 2)):
                            made.append({**at, "optype": op, "duration": factor * ms / 1000,
                                         "mc": mc, "mb_id": mb})  # fmt: skip
                own = {**at, "mc": -1, "mb_id": -1}
                made.append({**own, "optype": "optimizer", "duration": 0.004})
                clip = 0.001 * (1 + stage)  # only the shortest is work
                made.append({**own, "optype": "optimizer-clip-main-grad", "duration": clip})
                made.append({**own, "optype": "forward-send", "duration": 9.0})
    return pd.DataFrame(made)


@pytest.fixture
def timeline(tmp_path):
    def write(frame=None, **sizes):
        frame = rows(**sizes) if frame is None else frame
        frame.sample(frac=1, random_state=1).to_csv(tmp_path / "steps.csv", index=False)

    return write


def test_passes_and_updates_take_their_measured_times(timeline, replayed):
    timeline()
    run = replayed(TRACE, **JOB)
    spans = run.truth("spans").merge(run.truth("ranks")[["rank", "dp", "pp"]], on="rank")
    spans["ns"] = spans["end_ns"] - spans["start_ns"]
    for kind, factor in (("fwd", 1), ("bwd", 2)):
        own = spans[spans["kind"] == kind]
        digits = 100000 + 10000 * own["step"] + 1000 * own["pp"] + 100 * own["dp"]
        expected = factor * (digits + own["micro_batch"]) * 1000
        assert (own["ns"] == expected).all()
        assert len(own) == 2 * 2 * 2 * 3
    assert set(spans.loc[spans["kind"] == "opt", "ns"]) == {5_000_000}


def test_chunks_have_times_of_their_own(timeline, replayed):
    timeline(chunks=2, micro_batches=2, replicas=1)
    run = replayed(TRACE, **JOB, schedule="interleaved")
    spans = run.truth("spans")
    own = spans[(spans["kind"] == "fwd") & (spans["rank"] == 1) & (spans["step"] == 1)]
    ns = (own["end_ns"] - own["start_ns"]).tolist()
    assert ns == [111000_000, 111001_000, 111010_000, 111011_000]


def test_values_missing_in_the_job_come_from_the_timeline(timeline, tmp_path):
    timeline(steps=3, micro_batches=4)
    path = tmp_path / "w.yaml"
    path.write_text(
        "cluster: {servers: 4}\n"
        "jobs: [{name: a, model: llama-7b, tp: 2, trace: {kind: timeline, file: steps.csv}}]\n"
    )
    job = load_scenario(path).jobs[0]
    assert (job.dp, job.pp, job.micro_batches, job.steps, job.chunks) == (2, 2, 4, 3, 1)
    resolved = load_scenario(path).model_dump(mode="json")
    assert Scenario.model_validate(resolved).model_dump(mode="json") == resolved


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"dp": 4}, "dp is 4, but the timeline was measured with 2"),
        ({"pp": 4}, "pp is 4, but the timeline was measured with 2"),
        ({"micro_batches": 8}, "micro_batches is 8, but the timeline was measured with 3"),
        ({"steps": 3}, "3 steps are requested, but the timeline has 2"),
        ({"schedule": "zb-h1"}, "does not separate the two halves of a backward pass"),
        ({"stage_factors": [1, 2]}, "stage_factors would change durations that were measured"),
    ],
)
def test_a_job_must_be_the_one_that_was_measured(timeline, refused, job, expected):
    timeline()
    assert any(expected in complaint for complaint in refused(TRACE, **JOB, **job))


def drop(frame, **where):
    keep = np.ones(len(frame), bool)
    for name, value in where.items():
        keep &= frame[name] == value
    return frame[~keep]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda f: f.drop(columns="mb_id"), "there is no column 'mb_id'"),
        (lambda f: f.assign(duration="long"), "column 'duration' holds no numbers"),
        (lambda f: f.assign(duration=-1.0), "the duration in row 0 is -1.0"),
        (lambda f: f.assign(stage=f["stage"] - 0.5), "it must be 0, 1, ..."),
        (lambda f: drop(f, optype="backward-compute"), "no operation 'backward-compute'"),
        (lambda f: drop(f, step=21, stage=1), "forward-compute exists for 6 of 8 ranks"),
        (lambda f: drop(f, step=20, mb_id=1, dp_rank=0), "2 x forward-compute in step 20, stage 0"),
        (lambda f: pd.concat([f, f[f["mb_id"] == 0]]), "occurs twice for one micro-batch"),
        (lambda f: f.assign(tp_rank=f["stage"]), "several tensor-parallel ranks"),
    ],
)  # fmt: skip
def test_a_timeline_with_holes_is_refused(timeline, refused, change, expected):
    timeline(change(rows()))
    complaints = refused(TRACE, **JOB)
    assert any(expected in complaint for complaint in complaints), complaints


def test_other_files_are_refused(tmp_path, refused):
    for content in (b"", b"PAR1 but no more", b"\x00\xff\x00", b"a,b\n1,2\n", b'"'):
        (tmp_path / "steps.csv").write_bytes(content)
        assert refused(TRACE, **JOB)
    assert "there is no such trace" in refused({**TRACE, "file": "gone.csv"}, **JOB)[0]


def test_a_timeline_has_no_sizes(timeline, refused):
    timeline()
    assert "jobs.0 needs the key 'model'" in refused(TRACE)[0]


# The published timeline of a job with one long last stage (ByteDance, StragglerAnalysis)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The measured operations, and a simulation of the same job with their compute times.

    There are no sizes in the trace: the model's are such that a message takes 0.34 ms, as the
    shortest sends of the trace do (0.35 ms).
    """
    folder = tmp_path_factory.mktemp("published")
    scenario = folder / "st.yaml"
    scenario.write_text(f"""
cluster: {{servers: 8, gpus_per_server: 1, nics_per_server: 1, fabric: {{kind: rail}}}}
jobs:
  - name: a
    model: {{layers: 8, hidden: 4096, heads: 32, vocab: 32000, sequence_length: 2048}}
    trace: {{kind: timeline, file: {MEASURED}}}
    overlap_gradients: false
    sync_embeddings: true
    gradient_norm: true
""")
    run = Run(folder / "run")
    simulate(load_scenario(scenario), run)
    return pd.read_parquet(MEASURED), run


def pipeline_s(begin, end, step):
    """From the first forward of a step to the end of its last backward."""
    return (end.groupby(step).max() - begin.groupby(step).min()).to_numpy()


@needs_public
def test_the_published_pipeline_takes_as_long_as_it_was_measured(published):
    """The time from first forward to last backward follows from the compute times."""
    ops, run = published
    ops = ops[ops["optype"].isin(["forward-compute", "backward-compute"])]
    start = ops["start_ts"].astype(float)
    measured = pipeline_s(start, start + ops["duration"], ops["step"])
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(["fwd", "bwd"])]
    simulated = pipeline_s(spans["start_ns"], spans["end_ns"], spans["step"]) / 1e9
    assert len(measured) == len(simulated) == 32
    error = np.abs(simulated / measured - 1)
    assert error.mean() < 0.002
    assert error.max() < 0.003
    assert np.corrcoef(simulated, measured)[0, 1] > 0.999


@needs_public
def test_the_published_long_stage_slows_the_job_as_much_as_was_published(published, tmp_path):
    """The slowdown is the time divided by that of a job in which every pass takes the mean."""
    timings = MeasuredTimeline(file=str(MEASURED)).read(MEASURED)
    passes = np.array(timings.passes_ns)
    mean = np.broadcast_to(np.rint(passes.mean((0, 1, 2, 4), keepdims=True)), passes.shape)
    _, run = published
    resolved = run.read_json(run.manifest)["scenario"]
    even = Scenario.model_validate(resolved).model_dump(mode="json")
    even["jobs"][0]["trace"]["timings"]["passes_ns"] = mean.astype(int).tolist()
    level = Run(tmp_path)
    simulate(Scenario.model_validate(even), level)
    mean_ns = [
        (table["end_ns"] - table["start_ns"]).mean()
        for table in (run.truth("steps"), level.truth("steps"))
    ]
    published_slowdown = json.loads((PUBLIC / "ms-ST.json").read_text())
    expected = published_slowdown["tori"] / published_slowdown["tideal"]
    assert expected == pytest.approx(1.18, abs=0.005)
    assert mean_ns[0] / mean_ns[1] == pytest.approx(expected, abs=0.02)
