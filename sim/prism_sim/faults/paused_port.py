"""A paused port: flow control stops it, and what shares its upstream queue waits as well."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.cluster.topology import topology_of
from prism_sim.faults.base import SLOW_ACCESS, STOPPED
from prism_sim.faults.places import OfNic
from prism_sim.faults.target import Target, Undo, together
from prism_sim.faults.timing import Pulsed
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class PausedPort(Pulsed, OfNic):
    """A NIC pauses its leaf for ``lasts_s`` in every ``every_s`` (priority flow control).

    The leaf keeps what is for the NIC until its buffer is full, and then pauses the links from
    which that comes. Everything on these links waits, also for other NICs: with spraying, all that
    enters the leaf. The buffer counts as empty: it holds some ten microseconds.

    Reference: Guo et al., RDMA over commodity Ethernet at scale, SIGCOMM'16, section 4 (pause
    frames that spread from one NIC).
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"pause_frames", "congestion"}

    kind: Literal["paused_port"] = "paused_port"

    def magnitude(self, target: Target) -> float:
        return self.share

    def begin(self, target: Target) -> Undo:
        def pause() -> Undo:
            both = (self.links(target), target.links.upstream_of(self.address(target)))
            return together([target.links.slow(links, STOPPED) for links in both])

        return self.pulsed(target.clock, pause)

    def jobs_affected(self, target: Target) -> list[str]:
        both = (self.links(target), target.links.upstream_of(self.address(target)))
        return sorted({job for links in both for job in target.links.jobs_across(links)})

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if len(topology_of(setting.cluster).leaves) == 1:
            yield Remark(("kind",), "all NICs are on one leaf: no link leads to it from above")
