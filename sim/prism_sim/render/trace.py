"""The run as a trace for Perfetto: truth and reconstruction side by side.

Trace Event JSON (the format of ``chrome://tracing``). Every job is two processes, the truth and
the reconstruction, one below the other. A rank has a track for its steps and one for each stream
of work. Slices that overlap within a stream go to further tracks, so that the slices of one track
are disjoint or nested. A last process contains the windows of injected faults and of findings as
asynchronous slices, and an instant at the start of each finding.

Times are microseconds since the first event. A large run is reduced to some ranks, as many as
``max_events`` allow: first those in the pipelines that faults affect, then replica by replica, all
stages of each, the first tensor rank before the others; at least one rank is kept. ``otherData``
reports what was left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.writing import replacing
from prism_sim.render import look
from prism_sim.run_folder import Run
from prism_sim.score.busy import WORK
from prism_sim.score.culprits import culprit_of
from prism_sim.score.jobs import members, overlaps
from prism_sim.score.load import Ints, rank_rows

MAX_EVENTS = 100_000

_STREAMS = {kind: work for work, kinds in WORK.items() for kind in kinds}
_STREAMS |= {"send_act": "pp send", "send_grad": "pp send"}
_STREAMS |= {"recv_act": "pp receive", "recv_grad": "pp receive"}
_ORDER = ("steps", "compute", "pp send", "pp receive", "pp", "dp")

Event = dict[str, Any]
"""One event of the trace; where there are many, its JSON text is made directly."""


@dataclass(frozen=True)
class _Process:
    """One process of the trace: slices of some ranks.

    Attributes
    ----------
    name : the name in Perfetto.
    ranks : name of each rank's tracks, by its number in the process.
    slices : columns number (of the rank), stream, name, step, start_ns, end_ns.
    """

    name: str
    ranks: dict[int, str]
    slices: pd.DataFrame


def render_trace(run: Run, max_events: int = MAX_EVENTS) -> None:
    """Write ``trace.json`` with about ``max_events`` slices at most."""
    ranks = look.truth(run, "ranks").reset_index(drop=True)
    known = len(ranks) > 0
    ranks = ranks if known else _found_ranks(run)
    kept = ranks.loc[_kept(run, ranks, max_events)]
    processes = [*_processes(run, ranks, kept, known=known)]
    marks = [*_marks(run)]
    times = [process.slices["start_ns"].min() for process in processes if len(process.slices)]
    origin = int(min([*times, *(mark["start_ns"] for mark in marks)], default=0))
    notes = {"run": look.name_of(run), "ranks": len(ranks), "ranks_shown": len(kept)}
    _write(run, _events(processes, marks, origin), notes)


def _found_ranks(run: Run) -> pd.DataFrame:
    """The ranks without truth: every address of a found job."""
    jobs = look.diagnosis(run, "jobs").sort_values(["job", "address"], ignore_index=True)
    place = jobs.groupby("job").cumcount()
    return jobs.assign(rank=place, dp=place, pp=0, tp=0, ep=0, cp=0)


def _kept(run: Run, ranks: pd.DataFrame, max_events: int) -> list[int]:
    """Rows of the ranks to show, in the order of ``ranks``."""
    grid = ranks.fillna({"dp": 0, "pp": 0, "tp": 0, "ep": 0, "cp": 0})
    faults = look.truth(run, "faults")
    named = [culprit_of(fault, ranks) for _, fault in faults.iterrows()]
    affected = grid[grid["address"].isin([culprit[1] for culprit in named if culprit])]
    line = ["job", "dp", "tp", "ep", "cp"]
    is_affected = pd.MultiIndex.from_frame(grid[line]).isin(
        pd.MultiIndex.from_frame(affected[line])
    )
    order = (
        grid.assign(healthy=~is_affected)
        .sort_values(["healthy", "tp", "ep", "cp", "dp", "job", "pp"])
        .index
    )
    tables = [(side, name) for side in ("truth", "diagnosis") for name in ("steps", "spans")]
    mean = sum(look.rows(run, *table) for table in tables) / max(len(ranks), 1)
    return sorted(int(row) for row in order[: max(1, int(max_events / max(mean, 1)))])


def _processes(
    run: Run, ranks: pd.DataFrame, kept: pd.DataFrame, *, known: bool
) -> Iterator[_Process]:
    """Truth and reconstruction of each job in turn."""
    steps, spans = (_true_rows(run, ranks, kept, name) for name in ("steps", "spans"))
    at: look.Where = [("address", "in", kept["address"].tolist())]
    inferred_steps, inferred_spans = (look.diagnosis(run, name, at) for name in ("steps", "spans"))
    stands_for = _stands_for(run) if known else {job: job for job in ranks["job"].unique()}
    for job, mine in kept.groupby("job"):
        if known:
            yield _true_process(str(job), mine, steps, spans)
        for found in sorted(name for name, true in stands_for.items() if true == job):
            parts = [table[table["job"] == found] for table in (inferred_steps, inferred_spans)]
            name = f"job {job}: rebuilt from flows" + (f" ({found})" if known else "")
            yield _inferred_process(name, mine, *parts)


def _true_rows(run: Run, ranks: pd.DataFrame, kept: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of a truth table that belong to ranks kept, with their rank's ``number``."""
    table = look.truth(run, name, [("rank", "in", kept["rank"].tolist())])
    table = table.assign(number=rank_rows(ranks, table) if len(table) else None)
    return table[table["number"].isin(kept.index)]


def _stands_for(run: Run) -> dict[str, str]:
    couples = overlaps(members(look.truth(run, "ranks")), members(look.diagnosis(run, "jobs")))
    best = couples.drop_duplicates("found")
    return dict(zip(best["found"], best["true"], strict=True))


def _true_process(
    job: str, ranks: pd.DataFrame, steps: pd.DataFrame, spans: pd.DataFrame
) -> _Process:
    labels = "rank " + ranks["rank"].astype(str) + ", " + ranks["address"].astype(str)
    names = dict(zip(ranks.index.tolist(), labels, strict=True))
    steps = steps[steps["number"].isin(names)].assign(stream="steps")
    spans = spans[spans["number"].isin(names)]
    batch = spans["micro_batch"].astype("Int64").astype(str)
    name = spans["kind"].where(spans["micro_batch"].isna(), spans["kind"] + " " + batch)
    spans = spans.assign(stream=spans["kind"].map(_STREAMS).fillna("compute"), name=name)
    slices = pd.concat([steps.assign(name="step " + steps["step"].astype(str)), spans])
    return _Process(f"job {job}: truth", names, slices)


def _inferred_process(
    name: str, ranks: pd.DataFrame, steps: pd.DataFrame, spans: pd.DataFrame
) -> _Process:
    at = ranks.drop_duplicates("address")
    row_of = dict(zip(at["address"], at.index.tolist(), strict=True))
    names = {row: str(address) for address, row in row_of.items()}
    steps = steps.assign(stream="steps", name="step " + steps["step"].astype(str))
    slices = pd.concat([steps, spans.assign(stream=spans["kind"], name=spans["kind"])])
    slices = slices.assign(number=slices["address"].map(row_of))
    slices = slices.dropna(subset=["number"]).astype({"number": np.int64})
    return _Process(name, names, slices)


def _marks(run: Run) -> Iterator[dict[str, Any]]:
    """Faults and findings with their windows."""
    ranks = look.truth(run, "ranks")
    for number, fault in look.truth(run, "faults").dropna(subset=["start_ns"]).iterrows():
        culprit = culprit_of(fault, ranks)
        name = f"fault: {fault['kind']} {culprit[1] if culprit else ''}".rstrip()
        yield _mark("fault", number, name, fault, ["job", "factor"])
    findings = look.diagnosis(run, "findings").dropna(subset=["start_ns"])
    for _, finding in findings.iterrows():
        name = f"finding: {finding['symptom'] or finding['cause']} {finding['culprit']}"
        yield _mark("finding", finding["finding"], name, finding, ["job", "level", "confidence"])


def _mark(kind: str, number: Any, name: str, row: pd.Series, keys: list[str]) -> dict[str, Any]:
    end = row["start_ns"] if pd.isna(row["end_ns"]) else row["end_ns"]
    args = {key: row[key] if isinstance(row[key], str) else str(row[key]) for key in keys}
    times = {"start_ns": int(row["start_ns"]), "end_ns": int(end)}
    return {"kind": kind, "id": f"{kind}-{number}", "name": name, "args": args} | times


def _events(
    processes: list[_Process], marks: list[dict[str, Any]], origin: int
) -> Iterator[Event | str]:
    for pid, process in enumerate(processes, 1):
        yield from _describe(pid, process.name)
        yield from _slices(pid, process, origin)
    pid = len(processes) + 1
    if marks:
        yield from _describe(pid, "faults and findings")
        yield _thread(pid, 1, "findings begin")
    for mark in marks:
        start, end = (_microseconds(mark[key] - origin) for key in ("start_ns", "end_ns"))
        place = {"pid": pid, "tid": 1}
        both = {"name": mark["name"], "cat": mark["kind"], "id": mark["id"], **place}
        yield {"ph": "b", "ts": start, **both, "args": mark["args"]}
        yield {"ph": "e", "ts": end, **both}
        if mark["kind"] == "finding":
            yield {"ph": "i", "s": "t", "ts": start, "name": mark["name"], **place}


def _describe(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    order = {"sort_index": pid}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": order}


def _thread(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _slices(pid: int, process: _Process, origin: int) -> Iterator[Event | str]:
    """The tracks of one process, rank by rank and stream by stream."""
    slices = process.slices.sort_values(["start_ns", "end_ns"], ascending=[True, False])
    tid = 0
    streams = sorted(slices["stream"].unique(), key=lambda name: (_place(name), name))
    parts = dict(tuple(slices.groupby(["number", "stream"])))
    for number, rank in process.ranks.items():
        for stream in streams:
            part = parts.get((number, stream))
            if part is None:
                continue
            lane = _lanes(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
            for extra in range(int(lane.max()) + 1):
                name = f"{rank} {stream}" + (f" {extra + 1}" if extra else "")
                yield _thread(pid, tid + 1 + extra, name)
                yield {
                    **_thread(pid, tid + 1 + extra, ""),
                    "name": "thread_sort_index",
                    "args": {"sort_index": tid + 1 + extra},
                }
            yield from _complete(pid, tid + 1 + lane, stream, part, origin)
            tid += int(lane.max()) + 1


def _place(stream: str) -> int:
    return _ORDER.index(stream) if stream in _ORDER else len(_ORDER)


def _complete(pid: int, tids: Ints, stream: str, part: pd.DataFrame, origin: int) -> Iterator[str]:
    """The slices of a stream as JSON texts; writing a hundred thousand dictionaries is slow."""
    start = part["start_ns"].to_numpy(np.int64) - origin
    length = np.maximum(part["end_ns"].to_numpy(np.int64) - part["start_ns"].to_numpy(np.int64), 0)
    steps = part["step"].astype(int).tolist()
    columns = (part["name"].tolist(), steps, tids.tolist(), start.tolist(), length.tolist())
    quoted = {name: json.dumps(name) for name in set(columns[0])}
    middle = f'"cat": {json.dumps(stream)}, "ts": '
    for name, step, tid, ts, dur in zip(*columns, strict=True):
        yield (
            f'{{"ph": "X", "name": {quoted[name]}, {middle}{ts / 1000}, "dur": {dur / 1000}, '
            f'"pid": {pid}, "tid": {tid}, "args": {{"step": {step}}}}}'
        )


def _lanes(start: Ints, end: Ints) -> Ints:
    """Lowest track on which each interval is nested with all earlier ones.

    The intervals are sorted by start; of those with the same start the longest is first. Two
    intervals of one track are disjoint or nested.
    """
    open_until: list[list[int]] = []  # ends of the open intervals, by track
    lanes = np.zeros(len(start), np.int64)
    for place, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        for around in open_until:
            while around and around[-1] <= begin:
                around.pop()
        fits = (n for n, around in enumerate(open_until) if not around or stop <= around[-1])
        lanes[place] = lane = next(fits, len(open_until))
        if lane == len(open_until):
            open_until.append([])
        open_until[lane].append(stop)
    return lanes


def _microseconds(ns: int) -> float:
    return ns / 1000


def _write(run: Run, events: Iterable[Event | str], notes: dict[str, Any]) -> None:
    """Write the events one per line."""
    with replacing(run.trace) as partial, partial.open("w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit": "ms", "otherData": ')
        out.write(json.dumps(notes) + ', "traceEvents": [\n')
        separator = ""
        for event in events:
            out.write(separator + (event if isinstance(event, str) else json.dumps(event)))
            separator = ",\n"
        out.write("\n]}\n")
