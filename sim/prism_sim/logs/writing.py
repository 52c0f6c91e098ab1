"""Writes the log files of one job, window after window of time, and the truth of their lines.

A file has several sources: bulk lines, which are made for a window, and written lines, which wait
in order of time. All lines of a window are sorted by their true times, so a file shows the order in
which they arrived, whatever the clocks of the nodes say.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prism_sim.logs.config import Logs
from prism_sim.logs.files import LogFile, Position
from prism_sim.logs.job import AGENT, KERNEL, SLURM, Ints, LogJob, Source
from prism_sim.logs.ordinary.bulk import Bulk, Calls, Channels, Iterations, call_times
from prism_sim.logs.ordinary.course import course, noise
from prism_sim.logs.scene import Scene, Written
from prism_sim.logs.tools import Tools

LINES = 20_000
"""Lines of a file that are in memory together, about."""

FOREVER_NS = 1 << 62


@dataclass(frozen=True)
class FilePlan:
    """One file of a job: its path below the job's folder, its node, and who writes into it.

    Attributes
    ----------
    node : number of the node that has the file; -1 for the file of the batch step.
    sources : each source, and what the file puts before its lines.
    """

    path: str
    node: int
    sources: tuple[tuple[Source, str], ...]


@dataclass
class LineRows:
    """Rows of the truth table of lines, by column."""

    columns: dict[str, list[Any]] = field(
        default_factory=lambda: {
            name: []
            for name in (
                "job", "file", "line", "offset_bytes", "time_ns", "node", "rank", "role", "event",
            )
        }
    )  # fmt: skip

    def add(self, job: LogJob, file: str, position: Position, line: Written) -> None:
        node = None if line.source.node < 0 else job.nodes[line.source.node]
        ranked = line.source.local >= 0
        rank = job.ranks_of[line.source.node][line.source.local] if ranked else None
        values = (
            job.name, file, position.line, position.offset_bytes, line.time_ns, node, rank,
            line.role, line.event,
        )  # fmt: skip
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)


class Defects(NamedTuple):
    """What is wrong with the files of each node: absent, or cut at a true time [ns]."""

    missing: frozenset[int]
    cut_ns: dict[int, int]


def defects(job: LogJob, scenes: Sequence[Scene], options: Logs) -> Defects:
    """Nodes whose files are absent or end early: drawn ones, and nodes that died."""
    cut_ns, missing = {}, set()
    end_ns = max([job.times.last_ns, *(scene.end_ns for scene in scenes)])
    shared = job.layout == "job"
    for node in range(len(job.nodes)):
        drawn, when = job.generator("defects", node).uniform(size=2).tolist()
        if drawn < options.missing and not shared:
            missing.add(node)
        elif drawn < options.missing + options.truncated and not shared:
            cut_ns[node] = job.times.begin_ns + int((end_ns - job.times.begin_ns) * when)
    for scene in scenes:
        for node, dead_ns in scene.dead_ns.items():
            cut_ns[node] = min(dead_ns, cut_ns.get(node, dead_ns))
    return Defects(frozenset(missing), cut_ns)


def plans(job: LogJob) -> list[FilePlan]:
    """The files of a job in its layout."""
    batch, found = f"slurm-{job.job_id}.out", []
    together: list[tuple[Source, str]] = [(SLURM, "")]
    for node, name in enumerate(job.nodes):
        streams = [
            (Source(node, local, stream), local)
            for local in range(len(job.ranks_of[node]))
            for stream in ("out", "err")
        ]
        agent = Source(node, AGENT)
        if job.layout == "rank":
            found.append(FilePlan(f"{name}/agent.log", node, ((agent, ""),)))
            for source, local in streams:
                path = f"{name}/attempt_0/{local}/std{source.stream}.log"
                found.append(FilePlan(path, node, ((source, ""),)))
        elif job.layout == "node":
            tee = tuple((source, f"[default{local}]:") for source, local in streams)
            found.append(FilePlan(f"{name}.log", node, ((agent, ""), *tee)))
        else:
            together.append((agent, f"{node}: "))
            together += [(source, f"{node}: [default{local}]:") for source, local in streams]
        found.append(FilePlan(f"{name}.kernel.log", node, ((Source(node, KERNEL), ""),)))
    return [FilePlan(batch, -1, tuple(together)), *found]


class JobWriter:
    """Writes all files of one job.

    Parameters
    ----------
    folder : the folder of all logs; the job gets one below.
    scenes : its failures; several if it was slow before it failed.

    Attributes
    ----------
    defects : what is wrong with its files.
    total_bytes, total_lines : what was written, before compression.
    """

    def __init__(self, job: LogJob, scenes: Sequence[Scene], folder: Path, options: Logs) -> None:
        self._job = job
        self._tools = Tools.of(job)
        self._scenes = scenes
        self.total_bytes = self.total_lines = 0
        self._folder = folder / job.name
        self._options = options
        self.defects = defects(job, scenes, options)
        self._stop_ns = self._stops()
        broken = [
            scene.when_ns for scene in scenes if scene.phase == "iteration" and not scene.slow
        ]
        self._calls_ns = call_times(job, broken[0] if broken else None)
        self._slow = next((scene.iteration for scene in scenes if scene.slow), None)
        self._written = self._by_source()

    def write(self, rows: LineRows) -> None:
        """Write the files; adds the rows of their lines."""
        for plan in plans(self._job):
            if plan.node not in self.defects.missing:
                self._write_file(plan, rows)

    def _stops(self) -> dict[int, int]:
        stops: dict[int, int] = {}
        for scene in self._scenes:
            for rank, at_ns in scene.silent_ns.items():
                stops[rank] = min(at_ns, stops.get(rank, at_ns))
        return stops

    def _by_source(self) -> dict[Source, list[Written]]:
        """All lines that wait, by source, in order of time."""
        found: dict[Source, list[Written]] = {}
        ordinary = [
            *course(self._job, self._tools),
            *noise(self._job, self._tools, self._options.noise),
        ]
        lines = [line for line in ordinary if line.time_ns < self._silent_from(line.source)]
        lines += [line for scene in self._scenes for line in scene.printed]
        if self._slow is not None:
            lines += self._slow_line(self._slow)
        for line in sorted(lines, key=lambda line: line.time_ns):
            found.setdefault(line.source, []).append(line)
        return found

    def _slow_line(self, iteration: int) -> list[Written]:
        """The line of the first slow iteration."""
        job, trainer = self._job, self._tools.trainer
        if iteration - job.times.first >= len(job.times.ends_ns):
            return []
        time_ns, text = Iterations(job, self._tools, "").one(iteration)
        source = job.source(trainer.printer(), "out")
        return [Written(source, time_ns, text, "indicator", f"{job.framework}.iteration")]

    def _silent_from(self, source: Source) -> int:
        if source.node < 0 or source.local == KERNEL:
            return FOREVER_NS
        ended = [scene.ended_ns.get(source.node, FOREVER_NS) for scene in self._scenes]
        if source.local == AGENT:
            return min(ended, default=FOREVER_NS)
        rank = self._job.ranks_of[source.node][source.local]
        return min([*ended, self._stop_ns.get(rank, FOREVER_NS)])

    def _bulks(self, plan: FilePlan) -> list[Bulk]:
        job, tools, found = self._job, self._tools, list[Bulk]()
        for source, prefix in plan.sources:
            if source.local < 0 or source.stream != "out":
                continue
            rank = job.ranks_of[source.node][source.local]
            stop_ns = self._silent_from(source)
            if job.nccl_debug != "warn":
                found.append(Channels(job, tools, rank, prefix, stop_ns))
            if job.nccl_debug == "coll":
                found.append(Calls(job, tools, rank, prefix, stop_ns, self._calls_ns))
            if rank == tools.trainer.printer():
                found.append(Iterations(job, tools, prefix, self._slow))
        return found

    def _write_file(self, plan: FilePlan, rows: LineRows) -> None:
        options = self._options
        limit = options.rotate_mbytes and options.rotate_mbytes * 10**6
        path = self._folder / plan.path
        file = LogFile(path, options.compression, limit, options.keep)
        cut_ns = self.defects.cut_ns.get(plan.node, FOREVER_NS)
        waiting = _Waiting(self._written, plan.sources)
        bulks, marked, last = self._bulks(plan), list[tuple[Position, Written]](), ""
        edges = [edge for edge in self._edges(plan, bool(bulks)) if edge < cut_ns]
        for start_ns, end_ns in zip(edges, [*edges[1:], cut_ns], strict=True):
            texts, lines = _merged(bulks, waiting, start_ns, end_ns)
            if texts:
                positions = file.write(texts, [*lines])
                marked += zip(positions, lines.values(), strict=True)
                last = texts[-1]
        if cut_ns < FOREVER_NS and last:
            file.write_cut(last[: len(last) // 2])
        names = file.close()
        self.total_bytes += file.total_bytes
        self.total_lines += file.total_lines
        below = Path(self._job.name, plan.path).parent
        for position, line in marked:
            name = names[position.part]
            if name is not None:
                rows.add(self._job, (below / name).as_posix(), position, line)

    def _edges(self, plan: FilePlan, bulk: bool) -> list[int]:
        """Begins of the windows of a file: each has about as many lines as may be in memory."""
        if not bulk:
            return [-FOREVER_NS]
        job, ranks = self._job, sum(source.stream == "out" for source, _ in plan.sources)
        begin, training = job.times.begin_ns, job.times.training_ns
        parts = max(1, ranks * 60 // LINES)
        launch = [begin + (training - begin) * part // parts for part in range(1, parts)]
        marks = self._calls_ns if job.nccl_debug == "coll" else job.times.ends_ns
        each = max(1, LINES // ranks) if job.nccl_debug == "coll" else LINES
        return sorted({-FOREVER_NS, *launch, training, *marks[each::each].tolist()})


class _Waiting:
    """The written lines of a file's sources, with the prefixes of the file, in order of time."""

    def __init__(
        self, by_source: dict[Source, list[Written]], sources: Iterable[tuple[Source, str]]
    ) -> None:
        found = [
            (line, prefix + line.text)
            for source, prefix in sources
            for line in by_source.get(source, ())
        ]
        found.sort(key=lambda pair: pair[0].time_ns)
        self._lines = found
        self._times = [line.time_ns for line, _ in found]

    def within(self, start_ns: int, end_ns: int) -> list[tuple[Written, str]]:
        first, last = bisect_left(self._times, start_ns), bisect_left(self._times, end_ns)
        return self._lines[first:last]


def _merged(
    bulks: Sequence[Bulk], waiting: _Waiting, start_ns: int, end_ns: int
) -> tuple[list[str], dict[int, Written]]:
    """The lines of a window in order of time, and those with a role by their number."""
    times: list[Ints] = []
    texts: list[str] = []
    for bulk in bulks:
        at, made = bulk.lines(start_ns, end_ns)
        times.append(at)
        texts += made
    before, within = len(texts), waiting.within(start_ns, end_ns)
    if not within and sum(len(at) > 0 for at in times) < 2:
        return texts, {}
    texts += [text for _, text in within]
    times.append(np.array([line.time_ns for line, _ in within], np.int64))
    order = np.argsort(np.concatenate(times), kind="stable")
    own = np.flatnonzero(order >= before)
    lines = zip(own.tolist(), (within[place][0] for place in order[own] - before), strict=True)
    marked = {number: line for number, line in lines if line.role is not None}
    return [texts[place] for place in order.tolist()], marked
