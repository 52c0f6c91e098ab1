"""The order in which a pipeline stage does its work, one file a schedule.

A new schedule is a new file and one line in :data:`SCHEDULES`.
"""

from __future__ import annotations

from prism_sim.training.schedules.gpipe import gpipe
from prism_sim.training.schedules.interleaved import interleaved
from prism_sim.training.schedules.one_f_one_b import one_f_one_b
from prism_sim.training.schedules.work import (
    BACKWARD,
    FORWARD,
    WEIGHTS,
    Place,
    Schedule,
    Work,
    gradient_kind,
)
from prism_sim.training.schedules.zero_bubble import zb_h1

SCHEDULES: dict[str, Schedule] = {
    "1f1b": one_f_one_b,
    "gpipe": gpipe,
    "interleaved": interleaved,
    "zb-h1": zb_h1,
}
"""Every schedule by its name in a scenario."""

__all__ = [
    "BACKWARD",
    "FORWARD",
    "SCHEDULES",
    "WEIGHTS",
    "Place",
    "Schedule",
    "Work",
    "gradient_kind",
]
