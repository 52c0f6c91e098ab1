"""A slow cable: bit errors, a lost lane, a wrong speed setting."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.cluster.topology import topology_of
from prism_sim.faults.base import SLOW_ACCESS, Culprit, LinkFault, never_crossed, what_exists
from prism_sim.faults.target import LinkNumbers, Target
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.cluster import SHAPE
from prism_sim.scenario.setting import Setting

LISTED = 8
"""Neighbours listed in a message."""


class SlowLink(LinkFault):
    """The link between ``a`` and ``b`` runs at factor of its rate, in both directions.

    If several parallel links join two switches, all of them are slow.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_link"] = "slow_link"
    a: str = Field(description="One end: a NIC's address (10.0.3.1) or a switch (leaf000).")
    b: str = Field(description="The other end: a switch (leaf000, core00) or a NIC's address.")

    def culprit(self, target: Target) -> Culprit:
        return Culprit("link", f"{self.a}|{self.b}")

    def links(self, target: Target) -> LinkNumbers:
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
