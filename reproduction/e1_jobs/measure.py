"""Measure job recognition on one minute of flows of nineteen drawn jobs, by both methods.

Of the published method only the first stage runs, Algorithm 1, because recognition needs no other.
It gives *cross-machine clusters*, before the merging by server sets, and inferred jobs, after it.
``prism`` runs as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable, read_flows
from llmprism.io.topology import Topology, read_topology
from llmprism.pipeline import diagnose
from prism_sim.toolkit import Job, ScoreTables, members, score_jobs, simulated
from reproduction.base import OTHER_METHOD, Result, Trial, connected, published_method
from reproduction.e1_jobs.drawing import draw_scenario, read_platform

KINDS = ("large", "small")
"""Jobs of at least two servers, as in the publication; and jobs of any size."""


def trials(seeds: Sequence[int], reduced: bool) -> list[Trial]:
    """Two draws of the platform per seed, without and with jobs of a single server."""
    return [
        Trial(
            "e1",
            f"{kind} jobs, seed {seed}",
            draw_scenario(read_platform(kind == "small", reduced), seed),
            {"kind": kind},
        )
        for kind in KINDS
        for seed in seeds
    ]


def measure(trial: Trial) -> Result:
    """Numbers of true, inferred and exact jobs and of clusters."""
    with simulated(trial.scenario) as run:
        topology = read_topology(run.topology)
        flows, _ = read_flows(run.flows, topology)
        ranks, steps = run.truth("ranks"), run.truth("steps")
        records = run.read_json(run.manifest)["records"]
    cluster, found = _recognised(flows, topology)
    diagnosed = found[found >= 0].astype(str).rename_axis("address").reset_index(name="job")
    other = diagnose(flows, topology, method=OTHER_METHOD).jobs
    exact, exact_other = _exact(ranks, diagnosed), _exact(ranks, other)
    steps_of = steps.groupby("job")["step"].nunique()
    jobs = [
        {
            **_facts(job),
            "steps": int(steps_of.get(job.name, 0)),
            "exact": job.name in exact,
            "exact_other": job.name in exact_other,
        }
        for _, job in trial.scenario.modelled
    ]
    return {
        **_scored(ranks, diagnosed),
        OTHER_METHOD: _scored(ranks, other),
        "clusters": int(cluster[cluster >= 0].nunique()),
        "idle_gpus": trial.scenario.cluster.gpus - len(ranks),
        "records": records,
        "jobs": jobs,
    }


def _recognised(flows: FlowTable, topology: Topology) -> tuple[pd.Series, pd.Series]:
    """Cross-machine cluster and inferred job of every address; -1 without traffic."""
    found = published_method().jobs(flows, topology).of_address
    cluster = connected(*flows.pairs[:2], len(flows.addresses))
    index = pd.Index(flows.addresses)
    return (
        pd.Series(np.where(found >= 0, cluster, -1), index),
        pd.Series(found.astype(np.int64), index),
    )


def _scored(ranks: pd.DataFrame, diagnosed: pd.DataFrame) -> dict[str, Any]:
    return dict(vars(score_jobs(ScoreTables({"ranks": ranks}, {"jobs": diagnosed}, {}, {}))))


def _exact(ranks: pd.DataFrame, diagnosed: pd.DataFrame) -> set[str]:
    """Names of the true jobs that have exactly the addresses of an inferred job."""
    found = set(members(diagnosed).values())
    return {job for job, addresses in members(ranks).items() if addresses in found}


def _facts(job: Job) -> dict[str, Any]:
    return {
        "job": job.name,
        "model": job.model.name,
        "gpus": job.ranks,
        "split": f"{job.dp} x {job.pp} x {job.tp}",
        "zero": job.zero_stage,
        "micro_batches": job.micro_batches,
    }
