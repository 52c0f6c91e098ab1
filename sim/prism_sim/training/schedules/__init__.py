"""The order in which a pipeline stage does its work, one file a schedule.

A new schedule is a new file and one line in :data:`SCHEDULES`.
"""

from __future__ import annotations

from prism_sim.training.schedules.one_f_one_b import one_f_one_b
from prism_sim.training.schedules.work import BACKWARD, FORWARD, Schedule, Work

SCHEDULES: dict[str, Schedule] = {"1f1b": one_f_one_b}
"""Every schedule by its name in a scenario."""

__all__ = ["BACKWARD", "FORWARD", "SCHEDULES", "Schedule", "Work"]
