"""The figures of each trap, from a diagnosed run and its score.

A trap is a point at which the published method fails. A new one is a function here, its name in
:data:`..measure.TRAPS`, a scenario with both, ``trap-NUMBER-NAME``, and its text in ``traps.yaml``.
The prediction is a formula, or a count in the truth. The output of an earlier run is never used as
a prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from llmprism.methods.paper.sigma import k_sigma
from prism_sim.toolkit import Run
from reproduction.base import Result, connected
from reproduction.traps.printed import (
    THRESHOLD,
    change_probabilities,
    printed_outliers,
    printed_sigma,
)

Figures = dict[str, Any]
"""Figures of a run by name; ``fails`` tells whether the method fails as predicted."""

HAZARD = 0.1
ROUNDING = 1e-12  # of a mean
FOREIGN = ("ep", "cp")


def sigma(run: Run, _: Result) -> Figures:
    """Printed sigma over the steps of every rank, and the high tail of bandwidth over leaves."""
    steps = run.diagnosis("steps")
    steps = steps.assign(duration_ns=(steps["end_ns"] - steps["start_ns"]).astype(float))
    samples = [part["duration_ns"].to_numpy() for _, part in steps.groupby("address")]
    size = max(float(abs(printed_sigma(own)) / own.mean()) for own in samples)
    flagged = np.concatenate([printed_outliers(own) for own in samples])
    number = np.repeat(np.arange(len(samples)), [len(own) for own in samples])
    corrected = k_sigma(np.concatenate(samples), number).flagged
    high, low = _tails(run)
    return {
        "sigma": size,
        "literal_share": float(flagged.mean()),
        "corrected_share": float(corrected.mean()),
        "high_tail": high,
        "low_tail": low,
        "fails": bool(size <= ROUNDING and flagged.mean() > corrected.mean() and not high and low),
    }


def _tails(run: Run) -> tuple[int, int]:
    """Whether the affected leaf is flagged as high and as low, in the steps of the fault."""
    fault = run.truth("faults").iloc[0]
    flows = pd.read_parquet(run.flows)
    pairs = run.truth("pairs").query("kind == 'dp'")[["src", "dst"]]
    flows = flows.astype({"src": str, "dst": str, "path": str}).merge(pairs, on=["src", "dst"])
    during = flows[(flows["start_ns"] >= fault["start_ns"]) & (flows["end_ns"] <= fault["end_ns"])]
    rate = during["bytes"] / (during["end_ns"] - during["start_ns"])
    by_leaf = rate.groupby(during["path"].str.split("|").str[0]).mean()
    sample = np.zeros(len(by_leaf), int)
    at = list(by_leaf.index).index(str(fault["culprit"]))
    up, down = (int(k_sigma(by_leaf.to_numpy(), sample, sign).flagged[at]) for sign in (1.0, -1.0))
    return up, down


def sample(run: Run, _: Result) -> Figures:
    """Faults that a cross-step finding reports, one fault for each job."""
    faults, findings = run.truth("faults"), run.diagnosis("findings")
    owner = _found_jobs(run)
    found = {}
    for fault in faults.to_dict("records"):
        own = findings[(findings["level"] == "step") & (findings["job"].map(owner) == fault["job"])]
        within = (own["start_ns"] < fault["end_ns"]) & (own["end_ns"] > fault["start_ns"])
        found[str(fault["job"])] = int(within.any())
    return {**found, "fails": found == {"few": 0, "wide": 0, "narrow": 1}}


def _found_jobs(run: Run) -> dict[str, str]:
    """The true job of each inferred job: that of most of its addresses."""
    found = run.diagnosis("jobs").astype(str)
    both = found.merge(run.truth("ranks").astype(str), on="address", suffixes=("", "_true"))
    most = both.groupby("job")["job_true"].agg(lambda names: names.mode().iloc[0])
    return {str(name): str(true) for name, true in most.items()}


def hazard(run: Run, score: Result) -> Figures:
    """P(run length = 0) along the DP intervals of every rank."""
    flows = pd.read_parquet(run.flows, columns=["start_ns", "src", "dst"])
    pairs = run.truth("pairs").query("kind == 'dp'")[["src", "dst"]]
    flows = flows.astype({"src": str, "dst": str}).merge(pairs, on=["src", "dst"])
    off, points, fired = 0.0, 0, 0
    for _, sent in flows.sort_values("start_ns").groupby("src"):
        between = np.diff(sent["start_ns"].to_numpy()).astype(float)
        probabilities = change_probabilities(np.log(np.maximum(between, 1.0)), HAZARD)
        off = max(off, float(np.abs(probabilities - HAZARD).max()))
        points, fired = points + len(probabilities), fired + int((probabilities > THRESHOLD).sum())
    return {
        "points": points,
        "off": off,
        "fired": fired,
        "corrected_coverage": score["timeline"]["coverage"],
        "fails": off < 1e-9 and fired == 0,
    }


def _typed(score: Result, confusion: str, true: str, inferred: str) -> int:
    count: int = score["pairs"][confusion].get(true, {}).get(inferred, 0)
    return count


def bridge(run: Run, score: Result) -> Figures:
    """PP pairs with type DP before refinement and after it, and their predicted number."""
    before = _typed(score, "confusion_unrefined", "pp", "dp")
    after = _typed(score, "confusion", "pp", "dp")
    predicted = _joined(run)
    return {
        "before": before,
        "after": after,
        "predicted": predicted,
        "accuracy_before": score["pairs"]["accuracy_unrefined"],
        "accuracy_after": score["pairs"]["accuracy"],
        "fails": before > 0 and after == predicted and after > before,
    }


def _joined(run: Run) -> int:
    """PP pairs between true DP groups that wrong types join, directly or through others."""
    true = run.truth("pairs")
    inferred = run.diagnosis("pairs").astype({"src": str, "dst": str})
    both = true.merge(inferred[["src", "dst", "kind_unrefined"]], on=["src", "dst"], how="left")
    names = pd.Index(np.unique(both[["src", "dst"]].to_numpy()))
    src, dst = (names.get_indexer(both[end]) for end in ("src", "dst"))
    pp = (both["kind"] == "pp").to_numpy()
    joined = ~pp | (both["kind_unrefined"] == "dp").to_numpy()
    group = connected(src[joined], dst[joined], len(names))
    return int((group[src[pp]] == group[dst[pp]]).sum())


def one_size(run: Run, score: Result) -> Figures:
    """DP pairs with type DP, and the accuracy."""
    kinds = run.truth("pairs")["kind"]
    inferred = [_typed(score, name, "dp", "dp") for name in ("confusion_unrefined", "confusion")]
    share = float((kinds == "pp").mean())
    return {
        "dp_pairs": int((kinds == "dp").sum()),
        "right_before": inferred[0],
        "right_after": inferred[1],
        "accuracy": score["pairs"]["accuracy"],
        "share_of_pp": share,
        "fails": inferred == [0, 0] and abs(score["pairs"]["accuracy"] - share) < 1e-9,
    }


def transport(run: Run, score: Result) -> Figures:
    """Pairs with acknowledgements only, and PP pairs with a second size."""
    flows = pd.read_parquet(run.flows, columns=["src", "dst", "bytes", "payload"])
    flows = flows.astype({"src": str, "dst": str})
    with_data = flows.loc[flows["payload"] > 0, ["src", "dst"]].drop_duplicates()
    sending = set(zip(with_data["src"], with_data["dst"], strict=True))
    one_way = sum((dst, src) not in sending for src, dst in sending)
    inferred = run.diagnosis("pairs").astype({"src": str, "dst": str})
    without_data = sum(
        pair not in sending for pair in zip(inferred["src"], inferred["dst"], strict=True)
    )
    pp = run.truth("pairs").query("kind == 'pp'")[["src", "dst"]]
    sizes = flows.merge(pp, on=["src", "dst"]).groupby(["src", "dst"])["bytes"].nunique()
    wrong = _typed(score, "confusion_unrefined", "pp", "dp")
    return {
        "one_way": one_way,
        "without_data": without_data,
        "pp_pairs": len(pp),
        "pp_as_dp": wrong,
        "sizes": int(sizes.max()),
        "fails": 0 < one_way == without_data and wrong == len(pp) and (sizes == 2).all().item(),
    }


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
