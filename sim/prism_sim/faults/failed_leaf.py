"""A leaf that is down, in a fabric whose NICs have ports on other leaves as well."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.faults.places import OfLeaf
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class FailedLeaf(OfLeaf):
    """One leaf of a pair is down, and its NICs use their other ports.

    A NIC of k ports keeps (k - 1) / k of its rate, and so does each NIC that it exchanges traffic
    with, for this traffic. Messages that are under way keep their path to their end: they last a
    fraction of a second.

    Reference: Qian et al., Alibaba HPN, SIGCOMM'24, section 5.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"failed_switch", "switch_down", "port_down"})

    kind: Literal["failed_leaf"] = "failed_leaf"
    factor: float = Field(
        default=1.0, ge=1, le=1, description="Speed of the remaining ports: as before."
    )

    @property
    def speed(self) -> float | None:
        return self.factor

    def magnitude(self, target: Target) -> float:
        return 1 / target.links.ports_of_a_nic

    def begin(self, target: Target) -> Undo:
        return target.links.fail_leaves([self.leaf])

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_at([self.leaf])

    def doubts(self, setting: Setting) -> Remarks:
        yield from ()  # traffic between two NICs of the leaf is affected as well

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        if setting.cluster.nic_ports == 1:
            what = "NICs have a single port, and no other one to use"
            how = "give them nic_ports: 2, or let a NIC stop (stopped_nic)"
            yield Remark(("leaf",), what, how, (("cluster", "nic_ports"),))
