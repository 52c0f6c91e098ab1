"""Busy time of a rank with one kind of work in a step.

The busy time of a step is the length of the *union* of its spans of a kind [ns]: two
buckets in flight at the same time are not counted twice. The truth's kinds belong to three kinds
of work, as in :data:`WORK`; other kinds (``schedule``, checkpoints) belong to none.

A profiler shows an operation from the time when a rank enters it, including waiting, while a
collector only observes data transfer. To make the two comparable, communication counts
from the time when data can be transferred:

- a message from one stage to the next: while both sender and receiver are in it, from the
  later of the two starts to the earlier of the two ends;
- a collective: after its last member has joined, from the latest start in the group to
  the rank's own end.

The truth of a simulated run gives the communication of each span (column ``communication``):
spans of one number are the members of one collective, or the two ends of one message. Other
captures do not have that column. There, partners are guessed by job, step, micro-batch
and position in the grid of ranks, and repeated ones by their order. Stage ``i`` sends activations
to ``i + 1`` and gradients to ``i - 1``, modulo the number of stages, as interleaved schedules
require. If a partner is not in the truth, or the two never overlap, a span counts unchanged. A
transport that delivers before the receive is posted transfers data earlier than the spans show;
the message then counts as too short.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from prism_sim.score.load import Case, Ints, rank_rows

WORK = {
    "compute": ("fwd", "bwd", "wgrad", "recompute", "opt", "compute"),
    "dp": (
        "all_reduce",
        "allreduce",
        "reduce_scatter",
        "all_gather",
        "expert_all_reduce",
        "expert_reduce_scatter",
        "expert_all_gather",
    ),
    "pp": ("send_act", "recv_act", "send_grad", "recv_grad"),
}
"""Kinds of true spans, by the kind of work in a diagnosis."""

_OF_EXPERTS = "expert_"
"""Prefix of the collectives that only ranks with the same experts take part in."""

_SENDER = {"send_act": 0, "recv_act": -1, "send_grad": 0, "recv_grad": 1}
"""Stage of the sending rank relative to the rank of the span."""

_COLUMNS = ["rank_row", "step", "micro_batch", "kind", "communication", "start_ns", "end_ns"]


def true_work(case: Case) -> dict[str, pd.DataFrame]:
    """Spans of each kind of work, trimmed to the time when data can be transferred.

    Returns
    -------
    Frames with columns ``rank_row`` (into ``truth["ranks"]``), ``step``, ``start_ns``,
    ``end_ns``, and ``own_end_ns``, the end before any trimming.
    """
    spans = case.truth["spans"]
    spans = spans.assign(rank_row=rank_rows(case.truth["ranks"], spans))
    spans = spans.loc[spans["rank_row"] >= 0, _COLUMNS]
    parts = {work: spans[spans["kind"].isin(kinds)] for work, kinds in WORK.items()}
    return {
        "compute": parts["compute"].assign(own_end_ns=parts["compute"]["end_ns"]),
        "dp": _trim(
            parts["dp"], _partners(case, parts["dp"], _guessed_collective), shared_end=False
        ),
        "pp": _trim(parts["pp"], _partners(case, parts["pp"], _guessed_message), shared_end=True),
    }


def union_length(group: Ints, start: Ints, end: Ints, groups: int) -> Ints:
    """Length of the union of the intervals of each group.

    Parameters
    ----------
    group : group of each interval, in ``range(groups)``; any order.
    start, end : borders of the intervals, one unit; an ``end`` before its start is empty.

    >>> union_length(np.array([0, 0, 1]), np.array([0, 3, 5]), np.array([4, 6, 5]), 2)
    array([6, 0])
    """
    if not len(group):
        return np.zeros(groups, np.int64)
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], np.maximum(start, end)[order]
    first = np.append(True, group[1:] != group[:-1])
    origin = start[first][np.cumsum(first) - 1]  # times relative to the group keep the sums small
    start, end = start - origin, end - origin
    lane = (np.cumsum(first) - 1) * (int(end.max()) + 1)
    reached = np.maximum.accumulate(end + lane) - lane
    before = np.where(first, 0, np.append(0, reached[:-1]))
    covered = np.maximum(end - np.maximum(start, before), 0)
    return np.bincount(group, covered, minlength=groups).astype(np.int64)


def _trim(spans: pd.DataFrame, key: Ints, *, shared_end: bool) -> pd.DataFrame:
    """Spans of one key start when the last of them starts, and may end when the first ends."""
    start, end = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()
    moving_start, moving_end = start, end
    if len(spans):
        order = np.argsort(key, kind="stable")
        heads = _heads(key[order])
        sizes = np.diff(np.append(heads, len(key)))
        moving_start, moving_end = np.empty_like(start), np.empty_like(end)
        moving_start[order] = np.repeat(np.maximum.reduceat(start[order], heads), sizes)
        moving_end[order] = np.repeat(np.minimum.reduceat(end[order], heads), sizes)
        if not shared_end:
            moving_end = end
    overlapping = moving_start < moving_end
    return spans[["rank_row", "step"]].assign(
        start_ns=np.where(overlapping, moving_start, start),
        end_ns=np.where(overlapping, moving_end, end),
        own_end_ns=end,
    )


def _partners(case: Case, spans: pd.DataFrame, guess: Callable[[Case, pd.DataFrame], Ints]) -> Ints:
    """One number for the spans of one communication; ``guess`` is for spans without a number."""
    named = spans["communication"].notna().to_numpy(np.bool_)
    key = np.empty(len(spans), np.int64)
    key[named] = 2 * spans["communication"].to_numpy()[named].astype(np.int64)
    key[~named] = 2 * _ranked(guess(case, spans[~named])) + 1
    return key


def _ranked(key: Ints) -> Ints:
    """``key`` with its distinct values numbered from 0."""
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def _guessed_collective(case: Case, spans: pd.DataFrame) -> Ints:
    """One number for the spans of one collective: same group, step, kind, and position.

    Parameters that all ranks of a stage have are reduced over all of them; those of experts, over
    the ranks with the same experts.
    """
    ranks, row = case.truth["ranks"], spans["rank_row"].to_numpy()
    group = [_codes(ranks[name])[row] for name in ("job", "pp", "tp")]
    of_experts = spans["kind"].astype(str).str.startswith(_OF_EXPERTS).to_numpy(np.bool_)
    group.append(np.where(of_experts, _codes(ranks["ep"])[row], -1))
    kind, step = _codes(spans["kind"]), spans["step"].to_numpy(np.int64)
    return pack(*group, step, kind, _turn(spans, pack(row, step, kind)))


def _guessed_message(case: Case, spans: pd.DataFrame) -> Ints:
    """One number for the two spans of one message between stages."""
    ranks, row = case.truth["ranks"], spans["rank_row"].to_numpy()
    place = [_codes(ranks[name])[row] for name in ("job", "dp", "tp", "ep", "cp")]
    stages = ranks.groupby("job")["pp"].transform("max").fillna(0).to_numpy(np.int64) + 1
    stage = ranks["pp"].fillna(0).to_numpy(np.int64)[row]
    shift = spans["kind"].map(_SENDER).to_numpy(np.int64)
    sender = (stage + shift) % stages[row]
    forward = np.asarray(spans["kind"].isin(("send_act", "recv_act")), np.int64)
    batch = spans["micro_batch"].fillna(-1).to_numpy(np.int64)
    step, kind = spans["step"].to_numpy(np.int64), _codes(spans["kind"])
    turn = _turn(spans, pack(row, step, kind, batch))
    return pack(*place, sender, forward, step, batch, turn)


def _turn(spans: pd.DataFrame, key: Ints) -> Ints:
    """Number of spans of the same key that start before each span."""
    order = np.lexsort((spans["end_ns"].to_numpy(), spans["start_ns"].to_numpy(), key))
    first = _heads(key[order])
    turn = np.empty(len(key), np.int64)
    turn[order] = np.arange(len(key)) - np.repeat(first, np.diff(np.append(first, len(key))))
    return turn


def _heads(key: Ints) -> Ints:
    """The start of each run of equal values."""
    return np.flatnonzero(np.diff(key, prepend=key[:1] - 1))


def _codes(column: pd.Series) -> Ints:
    codes: Ints = pd.factorize(column)[0].astype(np.int64)
    return codes


def pack(*columns: Ints) -> Ints:
    """One integer for each distinct row of ``columns``, equal for equal rows only."""
    key = np.zeros(len(columns[0]), np.int64)
    room = 1
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        width = high - low + 1
        if room * width >= 2**62:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            room = len(key)
        key = key * width + (column - low)
        room *= width
    return key
