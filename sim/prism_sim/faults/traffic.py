"""Faults by what else goes on: other jobs, bursts of others, and storage."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_ACCESS, Culprit, LinkFault, every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfLeaf, OfServer
from prism_sim.faults.target import LinkNumbers, Target, Undo, together
from prism_sim.faults.timing import nanoseconds, repeatedly
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.names import server_index
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean


# Two jobs whose connections meet on one uplink, while others are idle.
class JobCongestion(OfLeaf):
    """Connections of two jobs that leave the leaf all use the same uplink, and share its rate."""

    causes: ClassVar[frozenset[str]] = frozenset({"congestion", "ecmp", "slow_link"})

    kind: Literal["job_congestion"] = "job_congestion"
    between: tuple[str, str] = Field(description="The two jobs.")
    uplink: int = Field(default=0, ge=0, le=1_000_000, description="Number of the uplink, from 0.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        names = [job.name for job in drawing.setting.jobs]
        if len(names) < 2:
            raise ValueError("there is one job only")
        between = drawing.stream.choice(names, 2, replace=False).tolist()
        return super().drawn(drawing) | {"between": between}

    def magnitude(self, target: Target) -> float:
        return 1 - 2 / len(target.links.uplinks_of(self.leaf))  # two directions each

    def culprit(self, target: Target) -> Culprit:
        return Culprit("link", f"{self.leaf}|{target.links.uplink_to(self.leaf, self.uplink)}")

    def begin(self, target: Target) -> Undo:
        uplinks = range(len(target.links.uplinks_of(self.leaf)) // 2)
        others = [uplink for uplink in uplinks if uplink != self.uplink]
        links = target.links
        return together([links.avoid_uplinks(self.leaf, others, job) for job in self.between])

    def jobs_affected(self, target: Target) -> list[str]:
        return sorted({*super().jobs_affected(target)} & {*self.between})

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        names = [job.name for job in setting.jobs]
        for number, job in enumerate(self.between):
            if job not in names:
                what = f"the fault names the unknown job {job!r}"
                hint = did_you_mean(job, names)
                yield Remark(("between", number), what, hint, every_name(setting))
        if self.between[0] == self.between[1]:
            yield Remark(("between", 1), "a job cannot meet itself", "name two jobs")
        if self.uplink >= setting.cluster.uplinks:
            what = f"uplink {self.uplink} is not one of the {setting.cluster.uplinks} of a leaf"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("uplink",), what, "uplinks count from 0", where)


# Incast: many servers send to one NIC at the same time, and what a job sends there waits.

NAME = "incast"
"""Name of the traffic in the truth, in place of a job."""


class IncastBurst(OfServer):
    """Every ``every_s``, ``senders`` servers each send ``burst_bytes`` to one NIC at once.

    The senders are the servers after it, in order of their names; each uses its NIC of the same
    number.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"incast", "congestion", "background"}

    kind: Literal["incast_burst"] = "incast_burst"
    nic: int = Field(default=0, ge=0, le=1_000, description="Index of the receiving NIC.")
    senders: int = Field(ge=1, le=65_535, description="Servers that send.")
    burst_bytes: int = Field(ge=1, le=10**15, description="Bytes from each of them [bytes].")
    every_s: float = Field(ge=1e-6, le=1e8, description="Time from one burst to the next [s].")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """Bursts from up to eight servers, which take the share of the rate that is lost."""
        cluster, every_s = drawing.setting.cluster, drawing.every_s
        senders = min(8, cluster.servers - 1)
        whole = (1 - drawing.factor) * every_s * cluster.nic_gbps * 1e9 / 8
        burst_bytes = max(1, round(whole / max(senders, 1)))
        options = {"nic": drawing.nic, "senders": senders, "burst_bytes": burst_bytes}
        return super().drawn(drawing) | {**options, "every_s": every_s}

    def magnitude(self, target: Target) -> float:
        rate = self.senders * self.burst_bytes / (self.every_s * 1e9)
        return min(1.0, rate / target.links.rate(self._links(target)))

    def culprit(self, target: Target) -> Culprit:
        return Culprit("address", target.links.address_of(self._number, self.nic))

    def begin(self, target: Target) -> Undo:
        def burst(_: int) -> None:
            for sender in target.traffic.senders_to(self.server, self.senders):
                to = (self._number, self.nic)
                target.traffic.send(NAME, (sender, self.nic), to, self.burst_bytes)

        return repeatedly(target.clock, nanoseconds(self.every_s), burst)

    def jobs_affected(self, target: Target) -> list[str]:
        jobs = target.links.jobs_across(self._links(target))
        return [job for job in jobs if job != NAME]

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        cluster = setting.cluster
        if self.nic >= cluster.nics_per_server:
            what = f"there is no NIC {self.nic} in a server of {cluster.nics_per_server}"
            yield Remark(("nic",), what, "NICs count from 0", (("cluster", "nics_per_server"),))
        if self.senders >= cluster.servers:
            what = f"{self.senders} servers cannot send to another of {cluster.servers}"
            yield Remark(("senders",), what, "use fewer", (("cluster", "servers"),))

    @property
    def _number(self) -> int:
        number = server_index(self.server)
        assert number is not None  # the checks
        return number

    def _links(self, target: Target) -> LinkNumbers:
        return target.links.at(target.links.address_of(self._number, self.nic))


# Slow storage: saving and reading take longer, and ranks wait at checkpoints.
class SlowStorage(OfServer, LinkFault):
    """A storage server writes and reads at factor of its rate."""

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_storage"] = "slow_storage"

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        storage = drawing.setting.storage
        if not storage:
            raise ValueError("there is no storage server")
        server = storage[int(drawing.position * len(storage))]
        return super().drawn(drawing) | {"server": server}

    def links(self, target: Target) -> LinkNumbers:
        return target.links.of_server(self.server)

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if self.server not in setting.storage:
            what = f"{self.server} is no storage server"
            yield Remark(("server",), what, "name one of storage", (("storage",),))
