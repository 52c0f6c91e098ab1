"""What a worker does around its steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

if TYPE_CHECKING:
    from prism_sim.training.worker import Worker

Process = Generator[simpy.Event, object, None]


class Habit:
    """Something that one worker does before or after steps; by itself, nothing."""

    def before(self, worker: Worker, step: int) -> Process:
        """What comes before the first forward of ``step``."""
        yield from ()

    def after(self, worker: Worker, step: int) -> Process:
        """What comes when ``step`` is over."""
        yield from ()

    def finish(self, worker: Worker) -> Process:
        """What comes when all steps are over, before the worker's process ends."""
        yield from ()
