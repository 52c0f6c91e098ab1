"""Placement: the GPU of each rank.

A tensor-parallel group needs NVLink, so it gets ``tp`` neighbouring GPUs of one NVLink domain
(mostly a server): a *slot*. (A group larger than a domain gets several slots, each a whole domain.)
The placement strategy gives the order of the slots. Tensor-parallel groups get them in rank order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prism_common.errors import Problem, UserError
from prism_sim.draws import Draws
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.job import OnServers, Strategy
from prism_sim.scenario.names import server_index

Slots = NDArray[np.int64]
"""First GPU of each free slot, in the order of servers."""


class JobShape(Protocol):
    """The facts about a job that placement needs."""

    @property
    def name(self) -> str:
        """Name of the job; unique in the scenario."""

    @property
    def placement(self) -> Strategy | OnServers:
        """A strategy, or the servers to use."""

    @property
    def after(self) -> str | None:
        """The job whose GPUs it may use as well."""

    @property
    def ranks(self) -> int:
        """GPUs that it needs."""

    @property
    def stages(self) -> int:
        """Pipeline stages."""

    @property
    def members(self) -> int:
        """Tensor-parallel groups of each stage."""

    @property
    def tp(self) -> int:
        """Ranks of a tensor-parallel group."""


def _packed(slots: Slots, _: Cluster, __: np.random.Generator) -> Slots:
    return slots


def _spread(slots: Slots, cluster: Cluster, _: np.random.Generator) -> Slots:
    """The first slot of every server, then the second of every server, and so on."""
    server = slots // cluster.gpus_per_server
    turn = np.arange(len(slots)) - np.searchsorted(server, server)
    return slots[np.lexsort((server, turn))]


def _random(slots: Slots, _: Cluster, generator: np.random.Generator) -> Slots:
    return generator.permutation(slots)


def _fragmented(slots: Slots, _: Cluster, generator: np.random.Generator) -> Slots:
    """Groups of one to six neighbouring slots in random order, as after many jobs."""
    runs = np.cumsum(generator.integers(1, 7, len(slots)))
    pieces = np.split(slots, runs[runs < len(slots)])
    return np.concatenate([pieces[i] for i in generator.permutation(len(pieces))])


STRATEGIES: dict[str, Callable[[Slots, Cluster, np.random.Generator], Slots]] = {
    "packed": _packed, "spread": _spread, "random": _random, "fragmented": _fragmented,
}  # fmt: skip
"""Orders of the free slots, by name of the strategy."""


class Placement:
    """Places one job after the other on the GPUs of a cluster, without ``reserved`` servers."""

    def __init__(self, cluster: Cluster, draws: Draws, reserved: Iterable[str] = ()) -> None:
        self._cluster = cluster
        self._draws = draws
        self._free = np.ones(cluster.gpus, bool)
        self._of_job: dict[str | None, NDArray[np.bool_]] = {}
        """For each job: its GPUs, and those of the jobs that it comes after."""
        for name in filter(cluster.has_server, reserved):
            first = (server_index(name) or 0) * cluster.gpus_per_server
            self._free[first : first + cluster.gpus_per_server] = False

    def place(self, job: JobShape) -> NDArray[np.int64]:
        """GPU of every rank of ``job``, shape (stages, members, tp).

        Rank numbers run over tp fastest, then cp, ep and dp, then pp, as in Megatron-LM.

        Raises
        ------
        UserError : the cluster has too few free slots for the job.
        """
        size = min(job.tp, self._cluster.domain_gpus)
        before = self._of_job.get(job.after, np.zeros_like(self._free))
        slots = self._slots(size, self._free | before)
        if isinstance(job.placement, OnServers):
            slots = self._on_servers(slots, job.placement)
        else:
            order = STRATEGIES[job.placement]
            slots = order(slots, self._cluster, self._draws.stream("placement", job.name))
        needed = job.ranks // size
        if len(slots) < needed:
            raise UserError(
                Problem(
                    f"job {job.name} needs {needed} free groups of {size} GPUs, "
                    f"{len(slots)} are left",
                    how="give the cluster more servers or the job fewer ranks",
                )
            )
        gpus = slots[:needed, None] + np.arange(size)
        gpus = gpus.reshape(job.stages, job.members, job.tp)
        self._free[gpus] = False
        self._of_job[job.name] = before.copy()
        self._of_job[job.name][gpus] = True
        return gpus

    def _slots(self, size: int, free: NDArray[np.bool_]) -> Slots:
        domain = self._cluster.domain_gpus
        padded = np.zeros(-(-len(free) // domain) * domain, bool)  # the last may be smaller
        padded[: len(free)] = free
        whole = domain // size
        slots = padded.reshape(-1, domain)[:, : whole * size].reshape(-1, whole, size)
        number, slot = np.nonzero(slots.all(axis=2))
        first: Slots = number * domain + slot * size
        return first

    def _on_servers(self, slots: Slots, placement: OnServers) -> Slots:
        """The slots that begin in the wanted servers."""
        server = slots // self._cluster.gpus_per_server
        wanted = [server_index(name) for name in placement.servers]
        return np.concatenate([slots[server == index] for index in wanted])
