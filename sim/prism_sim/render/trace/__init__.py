"""The run as a trace for Perfetto: truth and reconstruction side by side.

Trace Event JSON (the format of ``chrome://tracing``). Every job is two processes, the truth and
the reconstruction, one below the other. A rank has a track for its steps and one for each stream
of work. Slices that overlap within a stream go to further tracks, so that the slices of one track
are disjoint or nested. Arrows lead from the sending of a message to its reception. Further
processes have the counters (rate of each NIC, ranks that wait), the windows of injected faults and
of findings, and the clock. If the run has logs, each job has a process with its failure, what
``llmlog`` answers (until others report it, and what to do), and the moments of log lines about it.

Times are microseconds since the first event; ``otherData`` has the time of the first event
(``origin_ns``, ``origin_utc``), and the clock process and the steps show UTC. In a large run, all
ranks have their steps, but only some have all their spans, as many as ``max_events`` allow: first
those in the pipelines that faults or findings name, then replica by replica, all stages of each,
the first tensor rank before the others; at least one rank is kept. ``otherData`` and the process
"about this trace" name the ranks that are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from llmprism.page.tables import Tables
from prism_common.files import replacing
from prism_common.quantities import clock_time
from prism_sim.render import look
from prism_sim.render.logged import failures, reports
from prism_sim.render.trace.arrows import arrows
from prism_sim.render.trace.counters import counters
from prism_sim.render.trace.lines import Event, Ints, describe, lines, microseconds, thread
from prism_sim.render.trace.marks import Mark, log_events, mark_events, marks_of
from prism_sim.render.trace.processes import Process, processes_of
from prism_sim.render.trace.selection import Selection, select
from prism_sim.render.trace.tracks import Tracks, tracks_of
from prism_sim.run_folder import Run

__all__ = ["MAX_EVENTS", "render_trace"]

MAX_EVENTS = 100_000


def render_trace(
    run: Run,
    max_events: int = MAX_EVENTS,
    tables: Tables | None = None,
    logged: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write ``trace.json`` with about ``max_events`` slices at most.

    Parameters
    ----------
    tables : the tables of the run, if they are read already.
    logged : the failures in its logs, if they are known already.
    """
    tables = tables or Tables.of(run.folder)
    chosen = select(run, max_events)
    processes = processes_of(run, chosen, tables)
    marks = marks_of(run)
    shown = reports(run)
    rows = failures(run) if logged is None else logged
    edges = [
        (int(process.slices["start_ns"].min()), int(process.slices["end_ns"].max()))
        for process in processes
        if len(process.slices)
    ] + [(mark.start_ns, mark.end_ns) for mark in marks]
    edges += [(int(time_ns), int(time_ns)) for time_ns in shown["time_ns"]]
    edges += [(row["begin_ns"], row["end_ns"]) for row in rows]
    extent = (min(start for start, _ in edges), max(end for _, end in edges)) if edges else (0, 0)
    notes = _notes(run, chosen, extent[0])
    events = _events(tables, chosen, processes, marks, extent, notes)
    of_logs = log_events(len(processes) + 5, shown, rows, extent[0])
    _write(run, chain(events, of_logs), notes)


def _events(
    tables: Tables,
    chosen: Selection,
    processes: list[Process],
    marks: list[Mark],
    extent: tuple[int, int],
    notes: dict[str, Any],
) -> Iterator[Event | str]:
    made: list[Tracks] = []
    for pid, process in enumerate(processes, 1):
        yield from describe(pid, process.name)
        made.append(tracks_of(pid, process, extent[0]))
        yield from made[-1].events
    yield from arrows(tables, chosen, made, extent[0], [(m.start_ns, m.end_ns) for m in marks])
    pid = len(processes) + 1
    if marks:
        yield from mark_events(pid, marks, extent[0])
    if processes:
        yield from counters(tables, chosen, pid + 1, extent)
        yield from clock(pid + 2, extent)
        yield from _about(pid + 3, notes, extent)


def _notes(run: Run, chosen: Selection, origin: int) -> dict[str, Any]:
    """What the trace shows and what it omits."""
    return {
        "run": look.name_of(run),
        "ranks": len(chosen.ranks),
        "ranks_shown": len(chosen.with_spans),
        "origin_ns": origin,
        "origin_utc": clock_time(origin, dated=True),
        "only_steps": chosen.labels(set(chosen.with_steps) - set(chosen.with_spans)),
        "omitted": chosen.labels(set(chosen.ranks.index) - set(chosen.with_steps)),
    }


def _about(pid: int, notes: dict[str, Any], extent: tuple[int, int]) -> Iterator[Event]:
    """Slices over the whole trace that name what is not in it."""
    yield from describe(pid, "about this trace")
    missing = {"only_steps": "only the steps of", "omitted": "nothing of"}
    for tid, (key, words) in enumerate(missing.items(), 1):
        if notes[key]:
            yield thread(pid, tid, f"ranks: {words} {len(notes[key]):,} of {notes['ranks']:,}")
            yield {
                "ph": "X", "name": f"shows {words} {len(notes[key]):,} ranks", "ts": 0,
                "dur": (extent[1] - extent[0]) / 1000, "pid": pid, "tid": tid,
                "args": {"ranks": "; ".join(notes[key])},
            }  # fmt: skip


def _write(run: Run, events: Iterable[Event | str], notes: dict[str, Any]) -> None:
    """Write the events one per line."""
    with replacing(run.trace) as partial, partial.open("w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit": "ms", "otherData": ')
        first = {key: notes[key] for key in ("origin_ns", "origin_utc")}  # found at the beginning
        out.write(json.dumps(first | notes, default=np.generic.item) + ', "traceEvents": [\n')
        separator = ""
        for event in events:
            out.write(separator + (event if isinstance(event, str) else json.dumps(event)))
            separator = ",\n"
        out.write("\n]}\n")


# A track that shows the wall-clock time (UTC) of every moment of the trace.

_TICKS = 1500
_PERIODS_NS = [by * 10**power for power in range(3, 15) for by in (1, 2, 5)]


def clock(pid: int, extent: tuple[int, int]) -> Iterator[Event | str]:
    """Slices of one round period each, named by the time at which they begin."""
    yield from describe(pid, "clock (UTC)")
    first, last = extent
    period = next(one for one in _PERIODS_NS if (last - first) / one <= _TICKS)
    ticks = range(-(-first // period) * period, last, period)
    start: Ints = np.array(ticks, np.int64)
    name = np.datetime_as_string(start.astype("M8[ns]"), unit=_unit(period))
    yield thread(pid, 1, "UTC")
    yield from lines(
        '{"ph": "X", "name": "', pa.array(name.astype(object), pa.string()), '", "ts": ',
        microseconds(start - first), ', "dur": ',
        microseconds(np.minimum(period, last - start)), f', "pid": {pid}, "tid": 1}}',
    )  # fmt: skip


def _unit(period_ns: int) -> Literal["s", "ms", "us"]:
    if period_ns % 10**9 == 0:
        return "s"
    return "ms" if period_ns % 10**6 == 0 else "us"
