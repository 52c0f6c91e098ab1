"""The truth of a world, as far as the exam groups its faults by it.

A fault is *due*, so it counts for recall, if it stops its job, or if it lengthens the steps of its
job by :data:`MATTERS` and makes the job end later. Both come from a rerun without it in which every
other random number is the same.

The *oracle* knows the true steps of the job, and when the fault was there. It compares what the
fault adds to a step with how much steps vary anyway: with n steps in the window, a slowdown s and a
coefficient of variation c, records can show a fault if s sqrt(n) / c is at least
:data:`SHOWN_DEVIATIONS`. It does not ask whether the culprit differs from its peers.

*Peers* are parts of the culprit's kind that do the same for its job: what was never faster can only
be compared with others. Those of a NIC, of its rank and of its cable are the other NICs with ranks
of the same job and stage, but not of its tensor-parallel group, which works in lockstep; those of a
server are such servers. Peers of a leaf are the other leaves with ranks of the job, and those of a
spine the other spines. A cable between switches has those of its leaf to the other spines. A whole
job has none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from prism_common.kinds import OTHER
from prism_sim.faults import KINDS
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.score.alarms import affected_jobs
from prism_sim.score.culprits import PLACE, culprit_of

MATTERS = 0.03
SHOWN_DEVIATIONS = 3.0
FEWEST_PEERS = 2
"""The median of three is the least that one deviating part cannot move."""
_NORMAL = 1.4826  # standard deviation of a normal distribution over its median absolute deviation

COMPUTING = {
    "degraded_nvlink", "expert_imbalance", "gc_pauses", "intermittent_gpu", "length_imbalance",
    "loader_stalls", "slow_gpu", "slow_server", "thermal_ramp", "uneven_stage",
}  # fmt: skip
"""Kinds of faults of ranks, servers and stages that compute, not of the network between them."""

Row = dict[str, Any]


def of_world(run: Run, scenario: Scenario) -> Row:
    """Jobs, steps, telemetry and faults of one world."""
    steps, ranks, faults = run.truth("steps"), run.truth("ranks"), run.truth("faults")
    seen = seen_addresses(run.truth("pairs"))
    topology = json.loads(run.topology.read_text(encoding="utf-8"))
    return {
        "jobs": len(scenario.jobs),
        "job_steps": len(steps[["job", "step"]].drop_duplicates()),
        "telemetry": telemetry_of(scenario.collector.model_dump(mode="json")),
        "faults": [
            of_fault(fault, steps)
            | {
                "culprit_seen": is_seen(fault, ranks, seen),
                "workers": workers_beside(fault, ranks),
                "peers": has_peers(fault, job_of(fault, affected_jobs(fault)), ranks, topology),
            }
            for _, fault in faults.iterrows()
        ],
    }


def seen_addresses(pairs: pd.DataFrame) -> set[str]:
    """Addresses with traffic of a job in the network; others are in no record.

    A ring that enters a server at one NIC and leaves it at another passes its other GPUs by NVLink.
    """
    own = pairs[pairs["kind"] != OTHER]
    return {*own["src"].astype(str), *own["dst"].astype(str)}


def is_seen(fault: pd.Series, ranks: pd.DataFrame, seen: set[str]) -> bool:
    """Whether the culprit can be named by records: an address, or one of its group, is in them."""
    if fault["culprit_kind"] != "address":
        return True
    at = ranks[ranks["address"] == fault["culprit"]]
    group = ranks.merge(at[[*PLACE]].drop_duplicates(), on=[*PLACE])["address"]
    return bool({str(fault["culprit"]), *map(str, group)} & seen)


def workers_beside(fault: pd.Series, ranks: pd.DataFrame) -> int:
    """Workers of the job on the servers of the culprit, the most on one of them.

    A worker is a tensor-parallel group, which works in lock-step.
    """
    culprit = culprit_of(fault, ranks)
    own = ranks[ranks["job"] == job_of(fault, affected_jobs(fault))]
    if culprit is not None and culprit[0] in ("address", "server"):
        column = "server" if culprit[0] == "server" else "address"
        own = own[own["server"].isin(ranks.loc[ranks[column] == culprit[1], "server"])]
    each = own[[*PLACE, "server"]].drop_duplicates().groupby("server").size()
    return int(each.max()) if len(each) else 0


def of_fault(fault: pd.Series, steps: pd.DataFrame) -> Row:
    """What one fault did, from its row of the truth and the true ``steps``."""
    stops = KINDS[str(fault["kind"])].stops_jobs
    job = job_of(fault, affected_jobs(fault))
    ends = steps[steps["job"] == job].groupby("step")["end_ns"].max().sort_index()
    took_ns = ends.diff().iloc[1:]
    middle_ns = ends.iloc[1:] - took_ns / 2
    within = (middle_ns >= fault["start_ns"]) & (middle_ns < fault["end_ns"])
    slowdown = None if pd.isna(fault["slowdown"]) else float(fault["slowdown"])
    return {
        "kind": str(fault["kind"]),
        "computing": str(fault["kind"]) in COMPUTING,
        "stops": stops,
        "slowdown": slowdown,
        "due": stops or is_due(slowdown, fault["extra_ns"]),
        "window_steps": None if stops else window_steps(fault, job, ends, within),
        "from_first": bool((ends > fault["start_ns"]).all()),
        "shown": stops or is_shown(slowdown, took_ns, within),
    }


def job_of(fault: pd.Series, affected: Sequence[str]) -> str | None:
    """The job that a fault slows most; if none is slowed, the first that it affects."""
    slowed = fault["slowed_job"]
    return str(slowed) if pd.notna(slowed) else next(iter(affected), None)


def is_due(slowdown: float | None, extra_ns: Any) -> bool:
    """Whether a fault that stops nothing has to be found."""
    return (slowdown or 0.0) >= MATTERS and pd.notna(extra_ns) and int(extra_ns) > 0


def window_steps(fault: pd.Series, job: str | None, ends: pd.Series, within: pd.Series) -> int:
    """Steps of the job in which the fault was there; at least one."""
    if pd.isna(fault["from_step"]) or fault["job"] != job:
        return max(1, int(within.sum()))
    last = len(ends) if pd.isna(fault["to_step"]) else int(fault["to_step"])
    return max(1, last - int(fault["from_step"]))


def is_shown(slowdown: float | None, took_ns: pd.Series, within: pd.Series) -> bool:
    """Whether the steps of a fault are longer than chance makes them: the oracle."""
    others = took_ns[~within] if (~within).sum() > 1 else took_ns
    middle = float(others.median()) if len(others) else 0.0
    spread = _NORMAL * float((others - middle).abs().median()) if len(others) else 0.0
    number = max(1, int(within.sum()))
    if not slowdown or slowdown <= 0 or middle <= 0:
        return False
    return slowdown * math.sqrt(number) >= SHOWN_DEVIATIONS * spread / middle


_GROUPS = {
    "tick of 1 ms or more": ("granularity", "unit_ns", 1_000_000),
    "1 % of records lost or more": ("loss", "probability", 0.01),
    "clocks 0.1 ms apart or more": ("clocks", "offset_us", 100),
    "sampled packets": ("sampling", "one_in", 2),
    "1 s late or more": ("lateness", "delay_ms", 1000),
}
LONG_GAP_US = 5000


def telemetry_of(collector: Row) -> list[str]:
    """The groups of telemetry that a world belongs to; ``exact`` if to no other."""
    effects = {effect["kind"]: effect for effect in collector["effects"]}
    groups = [
        name
        for name, (kind, key, least) in _GROUPS.items()
        if kind in effects and (effects[kind][key] or 0) >= least
    ]
    if not collector["message_boundary"] and collector["idle_gap_us"] >= LONG_GAP_US:
        groups.append("gap of 5 ms or more")
    if "paths" in effects:
        groups.append("paths unknown in part")
    return groups or ["exact"]


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
