"""Ends that moved nothing of a step that all others began."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from llmprism import diagnose
from small_jobs import simple_topology

EPOCH, STEP_NS, MS = 1_700_000_000_000_000_000, 100_000_000, 1_000_000
PAIRS = 4  # NICs of each of two servers, which exchange with those of the other one


def stopped_in(*steps: tuple[int, int, dict[int, float]]) -> list[list[str]]:
    """The culprits named in steps of which some pairs move a share; ``port`` is of an attempt."""
    rows: list[Any] = []
    for step, port, shares in steps:
        begin = EPOCH + step * STEP_NS
        for pair, share in shares.items():
            for src, dst in (("a", "b"), ("b", "a")):
                size = int(share * 100_000_000)
                ends = f"{src}{pair}", f"{dst}{pair}"
                ports = (port, 4791) if src == "a" else (4791, port)
                rows.append((begin, begin + 40 * MS, *ends, size, *ports))
    columns = ["start_ns", "end_ns", "src", "dst", "bytes", "src_port", "dst_port"]
    frame = pd.DataFrame(rows, columns=columns).assign(path=None)
    names = [f"{server}{pair}" for server in "ab" for pair in range(PAIRS)]
    topology = simple_topology(names, [name[0] for name in names])
    findings = diagnose(frame, topology, method="prism").findings
    stops = findings[findings["symptom"] == "stopped"]
    return [sorted(json.loads(one)["one_of"]) for one in stops["evidence"]]


ALL = dict.fromkeys(range(PAIRS), 1.0)
BEGUN = dict.fromkeys(range(PAIRS - 1), 0.1)


def test_the_pair_that_moves_nothing_in_the_first_step_of_a_job_is_named():
    steps = [(0, 1000, BEGUN), *((step, 2000, ALL) for step in range(300, 324))]
    assert stopped_in(*steps) == [[f"a{PAIRS - 1}", f"b{PAIRS - 1}"]]


def test_what_all_or_hardly_any_move_shows_only_that_the_job_stopped():
    later = [(step, 2000, ALL) for step in range(300, 324)]
    servers = [["a", "b"]]
    assert stopped_in((0, 1000, dict.fromkeys(range(PAIRS), 0.1)), *later) == servers
    assert stopped_in((0, 1000, {0: 0.1}), *later) == servers
    assert stopped_in(*later) == []
