"""Traps 1 to 3: the statistics."""

from __future__ import annotations

import numpy as np
import pandas as pd

from llmprism.methods.paper.sigma import k_sigma
from prism_sim.toolkit import Run
from reproduction.base import Result
from reproduction.traps.base import Figures
from reproduction.traps.literal import (
    THRESHOLD,
    change_probabilities,
    printed_outliers,
    printed_sigma,
)

HAZARD = 0.1
ROUNDING = 1e-12  # of a mean


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
