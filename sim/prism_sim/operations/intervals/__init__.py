"""Rules for the work between two checkpoints; a new kind is a new file and one entry below."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from prism_sim.operations.intervals.base import IntervalBase
from prism_sim.operations.intervals.daly import Daly
from prism_sim.operations.intervals.fixed import Fixed
from prism_sim.operations.intervals.learned import Learned
from prism_sim.operations.intervals.young import Young
from prism_sim.registry import Registry, by_literal, named

INTERVALS: Registry[type[IntervalBase]] = Registry(
    "prism_sim.operations.intervals",
    Fixed,
    Young,
    Daly,
    Learned,
    name_of=by_literal,
)
"""Each kind by its name in a study."""

if TYPE_CHECKING:
    Interval: TypeAlias = IntervalBase
else:
    Interval = named(INTERVALS)
