"""Where a fault is: a rank, a NIC, a link, a switch, a server, or a stage of a pipeline.

Each class adds the fields that name the place, their checks, and the culprit. A kind of fault
combines one of them with what happens there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field, model_validator

from prism_sim.cluster.topology import topology_of
from prism_sim.faults.base import Culprit, FaultBase, every_name, never_crossed, what_exists
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.target import LinkNumbers, Target
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import SHAPE
from prism_sim.scenario.names import server_index, server_name
from prism_sim.scenario.setting import JobOutline, Setting

LISTED = 8
"""Neighbours listed in a message."""


class OfJob(FaultBase):
    """A fault of one job."""

    job: str = Field(description="The job that is affected, and whose steps a window counts.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"job": drawing.job.name}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("job", self.job, self.job)

    def jobs_affected(self, target: Target) -> list[str]:
        return [self.job]

    @property
    def steps_varied(self) -> tuple[int | None, int | None]:
        """First step affected, and first one no longer affected; None if seconds decide."""
        return ((self.from_step or 0), self.to_step) if self.in_steps else (None, None)

    def outline(self, setting: Setting) -> JobOutline | None:
        """The job; None if there is no such job."""
        return next((job for job in setting.jobs if job.name == self.job), None)


class OfRank(OfJob):
    """A fault of one rank of a job."""

    rank: int = Field(ge=0, le=1_000_000_000, description="The rank of the job, from 0.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        job, rank = drawing.rank
        return super().drawn(drawing) | {"job": job, "rank": rank}

    def culprit(self, target: Target) -> Culprit:
        address = target.compute.address_of(self.job, self.rank)
        return Culprit("address", address, self.job, self.rank)

    def at_step(self, target: Target, step: int, call: Callable[[], None]) -> None:
        target.compute.at_step_of_rank(self.job, self.rank, step, call)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        yield from self.rank_remarks(setting, self.rank)


class OfStage(OfJob):
    """A fault of one pipeline stage of a job."""

    stage: int = Field(ge=0, le=1_000_000, description="The pipeline stage, from 0.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        stage = int(drawing.stream.integers(drawing.job.stages))
        return super().drawn(drawing) | {"stage": stage}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("stage", f"{self.job} stage {self.stage}", self.job)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        job = self.outline(setting)
        if job is not None and self.stage >= job.stages:
            what = f"stage {self.stage} is not one of the {job.stages} stages of job {job.name}"
            how = f"stages count from 0 to {job.stages - 1}"
            yield Remark(("stage",), what, how, every_name(setting))

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        job = self.outline(setting)
        if job is not None and job.stages == 1:
            what = f"job {job.name} has a single stage: all its ranks are slow, none behind another"
            yield Remark(("job",), what, "name a job with a pipeline")


class OfServer(FaultBase):
    """A fault of a whole server."""

    server: str = Field(description="The server, such as s0003.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"server": drawing.server_name}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("server", self.server)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        yield from server_remarks("server", self.server, setting)


class OfNic(FaultBase):
    """A fault of one NIC: the ``nic`` of a ``server``, or the one that ``rank`` of ``job`` uses."""

    server: str | None = Field(default=None, description="Server of the NIC, such as s0003.")
    nic: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """Index of the NIC in the server."""
    job: str | None = None
    """The job of `rank`; a window counts its steps."""
    rank: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """The rank of `job` using the NIC."""

    @model_validator(mode="after")
    def _one_place(self) -> OfNic:
        by_server = self.server is not None and self.nic is not None
        by_rank = self.job is not None and self.rank is not None
        parts_of_server = self.server is not None or self.nic is not None
        if by_server == by_rank or (by_rank and parts_of_server):
            raise ValueError("name the NIC either by server and nic, or by job and rank")
        if by_server and self.rank is not None:
            raise ValueError("name the NIC either by server and nic, or by job and rank")
        return self

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"server": drawing.server_name, "nic": drawing.nic}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("address", self.address(target), self.job, self.rank)

    def links(self, target: Target) -> LinkNumbers:
        """The directed links between the NIC and its leaf."""
        return target.links.at(self.address(target))

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_across(self.links(target))

    def address(self, target: Target) -> str:
        """Address of the NIC."""
        if self.job is not None and self.rank is not None:
            return target.compute.address_of(self.job, self.rank)
        server = server_index(self.server or "")
        assert server is not None
        assert self.nic is not None
        return target.links.address_of(server, self.nic)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        yield from self.rank_remarks(setting, self.rank)
        if self.server is not None:
            yield from server_remarks("server", self.server, setting)
        cluster = setting.cluster
        if self.nic is not None and self.nic >= cluster.nics_per_server:
            what = f"there is no NIC {self.nic} in a server of {cluster.nics_per_server}"
            yield Remark(("nic",), what, "NICs count from 0", (("cluster", "nics_per_server"),))


class OfLink(FaultBase):
    """A fault of the link between ``a`` and ``b``; of all, if several parallel ones join them."""

    a: str = Field(description="One end: a NIC's address (10.0.3.1) or a switch (leaf000).")
    b: str = Field(description="The other end: a switch (leaf000, core00) or a NIC's address.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        a, b = drawing.link
        return super().drawn(drawing) | {"a": a, "b": b}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("link", f"{self.a}|{self.b}")

    def links(self, target: Target) -> LinkNumbers:
        """The directed links of the cables."""
        return target.links.between(self.a, self.b)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        for key, end in (("a", self.a), ("b", self.b)):
            yield from never_crossed(key, end, setting)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        topology = topology_of(setting.cluster)
        ends = {"a": self.a, "b": self.b}
        unknown = {key: end for key, end in ends.items() if topology.node(end) is None}
        for key, end in unknown.items():
            how = what_exists(end, (*topology.switch_tiers, topology.nics))
            yield Remark((key,), f"nothing in the cluster is called {end!r}", how, SHAPE)
        if unknown:
            return
        neighbours = topology.neighbours(self.a)
        if self.b not in neighbours:
            what = f"no link joins {self.a} and {self.b}"
            listed = ", ".join(neighbours[:LISTED])
            more = f" and {len(neighbours) - LISTED} more" if len(neighbours) > LISTED else ""
            yield Remark(("b",), what, f"from {self.a} links lead to {listed}{more}", SHAPE)


class OfSwitch(FaultBase):
    """A fault of one switch."""

    switch: str = Field(description="The switch, such as leaf000 or spine01.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"switch": drawing.switch}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("switch", self.switch)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        yield from never_crossed("switch", self.switch, setting)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        topology = topology_of(setting.cluster)
        if all(tier.node(self.switch) is None for tier in topology.switch_tiers):
            what = f"there is no switch {self.switch!r} in the cluster"
            how = what_exists(self.switch, topology.switch_tiers)
            yield Remark(("switch",), what, how, SHAPE)


class OfLeaf(FaultBase):
    """A fault of a leaf and its uplinks."""

    leaf: str = Field(description="The leaf switch, such as leaf000.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"leaf": drawing.leaf}

    def culprit(self, target: Target) -> Culprit:
        return Culprit("switch", self.leaf)

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_across(target.links.uplinks_of(self.leaf))

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        cluster = setting.cluster
        if not cluster.spines:
            yield Remark(("leaf",), f"{self.leaf} has no uplinks: no spines join the leaves")
        elif cluster.leaves_per_plane == 1:
            yield Remark(("leaf",), f"all NICs are on {self.leaf}: nothing crosses its uplinks")

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        leaves = topology_of(setting.cluster).leaves
        if leaves.node(self.leaf) is None:
            what = f"there is no leaf {self.leaf!r} in the cluster"
            yield Remark(("leaf",), what, what_exists(self.leaf, [leaves]), SHAPE)


def server_remarks(key: str, server: str, setting: Setting) -> Remarks:
    """A remark at ``key`` if the cluster has no such ``server``."""
    cluster = setting.cluster
    if not cluster.has_server(server):
        how = f"servers run from {server_name(0)} to {server_name(cluster.servers - 1)}"
        what = f"there is no server {server!r} in the cluster"
        yield Remark((key,), what, how, (("cluster", "servers"),))
