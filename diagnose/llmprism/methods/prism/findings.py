"""Findings: culprits of longer steps, what is slow in every step, stops, and what lies outside.

A finding is a row of the table. What several searches say of one culprit and one stretch of steps
is one finding. What is less likely than :data:`~.parameters.LEAST_SURE` is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.tables import DIAGNOSIS
from llmprism.methods.prism.context import Context
from llmprism.methods.prism.culprits.network import SYMPTOM, unnamed, with_other_jobs
from llmprism.methods.prism.durations import Durations, durations_of
from llmprism.methods.prism.explanation import Cost, Explanation, row_of
from llmprism.methods.prism.link_use import is_crowded
from llmprism.methods.prism.outside import Outside, outside_of
from llmprism.methods.prism.parameters import LEAST_SURE, MOST_FINDINGS
from llmprism.methods.prism.persistent import Persistent, persistent
from llmprism.methods.prism.search import LocatedCulprit, search
from llmprism.methods.prism.stages import long_stages
from llmprism.methods.prism.windows import LEVEL, Window
from prism_common.threads import both

Row = dict[str, Any]


def find_findings(context: Context) -> pd.DataFrame:
    """All findings about the jobs of ``context``, in order of time."""
    outside, measured = both(
        lambda: outside_of(context), lambda: [durations_of(context, job) for job in context.jobs]
    )
    every = [durations for durations in measured if durations is not None]
    rows = list(outside.stops())
    for durations in every:
        others = [other for other in every if other is not durations]
        rows += _of_job(durations, others, outside)
    rows += [row for job in context.jobs for row in outside.saves(job)]
    return numbered(rows)


def numbered(rows: Sequence[Row]) -> pd.DataFrame:
    """The table of those findings that are likely enough, in order of time."""
    sure = [row for row in rows if row["confidence"] >= LEAST_SURE]
    sure.sort(key=lambda row: (row["start_ns"], row["job"], row["culprit"]))
    table = pd.DataFrame(sure, columns=DIAGNOSIS["findings"].names)
    return table.assign(finding=range(len(table)))


def _of_job(durations: Durations, others: Sequence[Durations], outside: Outside) -> Iterator[Row]:
    """The findings about one job, the likeliest first, then what is slow in every step."""
    found: list[Explanation] = []
    for one in search(durations):
        known = _explained(durations, others, outside, one)
        if known is not None and not any(_is_same(known, other) for other in found):
            found.append(known)
            yield row_of(known, cost_of(durations, one))
        if len(found) == MOST_FINDINGS:
            break
    named = {one.culprit for one in found}
    for always in (*persistent(durations), *long_stages(durations)):
        whole = Window(0, durations.steps - 1, always.level, 0.0, LEVEL)
        if always.attribution.name in named:
            continue
        if not outside.explains(durations.job, always.attribution, whole):
            part = outside.instead_of(durations.job, always.attribution, whole)
            yield always_row(durations, replace(always, attribution=part))


def _explained(
    durations: Durations, others: Sequence[Durations], outside: Outside, one: LocatedCulprit
) -> Explanation | None:
    """A culprit as an explanation, by all that is known; None if something else explains it."""
    job, window = durations.job, one.scene.window
    named = outside.instead_of(job, one.attribution, window)
    if named.symptom == SYMPTOM and is_crowded(durations, window):
        return None
    if outside.explains(job, named, window):
        return None
    named = with_other_jobs(named, window, durations, others)
    sure = one.chance * named.sure
    if named.symptom == SYMPTOM and sure < LEAST_SURE:
        if window.first == window.last:
            return None
        named, sure = unnamed(named, job), one.chance
    lost = one.own_ns / max(durations.usual_ns, 1.0) / (window.last - window.first + 1)
    evidence = {
        **named.evidence, "lost_share_of_a_step": round(lost, 4), "log_odds": round(one.odds, 1),
    }  # fmt: skip
    if window.unaffected:
        evidence["steps"] = np.flatnonzero(one.scene.affected).tolist()
    return Explanation(
        job, named.level, named.symptom, named.cause, named.kind, named.name, window.first,
        window.last, window.level / (1 + window.level), min(sure, 1.0), evidence,
    )  # fmt: skip


def cost_of(durations: Durations, one: LocatedCulprit) -> Cost:
    """What a window costs the job."""
    window, normal_ns = one.scene.window, durations.usual_ns
    slow_ns = normal_ns + one.lost_ns / (window.last - window.first + 1)
    affected = int(one.scene.affected.sum())
    deviations = one.lost_ns / affected / durations.normal.noise_ns * np.sqrt(affected)
    return Cost(normal_ns, slow_ns, one.lost_ns, float(deviations))


def _is_same(one: Explanation, other: Explanation) -> bool:
    """Whether two explanations are about one culprit, in windows that touch."""
    touch = one.first <= other.last + 1 and other.first <= one.last + 1
    return one.culprit == other.culprit and touch


def always_row(durations: Durations, one: Persistent) -> Row:
    """The row of what is slow in all steps."""
    named = one.attribution
    explanation = Explanation(
        durations.job, named.level, named.symptom, named.cause, named.kind, named.name, 0,
        durations.steps - 1, one.level / (1 + one.level), one.confidence, named.evidence,
    )  # fmt: skip
    return row_of(explanation, one.cost)
