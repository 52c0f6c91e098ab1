"""One simulated cluster with its jobs and faults, ready to run.

The world wires the parts together: layout, routes and fabric; jobs placed on it; the
collector and the span log that watch; and the faults that strike at their time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.clock import Clock
from prism_sim.cluster.background import traffic
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Network
from prism_sim.cluster.placement import Placement
from prism_sim.cluster.routes import Router
from prism_sim.cluster.storage import Storage
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import flows
from prism_sim.collector import Collector
from prism_sim.collector.crews import crew
from prism_sim.draws import Draws
from prism_sim.faults import Fault
from prism_sim.loading.scenario import Scenario
from prism_sim.run import TRUTH, Run
from prism_sim.scenario.job import Job
from prism_sim.scenario.names import server_index
from prism_sim.scenario.traced_job import TracedJob
from prism_sim.training.job import TrainingJob
from prism_sim.training.placed import PlacedJob
from prism_sim.training.replay import ReplayedJob
from prism_sim.truth import SpanLog

Change = Callable[[int, Sequence[int]], dict[int, list[int]]]

JOBS: dict[type, Callable[..., PlacedJob[Any, Any]]] = {Job: TrainingJob, TracedJob: ReplayedJob}
"""What runs each way of describing a job."""

DRAIN_EVERY_NS = 100_000_000
"""How often records are fetched from the fabric: 0.1 s of cluster time."""


@dataclass
class Strike:
    """A fault and when it really began and ended [simulation ns]; None: not (yet)."""

    fault: Fault
    start_ns: int | None = None
    end_ns: int | None = None


class World:
    """Everything that a scenario describes, on one clock of integer nanoseconds.

    Parameters
    ----------
    scenario : what to build.
    flows_path, spans_path : files that are written while it runs.
    """

    def __init__(self, scenario: Scenario, flows_path: Path, spans_path: Path) -> None:
        self.scenario = scenario
        self.env = Clock()
        self.layout = Layout(scenario.cluster)
        self._draws = draws = Draws(scenario.seed)
        templates = Templates()
        self.router = Router(self.layout, templates, draws)
        self.fabric = Fabric(self.env, self.layout.capacity, templates)
        placement = Placement(scenario.cluster, draws, scenario.storage)
        gpus = {job.name: placement.place(job) for job in scenario.jobs}
        crews = [
            crew(job.name, job.start_s, gpus[job.name], scenario.cluster) for job in scenario.jobs
        ]
        self.collector = Collector(
            scenario.collector, self.router, scenario.epoch_ns, flows_path, draws, crews
        )
        self.log = SpanLog(spans_path, scenario.epoch_ns)
        self.network = Network(self.env, self.layout, self.router, self.fabric, self.collector)
        self.jobs = {
            job.name: JOBS[type(job)](
                job, gpus[job.name], self.network, self.log, draws, self._storage()
            )
            for job in scenario.jobs
        }
        self._slowing: dict[int, list[float]] = {}
        self.strikes = [Strike(fault) for fault in scenario.faults]
        for strike in self.strikes:
            self._arm(strike)

    def run(self, on_time: Callable[[int], None]) -> None:
        """Let time pass until all jobs, or the scenario's duration, are over.

        Where there is traffic that belongs to no job, or no job at all, the duration decides.

        ``on_time`` is told the simulation time [ns] now and then.
        """
        processes = [process for job in self.jobs.values() for process in job.start()]
        self.env.process(self._drain(on_time))
        for background in self.scenario.background:
            self.env.process(traffic(background, self.network, self._draws))
        over: Any = self.env.all_of(processes)
        if self.scenario.duration_s is not None:
            end = self.env.timeout(round(self.scenario.duration_s * 1e9))
            lasting = self.scenario.background or not processes
            over = end if lasting else over | end
        with self.collector, self.log:
            self.env.run(until=over)
            self._collect()

    def topology(self) -> dict[str, Any]:
        """What the diagnoser may know; endpoints of storage servers are marked as such."""
        topology = self.layout.topology()
        for endpoint in topology["endpoints"]:
            if endpoint["server"] in self.scenario.storage:
                endpoint["kind"] = "storage"
        return topology

    def _storage(self) -> Storage | None:
        servers = [server_index(name) for name in self.scenario.storage]
        return Storage(self.network, [s for s in servers if s is not None]) if servers else None

    def slow(self, links: NDArray[np.int64], factor: float) -> None:
        """Have ``links`` run at ``factor`` of their rate, on top of other faults."""
        for link in links.tolist():
            self._slowing.setdefault(link, []).append(factor)
            self._set_capacity(link)

    def restore(self, links: NDArray[np.int64], factor: float) -> None:
        """Undo one :meth:`slow` of the same links and factor."""
        for link in links.tolist():
            self._slowing[link].remove(factor)
            self._set_capacity(link)

    def fail_uplinks(self, leaf: int, uplinks: Sequence[int]) -> None:
        """Have connections over these uplinks of a leaf, and their kin, hashed anew."""
        self._take_way(self.router.fail, leaf, uplinks)

    def mend_uplinks(self, leaf: int, uplinks: Sequence[int]) -> None:
        """Undo one :meth:`fail_uplinks`."""
        self._take_way(self.router.mend, leaf, uplinks)

    def _take_way(self, change: Change, leaf: int, uplinks: Sequence[int]) -> None:
        self.collector.remember_ways(self.env.now)  # for what is under way or ended
        moved = change(leaf, uplinks)
        self.collector.move(moved)
        self.fabric.reroute(moved)

    def _set_capacity(self, link: int) -> None:
        slowness = math.prod(self._slowing[link])
        self.fabric.set_capacity(link, float(self.layout.capacity[link]) * slowness)

    def jobs_across(self, links: NDArray[np.int64]) -> list[str]:
        """Names of the jobs with a connection over any of ``links``."""
        hit = set(links.tolist())
        routes = self.router
        return sorted(
            {
                routes.routes.job[number]
                for number, way in enumerate(routes.links)
                if not hit.isdisjoint(way)
            }
        )

    def pairs(self) -> pd.DataFrame:
        """Truth: who sent how much to whom, and what kind of traffic it was.

        A library's small messages are part of it. With what telemetry effects have added between
        servers: bytes of its payload, or of whole packets where all of them are without any, as
        acknowledgements are.
        """
        return self.collector.pairs()

    def faults(self) -> pd.DataFrame:
        """Truth: the faults that really struck."""
        rows = [self._fault_row(strike) for strike in self.strikes if strike.start_ns is not None]
        frame = pd.DataFrame(rows, columns=TRUTH["faults"].names[1:])
        frame.insert(0, "fault", np.arange(len(frame)))
        return frame.astype(dict.fromkeys(("rank", "from_step", "to_step"), "Int64"))

    def _collect(self) -> None:
        """Hand the collector what has ended."""
        self.collector.observe(flows(self.fabric.drain()))
        self.collector.advance(self.env.now)

    def _drain(self, on_time: Callable[[int], None]) -> Any:
        while True:
            yield self.env.timeout(DRAIN_EVERY_NS)
            self._collect()
            on_time(self.env.now)

    def _arm(self, strike: Strike) -> None:
        fault = strike.fault
        begin, end = partial(self._begin, strike), partial(self._end, strike)
        if fault.in_seconds:
            self.env.call_at(round((fault.from_s or 0.0) * 1e9), begin)
            if fault.to_s is not None:
                self.env.call_at(round(fault.to_s * 1e9), end)
            return
        fault.at_step(self, fault.from_step or 0, begin)
        if fault.to_step is not None:
            fault.at_step(self, fault.to_step, end)

    def _begin(self, strike: Strike) -> None:
        strike.start_ns = self.env.now
        strike.fault.begin(self)

    def _end(self, strike: Strike) -> None:
        strike.end_ns = self.env.now
        strike.fault.end(self)

    def _fault_row(self, strike: Strike) -> dict[str, Any]:
        fault, culprit = strike.fault, strike.fault.culprit(self)
        epoch_ns = self.scenario.epoch_ns
        end_ns = self.env.now if strike.end_ns is None else strike.end_ns
        return {
            "kind": fault.kind,
            "culprit_kind": culprit.kind,
            "culprit": culprit.name,
            "job": culprit.job or fault.job,
            "rank": culprit.rank,
            "switch": culprit.name if culprit.kind == "switch" else None,
            "jobs": json.dumps(fault.jobs_hit(self)),
            "factor": fault.factor,
            "from_step": fault.from_step,
            "to_step": fault.to_step,
            "start_ns": epoch_ns + (strike.start_ns or 0),
            "end_ns": epoch_ns + end_ns,
        }


def write_truth(world: World, run: Run) -> None:
    """Write every truth table but the spans, which were written while the world ran."""
    epoch_ns = world.scenario.epoch_ns
    jobs = world.jobs.values()
    for name, frames in (
        ("ranks", [job.ranks() for job in jobs]),
        ("steps", [job.steps(epoch_ns) for job in jobs]),
        ("pairs", [world.pairs()]),
        ("faults", [world.faults()]),
    ):
        empty = TRUTH[name].empty_table().to_pandas()
        run.write_truth(name, pd.concat(frames, ignore_index=True) if frames else empty)
