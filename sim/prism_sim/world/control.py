"""Changes by faults in a running cluster: capacities, paths and the speed of GPUs.

These classes implement :mod:`prism_sim.faults.target`. Changes of one thing combine, and each
is undone by the function that was returned for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_common.kinds import OTHER
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Network
from prism_sim.cluster.routes import Router
from prism_sim.cluster.ways import ANY, FAILED
from prism_sim.collector import Collector
from prism_sim.faults.target import LinkNumbers, Undo
from prism_sim.scenario.names import server_index
from prism_sim.training.compute import Variation
from prism_sim.training.placed import PlacedJob

Jobs = Mapping[str, PlacedJob[Any, Any]]
"""The jobs in the cluster, by name."""


class ClusterLinks:
    """The network from the point of view of faults.

    Parameters
    ----------
    fabric : carries bytes over links.
    router : chooses paths.
    collector : must be informed of changed paths, since records name paths.
    """

    def __init__(self, clock: Clock, fabric: Fabric, router: Router, collector: Collector) -> None:
        self._clock = clock
        self._layout: Layout = router.layout
        self._fabric = fabric
        self._router = router
        self._collector = collector
        self._factors: dict[int, list[float]] = {}

    def at(self, name: str) -> LinkNumbers:
        return self._layout.links_at(name)

    def address_of(self, server: int, nic: int) -> str:
        return self._layout.cluster.address_of(server, nic)

    def between(self, a: str, b: str) -> LinkNumbers:
        return self._layout.links_between(a, b)

    def uplinks_of(self, leaf: str) -> LinkNumbers:
        layout, number = self._layout, self._layout.leaves.index(leaf)
        uplinks = range(layout.cluster.uplinks)
        return np.array([link(number, up) for link in (layout.up, layout.down) for up in uplinks])

    def slow(self, links: LinkNumbers, factor: float) -> Undo:
        for link in links.tolist():
            self._factors.setdefault(link, []).append(factor)
            self._set_capacity(link)
        self._follow_rates()
        return partial(self._restore, links, factor)

    def _restore(self, links: LinkNumbers, factor: float) -> None:
        for link in links.tolist():
            self._factors[link].remove(factor)
            self._set_capacity(link)
        self._follow_rates()

    def _follow_rates(self) -> None:
        """Share messages again, where shares change with the rates of links."""
        if self._layout.cluster.fabric.routing.follows_rates:
            self._change_paths(self._router.renew_shares)

    def lose(self, links: LinkNumbers, repeats: float) -> Undo:
        shared = links[(links >= self._layout.up(0, 0)) & self._router.shares_messages]
        alone = np.setdiff1d(links, shared)
        slow = self.slow(alone, 1 / (1 + repeats))
        self._change_condition(self._router.conditions.repeats, shared.tolist(), repeats)

        def undo() -> None:
            slow()
            self._change_condition(self._router.conditions.repeats, shared.tolist(), -repeats)

        return undo

    def upstream_of(self, address: str) -> LinkNumbers:
        routes, own = self._router.routes, set(self.at(address).tolist())
        ends = self._layout.ends
        leaves = {int(ends[link, 1]) for link in own} | {int(ends[link, 0]) for link in own}
        into = {
            link
            for route in range(len(routes))
            if not own.isdisjoint(self._router.links_of(route)[-1:])
            for link in self._router.links_of(route)
            if link not in own and link < len(ends) and int(ends[link, 1]) in leaves
        }
        return np.array(sorted(into), np.int64)

    def prefer_uplinks(self, leaf: str, uplinks: Sequence[int], times: float) -> Undo:
        number, uneven = self._layout.leaves.index(leaf), self._router.conditions.uneven
        before = {(number, up): uneven.get((number, up), 1.0) for up in uplinks}

        def undo() -> None:
            for key in before:
                uneven[key] /= times
            self._change_paths(self._router.renew_shares)

        for key, weight in before.items():
            uneven[key] = weight * times
        self._change_paths(self._router.renew_shares)
        return undo

    def _change_condition(self, of: dict[int, float], links: list[int], by: float) -> None:
        """Add ``by`` to a condition of ``links``."""
        for link in links:
            of[link] = of.get(link, 0.0) + by
        if links:
            self._change_paths(self._router.renew_shares)

    def _set_capacity(self, link: int) -> None:
        speed = math.prod(self._factors[link])
        self._fabric.set_capacity(link, float(self._layout.capacity[link]) * speed)
        self._router.conditions.speed[link] = speed

    def out_of(self, switch: str, *, upwards: bool) -> LinkNumbers:
        src, dst = self._layout.ends.T
        return np.flatnonzero(
            (src == self._layout.topology.node(switch)) & ((dst > src) == upwards)
        )

    def of_server(self, server: str) -> LinkNumbers:
        number, ports = server_index(server), self._layout.cluster.ports_per_server
        assert number is not None  # the fault's checks
        addresses = dict.fromkeys(self._layout.addresses[number * ports : (number + 1) * ports])
        return np.unique(np.concatenate([self.at(address) for address in addresses]))

    def rate(self, links: LinkNumbers) -> float:
        return float(self._layout.capacity[links].min())

    def uplink_to(self, leaf: str, uplink: int) -> str:
        topology = self._layout.topology
        return topology.spines.name_of(topology.spine_of(self._layout.leaves.index(leaf), uplink))

    def avoid_uplinks(self, leaf: str, uplinks: Sequence[int], job: str | None = None) -> Undo:
        return self._without(leaf, uplinks, ANY if job is None else job)

    def fail_uplinks(self, leaf: str, uplinks: Sequence[int]) -> Undo:
        return self._without(leaf, uplinks, FAILED)

    @property
    def ports_of_a_nic(self) -> int:
        return self._layout.cluster.nic_ports

    def leaves_of_plane(self, plane: int) -> list[str]:
        in_plane = self._layout.cluster.leaves_per_plane
        return self._layout.leaves[plane * in_plane : (plane + 1) * in_plane]

    def fail_leaves(self, leaves: Sequence[str]) -> Undo:
        numbers = [self._layout.leaves.index(leaf) for leaf in leaves]
        self._change_paths(partial(self._router.fail_leaves, numbers))
        return partial(self._change_paths, partial(self._router.repair_leaves, numbers))

    def jobs_at(self, leaves: Sequence[str]) -> list[str]:
        layout, routes = self._layout, self._router.routes
        names = np.array(layout.leaves)
        here = np.flatnonzero(np.isin(names[layout.leaf_of_nic], leaves))
        nics = {layout.topology.ports_of(port)[0] for port in here.tolist()}
        ends = zip(routes.src, routes.dst, routes.job, strict=True)
        first = layout.topology.ports_of
        return sorted({job for src, dst, job in ends if {first(src)[0], first(dst)[0]} & nics})

    def _without(self, leaf: str, uplinks: Sequence[int], whose: str) -> Undo:
        number = self._layout.leaves.index(leaf)
        self._change_paths(partial(self._router.fail, number, uplinks, whose))
        return partial(self._change_paths, partial(self._router.repair, number, uplinks, whose))

    def _change_paths(self, change: Callable[[], dict[int, list[int]]]) -> None:
        self._collector.keep_paths(self._clock.now)  # for earlier traffic
        moved = change()
        self._collector.reroute(moved)
        self._fabric.reroute(moved)

    def jobs_across(self, links: LinkNumbers) -> list[str]:
        wanted = set(links.tolist())
        router = self._router
        return sorted(
            {
                router.routes.job[number]
                for number, path in enumerate(router.links)
                if not wanted.isdisjoint(path)
            }
        )


@dataclass(frozen=True)
class ClusterCompute:
    """The GPUs of jobs from the point of view of faults."""

    jobs: Jobs

    def address_of(self, job: str, rank: int) -> str:
        return self.jobs[job].address_of(rank)

    def slow(self, job: str, rank: int, factor: float) -> Undo:
        self.jobs[job].worker_of(rank).speed_factors.slow(factor)
        return partial(self._restore, job, rank, factor)

    def _restore(self, job: str, rank: int, factor: float) -> None:
        self.jobs[job].worker_of(rank).speed_factors.restore(factor)  # the worker may be new

    def workers_on(self, server: str) -> list[tuple[str, int]]:
        number = server_index(server)
        return [
            (name, rank)
            for name, job in self.jobs.items()
            for rank, gpus in zip(job.first_ranks().tolist(), _by_worker(job), strict=True)
            if any(job.layout.server_of_gpu(gpu) == number for gpu in gpus.tolist())
        ]

    def workers_of_stage(self, job: str, stage: int) -> list[int]:
        placed = self.jobs[job]
        stages = placed.places()["pp"]
        return [rank for rank in placed.first_ranks().tolist() if stages[rank] == stage]

    def vary(self, what: str, job: str, value: float, steps: tuple[int | None, int | None]) -> Undo:
        placed = self.jobs[job]
        first, stop = steps
        variation = Variation(value, placed.next_step if first is None else first, stop)
        placed.varied[what].append(variation)

        def undo() -> None:
            if variation.stop is None:
                variation.stop = placed.next_step

        return undo

    def hold(self, job: str, rank: int) -> Undo:
        placed = self.jobs[job]
        speed = placed.worker_of(rank).speed_factors  # a successor takes it over
        held = placed.env.event()
        speed.hold(held)

        def release() -> None:
            speed.hold(None)
            held.succeed()

        return release

    def fail(self, job: str, rank: int | None, noticed_after_ns: int, down_ns: int | None) -> None:
        if job in self.jobs:  # background traffic has no processes that could stop
            self.jobs[job].fail(rank, noticed_after_ns, down_ns)

    def stall(self, job: str, rank: int, stall_ns: int) -> None:
        self.jobs[job].worker_of(rank).speed_factors.stall(stall_ns)

    def step_of_rank(self, job: str, rank: int) -> int:
        step: int = self.jobs[job].worker_of(rank).step
        return step

    def shortest_step_ns(self, job: str) -> int:
        rows: list[tuple[int, int, int, int]] = self.jobs[job].record.rows
        return min([end - start for _, _, start, end in rows] or [0])

    def nvlink_of(self, job: str, rank: int) -> LinkNumbers:
        placed = self.jobs[job]
        gpu = int(placed.gpus.flat[rank])
        return np.array(placed.layout.nvlink(gpu, gpu))

    def nvlink_share(self, job: str, rank: int) -> float:
        return self.jobs[job].nvlink_share(rank)

    def at_step(self, job: str, step: int, call: Callable[[], None]) -> None:
        self.jobs[job].at_step(step, call)

    def at_step_of_rank(self, job: str, rank: int, step: int, call: Callable[[], None]) -> None:
        self.jobs[job].worker_of(rank).at_step(step, call)


def _by_worker(job: PlacedJob[Any, Any]) -> NDArray[np.int64]:
    """GPUs of every worker, one row each."""
    return job.gpus.reshape(len(job.workers), -1)


@dataclass(frozen=True)
class ClusterTraffic:
    """Traffic that faults send."""

    network: Network

    def senders_to(self, server: str, count: int) -> list[int]:
        first, servers = server_index(server), self.network.layout.cluster.servers
        assert first is not None  # the fault's checks
        return [(first + 1 + number) % servers for number in range(count)]

    def send(self, name: str, src: tuple[int, int], dst: tuple[int, int], size_bytes: int) -> None:
        network = self.network
        ends = [network.layout.nic(server, nic) for server, nic in (src, dst)]
        hop = network.nic_hop(ends[0], ends[1], Connection(name, OTHER))
        number, latency_ns = network.bundle([hop])
        network.fabric.transfer(number, size_bytes, latency_ns, network.env.event())


@dataclass(frozen=True)
class ClusterControl:
    """Everything that faults can change: the :class:`~prism_sim.faults.target.Target`."""

    clock: Clock
    links: ClusterLinks
    compute: ClusterCompute
    traffic: ClusterTraffic
