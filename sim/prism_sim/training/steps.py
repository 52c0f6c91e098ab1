"""The steps of one job: callbacks at their start, and their start and end times."""

from __future__ import annotations

from collections.abc import Callable


class StepRecord:
    """Steps of the workers of one job.

    Parameters
    ----------
    workers : number of workers that make each step.

    Attributes
    ----------
    rows : (first rank of a worker, step, start, end) of every step that the worker has finished
        [ns].
    began : steps that at least one worker has begun.
    finished : the number of the first step that some worker has not finished.
    varied_ns : by (first rank of a worker, step), how much longer than nominal random variation
        makes its own work: passes, and the host work before them; negative if shorter.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.rows: list[tuple[int, int, int, int]] = []
        self.began: set[int] = set()
        self.finished = 0
        self.varied_ns: dict[tuple[int, int], float] = {}
        self._done_by: dict[int, int] = {}
        self._at_step: dict[int, list[Callable[[], None]]] = {}

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when the first worker begins ``step``."""
        self._at_step.setdefault(step, []).append(call)

    def begin(self, step: int) -> None:
        """Record that a worker begins ``step``."""
        if step not in self.began:
            self.began.add(step)
            for call in self._at_step.pop(step, ()):
                call()

    def vary(self, first_rank: int, step: int, extra_ns: float) -> None:
        """Record that chance makes the own work of a worker longer by ``extra_ns``."""
        place = first_rank, step
        self.varied_ns[place] = self.varied_ns.get(place, 0.0) + extra_ns

    def done(self, first_rank: int, step: int, start_ns: int, end_ns: int) -> None:
        """Record that the worker of ``first_rank`` has finished ``step``."""
        self.rows.append((first_rank, step, start_ns, end_ns))
        self._done_by[step] = self._done_by.get(step, 0) + 1
        if self._done_by[step] == self._workers:
            del self._done_by[step]
            self.finished = step + 1
