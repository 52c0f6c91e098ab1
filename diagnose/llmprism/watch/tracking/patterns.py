"""What a job repeats in every step, learned from one diagnosis of a window.

Gradients have as many bytes in every step. So a connection that carries them has completed a step
when it has moved them, whatever the number of its records. The end of a step is estimated from each
connection, by what the end was later or earlier in the window; the median counts. A job without
such connections cannot be followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from llmprism.batches.chains import SAME_END
from llmprism.diagnosis import Diagnosis
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian
from llmprism.watch.tracking.records import MOST_POINTS, Numbers, Records
from prism_common import kinds

FEWEST = 8  # steps that show what repeats
ALIKE = 0.02  # by which the bytes of a step may differ from those of the others
MOSTLY = 0.8  # of the steps are alike
FITTING = 0.7  # of the connections have to agree about the end of a step
REACHED = 0.9  # of its bytes: then a step counts as moved, also if a record is lost
BESIDE = 0.02  # of a step: records may end so much after the end of DP traffic


@dataclass(frozen=True)
class Pattern:
    """What repeats in a job.

    Attributes
    ----------
    lanes : that count its steps, in ascending order, shape (lanes,).
    step_bytes : what each moves in a step.
    late_ns : when it has moved REACHED of that, after the end of the step.
    border_ns : what ends before belongs to the step, after the end of the step.
    period_ns : usual length of a step.
    """

    lanes: Ints
    step_bytes: Floats
    late_ns: Floats
    border_ns: Floats
    period_ns: float

    def places(self, records: Records) -> tuple[Ints, Bools]:
        """The place of each record among the lanes, and whether it has one."""
        return _places(self.lanes, records)

    def agreed_ns(self, moved_ns: Floats) -> tuple[float, float]:
        """The end of a step by when each lane moved it, and the share of lanes that agree."""
        ends_ns = moved_ns - self.late_ns
        if np.isnan(ends_ns).all():
            return np.nan, 0.0
        end_ns = float(np.nanmedian(ends_ns))
        agreeing = np.abs(ends_ns - end_ns) < SAME_END * self.period_ns
        return end_ns, float(agreeing.mean())


def learn(
    diagnosis: Diagnosis, job: str, ends_ns: pd.Series, records: Records, numbers: Numbers
) -> tuple[Pattern, Floats] | None:
    """The pattern of a job, and the ends of its steps that the pattern shows; None without one.

    ``ends_ns`` are the ends of its steps [ns], and ``records`` those of the window.
    """
    if len(ends_ns) < FEWEST:
        return None
    ends, period_ns = ends_ns.to_numpy(float), float(ends_ns.diff().median())
    own = diagnosis.pairs[diagnosis.pairs["job"] == job]
    later = _later_ns(diagnosis.steps[diagnosis.steps["job"] == job], ends_ns, numbers)
    for chosen in (own[own["kind"] == kinds.DP], own):
        lanes = _lanes(chosen, records, numbers)
        if lanes.size:
            found = _pattern(lanes, records, ends, later[numbers.sources(lanes)], period_ns)
            if found is not None:
                return found
    return None


def _later_ns(steps: pd.DataFrame, ends_ns: pd.Series, numbers: Numbers) -> Floats:
    """By how much the traffic of each address ends after the end of a step, at its median [ns]."""
    shown = steps["dp_end_ns"].fillna(steps["end_ns"]).astype(float)
    after = shown - steps["step"].map(ends_ns).astype(float)
    medians = after.groupby(steps["address"].astype(str)).median()
    later = np.zeros(len(numbers.addresses))
    later[numbers.codes([*medians.index])] = medians.to_numpy()
    return later


def _lanes(pairs: pd.DataFrame, records: Records, numbers: Numbers) -> Ints:
    """Of each pair, the lane of the point that counted the most bytes."""
    wanted = np.unique(numbers.pairs([*pairs["src"].astype(str)], [*pairs["dst"].astype(str)]))
    own = np.isin(records.lane // MOST_POINTS, wanted)
    lanes, place = np.unique(records.lane[own], return_inverse=True)
    volume = np.bincount(place, records.bytes[own], lanes.size)
    order = np.lexsort((-volume, lanes // MOST_POINTS))
    _, first = np.unique((lanes // MOST_POINTS)[order], return_index=True)
    return np.sort(lanes[order[first]])


def _pattern(
    lanes: Ints, records: Records, ends_ns: Floats, later_ns: Floats, period_ns: float
) -> tuple[Pattern, Floats] | None:
    """The pattern of some lanes whose traffic ends ``later_ns`` after the end of a step."""
    inner_ns = ends_ns[1:-1]  # the first and the last step may not be whole
    cells = _cells(lanes, records, ends_ns + BESIDE * period_ns, later_ns)
    volume = cells.volume
    usual = np.median(volume, axis=1)
    alike = (np.abs(volume - usual[:, None]) <= ALIKE * usual[:, None]).mean(axis=1) >= MOSTLY
    alike &= usual > 0
    if not alike.any():
        return None
    moved = cells.moved_ns(REACHED * usual)
    late_ns = nanmedian(moved - inner_ns, axis=1)
    border_ns = cells.borders_ns(inner_ns)
    pattern = Pattern(lanes[alike], usual[alike], late_ns[alike], border_ns[alike], period_ns)
    agreed = [pattern.agreed_ns(column) for column in moved[alike].T]
    if np.median([share for _, share in agreed]) < FITTING:
        return None
    return pattern, np.array([end for end, _ in agreed])


def _places(lanes: Ints, records: Records) -> tuple[Ints, Bools]:
    """The place of each record among some lanes, and whether it has one."""
    place = np.minimum(np.searchsorted(lanes, records.lane), lanes.size - 1)
    return place, lanes[place] == records.lane


@dataclass(frozen=True)
class _Cells:
    """Records by lane and step: those of a cell follow each other, in order of their ends.

    Attributes
    ----------
    cell : of each record.
    shape : (lanes, steps).
    """

    cell: Ints
    records: Records
    shape: tuple[int, int]

    @cached_property
    def volume(self) -> Floats:
        """What each lane moves in each step [bytes], shape (lanes, steps)."""
        count = self.shape[0] * self.shape[1]
        volume: Floats = np.bincount(self.cell, self.records.bytes, count).astype(np.float64)
        return volume.reshape(self.shape)

    def moved_ns(self, wanted: Floats) -> Floats:
        """When each lane has moved the ``wanted`` bytes of a step [ns]; NaN if it has not."""
        before = np.concatenate(([0.0], np.cumsum(self.volume.ravel())))[self.cell]
        sums = np.cumsum(self.records.bytes) - before
        reached = sums >= wanted[self.cell // self.shape[1]]
        return self._first(reached)

    def borders_ns(self, ends_ns: Floats) -> Floats:
        """Between the last record of a step and the first of the next one, after its end [ns]."""
        first = self._first(np.ones(self.cell.size, np.bool_))
        last = np.full(self.shape, np.nan)
        last.ravel()[self.cell] = self.records.end_ns
        middle = (last[:, :-1] + first[:, 1:]) / 2 - ends_ns[:-1]
        return np.nan_to_num(nanmedian(middle, axis=1))

    def _first(self, mask: Bools) -> Floats:
        """The end of the first record of each cell for which the mask holds [ns]."""
        found = np.full(self.shape, np.nan)
        found.ravel()[self.cell[mask][::-1]] = self.records.end_ns[mask][::-1]
        return found


def _cells(lanes: Ints, records: Records, borders_ns: Floats, later_ns: Floats) -> _Cells:
    """The records of ``lanes`` in all steps but the first and the last.

    A record belongs to the first step whose border it does not exceed by more than ``later_ns``.
    """
    own = records.where(_places(lanes, records)[1])
    own = own.take(np.lexsort((own.end_ns, own.lane)))
    place = np.searchsorted(lanes, own.lane)
    step = np.searchsorted(borders_ns, own.end_ns - later_ns[place]) - 1
    steps = borders_ns.size - 2
    inside = (step >= 0) & (step < steps)
    cell = (place * steps + step)[inside]
    return _Cells(cell.astype(np.int64), own.where(inside), (lanes.size, steps))
