"""Writes a scenario as plain values or YAML, and the schema as JSON Schema."""

from __future__ import annotations

from typing import Any

from prism_sim.loading.job import Job
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.cluster import Cluster


def resolved(scenario: Scenario) -> dict[str, Any]:
    """``scenario`` as plain values, with derived values filled in.

    The result is itself a valid scenario with the same meaning.
    """
    jobs = tuple(_filled_job(job) if isinstance(job, Job) else job for job in scenario.jobs)
    parts = {"cluster": _filled_cluster(scenario.cluster), "jobs": jobs}
    return scenario.model_copy(update=parts).model_dump(mode="json")


def _filled_cluster(cluster: Cluster) -> Cluster:
    uplinks = {"uplinks": cluster.uplinks, "uplink_gbps": cluster.uplink_gbps}
    return cluster.model_copy(update={"fabric": cluster.fabric.model_copy(update=uplinks)})


def _filled_job(job: Job) -> Job:
    sizes = job.model
    widths = {"kv_heads": sizes.kv_heads or sizes.heads, "ffn_hidden": sizes.ffn_width}
    return job.model_copy(
        update={
            "model": sizes.model_copy(update=widths),
            "sequence_length": job.tokens,
            "bucket_params": job.bucket_limit_params,
        }
    )
