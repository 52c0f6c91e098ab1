"""A NIC that sends and receives below its rate: a degraded lane, PCIe downtraining."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from prism_sim.faults.base import Culprit, LinkFault
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.names import nic_address, server_index, server_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prism_sim.loading.scenario import Scenario
    from prism_sim.world import World


class SlowNic(LinkFault):
    """One NIC runs at factor of its rate, in both directions.

    Named as the ``nic`` of a ``server``, or as the one that ``rank`` of ``job`` uses.
    """

    kind: Literal["slow_nic"] = "slow_nic"
    server: str | None = Field(default=None, description="Server of the NIC, such as s0003.")
    nic: int | None = Field(
        default=None, ge=0, le=1_000_000_000, description="Index of the NIC in the server."
    )
    job: str | None = Field(
        default=None, description="The job of `rank`, and whose steps a window counts."
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

    def culprit(self, world: World) -> Culprit:
        return Culprit("address", self._address(world), self.job, self.rank)

    def links(self, world: World) -> NDArray[np.int64]:
        return world.layout.links_at(self._address(world))

    def _address(self, world: World) -> str:
        if self.job is not None and self.rank is not None:
            return world.jobs[self.job].address_of(self.rank)
        server = server_index(self.server or "")
        assert server is not None
        assert self.nic is not None
        return nic_address(server, self.nic)

    def remarks(self, scenario: Scenario) -> Remarks:
        yield from super().remarks(scenario)
        yield from self.rank_remarks(scenario, self.rank)
        cluster = scenario.cluster
        if self.server is not None and not cluster.has_server(self.server):
            how = f"servers run from {server_name(0)} to {server_name(cluster.servers - 1)}"
            what = f"there is no server {self.server!r} in the cluster"
            yield Remark(("server",), what, how, (("cluster", "servers"),))
        if self.nic is not None and self.nic >= cluster.nics_per_server:
            what = f"there is no NIC {self.nic} in a server of {cluster.nics_per_server}"
            yield Remark(("nic",), what, "NICs count from 0", (("cluster", "nics_per_server"),))
