"""What lies outside the graph of a job: stops, saves, other traffic on its links, other paths.

A stopped job has no steps, a save belongs to no step, and what other jobs send is in no graph of
this one. These explanations are searched for by themselves. Where one lasts as long as slow
transfers do, it tells why they are slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.culprits.base import Attribution
from llmprism.methods.prism.explanation import Explanation, row_of
from llmprism.methods.prism.outside.incast import incast
from llmprism.methods.prism.outside.ports import lost_ports
from llmprism.methods.prism.outside.reroutes import reroutes
from llmprism.methods.prism.outside.slow_storage import slow_storage
from llmprism.methods.prism.parameters import LEAST_SURE, MIXED
from llmprism.methods.prism.stops.stopped import stopped
from llmprism.methods.prism.windows import Window

Row = dict[str, Any]


@dataclass(frozen=True)
class Outside:
    """What lies outside the graphs of all jobs.

    Attributes
    ----------
    halts : jobs that stopped.
    slow_saves : storage that is slow.
    shared : why transfers are slow: other traffic, and other paths.
    """

    halts: tuple[Explanation, ...]
    slow_saves: tuple[Explanation, ...]
    shared: tuple[Explanation, ...]

    def stops(self) -> Iterator[Row]:
        """Rows of the findings about stops."""
        return _rows(self.halts)

    def saves(self, job: JobView) -> Iterator[Row]:
        """Rows of the findings about slow saves of a job."""
        return _rows(tuple(one for one in self.slow_saves if one.job is job))

    def explains(self, job: JobView, named: Attribution, window: Window) -> bool:
        """Whether the job stopped in a window, or waited for saves and nothing else is known."""
        why = (*self.halts, *(self.slow_saves if named.kind in ("job", "stage") else ()))
        within = [one for one in why if one.first <= window.last and window.first <= one.last]
        return any(one.job is job for one in within)

    def instead_of(self, job: JobView, named: Attribution, window: Window) -> Attribution:
        """What is known better than ``named`` in the same window: why transfers are slow.

        Jobs that meet on one link are slow for one reason.
        """
        if named.level != "network":
            return named
        affected = window.affected(job.count)
        middle_ns = (job.start_ns[affected] + job.end_ns[affected]) // 2
        of_job = [
            one for one in self.shared
            if one.job is job or job.name in one.evidence.get("with_jobs", ())
        ]  # fmt: skip
        shown = [one for one in of_job if one.acts_at(middle_ns).mean() > MIXED]
        if not shown:
            return named
        best = max(shown, key=lambda one: one.confidence)
        others = [*best.evidence.get("or_causes", ()), named.cause]
        names = [*dict.fromkeys((best.culprit, *map(str, best.evidence.get("one_of", ()))))]
        evidence = {**best.evidence, "or_causes": others, "one_of": names}
        return replace(
            named, symptom=best.symptom, cause=best.cause, kind=best.culprit_kind,
            name=best.culprit, evidence=evidence, sure=best.confidence,
        )  # fmt: skip


def outside_of(context: Context) -> Outside:
    """Search for what lies outside the graphs."""
    halts, saves, others, ports, paths = (
        tuple(one for one in cause(context) if one.confidence > LEAST_SURE)
        for cause in (stopped, slow_storage, incast, lost_ports, reroutes)
    )
    return Outside(halts, saves, (*others, *ports, *paths))


def _rows(explanations: tuple[Explanation, ...]) -> Iterator[Row]:
    for one in explanations:
        if one.cost is not None:
            yield row_of(one, one.cost)
