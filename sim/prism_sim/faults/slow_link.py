"""A slow cable: bit errors, a lost lane, a wrong speed setting."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.base import SLOW_ACCESS, LinkFault
from prism_sim.faults.places import OfLink


class SlowLink(OfLink, LinkFault):
    """The link between ``a`` and ``b`` runs at factor of its rate, in both directions.

    A cable whose training failed on some lanes comes up with the others: at a half or a quarter.
    If several parallel links join two switches, all of them are slow.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS

    kind: Literal["slow_link"] = "slow_link"
