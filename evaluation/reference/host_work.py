"""How wrong inferred steps are beyond the host work that no flow shows.

Host work (data loading, logging) comes before the first pass of a step. Without a pipeline nothing
distinguishes it from computation, so all of it may be missing. With one, the first stage shows when
it begins to compute; a quarter of it may be missing in the others.
"""

from __future__ import annotations

from typing import Any

from prism_sim.toolkit import Run, load_tables, match_steps, samples_of

PAUSE = 3.0  # times the median time between two steps: an evaluation or a save, no host work
PIPELINE_SHARE = 0.25  # of host work, that remains unseen where a pipeline shows the rest


def steps_of_jobs(run: Run) -> list[dict[str, Any]]:
    """Of each true job: the step error beyond what host work explains, and the host work.

    Both are means over the steps that follow another one without a pause, as shares of a step.
    """
    case, ranks = load_tables(run), run.truth("ranks")
    match = match_steps(case)
    samples = samples_of(case, match).assign(rank=match.true["rank"])
    rows = []
    for job, own in samples.groupby("job", sort=True):
        before = own["start_ns_true"] - own.groupby("rank")["end_ns_true"].shift()
        follows = before <= PAUSE * before.median()
        host = (before / own["step_true"])[follows]
        stages = ranks.loc[ranks["job"] == job, "pp"].nunique()
        error = (own["step_inferred"] / own["step_true"] - 1).abs()[follows]
        beyond = (error - host * (PIPELINE_SHARE if stages > 1 else 1.0)).mean()
        known = error.notna().any()
        rows.append({"job": str(job), "beyond_host_work": float(beyond) if known else None,
                     "host_work": float(host.mean())})  # fmt: skip
    return rows
