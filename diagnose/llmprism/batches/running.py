"""Diagnoses one batch after the other, at once or in windows.

The last eighth of a window is the first eighth of the next. Records belong to a window by their
start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from llmprism.batches.chains import chains_of, kept_in, stitched
from llmprism.batches.stored_spans import SpanFile, write_spans
from llmprism.diagnosis import Diagnosis
from llmprism.io.columns import numbers
from llmprism.io.flows import Rest
from llmprism.io.loading import StoredRecords, row_count, stored
from llmprism.numerics.arrays import Ints
from llmprism.numerics.memory import give_back
from llmprism.verdict import NOTHING_CIRCULATES
from prism_common.progress import Progress

SLICES = 8  # of a window; one of them overlaps with the next window
_EVERY = 64  # records of which the start of one is looked at, to find slices of equal size


@dataclass(frozen=True)
class Window:
    """Records that start from ``first_ns`` on and before ``end_ns``."""

    first_ns: int
    end_ns: int
    path: Path


def fewest_windows(rows: int, most_records: int) -> int:
    """Number of windows of at most about ``most_records`` that hold ``rows`` records."""
    slices = -(-rows * SLICES // most_records)
    return max(1, -(-(slices - 1) // (SLICES - 1)))


def fewer_windows(count: int, steps: int, wanted: int) -> int:
    """Number of windows, less than ``count``, that have as many steps as ``wanted``.

    ``steps`` are those of a window if there are ``count``. If it has none, windows become twice
    as large.
    """
    if steps == 0:
        return count // 2
    every = steps * ((SLICES - 1) * count + 1)  # in slices of one step
    return max(1, min((every // wanted - 1) // (SLICES - 1), count - 1))


def windows_of(records: StoredRecords, count: int, folder: Path) -> list[Window]:
    """So many windows of equally many records, whose files will be in ``folder``."""
    starts = [numbers(part["start_ns"])[::_EVERY] for part in records.parts(["start_ns"])]
    edges = _edges(np.concatenate(starts), count)
    begins = range(0, count * (SLICES - 1), SLICES - 1)
    return [
        Window(
            int(edges[at]),
            int(edges[min(at + SLICES, edges.size - 1)]),
            folder / f"window-{number}.parquet",
        )
        for number, at in enumerate(begins)
    ]


def _edges(starts: Ints, windows: int) -> Ints:
    """The times [ns] between slices with equally many of the ``starts``, and at both ends."""
    slices = windows * (SLICES - 1) + 1
    edges = np.quantile(starts, np.linspace(0, 1, slices + 1), method="lower")
    whole: Ints = edges.astype(np.int64)
    whole[0], whole[-1] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return whole


def write_windows(
    records: StoredRecords, windows: list[Window], progress: Callable[[float], None]
) -> None:
    """Write the records of each window to its file; ``progress`` gets the fraction done."""
    known = records.file.schema_arrow
    schema = known.empty_table().select(records.names).schema.with_metadata(records.notes)
    done = 0
    with ExitStack() as stack:
        writers = [
            stack.enter_context(pq.ParquetWriter(one.path, schema, compression="lz4"))
            for one in windows
        ]
        for part in records.parts():
            start_ns = numbers(part["start_ns"])
            for one, writer in zip(windows, writers, strict=True):
                inside = (one.first_ns <= start_ns) & (start_ns < one.end_ns)
                if inside.any():
                    writer.write_table(part.filter(inside).replace_schema_metadata())
            done += part.num_rows
            progress(done / records.rows)


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
