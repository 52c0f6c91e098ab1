"""Traps 6 and 7: jobs and workloads outside the assumptions of the method."""

from __future__ import annotations

from prism_sim.toolkit import Run
from reproduction.base import Result
from reproduction.traps.base import Figures

FOREIGN = ("ep", "cp")


def jobs(run: Run, _: Result) -> Figures:
    """Number of inferred jobs that hold the addresses of certain true jobs."""
    ranks = run.truth("ranks").astype({"address": str})
    found = run.diagnosis("jobs").astype(str).set_index("address")["job"]
    of = {str(job): set(part["address"].map(found).dropna()) for job, part in ranks.groupby("job")}
    same_servers = of["left"] == of["right"] and len(of["left"])
    same_storage = of["east"] == of["west"]
    found_jobs = {
        "same_servers": len(of["left"] | of["right"]),
        "torn": len(of["torn"]),
        "inside": len(of["inside"]),
        "storage": len(of["east"] | of["west"]),
    }
    predicted = {"same_servers": 1, "torn": 2, "inside": 0, "storage": 1}
    fails = bool(same_servers and same_storage and found_jobs == predicted)
    return {**found_jobs, "fails": fails}


def workloads(_: Run, score: Result) -> Figures:
    """Pairs of unknown kinds, PP pairs of varying size, and steps that do not end with DP."""
    refined, raw = score["pairs"]["confusion"], score["pairs"]["confusion_unrefined"]
    foreign = sum(sum(refined.get(kind, {}).values()) for kind in FOREIGN)
    named = sum(refined.get(kind, {}).get(kind, 0) for kind in FOREIGN)
    pp = raw.get("pp", {})
    coverage = score["timeline"]["per_job"]["sharded"]["coverage"]
    return {
        "foreign": foreign,
        "named": named,
        "pp_pairs": sum(pp.values()),
        "pp_right": pp.get("pp", 0),
        "sharded_coverage": coverage,
        "fails": named == 0 and pp.get("pp", 0) == 0 and coverage < 1,
    }
