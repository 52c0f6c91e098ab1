"""Routing: how switches share messages among equal paths.

A new kind is a class that derives from
:class:`~prism_sim.scenario.routing.base.RoutingBase` and has a literal ``kind``, and one entry in
:data:`ROUTINGS`; or an entry point ``prism_sim.routings`` of another package.
"""

from __future__ import annotations

from prism_sim.registry import Registry, by_literal
from prism_sim.scenario.routing.base import Choice, RoutingBase
from prism_sim.scenario.routing.kinds import Adaptive, Ecmp, Flowlet, Spray

ROUTINGS: Registry[type[RoutingBase]] = Registry(
    "prism_sim.routings", Ecmp, Flowlet, Adaptive, Spray, name_of=by_literal
)
"""Every kind of routing by its name in a scenario."""

__all__ = ["ROUTINGS", "Choice", "Ecmp", "RoutingBase"]
