"""Knows nothing: what is connected is one job, all traffic is data-parallel, nothing is slow."""

from __future__ import annotations

import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.methods.rivals.connected import connected_jobs, job_table, pair_table
from llmprism.model import Progress


@register("null")
def null(flows: FlowTable, topology: Topology, progress: Progress) -> dict[str, pd.DataFrame]:
    """Return jobs and pairs, and no finding; it says nothing about steps."""
    jobs = connected_jobs(flows, topology)
    progress(1.0, "jobs")
    calm = DIAGNOSIS["findings"].empty_table().to_pandas()
    return {"jobs": job_table(flows, jobs), "pairs": pair_table(flows, jobs), "findings": calm}
