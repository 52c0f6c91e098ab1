"""What flows alone show of a network: who sends, and on which switches a path starts and ends.

Servers, rates and cables between switches that no path names stay unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from llmprism.ingest.network.parts import Content

_UNKNOWN_HOP = "?"


def infer(
    pairs: Mapping[tuple[str, str], int], paths: Mapping[tuple[str, str, str], int]
) -> Content:
    """Return a network in which every address is a server of its own.

    Parameters
    ----------
    pairs : records by (source, destination).
    paths : records by (path, source, destination).
    """
    leaves: dict[str, Counter[str]] = {}
    cables: set[tuple[str, str]] = set()
    names: set[str] = set()
    for (path, source, target), count in paths.items():
        hops = path.split("|")
        for address, leaf in ((source, hops[0]), (target, hops[-1])):
            if leaf != _UNKNOWN_HOP and len(hops) > 1:
                leaves.setdefault(address, Counter())[leaf] += count
        names |= set(hops) - {_UNKNOWN_HOP}
        for one, other in pairwise(hops):
            if _UNKNOWN_HOP not in (one, other):
                cables.add((min(one, other), max(one, other)))
    addresses = sorted({address for pair in pairs for address in pair})
    homes = {one: leaves[one].most_common(1)[0][0] for one in addresses if one in leaves}
    endpoints = [{"address": one, "server": one, "switch": homes.get(one)} for one in addresses]
    used = set(homes.values())
    tiers = [{"name": one, "tier": "leaf" if one in used else "spine"} for one in sorted(names)]
    links: list[dict[str, Any]] = [
        {"a": one, "b": home, "gbps": None} for one, home in homes.items()
    ]
    links += [{"a": one, "b": other, "gbps": None} for one, other in sorted(cables)]
    return {"endpoints": endpoints, "switches": tiers, "links": links}
