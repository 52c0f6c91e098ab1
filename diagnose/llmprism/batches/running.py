"""Diagnoses one batch after the other, at once or in windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from llmprism.batches.chains import chains_of
from llmprism.batches.stitching import kept_in, stitched
from llmprism.batches.stored_spans import SpanFile, write_spans
from llmprism.batches.windows import (
    Window,
    fewer_windows,
    fewest_windows,
    windows_of,
    write_windows,
)
from llmprism.diagnosis import Diagnosis
from llmprism.io.flows import Rest
from llmprism.io.loading import row_count, stored
from llmprism.model import Progress
from llmprism.numerics.memory import give_back
from llmprism.verdict import NOTHING_CIRCULATES

FEWEST_STEPS = 24  # of a window: three of them are in two windows
_COPYING = 0.1  # share of the time that dividing a batch into windows takes

DiagnoseOne = Callable[[Path, Rest, Progress], Diagnosis]
"""Diagnoses a file of records; the others are known by what :class:`Rest` has."""

Part = tuple[Diagnosis, list[SpanFile]]
"""A diagnosis without spans, and the files of these."""


@dataclass
class Runner:
    """Diagnoses files of records, and learns what later ones have to know of earlier ones."""

    diagnose_one: DiagnoseOne
    most_records: int
    rest: Rest
    folder: Path

    def diagnosed(self, path: Path, progress: Progress) -> Part:
        """Diagnose the file of a batch, in as many windows as have enough steps each."""
        count = fewest_windows(row_count(path), self.most_records)
        while count > 1:
            windows, shares = self._divided(path, count, progress)
            report = _of_window(0, count, progress)
            first = self._at_once(windows[0].path, self._within(windows[0]), report)
            steps = _steps_of_each_job(first[0])
            if steps >= FEWEST_STEPS:
                self._remove(path)
                return self._in_windows(windows, first, shares, progress)
            for other in windows[1:]:
                other.path.unlink()
            count = fewer_windows(count, int(steps), FEWEST_STEPS + 1)
        return self._at_once(path, self.rest, progress)

    def _remove(self, path: Path) -> None:
        """Remove a file that is a temporary one."""
        if path.parent == self.folder:
            path.unlink()

    def _at_once(self, path: Path, rest: Rest, progress: Progress) -> Part:
        """Diagnose a file as a whole."""
        one = self.diagnose_one(path, rest, progress)
        self.rest = replace(self.rest, have_steps=self.rest.have_steps or len(one.steps) > 0)
        self._remove(path)
        spans = write_spans(one, self.folder / f"spans-of-{path.name}")
        one = one.without_spans()
        give_back()
        return one, [spans]

    def _divided(
        self, path: Path, count: int, progress: Progress
    ) -> tuple[list[Window], list[float]]:
        """The files of so many windows, and the share of each that is not in the one before."""
        with stored(path) as records:
            rows = records.rows
            windows = windows_of(records, count, self.folder)
            write_windows(records, windows, lambda done: progress(_COPYING * done, "dividing time"))
        return windows, _fresh_shares([row_count(window.path) for window in windows], rows)

    def _in_windows(
        self, windows: Sequence[Window], first: Part, shares: Sequence[float], progress: Progress
    ) -> Part:
        """Diagnose all windows after the ``first`` one, and stitch them together."""
        parts = [first]
        for number, window in enumerate(windows[1:], start=1):
            report = _of_window(number, len(windows), progress)
            parts.append(self._at_once(window.path, self._within(window), report))
        return _stitched(parts, windows, shares)

    def _within(self, window: Window) -> Rest:
        """What is known of records outside of ``window``; its edges are those of the recording."""
        first_ns, last_ns = self.rest.recorded_ns
        recorded_ns = max(first_ns, window.first_ns), min(last_ns, window.end_ns)
        return replace(self.rest, recorded_ns=recorded_ns)


def _of_window(number: int, count: int, progress: Progress) -> Progress:
    """Reports the progress of one window of so many."""

    def report(fraction: float, doing: str) -> None:
        done = (number + fraction) / count
        progress(_COPYING + (1 - _COPYING) * done, f"window {number + 1} of {count}: {doing}")

    return report


def _steps_of_each_job(diagnosis: Diagnosis) -> float:
    """The steps of the job that has fewest; any number if no records belong together."""
    if any(one.reason == NOTHING_CIRCULATES for one in diagnosis.verdict.reasons):
        return math.inf
    counts = diagnosis.steps.groupby("job")["step"].nunique()
    return float(counts.min()) if counts.size else 0


def _stitched(parts: Sequence[Part], windows: Sequence[Window], shares: Sequence[float]) -> Part:
    diagnoses = [one for one, _ in parts]
    overlaps_ns = [(0, 0)]
    overlaps_ns += [(later.first_ns, earlier.end_ns) for earlier, later in pairwise(windows)]
    chains = chains_of(diagnoses, overlaps_ns)
    spans = [
        replace(file, jobs=kept_in(chains, number))
        for number, (_, files) in enumerate(parts)
        for file in files
    ]
    return stitched(diagnoses, chains, shares), spans


def _fresh_shares(sizes: Sequence[int], rows: int) -> list[float]:
    """Share of the records of each window, of so many ``sizes``, that no earlier one has.

    All windows but the first begin with as many records of the one before, as there are more
    records in all ``sizes`` than ``rows``.
    """
    twice = (sum(sizes) - rows) / max(len(sizes) - 1, 1)
    return [1.0 if number == 0 else 1.0 - twice / max(size, 1) for number, size in enumerate(sizes)]
