"""Designs: which places of a study's space are run. One file for each design.

A *place* is a set of values in the scenario. A grid takes all combinations of values, a list takes
the places that are written out, a random design and a Latin hypercube draw them. If a study has
several designs, its places are all combinations of theirs.

A new design is a new file with a class that derives from
:class:`~prism_sim.studies.designs.base.Design`, and one field of
:class:`prism_sim.studies.study.Study`.
"""

from __future__ import annotations

from prism_sim.studies.designs.base import Design, Place
from prism_sim.studies.designs.drawn import LatinHypercube, RandomDesign
from prism_sim.studies.designs.grid import Grid
from prism_sim.studies.designs.listed import PlaceList
from prism_sim.studies.designs.variants import Variants

__all__ = ["Design", "Grid", "LatinHypercube", "Place", "PlaceList", "RandomDesign", "Variants"]
