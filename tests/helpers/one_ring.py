"""One ring over a cluster, as fast as its network lets it be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Network
from prism_sim.cluster.routes import Router
from prism_sim.cluster.templates import Templates
from prism_sim.toolkit import Cluster, Draws
from prism_sim.training.collectives import ALGORITHMS, Group

GIB = 2**30


class Unobserved:
    """An observer of nothing."""

    def observe(self, trains: Any) -> None:
        """Take trains, and forget them."""

    def job_restarts(self, job: str, start_ns: int, processes_since_ns: int) -> None:
        """Take no notice."""


def ring_ns(values: Mapping[str, Any], gpus: int, down: Iterable[int] = (), seed: int = 0) -> int:
    """Time [ns] of an all-reduce of 1 GiB over the first ``gpus``, without the leaves ``down``."""
    env, templates, layout = Clock(), Templates(), Layout(Cluster.model_validate(values))
    router = Router(layout, templates, Draws(seed))
    router.fail_leaves([*down])
    fabric = Fabric(env, layout.capacity, templates)
    network = Network(env, layout, router, fabric, Unobserved())
    ends = []
    for part in ALGORITHMS["ring"](Group(range(gpus), Connection("a", "dp")), network):
        ends.append(env.event())
        part.start("all_reduce", GIB, [0] * gpus, ends[-1])
    env.run(until=env.all_of(ends))
    return int(env.now)
