"""Components that send the same messages at the same moments are divided into steps together."""

from __future__ import annotations

from dataclasses import replace

import pytest

import prism_sim as ps
from llmprism.io.flows import read_flows
from llmprism.io.topology import read_topology
from llmprism.methods.prism.classes import find_components
from llmprism.methods.prism.connections import find_connections
from llmprism.methods.prism.stepping import Part, find_steps
from llmprism.methods.prism.twins import with_twins

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


@pytest.fixture
def united(tmp_path):
    """Numbers of endpoints of the parts, after every other one is given a wrong division."""

    def united_of(jobs: str) -> list[int]:
        (tmp_path / "world.yaml").write_text(CLUSTER + jobs)
        ps.run(tmp_path / "world.yaml", out=tmp_path / "run")
        topology = read_topology(tmp_path / "run" / "topology.json")
        flows, _ = read_flows(tmp_path / "run" / "flows.parquet", topology)
        connections = find_connections(flows)
        parts = [
            Part(one, find_steps(one))
            for one in find_components(flows, connections, connections.carries)
        ]
        assert {part.stepping.count for part in parts} == {4}
        parts[1::2] = [
            replace(part, stepping=replace(part.stepping, count=40)) for part in parts[1::2]
        ]
        found = with_twins(flows, connections, parts, topology.servers)
        return [part.component.endpoints.size for part in found]

    return united_of


def test_rings_of_one_job_are_one_component_though_their_divisions_disagree(united):
    assert united(JOB % ("solo", 4, 4)) == [16]


def test_rings_of_two_jobs_on_the_same_servers_stay_apart(united):
    assert united(JOB % ("one", 8, 1) + JOB % ("two", 8, 1)) == [8, 8]
