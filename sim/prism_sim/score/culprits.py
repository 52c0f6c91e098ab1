"""Names that a finding may give to a culprit.

A fault affects an address (a GPU or its NIC), a link, a switch, a plane, a server, a stage or a
job. If the
truth has no culprit (captures from elsewhere), the culprit is the address of the fault's rank, or
its switch. Flow records cannot distinguish a NIC from its cable, so the two are one
culprit: an address, and the link between it (or its server) and its leaf. Nor can they distinguish
the ranks of a tensor-parallel group, which work in lock-step: if one of them computes slowly, each
of their addresses is right, and so is their server if they are all in one. A link
has no direction. A server may also be named by one of its addresses; a job, or a stage of it, by
its true name or by that of the found job.

The *devices* of a culprit are what an operator would take out of service to be rid of it: servers,
switches, or a whole job. A cable between switches has both of them.

A finding *names* a culprit in its ``culprit`` column, and *mentions* it if the name occurs
as a whole string anywhere in its evidence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case

Names = frozenset[str]

PLACE = ("job", "dp", "pp", "ep", "cp")
"""What the ranks of a tensor-parallel group have in common."""


def culprit_of(fault: pd.Series, ranks: pd.DataFrame) -> tuple[str, str] | None:
    """Kind (address, link, switch) and name of the true culprit, if the truth has one."""
    if pd.notna(fault["culprit"]):
        return str(fault["culprit_kind"]), str(fault["culprit"])
    if pd.notna(fault["switch"]) and fault["switch"]:
        return "switch", str(fault["switch"])
    at = ranks[(ranks["job"] == fault["job"]) & (ranks["rank"] == fault["rank"])]
    return ("address", str(at["address"].iloc[0])) if len(at) else None


def names_of(case: Case, culprit: tuple[str, str] | None, *, lock_step: bool = False) -> Names:
    """Every correct name of ``culprit``; with ``lock_step`` those of its whole group."""
    if culprit is None:
        return frozenset()
    kind, name = culprit
    if kind in ("job", "stage"):
        return _in_found_jobs(case, name)
    ends = frozenset(name.split("|"))
    names = {name, "|".join(reversed(name.split("|")))}
    names |= _in_lock_step(case, name) if lock_step and kind == "address" else set()
    for address, links in _access(case.topology):
        of_server = kind == "server" and any(name == owner for owner, _ in links)
        if name == address or of_server or ends in map(frozenset, links):
            names |= {address, *(f"{a}|{b}" for a, b in links), *(f"{b}|{a}" for a, b in links)}
    return frozenset(names)


def devices_of(case: Case, name: object) -> Names:
    """Servers and switches that the culprit ``name`` of a finding or a fault is part of."""
    if not isinstance(name, str) or not name:
        return frozenset()
    server_of = {end["address"]: end.get("server") for end in case.topology.get("endpoints", [])}
    servers = {*server_of.values()} - {None}
    job, stage, number = name.rpartition(" stage ")
    if stage:
        ranks = case.truth["ranks"]
        own = ranks[ranks["job"].eq(true_job_of(case).get(job, job))]
        at = own[own["pp"].astype(str) == number]["address"]
        return frozenset(str(server_of.get(address) or address) for address in at)
    if planes := [one["name"] for one in case.topology.get("switches", []) if name == _plane(one)]:
        return frozenset(planes)
    ends = [str(server_of.get(end) or end) for end in name.split("|")]
    return frozenset([end for end in ends if end in servers] or ends)


def same_devices(case: Case, named: object, culprit: tuple[str, str] | None) -> bool:
    """Whether a finding that names one part leads to the devices of a culprit.

    A stage has several servers: a part of it is right only if it has all of them.
    """
    if culprit is None or not isinstance(named, str):
        return False
    here, there = devices_of(case, named), devices_of(case, culprit[1])
    if culprit[0] in ("job", "stage", "plane") or " stage " in named:
        return bool(here) and here == there
    return bool(here & there)


def _in_lock_step(case: Case, address: str) -> set[str]:
    """Addresses of the tensor-parallel group at ``address``, and its server if it has one."""
    ranks = case.truth["ranks"]
    place = [name for name in PLACE if ranks[name].notna().all()]
    own = ranks[ranks["address"] == address][place].drop_duplicates()
    group = ranks.merge(own, on=place)["address"].unique() if len(own) else [address]
    servers = {end["address"]: end.get("server") for end in case.topology.get("endpoints", [])}
    homes = {str(servers[one]) for one in group if servers.get(one)}
    return {*map(str, group), *(homes if len(group) > 1 and len(homes) == 1 else ())}


def _in_found_jobs(case: Case, name: str) -> Names:
    """A job, or a stage of it (``job stage 3``), by its true name and those of the found jobs."""
    job, stage = name, ""
    if " stage " in name:
        job, _, stage = name.rpartition(" stage ")
        stage = f" stage {stage}"
    found = {one for one, true in true_job_of(case).items() if true == job}
    return frozenset(f"{one}{stage}" for one in {job, *found})


def mentioned(evidence: object) -> Names:
    """All strings in a finding's evidence (JSON text); none if it cannot be read."""
    try:
        content = json.loads(str(evidence))
    except ValueError:
        return frozenset()
    return frozenset(_strings(content))


def _access(topology: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each address of a NIC, and the links of all its ports, named by address and by server."""
    cables: dict[str, list[str]] = {}
    for link in topology.get("links", []):
        cables.setdefault(link["a"], []).append(link["b"])
    for endpoint in topology.get("endpoints", []):
        owners = [one for one in (endpoint["address"], endpoint.get("server")) if one]
        leaves = dict.fromkeys([endpoint.get("switch"), *cables.get(endpoint["address"], [])])
        yield endpoint["address"], [(owner, leaf) for leaf in leaves if leaf for owner in owners]


def _plane(switch: dict[str, Any]) -> str | None:
    """The name of a switch's plane, as a culprit; None if it has none."""
    plane = switch.get("plane")
    return None if plane is None else f"plane {plane}"


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from content
        for value in content.values():
            yield from _strings(value)
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value)
