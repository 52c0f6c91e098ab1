"""Pairs at a leaf that exports nothing: taken to be like the pairs of other NICs of their server.

The NICs of a server send alike in one job: if every NIC that is seen sends to the NIC with the same
number in another server, the NIC that is not seen does so, too. This is believed only if all NICs
that are seen agree, and with little confidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd

from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Codes

CONFIDENCE = 0.4  # of a pair that was seen between other NICs only

Place = tuple[int, int]


def mirrored(topology: Topology, members: Iterable[Codes], pairs: pd.DataFrame) -> pd.DataFrame:
    """Rows ``src``, ``dst`` (codes), ``kind``, ``confidence`` of pairs that must exist unseen.

    ``members`` has the endpoint codes of each job, ``pairs`` the pairs that were seen.
    """
    data = pairs[~pairs["kind"].isin(["other", "unknown"])]
    seen = np.union1d(data["src"], data["dst"])
    rows: list[tuple[int, int, str]] = []
    for ends in members:
        hidden = np.setdiff1d(ends, seen)
        if hidden.size:
            own = data[data["src"].isin(ends)]
            rows += _unseen(topology, ends, hidden, own)
    found = pd.DataFrame(rows, columns=["src", "dst", "kind"])
    return found.astype({"src": np.int64, "dst": np.int64}).assign(confidence=CONFIDENCE)


def _unseen(
    topology: Topology, ends: Codes, hidden: Codes, data: pd.DataFrame
) -> list[tuple[int, int, str]]:
    """Pairs of ``hidden`` endpoints, which send as all other NICs of their servers do."""
    place_of = {end: _place(topology, end) for end in ends.tolist()}
    hidden_at = {place_of[end]: end for end in hidden.tolist()}
    votes: dict[int, Counter[tuple[int, str]]] = {}
    senders: dict[int, set[int]] = {}
    for src, dst, kind in data[["src", "dst", "kind"]].itertuples(index=False):
        (home, nic), (goal, other) = place_of[src], place_of.get(dst, (-1, -1))
        senders.setdefault(home, set()).add(nic)
        if nic == other:
            votes.setdefault(home, Counter())[goal, kind] += 1
    rows = []
    for (home, nic), end in hidden_at.items():
        for (goal, kind), count in votes.get(home, Counter()).items():
            partner = hidden_at.get((goal, nic))
            if partner is not None and count == len(senders[home]):
                rows.append((end, partner, kind))
    return rows


def _place(topology: Topology, end: int) -> Place:
    return int(topology.servers[end]), int(topology.positions[end])
