"""A NIC that sends and receives below its rate: a degraded lane, PCIe downtraining."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_ACCESS, LinkFault
from prism_sim.faults.places import OfNic


class SlowNic(OfNic, LinkFault):
    """One NIC runs at factor of its rate, in both directions.

    Named as the ``nic`` of a ``server``, or as the one that ``rank`` of ``job`` uses.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_nic"] = "slow_nic"
