"""Traps 6 and 7: jobs and workloads that the method was not made for."""

from __future__ import annotations

from prism_sim.toolkit import Run
from reproduction.base import Result
from reproduction.traps.base import Figures

FOREIGN = ("ep", "cp")


def jobs(run: Run, _: Result) -> Figures:
    """Into how many found jobs each true job went, and who shares one."""
    ranks = run.truth("ranks").astype({"address": str})
    found = run.diagnosis("jobs").astype(str).set_index("address")["job"]
    of = {str(job): set(part["address"].map(found).dropna()) for job, part in ranks.groupby("job")}
    merged, fused = of["left"] == of["right"] and len(of["left"]), of["east"] == of["west"]
    seen = {
        "same_servers": len(of["left"] | of["right"]),
        "torn": len(of["torn"]),
        "inside": len(of["inside"]),
        "storage": len(of["east"] | of["west"]),
    }
    right = {"same_servers": 1, "torn": 2, "inside": 0, "storage": 1}
    return {**seen, "fails": bool(merged and fused and seen == right)}


def workloads(_: Run, score: Result) -> Figures:
    """Pairs of kinds that have no name, PP pairs of varying size, steps that DP does not end."""
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
