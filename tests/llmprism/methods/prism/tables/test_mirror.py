"""Pairs of NICs of which the records show nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llmprism.io.topology import parse_topology
from llmprism.methods.prism.tables.mirror import mirrored


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
