"""How NICs are plugged into leaves.

A new kind is a class that derives from
:class:`~prism_sim.scenario.wirings.base.Wiring`, one entry in :data:`WIRINGS`, and its name in
``fabric.kind`` (:mod:`prism_sim.scenario.cluster`).
"""

from __future__ import annotations

from prism_sim.scenario.wirings.base import Wiring
from prism_sim.scenario.wirings.kinds import Rail, RailOnly, Tor

WIRINGS: dict[str, Wiring] = {"rail": Rail(), "tor": Tor(), "rail_only": RailOnly()}
"""The wiring of each kind of fabric, by its name in a scenario."""

__all__ = ["WIRINGS", "Wiring"]
