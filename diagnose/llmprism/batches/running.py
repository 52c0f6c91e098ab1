"""Diagnoses one batch after the other, at once or in windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from llmprism.batches.chains import chains_of
from llmprism.batches.stitching import kept_in, stitched
from llmprism.batches.stored_spans import SpanFile, write_spans
from llmprism.batches.windows import Window, windows_of, write_windows
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
        """Diagnose the file of a batch."""
        if row_count(path) > self.most_records and (part := self._in_windows(path, progress)):
            self._remove(path)
            return part
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

    def _in_windows(self, path: Path, progress: Progress) -> Part | None:
        """Diagnose a batch window by window; None if the first one has too few steps."""
        with stored(path) as records:
            rows = records.rows
            windows = windows_of(records, self.most_records, self.folder)
            write_windows(records, windows, lambda done: progress(_COPYING * done, "dividing time"))
        sizes = [row_count(window.path) for window in windows]
        parts: list[Part] = []
        for number, window in enumerate(windows):

            def report(fraction: float, doing: str, number: int = number) -> None:
                done = (number + fraction) / len(windows)
                doing = f"window {number + 1} of {len(windows)}: {doing}"
                progress(_COPYING + (1 - _COPYING) * done, doing)

            parts.append(self._at_once(window.path, self._within(window), report))
            if number == 0 and not _is_enough(parts[0][0]):
                for other in windows[1:]:
                    other.path.unlink()
                return None
        return _stitched(parts, windows, _fresh_shares(sizes, rows))

    def _within(self, window: Window) -> Rest:
        """What is known of records outside of ``window``; its edges are those of the recording."""
        first_ns, last_ns = self.rest.recorded_ns
        recorded_ns = max(first_ns, window.first_ns), min(last_ns, window.end_ns)
        return replace(self.rest, recorded_ns=recorded_ns)


def _is_enough(diagnosis: Diagnosis) -> bool:
    """Whether a window has enough steps of each job, or records of which none belong together."""
    if any(one.reason == NOTHING_CIRCULATES for one in diagnosis.verdict.reasons):
        return True
    count = diagnosis.steps.groupby("job")["step"].nunique()
    return bool(count.size and (count >= FEWEST_STEPS).all())


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
