"""Whether the culprit of a fault has peers: parts of its kind that do the same for its job.

What was never faster can only be compared with others. Peers of a NIC, of its rank and of its cable
are the other NICs with ranks of the same job and stage; those of a server are such servers. The
ranks of one tensor-parallel group work in lockstep, so they are no peers. Peers of a leaf are the
other leaves with ranks of the job, and those of a spine the other spines. A cable between switches
has those of its leaf to the other spines. A whole job has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from prism_sim.score.culprits import PLACE, culprit_of

FEWEST_PEERS = 2
"""The median of three is the least that one deviating part cannot move."""


def has_peers(
    fault: pd.Series, job: str | None, ranks: pd.DataFrame, topology: Mapping[str, Any]
) -> bool:
    """Whether the culprit of ``fault`` can be compared with others of the same ``job``."""
    culprit = culprit_of(fault, ranks)
    if culprit is None:
        return False
    name = culprit[1]
    tiers = {switch["name"]: switch["tier"] for switch in topology["switches"]}
    own = ranks[ranks["job"] == job]
    ends = [end for end in name.split("|") if end in tiers]
    if culprit[0] == "link" and len(ends) == 1:
        name = next(end for end in name.split("|") if end not in tiers)
    elif ends:
        return _other_switches(ends, own, topology, tiers) >= FEWEST_PEERS
    part = "server" if culprit[0] == "server" else "address"
    at = own[own[part] == name]
    in_step = own.merge(at[[*PLACE]].drop_duplicates(), on=[*PLACE])[part]
    others = own[own["pp"].isin(at["pp"]) & ~own[part].isin(in_step)]
    groups = len(others[[*PLACE]].drop_duplicates())
    return min(groups, int(others[part].nunique())) >= FEWEST_PEERS


def _other_switches(
    ends: list[str], own: pd.DataFrame, topology: Mapping[str, Any], tiers: Mapping[str, str]
) -> int:
    """Switches that serve the job as that one does, or as the far end of that cable does."""
    spines = {name for name, tier in tiers.items() if tier != "leaf"}
    if spines & {*ends}:
        return len(spines - {*ends})
    leaf_of = {end["address"]: end["switch"] for end in topology["endpoints"]}
    return len({*own["address"].map(leaf_of)} - {*ends})
