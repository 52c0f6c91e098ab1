"""Families of worlds: ranges in a file, and the worlds that are drawn from them.

A *family* (:mod:`~prism_sim.families.family`) has ranges of everything that an observer of flow
records cannot choose: hardware, jobs, telemetry, other traffic and faults. A *world* is one draw: a
scenario that follows from the family and a seed (:func:`draw`), bit for bit.
"""

from __future__ import annotations

from prism_sim.families.drawing import draw
from prism_sim.families.family import Family, bundled_families, read_families, read_family

__all__ = ["Family", "bundled_families", "draw", "read_families", "read_family"]
