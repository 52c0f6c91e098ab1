"""A cable that loses packets: the sender repeats them, and less of the rate is left."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_ACCESS
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfLink
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class LossyLink(OfLink):
    """Each packet on the link is lost with the same probability, and repeated.

    Useful bytes take 1 / (1 + probability x packets_a_loss) of the rate. Records count each byte
    once; the telemetry effect ``retransmissions`` shows repeated bytes. Reference: Mittal et al.,
    Revisiting network support for RDMA, SIGCOMM'18: NICs go back to the loss and repeat a window.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"packet_loss"}

    kind: Literal["lossy_link"] = "lossy_link"
    probability: float = Field(ge=0, lt=1, description="Loss of a packet.")
    packets_a_loss: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Packets sent again for each that is lost. Default: 100, a window at "
        "400 Gbit/s and 8 us.",
    )

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """The loss that leaves as much of the rate."""
        return super().drawn(drawing) | {"probability": (1 / drawing.factor - 1) / 100}

    @property
    def speed(self) -> float | None:
        return 1 / (1 + self.probability * self.packets_a_loss)

    def magnitude(self, target: Target) -> float:
        return 1 - (self.speed or 1.0)

    def begin(self, target: Target) -> Undo:
        return target.links.slow(self.links(target), self.speed or 1.0)

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_across(self.links(target))

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if self.probability == 0:
            yield Remark(("probability",), "a link that loses nothing changes nothing")
