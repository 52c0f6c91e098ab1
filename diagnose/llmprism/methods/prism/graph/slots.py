"""Bursts of a connection in every step, numbered: a slot holds what is sent once in every step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.methods.prism.graph.bursts import Bursts, Records
from llmprism.methods.prism.parameters import EXACT, IRREGULAR, LACKING, MOST_SLOTS, NEAR
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian
from prism_common.compiled import compiled


@dataclass(frozen=True)
class Silences:
    """A silence within each slot, NaN where there is none; shape (connections, slots, steps).

    Attributes
    ----------
    since_ns, until_ns : when it begins and ends; times after the origin of the job.
    sent : bytes that the slot has sent before.
    rest_ns : how long all silences of the slot last.
    """

    since_ns: Floats
    until_ns: Floats
    sent: Floats
    rest_ns: Floats


@dataclass(frozen=True)
class Pieces:
    """Ends and sizes of records by connection, step and begin; ``offsets`` as of bursts."""

    offsets: Ints
    end_ns: Floats
    size: Floats


@dataclass(frozen=True)
class Slots:
    """Bursts of the connections of one class, in order of connection, step and time.

    Attributes
    ----------
    count : usual number of bursts of each connection in a step, 0 if it has none.
    regular : whether enough steps have that number, and each time the same bytes in each burst.
    size_bytes : usual bytes of each connection in a step.
    offsets : first burst of each connection and step, shape (connections * steps + 1,).
    start_ns, end_ns, size : of each burst; times after the origin of the job.
    pieces : the records that bursts are made of, in the same order, or these themselves.
    steps : number of steps.
    """

    count: Ints
    regular: Bools
    size_bytes: Floats
    offsets: Ints
    start_ns: Floats
    end_ns: Floats
    size: Floats
    pieces: Pieces
    steps: int

    def times(self, lanes: Ints, number: int) -> tuple[Floats, Floats]:
        """Start and end of ``number`` slots of some connections [ns], (lanes, number, steps).

        NaN where unknown. A single slot holds all bursts of a step.
        """
        shape = (lanes.size, number, self.steps)
        start, end = np.full(shape, np.nan), np.full(shape, np.nan)
        bursts = self.start_ns, self.end_ns, self.size
        usual = self._usual(self.size, lanes, number), self._usual(self._since_ns, lanes, number)
        pieces = self.pieces.end_ns, self.pieces.size
        of_cells = self.offsets, self.pieces.offsets
        _fill(lanes, of_cells, bursts, pieces, usual, start, end)
        return start, end

    def silences(self, lanes: Ints, number: int) -> Silences:
        """The longest silence within each of ``number`` slots of some connections, and all."""
        shape = (lanes.size, number, self.steps)
        since, until, sent = (np.full(shape, np.nan) for _ in range(3))
        found = Silences(since, until, sent, np.zeros(shape))
        usual = self._usual(self.size, lanes, number)
        if number == 1:
            usual = self.size_bytes[lanes][:, None]
        bursts = self.start_ns, self.end_ns, self.size
        parts = since, until, sent, found.rest_ns
        _write_silences(lanes, self.offsets, bursts, usual, parts)
        return found

    @cached_property
    def _since_ns(self) -> Floats:
        """Begin of each burst after that of the first one in its step [ns]."""
        number = np.diff(self.offsets)
        first = np.repeat(self.offsets[:-1], number)
        return self.start_ns - self.start_ns[first]

    def _usual(self, values: Floats, lanes: Ints, number: int) -> Floats:
        """Median of each slot in steps with the usual number of bursts, (lanes, number)."""
        if number == 1:
            return np.zeros((lanes.size, 1))  # all bursts of a step are in it, whatever they hold
        cells = lanes[:, None] * self.steps + np.arange(self.steps)
        held = self.offsets[cells + 1] - self.offsets[cells] == number
        at = np.where(held, self.offsets[cells], 0)[..., None] + np.arange(number)
        found = values[np.minimum(at, values.size - 1)]
        found = np.where(held[..., None], found, np.nan).transpose(0, 2, 1)
        return nanmedian(found.reshape(-1, self.steps), axis=1).reshape(lanes.size, number)


def slots_of(bursts: Bursts, connections: int, steps: int, origin_ns: int) -> Slots:
    """Number the bursts of one class."""
    known = (bursts.step >= 0) & (bursts.step < steps)
    every = np.where(known, bursts.place * steps + bursts.step, -1)
    cell, order = every[known], np.lexsort((bursts.start_ns[known], every[known]))
    start, end, size = (
        values[known][order].astype(np.float64)
        for values in (bursts.start_ns - origin_ns, bursts.end_ns - origin_ns, bursts.size)
    )
    held = np.bincount(cell, minlength=connections * steps)
    volume = np.bincount(cell[order], size, connections * steps).astype(np.float64)
    volume = volume.reshape(connections, steps)
    by_step = held.reshape(connections, steps)
    some = np.where(by_step > 0, by_step, np.nan).astype(np.float64)
    count = np.nan_to_num(nanmedian(some, axis=1)).astype(np.int64)
    regular = ((by_step == count[:, None]).mean(axis=1) >= IRREGULAR) & (count <= MOST_SLOTS)
    usual = np.nan_to_num(nanmedian(np.where(by_step > 0, volume, np.nan), axis=1))
    offsets = np.concatenate(([0], np.cumsum(held)))
    regular &= _is_stable(volume, np.cumsum(size), by_step == count[:, None], offsets, count)
    pieces = Pieces(offsets, end, size)
    if bursts.pieces is not None:
        pieces = _in_cells(bursts.pieces, every, connections * steps, origin_ns)
    return Slots(count, regular, usual, offsets, start, end, size, pieces, steps)


def _in_cells(records: Records, cell: Ints, cells: int, origin_ns: int) -> Pieces:
    """The records of bursts that are in a ``cell``, -1 for none."""
    of_piece = cell[records.burst]
    known = of_piece >= 0
    order = np.lexsort((records.start_ns[known], of_piece[known]))
    held = np.bincount(of_piece[known], minlength=cells)
    end, size = (
        one[known][order].astype(np.float64) for one in (records.end_ns - origin_ns, records.size)
    )
    return Pieces(np.concatenate(([0], np.cumsum(held))), end, size)


def _is_stable(volume: Floats, sent: Floats, usual: Bools, offsets: Ints, count: Ints) -> Bools:
    """Whether the bursts of each connection end after the same share of its bytes in every step.

    A ring that waits for a late rank is silent after any number of blocks: that ends no operation.
    """
    stable = np.ones(len(volume), np.bool_)
    for lane in np.flatnonzero((count > 1) & usual.any(axis=1)).tolist():
        cells = lane * volume.shape[1] + np.flatnonzero(usual[lane])
        at = offsets[cells][:, None] + np.arange(count[lane])
        before = np.where(offsets[cells] > 0, sent[offsets[cells] - 1], 0.0)
        share = (sent[at] - before[:, None]) / np.maximum(volume[lane][usual[lane]], 1.0)[:, None]
        off = np.median(np.abs(share - np.median(share, axis=0)), axis=0)
        stable[lane] = off.max() <= LACKING
    return stable


@compiled
def _nearest(since_ns: Floats, at_ns: float) -> int:
    """The slot that begins nearest to a time."""
    return int(np.abs(since_ns - at_ns).argmin())


@compiled
def _only_place(start_ns: Floats, since_ns: Floats) -> int:
    """The slot of the first of some bursts, if their distances fit to one only; else -1."""
    found = -1
    for first in range(since_ns.size - start_ns.size + 1):
        fits, before = True, first - 1
        for burst in range(start_ns.size):
            at_ns = since_ns[first] + start_ns[burst] - start_ns[0]
            slot = _nearest(since_ns, at_ns)
            room_ns = since_ns[-1] - since_ns[0]
            if slot > 0:
                room_ns = min(room_ns, since_ns[slot] - since_ns[slot - 1])
            if slot + 1 < since_ns.size:
                room_ns = min(room_ns, since_ns[slot + 1] - since_ns[slot])
            if slot <= before or abs(since_ns[slot] - at_ns) > NEAR * room_ns:
                fits = False
                break
            before = slot
        if fits and found >= 0:
            return -1
        if fits:
            found = first
    return found


@compiled
def _fill(
    lanes: Ints, of_cells: tuple[Ints, Ints], bursts: tuple[Floats, Floats, Floats],
    pieces: tuple[Floats, Floats], usually: tuple[Floats, Floats], start: Floats, end: Floats,
) -> None:  # fmt: skip
    """Write the times of each slot; bursts that are not one to a slot are matched by bytes.

    So are records within a burst, but only their ends are: what follows at once may have waited.
    Where records are lost, those that are left are matched by the time between them.
    """
    offsets, of_pieces = of_cells
    start_ns, end_ns, size = bursts
    ends_ns, bytes_of = pieces
    usual, since_ns = usually
    number, steps = start.shape[1], start.shape[2]
    for lane in range(lanes.size):
        for step in range(steps):
            cell = lanes[lane] * steps + step
            first, last = offsets[cell], offsets[cell + 1]
            if last == first:
                continue
            if number == 1:
                start[lane, 0, step] = start_ns[first]
                end[lane, 0, step] = end_ns[first:last].max()
            elif last - first == number:
                for slot in range(number):
                    start[lane, slot, step] = start_ns[first + slot]
                    end[lane, slot, step] = end_ns[first + slot]
            else:
                total, own = usual[lane].sum(), size[first:last].sum()
                if not abs(own - total) <= LACKING * total:
                    at = _only_place(start_ns[first:last], since_ns[lane])
                    if own < total and at >= 0:
                        for burst in range(first, last):
                            slot = _nearest(
                                since_ns[lane],
                                since_ns[lane, at] + start_ns[burst] - start_ns[first],
                            )
                            start[lane, slot, step] = start_ns[burst]
                            end[lane, slot, step] = end_ns[burst]
                    continue
                exact = EXACT * usual[lane].min()
                edges = np.zeros(number + 1)
                edges[1:] = np.cumsum(usual[lane])
                opens, before = 0, 0.0
                for burst in range(first, last):
                    while opens < number and edges[opens] < before - exact:
                        opens += 1
                    if opens < number and edges[opens] <= before + exact:
                        start[lane, opens, step] = start_ns[burst]
                    before += size[burst]
                closes, before = 1, 0.0
                for piece in range(of_pieces[cell], of_pieces[cell + 1]):
                    before += bytes_of[piece]
                    while closes <= number and edges[closes] < before - exact:
                        closes += 1
                    if closes <= number and edges[closes] <= before + exact:
                        end[lane, closes - 1, step] = ends_ns[piece]


@compiled
def _write_silences(
    lanes: Ints, offsets: Ints, bursts: tuple[Floats, Floats, Floats], usual: Floats,
    found: tuple[Floats, Floats, Floats, Floats],
) -> None:  # fmt: skip
    """Write the silences within each slot: where its bytes are not at the edge of one."""
    start_ns, end_ns, size = bursts
    since, until, sent, rests = found
    number, steps = since.shape[1], since.shape[2]
    for lane in range(lanes.size):
        total, exact = usual[lane].sum(), EXACT * usual[lane].min()
        for step in range(steps):
            first = offsets[lanes[lane] * steps + step]
            last = offsets[lanes[lane] * steps + step + 1]
            if last - first <= number or not abs(size[first:last].sum() - total) <= LACKING * total:
                continue
            slot, edge, before = 0, 0.0, 0.0
            for burst in range(first, last - 1):
                before += size[burst]
                while slot < number - 1 and edge + usual[lane, slot] <= before + exact:
                    edge += usual[lane, slot]
                    slot += 1
                rest = start_ns[burst + 1] - end_ns[burst]
                if before - edge <= exact:
                    continue
                rests[lane, slot, step] += rest
                if not rest <= until[lane, slot, step] - since[lane, slot, step]:
                    since[lane, slot, step] = end_ns[burst]
                    until[lane, slot, step] = start_ns[burst + 1]
                    sent[lane, slot, step] = before - edge
