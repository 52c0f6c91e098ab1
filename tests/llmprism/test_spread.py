"""Connections over several paths: what they cross, and what is not judged of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from llmprism.io.flows import place
from llmprism.io.loading import adopt
from llmprism.io.spread import carrying, is_spread
from llmprism.io.topology import parse_topology

ENDS = [
    {"address": f"10.0.{s}.1", "server": f"s{s}", "nic": 0, "switch": f"leaf{s}"} for s in (0, 1)
]
SWITCHES = [{"name": f"leaf{i}", "tier": "leaf"} for i in (0, 1)]
SWITCHES += [{"name": f"spine{i}", "tier": "spine"} for i in range(4)]


def records(paths, sizes=None):
    """One connection whose records have these paths, one after the other."""
    frame = pd.DataFrame(
        {
            "start_ns": np.arange(len(paths)) * 1000, "end_ns": np.arange(len(paths)) * 1000 + 500,
            "src": "10.0.0.1", "dst": "10.0.1.1", "bytes": sizes or [100] * len(paths),
            "path": [f"leaf0|{spine}|leaf1" for spine in paths],
        }
    )  # fmt: skip
    flows, _ = place(adopt(frame), parse_topology({"endpoints": ENDS, "switches": SWITCHES}))
    return flows, np.arange(len(paths))


def links(path):
    return [path, *path.split("|")]


SPRAYED = ["spine0", "spine1", "spine2", "spine3"] * 5


@pytest.mark.parametrize(
    ("paths", "spread"),
    [
        (SPRAYED, True),
        (["spine0", "spine1"] * 3, True),
        ((["spine0"] * 4 + ["spine1"]) * 4, True),  # seldom, and still too often for moves
        (["spine0"] * 20, False),
        (["spine0"] * 10 + ["spine1"] * 10, False),  # an uplink failed
        (["spine0"] * 5 + ["spine1"] * 5 + ["spine0"] * 10, False),  # and was repaired
        (["spine0", "spine1", "spine2"], False),  # too few to tell
    ],
)
def test_a_spread_connection_changes_its_path_all_the_time(paths, spread):
    assert is_spread(*records(paths)) == spread


def test_a_connection_that_moved_crosses_both_paths_and_a_spread_one_its_leaves():
    moved = carrying(*records(["spine0"] * 10 + ["spine1"] * 10), links)
    assert {"spine0", "spine1", "leaf0", "leaf1"} <= moved
    assert carrying(*records(SPRAYED), links) == {"leaf0", "leaf1"}


def test_a_link_explains_a_spread_connection_whose_bytes_mostly_cross_it():
    flows, rows = records(SPRAYED, [1000 if path == "spine2" else 100 for path in SPRAYED])
    crossed = carrying(flows, rows, links)
    assert crossed == {"leaf0", "leaf1", "spine2", "leaf0|spine2|leaf1"}
