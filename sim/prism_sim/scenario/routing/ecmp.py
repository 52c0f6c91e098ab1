"""Equal-cost multi-path: a hash of the 5-tuple gives each connection one path."""

from __future__ import annotations

from typing import Literal

from prism_sim.scenario.routing.base import RoutingBase


class Ecmp(RoutingBase):
    """A connection keeps the path that the hashes of the switches give its 5-tuple (RFC 2992)."""

    kind: Literal["ecmp"] = "ecmp"
