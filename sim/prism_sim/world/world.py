"""All parts of one simulation on one clock.

A world contains the layout, routes and fabric of the cluster, the jobs that are placed on it, the
collector and the span log that observe them, and the faults.

Flows of no training job (services, storage rebalancing, other tenants) begin as a Poisson process.
Sizes are lognormal, which is close to measured data-centre flows. Source and destination are drawn
from the given servers. Flows between the same two NICs share a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from prism_common.errors import Problem, UserError
from prism_common.kinds import OTHER
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Bundle, Connection, Network
from prism_sim.cluster.placement import Placement
from prism_sim.cluster.routes import Router
from prism_sim.cluster.storage import Storage
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import flows
from prism_sim.collector import Collector
from prism_sim.collector.job_hosts import hosts_of
from prism_sim.draws import Draws
from prism_sim.loading.job import Job, TracedJob
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.habits import Background
from prism_sim.scenario.names import server_index
from prism_sim.training.job import TrainingJob
from prism_sim.training.placed import PlacedJob
from prism_sim.training.replay import ReplayedJob
from prism_sim.truth import SpanLog
from prism_sim.world.control import ClusterCompute, ClusterControl, ClusterLinks, ClusterTraffic
from prism_sim.world.faults import FaultSchedule

JOBS: dict[type, Callable[..., PlacedJob[Any, Any]]] = {Job: TrainingJob, TracedJob: ReplayedJob}
"""The class that runs each form of job in a scenario."""

DRAIN_EVERY_NS = 100_000_000
"""Interval of fetching records from the fabric: 0.1 s of cluster time."""


class World:
    """All parts of a scenario, on one clock of integer nanoseconds.

    Parameters
    ----------
    scenario : the scenario to simulate.
    flows_path, spans_path : files that are written while it runs.
    """

    def __init__(self, scenario: Scenario, flows_path: Path, spans_path: Path) -> None:
        self.scenario = scenario
        self.env = Clock()
        self.layout = Layout(scenario.cluster)
        self._draws = draws = Draws(scenario.seed)
        templates = Templates()
        self.router = Router(self.layout, templates, draws)
        self.fabric = Fabric(self.env, self.layout.capacity, templates, self.layout.bucket_bytes)
        placement = Placement(scenario.cluster, draws, scenario.storage)
        gpus = {job.name: placement.place(job) for job in scenario.jobs}
        hosts = [
            hosts_of(job, gpus[job.name], scenario.cluster, scenario.collector.transport)
            for job in scenario.jobs
        ]
        self.collector = Collector(
            scenario.collector, self.router, scenario.epoch_ns, flows_path, draws, hosts
        )
        keeps_sizes = scenario.collectives is not None
        self.log = SpanLog(spans_path, scenario.epoch_ns, keeps_sizes=keeps_sizes)
        self.fabric.log_into(self.log.rows, self.log.write_piece)
        self.network = Network(self.env, self.layout, self.router, self.fabric, self.collector)
        self.jobs = {
            job.name: JOBS[type(job)](
                job, gpus[job.name], self.network, self.log, draws, self._storage()
            )
            for job in scenario.jobs
        }
        links = ClusterLinks(self.env, self.fabric, self.router, self.collector)
        traffic_control = ClusterTraffic(self.network)
        control = ClusterControl(self.env, links, ClusterCompute(self.jobs), traffic_control)
        self.faults = FaultSchedule(scenario.all_faults, control, len(scenario.faults))
        for job in self.jobs.values():
            job.may_fail = any(fault.stops_jobs for fault in scenario.all_faults)

    def run(self, on_time: Callable[[int], None]) -> None:
        """Run the simulation until all jobs, or the scenario's duration, have ended.

        If there is traffic that belongs to no job, or no job at all, the duration decides.

        ``on_time`` is called with the simulation time [ns] from time to time.
        """
        of_job = {name: job.start() for name, job in self.jobs.items()}
        processes = [process for every in of_job.values() for process in every]
        for index, job in enumerate(self.scenario.jobs):
            if job.after is not None:
                self.env.process(self._follow(index, of_job[job.after]))
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
            self.collector.observe(flows(self.fabric.unfinished()))

    def _follow(
        self, index: int, before: list[simpy.Process]
    ) -> Generator[simpy.Event, object, None]:
        """Refuse a job that starts while the one before it still uses the GPUs."""
        job = self.scenario.jobs[index]
        yield self.env.timeout(round(job.start_s * 1e9))
        if any(process.is_alive for process in before):
            what = f"job {job.name} starts at {job.start_s} s, and {job.after} has not ended then"
            how = f"raise it, or lower the steps of {job.after}"
            raise UserError(Problem(what, f"jobs.{index}.start_s", how))

    def topology(self) -> dict[str, Any]:
        """The input of a diagnoser; endpoints of storage servers are marked as such."""
        topology = self.layout.topology.to_json()
        for endpoint in topology["endpoints"]:
            if endpoint["server"] in self.scenario.storage:
                endpoint["kind"] = "storage"
        return topology

    def _storage(self) -> Storage | None:
        servers = [server_index(name) for name in self.scenario.storage]
        return Storage(self.network, [s for s in servers if s is not None]) if servers else None

    def _collect(self) -> None:
        """Pass ended transfers to the collector."""
        self.collector.observe(flows(self.fabric.drain()))
        self.collector.advance(self.env.now)

    def _drain(self, on_time: Callable[[int], None]) -> Any:
        while True:
            yield self.env.timeout(DRAIN_EVERY_NS)
            self._collect()
            on_time(self.env.now)


def traffic(
    model: Background, network: Network, draws: Draws
) -> Generator[simpy.Event, object, None]:
    """The endless SimPy process of one kind of background traffic."""
    cluster, env = network.layout.cluster, network.env
    senders = _numbers(model.servers or ()) or list(range(cluster.servers))
    targets = _numbers([model.to] if model.to else ()) or list(range(cluster.servers))
    bundles: dict[tuple[int, int], Bundle] = {}
    flow = 0
    while True:
        stream = draws.stream("background", model.name, flow)
        flow += 1
        yield env.timeout(max(1, round(stream.exponential(1e9 / model.flows_per_s))))
        size = max(1, round(model.median_bytes * np.exp(model.sigma * stream.standard_normal())))
        src = senders[stream.integers(len(senders))]
        dst = targets[stream.integers(len(targets))]
        if src == dst:
            continue  # no flow record inside a server
        rail = int(stream.integers(cluster.nics_per_server))
        pair = network.layout.nic(src, rail), network.layout.nic(dst, rail)
        if pair not in bundles:
            hop = network.nic_hop(*pair, Connection(model.name, OTHER))
            bundles[pair] = network.bundle([hop])
        number, latency_ns = bundles[pair]
        network.fabric.transfer(number, size, latency_ns, env.event())


def _numbers(names: Iterable[str]) -> list[int]:
    return [number for number in map(server_index, names) if number is not None]
