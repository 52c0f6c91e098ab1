"""What a job does besides its steps, one file a habit.

A new habit is a new file and one entry in :data:`HABITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prism_sim.training.habits.base import Habit
from prism_sim.training.habits.evaluation import evaluation
from prism_sim.training.habits.loading import loading
from prism_sim.training.habits.saving import saving

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob

HABITS: tuple[Callable[[TrainingJob], Sequence[Habit]], ...] = (loading, evaluation, saving)
"""What makes the habits of a job, in the order in which they take place."""

__all__ = ["HABITS", "Habit"]
