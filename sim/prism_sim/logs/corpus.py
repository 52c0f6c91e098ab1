"""Writes the logs of many jobs with their truth tables and the scheduler's accounting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from llmprism.io.writing import write_table
from prism_sim.draws import Draws
from prism_sim.logs.config import Logs
from prism_sim.logs.drawn import Place, drawn_job, has_held_out
from prism_sim.logs.failures import FailureKind
from prism_sim.logs.job import LogJob
from prism_sim.logs.population import Fate, fates
from prism_sim.logs.scene import Scene
from prism_sim.logs.shares import share_of_symptom
from prism_sim.logs.text import SECOND_NS
from prism_sim.logs.writing import JobWriter, LineRows
from prism_sim.run_folder import LOGS_TRUTH
from prism_sim.scenario.cluster import Cluster
from prism_sim.streaming import TableStream

Progress = Callable[[float, str], None]


class Incident(NamedTuple):
    """A failure of a job.

    Attributes
    ----------
    follows : the number of the failure that it repeats.
    flow_fault : the row of the simulation's table of faults.
    """

    scene: Scene
    kind: type[FailureKind]
    follows: int | None = None
    flow_fault: int | None = None


@dataclass(frozen=True)
class Logged:
    """A job whose logs are written, with its incidents in order of time."""

    job: LogJob
    incidents: tuple[Incident, ...] = ()
    simulated_job: str | None = None
    attempt: int | None = None


def drawn_jobs(
    options: Logs, cluster: Cluster, seed: int, before_ns: int
) -> tuple[int, Iterator[Logged]]:
    """The number of drawn jobs, and these, in order of their begin; they end before a time."""
    draws = Draws(seed)
    plan = fates(options, draws)
    slot_ns = int((options.iterations * options.step_s * 8 + 7_200) * SECOND_NS)
    return len(plan), _drawn(plan, options, cluster, draws, before_ns, slot_ns)


def _drawn(
    plan: list[Fate], options: Logs, cluster: Cluster, draws: Draws, before_ns: int, slot_ns: int
) -> Iterator[Logged]:
    place: Place | None = None
    for fate in plan:
        begin_ns = before_ns - (len(plan) - fate.number) * slot_ns
        failing = place if fate.follows is not None else None
        made = drawn_job(fate, options, cluster, draws, begin_ns, failing)
        scene = made.scene
        if scene is None or fate.kind is None:
            yield Logged(made.job)
            continue
        place = Place(made.job.nodes[scene.node], made.job.homes[scene.rank][1])
        yield Logged(made.job, (Incident(scene, fate.kind, fate.follows),))


class CorpusWriter:
    """Writes jobs one after another; the tables are complete when it is closed.

    Parameters
    ----------
    folder : the run folder; logs go to ``logs``, tables to ``truth``.

    Attributes
    ----------
    counts : numbers of jobs, failures, lines and bytes (uncompressed) that were written.
    """

    def __init__(self, folder: Path, options: Logs) -> None:
        self._folder = folder
        self._options = options
        self._rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("logs_jobs", "logs_nodes", "logs_failures")
        }
        self._index: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(("jobs", "failures", "lines", "bytes"), 0)
        truth = folder / "truth"
        truth.mkdir(parents=True, exist_ok=True)
        self._lines = TableStream(truth / "logs_lines.parquet", LOGS_TRUTH["logs_lines"])

    def write_all(self, jobs: Iterable[Logged], count: int, progress: Progress | None) -> None:
        """Write ``count`` jobs, and then the tables."""
        try:
            for number, logged in enumerate(jobs):
                if progress is not None:
                    progress(number / max(1, count), f"writing logs, {number} of {count} jobs")
                self._write(logged)
        finally:
            self._lines.close()
        for name, rows in self._rows.items():
            schema = LOGS_TRUTH[name]
            table = pa.Table.from_pylist(rows, schema=schema)
            write_table(table, self._folder / "truth" / f"{name}.parquet", schema)
        (self._folder / "logs").mkdir(exist_ok=True)
        text = json.dumps({"schema": 1, "jobs": self._index}, indent=1) + "\n"
        (self._folder / "logs" / "index.json").write_text(text, encoding="utf-8")

    def _write(self, logged: Logged) -> None:
        scenes = [incident.scene for incident in logged.incidents]
        writer = JobWriter(logged.job, scenes, self._folder / "logs", self._options)
        rows = LineRows()
        writer.write(rows)
        made = (1, len(scenes), writer.total_lines, writer.total_bytes)
        self.counts = {
            name: count + more
            for (name, count), more in zip(self.counts.items(), made, strict=True)
        }
        table = pa.table(rows.columns, schema=LOGS_TRUTH["logs_lines"])
        self._lines.write(lambda: table)
        first = len(self._rows["logs_failures"])
        for incident in logged.incidents:
            self._rows["logs_failures"].append(self._failure(logged, incident, rows))
        stopping = [number for number, scene in enumerate(scenes) if not scene.slow]
        last = stopping[-1] if stopping else len(scenes) - 1
        failure = first + last if scenes else None
        self._rows["logs_jobs"].append(_job_row(logged, failure))
        self._rows["logs_nodes"] += _node_rows(logged.job, writer)
        self._index.append(_accounting(logged))

    def _failure(self, logged: Logged, incident: Incident, rows: LineRows) -> dict[str, Any]:
        scene, kind, job = incident.scene, incident.kind, logged.job
        columns = rows.columns
        pairs = zip(columns["role"], columns["time_ns"], strict=True)
        shown = [time_ns for role, time_ns in pairs if role == "indicator"]
        placed = bool(scene.nodes)
        return {
            "failure": len(self._rows["logs_failures"]),
            "job": job.name,
            "kind": kind.name,
            "symptom": kind.symptom,
            "category": kind.category,
            "stage": kind.stage,
            "phase": scene.phase,
            "share": share_of_symptom(kind),
            "node": job.nodes[scene.node] if placed else None,
            "rank": scene.rank if placed else None,
            "nodes": json.dumps([job.nodes[node] for node in scene.nodes]),
            "ranks": json.dumps(scene.ranks),
            "iteration": scene.iteration,
            "begin_ns": scene.when_ns,
            "reported_ns": min(shown, default=None),
            "end_ns": _end_ns(logged),
            "flow_fault": incident.flow_fault,
            "follows": incident.follows,
            "held_out": kind.held_out,
        }


def _end_ns(logged: Logged) -> int:
    """The last process of the job has ended."""
    ends = [incident.scene.end_ns for incident in logged.incidents if incident.scene.ended_ns]
    return max(ends, default=logged.job.times.last_ns + 6 * SECOND_NS)


def _ending(logged: Logged) -> tuple[str, str]:
    for incident in logged.incidents:
        if incident.scene.ended_ns:
            return incident.scene.ending
    return "COMPLETED", "0:0"


def _accounting(logged: Logged) -> dict[str, Any]:
    job, (state, code) = logged.job, _ending(logged)
    return {
        "job": job.name,
        "job_id": job.job_id,
        "name": job.title,
        "user": job.user,
        "nodes": list(job.nodes),
        "gpus_per_node": job.gpus,
        "submit_ns": job.times.submit_ns,
        "begin_ns": job.times.begin_ns,
        "end_ns": _end_ns(logged),
        "state": state,
        "exit_code": code,
    }


def _job_row(logged: Logged, failure: int | None) -> dict[str, Any]:
    job = logged.job
    kinds = [incident.kind for incident in logged.incidents]
    return {
        "job": job.name,
        "user": job.user,
        "framework": job.framework,
        "versions": json.dumps(dict(job.versions), sort_keys=True),
        "layout": job.layout,
        "nodes": len(job.nodes),
        "ranks": job.ranks,
        "gpus_per_node": job.gpus,
        "dp": job.dp,
        "pp": job.pp,
        "tp": job.tp,
        "state": _ending(logged)[0],
        "failure": failure,
        "simulated_job": logged.simulated_job,
        "attempt": logged.attempt,
        "held_out": has_held_out(job) or any(kind.held_out for kind in kinds),
    }


def _node_rows(job: LogJob, writer: JobWriter) -> list[dict[str, Any]]:
    missing, cut_ns = writer.defects
    return [
        {
            "job": job.name,
            "node": name,
            "number": node,
            "clock_offset_ns": job.clocks_ns[node],
            "missing": node in missing,
            "cut_ns": cut_ns.get(node),
        }
        for node, name in enumerate(job.nodes)
    ]
