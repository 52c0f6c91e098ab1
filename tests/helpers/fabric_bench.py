"""Fabrics without a cluster, and a check that no link exceeds its capacity."""

from __future__ import annotations

import numpy as np
import simpy

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.state import HEAP_SIZE
from prism_sim.cluster.templates import Templates


class WatchedFabric(Fabric):
    """A fabric that checks every solution against every link."""

    def active(self) -> np.ndarray:
        """The entities that move at the moment, as rows of the core's table."""
        return self.net.entity[self.net.heap[: int(self.net.counters[HEAP_SIZE])]]

    def load(self) -> np.ndarray:
        """Bytes a nanosecond that each link carries right now."""
        carried = np.zeros(len(self.net.link))
        for entity in self.active():
            begin = self.templates.ptr[entity["template"]]
            end = begin + self.templates.uses[entity["template"]]
            via = self.templates.via[begin:end]
            np.add.at(carried, via["link"], via["weight"] * entity["rate"])
        return carried

    def run_until(self, time_ns: int, turn: int) -> bool:
        called = super().run_until(time_ns, turn)
        assert (self.load() <= self.net.link["capacity"] * (1 + 1e-9)).all()
        return called


class Bench:
    """A fabric with links of given capacities, and a log of all ends."""

    def __init__(self, *capacities: float) -> None:
        self.env = Clock()
        self.templates = Templates()
        self.fabric = WatchedFabric(self.env, np.array(capacities, float), self.templates)
        self.log: list[tuple[int, str]] = []

    def flow(
        self,
        name: str,
        links: list[int],
        size: int,
        at: int = 0,
        latency: int = 0,
        cap: float = np.inf,
        weights: list[float] | None = None,
    ) -> int:
        """Start a flow of ``size`` bytes over ``links`` at time ``at``; returns its template."""
        template = self.templates.add(links, weights)
        bundle = self.templates.add_bundle([template])

        def process() -> simpy.events.ProcessGenerator:
            yield self.env.timeout(at)
            event = self.env.event()
            self.fabric.transfer(bundle, size, latency, event, cap=cap)
            yield event
            self.log.append((self.env.now, name))

        self.env.process(process())
        return template

    def set_capacity(self, link: int, capacity: float, at: int) -> None:
        def process() -> simpy.events.ProcessGenerator:
            yield self.env.timeout(at)
            self.fabric.set_capacity(link, capacity)

        self.env.process(process())

    def run(self) -> list[tuple[int, str]]:
        self.env.run()
        return self.log
