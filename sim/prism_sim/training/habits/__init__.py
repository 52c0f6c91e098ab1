"""Activities of a job besides its steps.

A new habit is a class that derives from
:class:`~prism_sim.training.habits.base.HabitBase` and has a ``key``, and one entry in
:data:`HABITS`; or an entry point ``prism_sim.habits`` of another package.
"""

from __future__ import annotations

from prism_sim.registry import Registry
from prism_sim.training.habits.base import Habit, HabitBase
from prism_sim.training.habits.kinds import Checkpoint, Evaluation, Loading

HABITS: Registry[type[HabitBase]] = Registry(
    "prism_sim.habits", Loading, Evaluation, Checkpoint, name_of=lambda habit: habit.key
)
"""Every habit by its key in a job, in the order of their execution."""

__all__ = ["HABITS", "Habit", "HabitBase"]
