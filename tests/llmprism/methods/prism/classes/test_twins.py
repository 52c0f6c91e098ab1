"""Components that send the same messages at the same moments belong to one job."""

from __future__ import annotations

from itertools import combinations

import pandas as pd
import pytest

import prism_sim as ps
from llmprism.io.flows import read_flows
from llmprism.io.topology import read_topology
from llmprism.methods.prism.classes.classes import find_components
from llmprism.methods.prism.classes.twins import are_twins
from llmprism.methods.prism.jobs.together import twins_of
from llmprism.methods.prism.records.connections import find_connections
from llmprism.methods.prism.segment.stepping import Part, Stepping
from prism_common.early import INTS

CLUSTER = """\
cluster: {servers: 4, gpus_per_server: 4, nics_per_server: 4,
          fabric: {kind: rail, leaf_ports: 8}}
jobs:
"""
JOB = """\
  - name: %s
    model: {layers: 8, hidden: 1024, heads: 16, vocab: 32000, sequence_length: 1024}
    dp: %d
    tp: %d
    zero_stage: 3
    micro_batches: 3
    steps: 4
    compute_jitter: 0.02
    placement: spread
"""


def cut_in_two(flows: pd.DataFrame, rows: pd.Series) -> pd.DataFrame:
    """``flows`` with two records for each of those in ``rows``, one after the other."""
    first, second = flows[rows].copy(), flows[rows].copy()
    middle = (first["start_ns"] + first["end_ns"]) // 2
    first["end_ns"], second["start_ns"] = middle, middle + 1
    first["bytes"] //= 2
    second["bytes"] -= first["bytes"]
    every = pd.concat([flows[~rows], first, second])
    return every.sort_values(["start_ns", "end_ns"], kind="stable").reset_index(drop=True)


@pytest.mark.parametrize("cut", [0, 4, 3])
def test_twins_may_have_unequal_numbers_of_records(tmp_path, cut):
    """Some messages of a NIC that another job uses as well pause, and their records end."""
    (tmp_path / "world.yaml").write_text(CLUSTER + JOB % ("solo", 4, 4))
    ps.run(tmp_path / "world.yaml", out=tmp_path / "run")
    topology = read_topology(tmp_path / "run" / "topology.json")
    records = pd.read_parquet(tmp_path / "run" / "flows.parquet")
    near = records["src"].str.endswith(".1")
    if cut:
        number = records.groupby(["src", "dst"]).cumcount()
        records = cut_in_two(records, near & (number % cut == 0))
    records.to_parquet(tmp_path / "flows.parquet")
    flows, _ = read_flows(tmp_path / "flows.parquet", topology)
    connections = find_connections(flows)
    found = find_components(flows, connections, connections.carries)
    pairs = combinations(found, 2)
    assert all(are_twins(connections, one, other, topology.servers) for one, other in pairs)


@pytest.mark.parametrize(
    ("jobs", "parts"),
    [(JOB % ("solo", 4, 4), 4), (JOB % ("one", 8, 1) + JOB % ("two", 8, 1), 4)],
    ids=["one job", "two jobs on the same servers"],
)
def test_rings_are_twins_if_they_are_of_one_job(tmp_path, jobs, parts):
    (tmp_path / "world.yaml").write_text(CLUSTER + jobs)
    ps.run(tmp_path / "world.yaml", out=tmp_path / "run")
    topology = read_topology(tmp_path / "run" / "topology.json")
    flows, _ = read_flows(tmp_path / "run" / "flows.parquet", topology)
    ranks = pd.read_parquet(tmp_path / "run" / "truth" / "ranks.parquet")
    job_of = ranks.set_index("address")["job"]
    connections = find_connections(flows)
    found = find_components(flows, connections, connections.carries)
    assert len(found) == parts
    for one, other in combinations(found, 2):
        owners = [job_of[topology.addresses[part.endpoints[0]]] for part in (one, other)]
        twins = are_twins(connections, one, other, topology.servers)
        assert twins == (owners[0] == owners[1])
    first, *rest = [Part(one, Stepping(0, 0.0, -1, (), INTS, INTS)) for one in found]
    joined = twins_of(connections, [first], rest, topology.servers)
    ends = [part.component.endpoints for part in (first, *joined)]
    names = {topology.addresses[end] for own in ends for end in own}
    owner = job_of[topology.addresses[first.component.endpoints[0]]]
    assert names == set(ranks["address"][ranks["job"] == owner])
