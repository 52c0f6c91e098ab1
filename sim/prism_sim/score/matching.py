"""Matches inferred steps to true steps.

A true step of a rank is *matched* if and only if

1. exactly one inferred step of the rank's address has more than half of its own duration
   inside the true step,
2. that inferred step covers more than half of the true step, and
3. no other true step of the rank lies more than half inside that inferred step.

So a true step that was split (two inferred steps inside it), merged (one inferred step over two
true ones) or missed is unmatched; exactly half is not more than half.

If several found jobs contain an address, its steps are taken from the one that overlaps the
rank's true job best. The true steps of one rank do not overlap; inferred steps may. All
computation is on sorted arrays with binary search: an interval with more than half inside
another has its midpoint there, so each inferred step has one candidate per rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from prism_sim.score.jobs import members, overlaps
from prism_sim.score.load import Case, Flags, Ints, rank_rows


@dataclass(frozen=True)
class Match:
    """True steps, inferred steps, and their assignment.

    Attributes
    ----------
    true : true steps by ``rank_row`` and start, with columns job, rank_row, step, start_ns, end_ns.
    inferred : the diagnosis' ``steps`` by job, address and start.
    row : for each true step its row of ``inferred``, -1 if unmatched.
    fate : for each true step ``matched``, ``split``, ``merged`` or ``missed``.
    """

    true: pd.DataFrame
    inferred: pd.DataFrame
    row: Ints
    fate: pd.Series


def match_steps(case: Case) -> Match:
    """Match the steps of every rank in the truth."""
    true = case.truth["steps"]
    true = true.assign(rank_row=rank_rows(case.truth["ranks"], true))
    true = true[true["rank_row"] >= 0].sort_values(["rank_row", "start_ns"], ignore_index=True)
    inferred = case.diagnosis["steps"].sort_values(["job", "address", "start_ns"])
    inferred = inferred.reset_index(drop=True)
    rank, row = _followed(case, inferred)
    if not len(true) or not len(row):
        fate = pd.Series("missed", index=true.index)
        return Match(true, inferred, np.full(len(true), -1), fate)
    return Match(true, inferred, *_match(true, inferred, rank, row))


def _followed(case: Case, inferred: pd.DataFrame) -> tuple[Ints, Ints]:
    """Pairs (rank_row, row of ``inferred``) of all inferred steps of each rank."""
    ranks = case.truth["ranks"]
    lines = inferred.groupby(["job", "address"], sort=False).size().reset_index(name="n")
    lines["first"] = lines["n"].cumsum() - lines["n"]
    at = pd.DataFrame({"address": ranks["address"], "true": ranks["job"].astype(str)})
    at["rank_row"] = np.arange(len(ranks))
    couples = overlaps(members(ranks), members(case.diagnosis["jobs"]))
    best = at.merge(lines.rename(columns={"job": "found"}), on="address")
    best = best.merge(couples, on=["true", "found"], how="left").fillna({"jaccard": 0.0})
    best = best.sort_values(["rank_row", "jaccard", "found"], ascending=[True, False, True])
    best = best.drop_duplicates("rank_row")
    count = best["n"].to_numpy(np.int64)
    start = np.cumsum(count) - count
    offset = np.arange(count.sum()) - np.repeat(start, count)
    rows = np.repeat(best["first"].to_numpy(np.int64), count) + offset
    return np.repeat(best["rank_row"].to_numpy(np.int64), count), rows


def _match(
    true: pd.DataFrame, inferred: pd.DataFrame, rank: Ints, row: Ints
) -> tuple[Ints, pd.Series]:
    owner = true["rank_row"].to_numpy()
    start, end = true["start_ns"].to_numpy(np.int64), true["end_ns"].to_numpy(np.int64)
    i_start = inferred["start_ns"].to_numpy(np.int64)[row]
    i_end = inferred["end_ns"].to_numpy(np.int64)[row]
    lanes = _Lanes(owner, start, end)

    place = lanes.step_at(rank, i_start + (i_end - i_start) // 2)
    home = np.maximum(place, 0)
    common = np.minimum(i_end, end[home]) - np.maximum(i_start, start[home])
    inside = (place >= 0) & (2 * common > i_end - i_start)
    visitors = np.bincount(home[inside], minlength=len(true))
    first, last = lanes.middles_in(rank, i_start, i_end)
    covers = inside & (2 * common > (end - start)[home])
    good = covers & (visitors[home] == 1) & (last - first == 1)

    matched = np.full(len(true), -1)
    matched[home[good]] = row[good]
    merged = _marked(first[last - first > 1], last[last - first > 1], len(true))
    fate = np.select([matched >= 0, visitors > 1, merged], ["matched", "split", "merged"], "missed")
    return matched, pd.Series(fate, index=true.index)


def _marked(first: Ints, last: Ints, size: int) -> Flags:
    """True at every place of a range [first, last)."""
    edges = np.bincount(first, minlength=size + 1) - np.bincount(last, minlength=size + 1)
    return np.asarray(np.cumsum(edges)[:size] > 0)


class _Lanes:
    """True steps of all ranks on one time axis, each rank in its own range.

    Times are doubled so that midpoints are integers, and clipped to the range, so that a wrong
    inferred time cannot reach into the next range.
    """

    def __init__(self, owner: Ints, start: Ints, end: Ints) -> None:
        self._origin = int(start.min())
        self._width = 2 * (int(end.max()) - self._origin) + 4
        self._owner, self._end = owner, end
        self._starts = self._place(owner, 2 * (start - self._origin))
        self._middles = self._place(owner, start - self._origin + end - self._origin)

    def _place(self, rank: Ints, doubled: Ints) -> Ints:
        lane: Ints = rank * self._width + 1 + np.clip(doubled, -1, self._width - 2)
        return lane

    def step_at(self, rank: Ints, time: Ints) -> Ints:
        """Index of the true step of ``rank`` around ``time`` [ns]; -1 if there is none."""
        lane = self._place(rank, 2 * (time - self._origin))
        place = np.searchsorted(self._starts, lane, "right") - 1
        held = np.maximum(place, 0)
        hit = (place >= 0) & (self._owner[held] == rank) & (time < self._end[held])
        return np.where(hit, place, -1)

    def middles_in(self, rank: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Range of the true steps of ``rank`` whose midpoint is strictly in (start, end)."""
        low = self._place(rank, 2 * (start - self._origin))
        high = self._place(rank, 2 * (end - self._origin))
        first = np.searchsorted(self._middles, low, "right")
        return first, np.maximum(np.searchsorted(self._middles, high, "left"), first)
