"""Jobs and steps that keep their names: what a window has, in terms of the windows before.

A job is the known one on exactly the same servers, or else the one with which it shares most
addresses. So it keeps its name if it restarts, or if some of its servers are replaced. Its steps
go on from those before (:mod:`~llmprism.watch.numbering`). What takes no steps is traffic of no job
that is known: it gets no name that lasts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from llmprism.batches.chains import SHARED, ends_of, members_of, period_of
from llmprism.batches.joining import with_new_names
from llmprism.diagnosis import Diagnosis
from llmprism.io.parts import InParts
from llmprism.watch import habits
from llmprism.watch.numbering import Numbering, numbered
from llmprism.watch.state import KnownJob, State
from llmprism.watch.window import Span

SETTLED = 0.5  # of a step after its end: later records are those of the next one
_FORGOTTEN = 100  # times the known jobs of a window: older ones are forgotten
_TABLES = ("jobs", "layouts", "pairs", "groups", "steps", "findings")
NO_JOB = "traffic"
"""What takes no steps is called so, with a number that does not last."""
_TIMES = ("start_ns", "end_ns", "dp_end_ns")
_NUMBERS = ("step", "first_step", "last_step")


@dataclass(frozen=True)
class Followed:
    """A diagnosis in lasting names.

    Attributes
    ----------
    settled : start and end [ns], and number of ranks, of each step that is new and complete;
        columns ``job``, ``step``, ``start_ns``, ``end_ns``, ``ranks``.
    last_step : of each job, the last step of the window.
    """

    diagnosis: Diagnosis
    settled: pd.DataFrame
    last_step: dict[str, int]


def follow(
    diagnosis: Diagnosis,
    server_of: Mapping[str, str],
    state: State,
    shown: Span,
    is_last: bool = False,
    others: Collection[str] = (),
) -> Followed:
    """Give jobs and steps their lasting names, and take note of them in ``state``.

    ``others`` are known jobs that were not diagnosed, so no job of the diagnosis is one of them.

    The last step of a job is complete only if another one has begun, if nothing of it has come for
    SETTLED of a step before the end of what is ``shown``, or if ``is_last``: no more records will
    come.
    """
    members, ends = members_of(diagnosis), ends_of(diagnosis.steps)
    servers = {
        job: frozenset(server_of[address] for address in addresses)
        for job, addresses in members.items()
    }
    known = _named(members, servers, frozenset(ends), state, others)
    numbers = {job: numbered(one, ends[job], shown) for job, one in known.items() if job in ends}
    if is_last:
        numbers = {job: replace(one, counts=True) for job, one in numbers.items()}
    names = {job: f"{NO_JOB}-{number}" for number, job in enumerate(members)}
    names |= {job: one.name for job, one in known.items()}
    named = _renamed(diagnosis, names, numbers)
    for job, one in known.items():
        if one.last_step < 0 or job not in ends or numbers[job].counts:
            one.addresses = sorted(members[job])
            one.servers = sorted(servers[job])
        if job in ends:
            _take(one, ends[job], numbers[job])
    last = {known[job].name: int(own.index[-1]) + numbers[job].shift for job, own in ends.items()}
    counting = {known[job].name: own for job, own in ends.items() if numbers[job].counts}
    complete = {
        name: last[name] - (0 if is_last or _is_settled(own, shown.end_ns) else 1)
        for name, own in counting.items()
    }
    settled = _settled(named.steps, {one.name: one for one in known.values()}, complete)
    for one in known.values():
        if one.name in counting:
            whole = {step: end for step, end in one.ends_ns.items() if step <= one.last_step}
            habits.remember(one, whole)
    return Followed(named, settled, last)


def _named(
    members: Mapping[str, frozenset[str]],
    servers: Mapping[str, frozenset[str]],
    training: Collection[str],
    state: State,
    others: Collection[str],
) -> dict[str, KnownJob]:
    """The known job of each job of a window, or a new one if it takes steps.

    One on the same servers comes first, then those of which a larger part is shared, then the one
    that was seen last.
    """
    pairs = [
        (_likeness(addresses, servers[job], one), job, place)
        for job, addresses in members.items()
        for place, one in enumerate(state.jobs)
        if one.name not in others
    ]
    found: dict[str, KnownJob] = {}
    taken: set[int] = set()
    for likeness, job, place in sorted(pairs, key=lambda pair: pair[0], reverse=True):
        one = state.jobs[place]
        if likeness.is_same and job not in found and place not in taken:
            found[job] = one
            taken.add(place)
    for job, addresses in members.items():
        if job not in found and job in training:
            found[job] = KnownJob(f"job-{state.jobs_named}", sorted(addresses), [])
            state.jobs.append(found[job])
            state.jobs_named += 1
    present = {*others, *(one.name for one in found.values())}
    latest = sorted(state.jobs, key=lambda one: -one.seen_ns)[: _FORGOTTEN * (len(present) + 1)]
    present |= {one.name for one in latest}
    state.jobs = [one for one in state.jobs if one.name in present]
    return found


class _Likeness(NamedTuple):
    """How much a job is like a known one: the larger, the likelier they are the same."""

    is_same: bool
    has_same_servers: bool
    shared: float
    seen_ns: int


def _likeness(addresses: frozenset[str], servers: frozenset[str], one: KnownJob) -> _Likeness:
    both = len(addresses.intersection(one.addresses))
    smaller = min(len(one.addresses), len(addresses))
    share = both / max(len(addresses.union(one.addresses)), 1)
    is_same = both >= SHARED * max(smaller, 1)
    return _Likeness(is_same, is_same and servers == {*one.servers}, share, one.seen_ns)


def _renamed(
    diagnosis: Diagnosis, names: Mapping[str, str], numbers: Mapping[str, Numbering]
) -> Diagnosis:
    shifts = {job: one.shift for job, one in numbers.items()}
    tables: dict[str, Any] = {
        name: _in_names(getattr(diagnosis, name), names, shifts) for name in _TABLES
    }
    offset_ns = diagnosis.steps["job"].map({job: one.offset_ns for job, one in numbers.items()})
    offset_ns = offset_ns.fillna(0).astype(np.int64)
    times = {name: tables["steps"][name] - offset_ns for name in _TIMES}
    tables["steps"] = tables["steps"].assign(**times)
    spans = diagnosis.spans_in_parts

    def make() -> Iterator[pd.DataFrame]:
        return (_in_names(part, names, shifts) for part in spans.make())

    verdict = diagnosis.verdict
    verdict = replace(
        verdict,
        reasons=tuple(
            replace(one, job=names.get(one.job, one.job) if one.job else None)
            for one in verdict.reasons
        ),
        scopes=tuple(replace(one, job=names.get(one.job, one.job)) for one in verdict.scopes),
    )
    return replace(diagnosis, **tables, verdict=verdict, spans_in_parts=InParts(make))


def _in_names(
    table: pd.DataFrame, names: Mapping[str, str], shifts: Mapping[str, int]
) -> pd.DataFrame:
    shift = table["job"].astype(str).map(shifts).fillna(0).astype(np.int64)
    numbers = {
        name: (table[name] + shift).where(table[name] >= 0, table[name])
        for name in _NUMBERS
        if name in table
    }
    return with_new_names(table.assign(**numbers), names)


def _take(one: KnownJob, ends_ns: pd.Series, numbering: Numbering) -> None:
    """Take note of the steps of a window."""
    found = {
        int(step) + numbering.shift: int(end) - numbering.offset_ns
        for step, end in zip(ends_ns.index, ends_ns, strict=True)
    }
    one.counts, one.first_count = numbering.counts, numbering.first_count
    one.candidate_ns = {} if one.counts else found
    if one.counts:
        one.ends_ns, one.support = found, numbering.support
    one.seen_ns = max(found.values())
    if one.last_step < 0 or not one.since_ns:
        one.since_ns = min(found.values())


def _is_settled(ends_ns: pd.Series, until_ns: int) -> bool:
    """Whether the last step of a job had ended long before a time [ns]."""
    return until_ns >= float(ends_ns.iloc[-1]) + SETTLED * period_of(ends_ns, float("inf"))


def _settled(
    steps: pd.DataFrame, known: Mapping[str, KnownJob], complete: Mapping[str, int]
) -> pd.DataFrame:
    """The steps that no window before had, up to the last ``complete`` one of each job."""
    times = steps.groupby(["job", "step"])[["start_ns", "end_ns"]].median().astype(np.int64)
    times["ranks"] = steps.groupby(["job", "step"])["address"].nunique()
    rows = times.reset_index()
    last_steps = {name: one.last_step for name, one in known.items()}
    counted = rows["job"].map(last_steps).astype(np.int64)  # text if there are no rows
    until = rows["job"].map(complete).fillna(-1).astype(np.int64)
    rows = rows[(rows["step"] > counted) & (rows["step"] <= until)]
    for job, step in rows.groupby("job")["step"].max().items():
        known[str(job)].last_step = int(step)
    return rows.reset_index(drop=True)


def count_steps(steps: pd.DataFrame, state: State, since_ns: int) -> None:
    """Take note of steps that were completed without a diagnosis.

    Of each job, the ends [ns] from ``since_ns`` on are kept, as a window would have them.
    """
    for name, own in steps.groupby("job"):
        known = next(one for one in state.jobs if one.name == name)
        known.ends_ns |= dict(zip(own["step"].tolist(), own["dp_end_ns"].tolist(), strict=True))
        known.ends_ns = {step: end for step, end in known.ends_ns.items() if end >= since_ns}
        known.seen_ns = max(known.ends_ns.values(), default=known.seen_ns)
        habits.remember(known, known.ends_ns)
        known.last_step = max(known.last_step, int(own["step"].max()))
