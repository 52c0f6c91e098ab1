"""How well a finding gives the extent of a fault: the time it lasts, and the time it costs.

The *overlap* is the time that finding and fault share, over the time from the first of them to the
last. The *cost error* is the difference of the cost to what a rerun without the fault shows, over
the time that the same steps take without it. So a cost that is right within one point
(docs/prism.md) has an error of at most 0.01, however long the fault lasts.
"""

from __future__ import annotations

import pandas as pd


def overlap(finding: pd.Series, start_ns: float, end_ns: float) -> float:
    """Share of the time from ``start_ns`` to ``end_ns`` and of ``finding`` that both have."""
    shared_ns = min(finding["end_ns"], end_ns) - max(finding["start_ns"], start_ns)
    whole_ns = max(finding["end_ns"], end_ns) - min(finding["start_ns"], start_ns)
    return max(0.0, float(shared_ns / whole_ns)) if whole_ns > 0 else 1.0


def has_cost(fault: pd.Series) -> bool:
    """Whether the truth has a positive cost of ``fault``."""
    share, extra_ns = fault.get("slowdown"), fault.get("extra_ns")
    return bool(pd.notna(share) and pd.notna(extra_ns) and share > 0 and extra_ns > 0)


def about_cost(fault: pd.Series, alarms: pd.DataFrame) -> pd.Series:
    """The surest of ``alarms`` about the job that the fault slows most; of all if none is."""
    about = alarms[alarms["true_job"] == fault["slowed_job"]]
    return (alarms if about.empty else about).sort_values("confidence", ascending=False).iloc[0]


def cost_error(fault: pd.Series, alarms: pd.DataFrame) -> float | None:
    """Error of the cost of ``fault`` in the surest of its true ``alarms``.

    A link that two jobs share costs each of them something, and each has a finding. So an alarm
    about the job that the fault slows most goes before others. None if the scenario does not have
    its faults measured, or the fault costs nothing, or ends the job.
    """
    if not has_cost(fault):
        return None
    share, extra_ns = fault["slowdown"], fault["extra_ns"]
    surest = about_cost(fault, alarms)
    if pd.isna(surest["cost"]):
        return None
    return abs(float(surest["cost"]) - float(extra_ns)) / (float(extra_ns) / float(share))
