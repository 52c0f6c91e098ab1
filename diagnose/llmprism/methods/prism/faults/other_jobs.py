"""Jobs that share links or hosts with another one are slower while both run. That is no fault.

Neither the traffic of other jobs nor the load of a host shows which of them delays which. But both
end at the same moment: when the other job ends, stops, or becomes slow and sends less.

A part of the network may be slow for several jobs. The one that it slows most shows it most
clearly, and what it costs: that is one finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmprism.methods.prism.faults.context import JobView
from llmprism.methods.prism.faults.suspects.cost import widened
from llmprism.methods.prism.faults.suspects.suspects import Suspect

SOON, AFTER = 2, 3.0  # steps: from the begin or end of a job, and around that of another one


def until_another(one: Suspect, other: Suspect) -> bool:
    """Whether ``one`` lasts from the begin of its job until a job stopped, another one or its own.

    Or until another one became slow, which sends less then. Jobs that share links or hosts are
    slower together, and one that begins again may go on over other paths. That is no fault.
    """
    if one.symptom == "stopped" or (other.symptom != "stopped" and other.job is one.job):
        return False
    whole = wide(one)
    begin_ns = other.extent_ns[0] if other.extent_ns else int(other.job.start_ns[other.first])
    apart_ns = abs(int(one.job.end_ns[whole.last]) - begin_ns)
    return whole.first <= SOON and apart_ns <= AFTER * max(one.job.period_ns, other.job.period_ns)


def beside_another(one: Suspect, jobs: Sequence[JobView]) -> bool:
    """Whether ``one`` lasts for as long as its job and another one of ``jobs`` run together.

    Jobs that share links or hosts are slower together. Then it begins or ends with the other one,
    at a moment at which its own job does neither.
    """
    return one.symptom != "stopped" and any(
        other is not one.job and _together(one, other) for other in jobs
    )


def _together(one: Suspect, other: JobView) -> bool:
    """Whether ``one`` begins when the later of two jobs does, and ends when the first one ends."""
    job, whole = one.job, wide(one)
    soon_ns = AFTER * job.period_ns
    later_ns, earlier_ns = other.start_ns[0] - job.start_ns[0], job.end_ns[-1] - other.end_ns[-1]
    if max(later_ns, earlier_ns) <= soon_ns:
        return False  # it runs all the time
    if later_ns > soon_ns:
        begins = abs(int(job.start_ns[whole.first] - other.start_ns[0])) <= soon_ns
    else:
        begins = whole.first <= SOON
    if earlier_ns > soon_ns:
        return begins and abs(int(job.end_ns[whole.last] - other.end_ns[-1])) <= soon_ns
    return begins and whole.last >= job.count - 1 - SOON


def wide(one: Suspect) -> Suspect:
    """``one`` with the neighbouring steps that are as slow."""
    first, last = widened(one.job, one.first, one.last, (0, one.job.count - 1))
    return replace(one, first=first, last=last)


def once_for_all_jobs(found: Sequence[Suspect]) -> list[Suspect]:
    """``found``, where a culprit that slows several jobs at a time is one finding.

    It is about the job that it slows most; the evidence names the others.
    """
    kept: dict[int, list[str]] = {}
    for row in sorted(range(len(found)), key=lambda row: -found[row].cost.share):
        same = next((one for one in kept if _is_same(found[one], found[row])), None)
        if same is None:
            kept[row] = []
        else:
            kept[same].append(found[row].job.name)
    return [
        replace(found[row], evidence={**found[row].evidence, "further_jobs": sorted(names)})
        if (names := kept[row])
        else found[row]
        for row in sorted(kept)
    ]


def _is_same(other: Suspect, one: Suspect) -> bool:
    """Whether ``other`` is what ``one`` is, seen in another job at the same time."""
    if other.job is one.job or (other.culprit, other.level) != (one.culprit, one.level):
        return False
    begins_ns = max(int(each.job.start_ns[each.first]) for each in (one, other))
    ends_ns = min(int(each.job.end_ns[each.last]) for each in (one, other))
    return begins_ns < ends_ns
