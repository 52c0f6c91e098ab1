"""Pipeline schedules: the order of a stage's work.

A new schedule is a class that derives from
:class:`~prism_sim.training.schedules.base.ScheduleBase` and has a literal ``kind``, and one
entry in :data:`SCHEDULES`; or an entry point ``prism_sim.schedules`` of another package.
"""

from __future__ import annotations

from prism_sim.registry import Registry, by_literal
from prism_sim.training.schedules.base import ScheduleBase
from prism_sim.training.schedules.dual_pipe import DualPipe, DualPipeV
from prism_sim.training.schedules.one_f_one_b import GPipe, Interleaved, OneFOneB
from prism_sim.training.schedules.work import (
    BACKWARD,
    FORWARD,
    PASS_SPANS,
    WEIGHTS,
    WHOLE,
    Place,
    Work,
    gradient_kinds,
)
from prism_sim.training.schedules.zero_bubble import ZeroBubble

SCHEDULES: Registry[type[ScheduleBase]] = Registry(
    "prism_sim.schedules",
    OneFOneB,
    GPipe,
    Interleaved,
    ZeroBubble,
    DualPipe,
    DualPipeV,
    name_of=by_literal,
)
"""Every schedule by its name in a scenario."""

__all__ = [
    "BACKWARD", "FORWARD", "PASS_SPANS", "SCHEDULES", "WEIGHTS", "WHOLE", "OneFOneB", "Place",
    "ScheduleBase", "Work", "gradient_kinds",
]  # fmt: skip
