"""The results of a diagnosis, job by job, for a page: layout, pairs, steps, findings.

No truth is needed, so a diagnosis of any flows is shown as completely as that of a simulated run.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from llmprism.page.tables import Tables
from llmprism.part_names import condensed, natural
from llmprism.sentences import name_of
from prism_common.kinds import AXES
from prism_common.quantities import duration, known_size, percent


def found_jobs(tables: Tables) -> list[dict[str, Any]]:
    """One row for each found job, in the order of their names; unknown values are "?"."""
    own = {
        name: getattr(tables, name)
        for name in ("jobs", "layouts", "groups", "pairs", "steps", "findings")
    }
    names = sorted(tables.jobs["job"].unique(), key=natural)
    return [
        _job(
            str(name),
            {key: table[table["job"] == name] for key, table in own.items()},
            tables.servers_of(str(name)),
        )
        for name in names
    ]


def _job(name: str, own: dict[str, pd.DataFrame], servers: list[str]) -> dict[str, Any]:
    steps = own["steps"]
    lengths_ns = steps["end_ns"] - steps["start_ns"]
    layouts = own["layouts"].head(1).to_dict("records")
    layout = {str(key): value for row in layouts for key, value in row.items()}
    sure = layout.get("confidence")
    return {
        "job": name,
        "name": name_of(own["jobs"]),
        "addresses": own["jobs"]["address"].nunique(),
        "servers": condensed(servers),
        **_sizes(layout, own["groups"]),
        "micro_batches": known_size(layout.get("micro_batches"), sure),
        "schedule": _known(layout.get("schedule")),
        "sharding": _known(layout.get("sharding")),
        "sure": percent(sure, 0),
        "pairs": _counts(own["pairs"]["kind"]),
        "groups": _counts(own["groups"].drop_duplicates(["kind", "group"])["kind"]),
        "steps": steps["step"].nunique(),
        "step_median": duration(float(lengths_ns.median())) if len(steps) else "?",
        "step_p95": duration(float(lengths_ns.quantile(0.95))) if len(steps) else "?",
        "findings": len(own["findings"]),
    }


def _sizes(layout: dict[str, Any], groups: pd.DataFrame) -> dict[str, str]:
    """Size of each axis, from the layout, or the most common size of its groups."""
    sizes = groups.groupby(["kind", "group"], observed=True)["address"].nunique()
    of_groups = {str(kind): int(part.mode().max()) for kind, part in sizes.groupby(level="kind")}
    sure = layout.get("confidence")
    return {
        axis: known
        if (known := known_size(layout.get(axis), sure)) != "?"
        else str(of_groups.get(axis, "?"))
        for axis in AXES
    }


def _known(value: Any) -> str:
    """``value`` as text; "?" if the diagnosis has no value."""
    return "?" if value is None or pd.isna(value) or value == "unknown" else str(value)


def _counts(kinds: pd.Series) -> str:
    """``dp 12, pp 4``, the most frequent first."""
    counts = kinds.astype(object).fillna("unknown").value_counts()
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.items()) or "none"
