"""A NIC that sends and receives below its rate: a degraded lane, PCIe downtraining."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from prism_sim.faults.base import SLOW_ACCESS, Culprit, LinkFault
from prism_sim.faults.target import LinkNumbers, Target
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.names import nic_address, server_index, server_name
from prism_sim.scenario.setting import Setting


class SlowNic(LinkFault):
    """One NIC runs at factor of its rate, in both directions.

    Named as the ``nic`` of a ``server``, or as the one that ``rank`` of ``job`` uses.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_nic"] = "slow_nic"
    server: str | None = Field(default=None, description="Server of the NIC, such as s0003.")
    nic: int | None = Field(
        default=None, ge=0, le=1_000_000_000, description="Index of the NIC in the server."
    )
    job: str | None = Field(
        default=None, description="The job of `rank`; a window counts its steps."
    )
    rank: int | None = Field(
        default=None, ge=0, le=1_000_000_000, description="The rank of `job` using the NIC."
    )

    @model_validator(mode="after")
    def _one_place(self) -> SlowNic:
        by_server = self.server is not None and self.nic is not None
        by_rank = self.job is not None and self.rank is not None
        parts_of_server = self.server is not None or self.nic is not None
        if by_server == by_rank or (by_rank and parts_of_server):
            raise ValueError("name the NIC either by server and nic, or by job and rank")
        if by_server and self.rank is not None:
            raise ValueError("name the NIC either by server and nic, or by job and rank")
        return self

    def culprit(self, target: Target) -> Culprit:
        return Culprit("address", self._address(target), self.job, self.rank)

    def links(self, target: Target) -> LinkNumbers:
        return target.links.at(self._address(target))

    def _address(self, target: Target) -> str:
        if self.job is not None and self.rank is not None:
            return target.compute.address_of(self.job, self.rank)
        server = server_index(self.server or "")
        assert server is not None
        assert self.nic is not None
        return nic_address(server, self.nic)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        yield from self.rank_remarks(setting, self.rank)
        cluster = setting.cluster
        if self.server is not None and not cluster.has_server(self.server):
            how = f"servers run from {server_name(0)} to {server_name(cluster.servers - 1)}"
            what = f"there is no server {self.server!r} in the cluster"
            yield Remark(("server",), what, how, (("cluster", "servers"),))
        if self.nic is not None and self.nic >= cluster.nics_per_server:
            what = f"there is no NIC {self.nic} in a server of {cluster.nics_per_server}"
            yield Remark(("nic",), what, "NICs count from 0", (("cluster", "nics_per_server"),))
