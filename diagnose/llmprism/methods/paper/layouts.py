"""The layout of each job, as far as the published method shows it.

The publication finds DP groups and pipelines. The size of an axis is the most common size of
its groups (the larger of equally common ones). A job with groups of only one kind has size 1
along the other axis, because traffic along an axis would be observed. The published method does
not determine tensor, expert and context parallelism, micro-batches, schedule and sharding, so
they stay unknown. The period is the median time from the end of the DP
traffic of one step to that of the next.
traffic of one step to that of the next.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from llmprism.io.tables import DIAGNOSIS
from llmprism.model import CANNOT_TELL, DP, PP, UNKNOWN, Groups, Jobs, Steps


def layouts(jobs: Jobs, groups: Groups, steps: Steps) -> pd.DataFrame:
    """Return the table ``layouts``, one row per job.

    Confidence: the share of the job's groups that have the size given for their axis.
    """
    members = pd.DataFrame({"job": groups.job, "kind": groups.kind, "group": groups.group})
    by_group = members.groupby(["job", "kind", "group"]).size().reset_index(name="size")
    periods = _periods(jobs, steps)
    rows = []
    for job, name in enumerate(jobs.names):
        here = by_group[by_group["job"] == job]
        own = {kind: here.loc[here["kind"] == kind, "size"].tolist() for kind in (DP, PP)}
        agreeing = sum(sum(size == _commonest(found) for size in found) for found in own.values())
        total = sum(map(len, own.values()))
        size = {kind: _commonest(found) if found or not total else 1 for kind, found in own.items()}
        evidence = {"dp_group_sizes": own[DP], "pipeline_sizes": own[PP]}
        rows.append(
            {
                **dict.fromkeys(("tp", "ep", "cp", "micro_batches"), CANNOT_TELL),
                **dict.fromkeys(("schedule", "sharding"), UNKNOWN),
                "job": name,
                "dp": size[DP],
                "pp": size[PP],
                "period_ns": periods.get(job, CANNOT_TELL),
                "confidence": agreeing / total if total else 0.0,
                "evidence": json.dumps(evidence, sort_keys=True),
            }
        )
    return pd.DataFrame(rows, columns=DIAGNOSIS["layouts"].names)


def _commonest(sizes: list[int]) -> int:
    return max(sizes, key=lambda size: (sizes.count(size), size), default=CANNOT_TELL)


def _periods(jobs: Jobs, steps: Steps) -> dict[int, int]:
    """Return the median time between the DP ends of successive steps [ns], by job."""
    follows = np.flatnonzero(np.diff(steps.address) == 0)
    table = pd.DataFrame(
        {
            "job": jobs.of_address[steps.address[follows]],
            "period_ns": np.diff(steps.dp_end_ns)[follows],
        }
    )
    medians = table.groupby("job")["period_ns"].median()
    return {int(str(job)): round(period) for job, period in medians.items()}
