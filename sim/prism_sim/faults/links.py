"""Faults of NICs and cables."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_ACCESS, STOPPED, LinkFault
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfLink, OfNic
from prism_sim.faults.target import Target, Undo
from prism_sim.faults.timing import Pulsed
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


# A NIC that sends and receives below its rate: a degraded lane, PCIe downtraining.
class SlowNic(OfNic, LinkFault):
    """One NIC runs at factor of its rate, in both directions.

    Named as the ``nic`` of a ``server``, or as the one that ``rank`` of ``job`` uses.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_nic"] = "slow_nic"


# A NIC whose link goes down and comes back: a loose cable, a dirty optic, a failing port.
class FlappingNic(Pulsed, OfNic):
    """The link of one NIC is down for ``lasts_s`` in every ``every_s``, in both directions.

    Messages under way wait, and continue when the link is back. (A queue pair repeats for some
    seconds before it gives up: with NCCL's defaults, 7 retries of about 1 s each,
    NCCL_IB_TIMEOUT = 20. A link that stays down longer stops the job: see ``stopped_nic``.)
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"nic_flap"}

    kind: Literal["flapping_nic"] = "flapping_nic"

    def magnitude(self, target: Target) -> float:
        return self.share

    def begin(self, target: Target) -> Undo:
        links = self.links(target)
        return self.pulsed(target.clock, lambda: target.links.slow(links, STOPPED))


# A slow cable: bit errors, a lost lane, a wrong speed setting.
class SlowLink(OfLink, LinkFault):
    """The link between ``a`` and ``b`` runs at factor of its rate, in both directions.

    A cable whose training failed on some lanes comes up with the others: at a half or a quarter.
    If several parallel links join two switches, all of them are slow.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_link"] = "slow_link"


# A gray link: a cable that loses packets, which the sender repeats.
class LossyLink(OfLink):
    """Each packet on the link is lost with the same probability, and repeated.

    A NIC that goes back to the loss repeats a window of W packets: useful bytes take 1 / (1 + p W)
    of the rate. One that repeats the lost packets alone takes 1 - p. (Bertsekas and Gallager, Data
    Networks, 1992, section 2.4; Mittal et al., Revisiting network support for RDMA, SIGCOMM'18,
    compare both in RDMA NICs.) Time-outs are not modelled.

    Where a message crosses the link with a share s of its packets, as with spraying, p s takes the
    place of p, and all of the message is delayed: the NIC repeats a window over all paths.

    Records count each byte once; the telemetry effect ``retransmissions`` shows repeated bytes.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"packet_loss", "gray_link"}

    kind: Literal["lossy_link"] = "lossy_link"
    probability: float = Field(ge=0, lt=1, description="Loss of a packet.")
    transport: Literal["go_back_n", "selective_repeat"] = "go_back_n"
    """What a NIC repeats after a loss. go_back_n: a window, `packets_a_loss`. selective_repeat: the
    lost packet alone."""
    packets_a_loss: int = Field(default=100, ge=1, le=1_000_000)
    """Packets sent again for each that is lost, with go_back_n. Default: 100, a window at 400
    Gbit/s and 8 us."""

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """The loss that leaves as much of the rate."""
        return super().drawn(drawing) | {"probability": (1 / drawing.factor - 1) / 100}

    @property
    def repeats(self) -> float:
        """Packets sent again for each packet that passes the link."""
        if self.transport == "selective_repeat":
            return self.probability / (1 - self.probability)
        return self.probability * self.packets_a_loss

    @property
    def speed(self) -> float | None:
        return 1 / (1 + self.repeats)

    def magnitude(self, target: Target) -> float:
        return 1 - (self.speed or 1.0)

    def begin(self, target: Target) -> Undo:
        return target.links.lose(self.links(target), self.repeats)

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_across(self.links(target))

    def doubts(self, setting: Setting) -> Remarks:
        yield from super().doubts(setting)
        if self.probability == 0:
            yield Remark(("probability",), "a link that loses nothing changes nothing")
