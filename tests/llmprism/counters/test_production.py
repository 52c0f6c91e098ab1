"""Ten minutes of a production cluster: what is found does not depend on the rail, nor on names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from evaluation.production.measuring import agreement, jobs_by_rail, naive_by_rail
from evaluation.production.page import number_of
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose
from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.io.topology import as_content, parse_topology, read_topology

FOLDER = Path(__file__).parents[2] / "fixtures" / "counters"


@cache
def diagnosed() -> CounterDiagnosis:
    return diagnose(*inputs())


def inputs():
    readings = read([str(FOLDER / "production.parquet")], Options())
    return readings, read_topology(FOLDER / "topology.json")


def test_four_jobs_of_four_servers_are_found_with_their_steps():
    result = diagnosed()
    jobs = result.diagnosis.jobs.groupby("job")["server"].agg(lambda names: sorted(set(names)))
    steps = {
        tuple(servers): result.rhythms[number].period_ns / 1e9
        for number, servers in enumerate(jobs)
    }
    expected = {0: 25.6, 4: 40.7, 8: 11.4, 12: 3.6}  # of the whole hour, see production.md
    assert steps == {
        tuple(f"n{first + k:02}" for k in range(4)): pytest.approx(length, rel=0.01)
        for first, length in expected.items()
    }
    assert result.servers["idle"] == ["n16", "n17"]


def test_every_rail_alone_gives_the_same_jobs():
    """In ten minutes, one NIC does not show the rhythm of the job with the shortest steps."""
    every = jobs_by_rail(diagnosed(), inputs()[1])
    assert {rail: len(groups) for rail, groups in every.items()} == dict.fromkeys(range(4), 16)
    by_rail = {rail: {s: j for s, j in groups.items() if s < 12} for rail, groups in every.items()}
    apart = [agreement(by_rail[a], by_rail[b])[1] for a in range(4) for b in range(a)]
    assert sum(apart) == 0
    naive = naive_by_rail(diagnosed(), inputs()[1])
    assert all(set(groups) == set(range(16)) for groups in naive.values())


def test_other_names_and_another_order_change_nothing():
    readings, topology = inputs()
    content = as_content(topology)
    new = {end["address"]: f"x{n}" for n, end in enumerate(reversed(content["endpoints"]))}
    for end in content["endpoints"]:
        end["address"], end["server"] = new[end["address"]], f"host-{end['server'][::-1]}"
    for link in content["links"]:
        link["a"] = new[link["a"]]
    content["endpoints"].reverse()
    ports = [replace(p, port=new[p.port]) for p in reversed(readings.ports)]
    other = diagnose(replace(readings, ports=ports), parse_topology(content))
    renamed = other.diagnosis.jobs.assign(address=other.diagnosis.jobs["address"])
    old = diagnosed().diagnosis.jobs
    groups = {frozenset(new[a] for a in part) for _, part in old.groupby("job")["address"]}
    assert {frozenset(part) for _, part in renamed.groupby("job")["address"]} == groups


def test_servers_are_numbers_on_the_page():
    assert number_of("NH-DC-NM129-A01-28U-GPU-1") == "1"
