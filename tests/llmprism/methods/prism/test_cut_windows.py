"""Records that end within a step: no step is counted that was not ended."""

from __future__ import annotations

import pytest

from llmprism import diagnose

MODEL = "{layers: 8, hidden: 1024, heads: 8, vocab: 32000, sequence_length: 1024}"
FIXED = f"model: {MODEL}, mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 5, steps: 9"
CLUSTER = """\
cluster: {servers: 4, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 50,
          fabric: {kind: tor, leaf_ports: 4, spines: 2}}
"""
PIPELINE = "dp: 2, pp: 2, micro_batches: 3, zero_stage: 0, bucket_params: 9000000"
JOBS = {
    "pipeline": f"{PIPELINE}, schedule: gpipe",
    "split": f"{PIPELINE}, schedule: zb-h1",
    "replicas": "dp: 4, zero_stage: 0, micro_batches: 2, bucket_params: 9000000",
}
UNTIL = (6.0, 6.5, 6.6, 6.7, 6.9, 7.0)  # steps; at others, gathers of the next step may be missing


@pytest.mark.slow
@pytest.mark.parametrize("keys", JOBS.values(), ids=JOBS)
def test_a_step_that_the_records_cut_off_is_not_counted(scored, keys):
    run = scored(f"{CLUSTER}jobs:\n  - {{name: solo, {FIXED}, {keys}}}\n")
    flows, spans = run.flows(), run.truth("spans")
    reduced = spans["kind"].isin(["all_reduce", "reduce_scatter", "all_gather"])
    ends = spans[reduced].groupby(["rank", "step"])["end_ns"].max()
    begin_ns, period_ns = int(flows["start_ns"].min()), ends.loc[0].diff().median()
    for until in UNTIL:
        last_ns = begin_ns + until * period_ns
        part = flows[flows["end_ns"] < last_ns]
        found = diagnose(part, run.folder / "topology.json", method="prism").steps
        assert len(found) == (ends < last_ns).sum(), until
