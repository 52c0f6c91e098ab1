"""Waiting of ranks, as far as flow records show it.

A diagnosis counts all time without traffic as computation. For a rank of a pipeline, the
messages tell more:

- A gap that ends when the rank sends was computation. A gap that ends when a message arrives was
  waiting, unless the rank still had a message to work on, whose result it had not sent.
- The last gap before a collective has a usual length. If it is longer, and no other rank of the
  group needs more than usual, then the rank waited for a member of the group that was late.

For a rank without a pipeline, waiting and computation look the same, and stay computation.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_common.kinds import COMPUTE, DP, PP

WAIT = "wait"
"""Kind of a span without traffic in which a rank waits."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_USUAL = 0.25  # quantile of the steps: up to three quarters of them may be slow


def waiting(
    spans: pd.DataFrame, steps: pd.DataFrame, groups: pd.DataFrame, messages: pd.DataFrame
) -> pd.DataFrame:
    """``spans``, where gaps in which a rank waits have the kind ``wait``.

    Parameters
    ----------
    messages : the flow records between stages of a pipeline.
    """
    if not len(messages) or not (spans["kind"] == COMPUTE).any():
        return spans
    return _for_groups(_for_messages(spans, steps, messages), groups)


def of_pipelines(pairs: pd.DataFrame, flows: pd.DataFrame) -> pd.DataFrame:
    """The flow records between stages of a pipeline."""
    wanted = pairs.loc[pairs["kind"] == PP, ["src", "dst"]].astype(str)
    names = pd.Index(pd.unique(pd.concat([wanted["src"], wanted["dst"]])))
    if not len(wanted) or not len(flows):
        return flows.head(0)
    side = {name: codes_in(flows[name], names) for name in ("src", "dst")}
    want = names.get_indexer(wanted["src"]) * len(names) + names.get_indexer(wanted["dst"])
    both = (side["src"] >= 0) & (side["dst"] >= 0)
    pair = side["src"] * len(names) + side["dst"]
    return pd.DataFrame(flows[both & np.isin(pair, want)])


def codes_in(column: pd.Series, names: pd.Index) -> Ints:
    """Place of each name of a column in ``names``; -1 if it has none."""
    categories = column.astype("category").cat
    lookup = np.append(names.get_indexer(pd.Index(categories.categories.astype(str))), -1)
    codes: Ints = lookup[categories.codes.to_numpy(np.int64)].astype(np.int64)
    return codes


def _for_messages(spans: pd.DataFrame, steps: pd.DataFrame, messages: pd.DataFrame) -> pd.DataFrame:
    """Mark the gaps in which a rank waits for a message of its pipeline."""
    gap = np.flatnonzero((spans["kind"] == COMPUTE).to_numpy(bool))
    names = pd.Index(pd.unique(spans["address"].astype(str)))
    tables = (spans, messages, steps)
    origin = int(min(table["start_ns"].min() for table in tables))
    width = int(max(table["end_ns"].max() for table in tables)) - origin + 1

    def keys(table: pd.DataFrame, address: str, time: str) -> Ints:
        """One number for an address and a time, in the order of addresses, then times."""
        key: Ints = codes_in(table[address], names) * width + table[time].to_numpy(np.int64)
        return key - origin

    gaps = spans.iloc[gap]
    begin, end = (keys(gaps, "address", time) for time in ("start_ns", "end_ns"))
    sends, receives = (keys(messages, side, "start_ns") for side in ("src", "dst"))
    arrivals = keys(messages, "dst", "end_ns")
    opens = np.sort(keys(steps, "address", "start_ns"))
    size = messages["bytes"].to_numpy(np.int64)
    idle = _idle(begin, sends, arrivals, size, opens)
    waits = np.isin(end, receives) & ~np.isin(end, sends) & idle
    kind = spans["kind"].astype(object).to_numpy(copy=True)
    kind[gap[waits]] = WAIT
    return spans.assign(kind=pd.Categorical(kind))


def _idle(at: Ints, sends: Ints, arrivals: Ints, size: Ints, opens: Ints) -> Flags:
    """Whether a rank has no message to work on, at each of some moments.

    A rank has received a message and not yet sent its result: these bytes are pending. Results
    that answer no message of the same step (the first ones of a pipeline) count nothing.
    """
    time = np.concatenate([sends, arrivals])
    order = np.argsort(time, kind="stable")
    time, change = time[order], np.concatenate([-size, size])[order]
    step = np.searchsorted(opens, time, "right")
    first = np.searchsorted(step, step, "left")
    total = np.cumsum(change)
    total -= (total - change)[first]  # since the beginning of the step
    apart = 2 * int(np.abs(total).max(initial=0)) + 1
    lowest = np.minimum.accumulate(total - step * apart) + step * apart
    pending = total - np.minimum(lowest, 0)
    last = np.searchsorted(time, at, "right") - 1
    safe = np.maximum(last, 0)
    same_step = (last >= 0) & (step[safe] == np.searchsorted(opens, at, "right"))
    idle: Flags = ~same_step | (2 * pending[safe] < np.median(size))
    return idle


def _for_groups(spans: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """Divide the last gap before the collective of a step into computation and waiting."""
    last = _before_collectives(spans)
    members = groups.loc[groups["kind"] == DP].drop_duplicates("address")
    group_of = dict(zip(members["address"].astype(str), members["group"], strict=True))
    last = last.assign(group=[int(group_of.get(str(one), -1)) for one in last["address"]])
    last = last[last["group"] >= 0]
    if not len(last):
        return spans
    length = (last["end_ns"] - last["start_ns"]).astype(float)
    usual = length.groupby(last["address"], observed=True).transform("quantile", _USUAL)
    excess = (length - usual).clip(lower=0)
    common = excess.groupby([last["job"], last["group"], last["step"]], observed=True).transform(
        "min"
    )
    waits = (excess - common).round().astype(np.int64)
    late = waits.index[waits > 0]
    if not len(late):
        return spans
    begin = spans.loc[late, "end_ns"] - waits[late]
    extra = spans.loc[late].assign(start_ns=begin, kind=WAIT)
    shortened = spans["end_ns"].copy()
    shortened.loc[late] = begin
    both = pd.concat([spans.assign(end_ns=shortened), extra], ignore_index=True)
    return both.astype({"kind": "category", "address": "category", "job": "category"})


def _before_collectives(spans: pd.DataFrame) -> pd.DataFrame:
    """For each rank with a pipeline and each step, the longest gap that ends with DP traffic."""
    kind = spans["kind"].astype(str).to_numpy(object)
    step = spans["step"].to_numpy(np.int64)
    address = spans["address"].astype("category").cat.codes.to_numpy(np.int64)
    rank = address * (int(step.max(initial=0)) + 1) + step
    origin = int(spans["start_ns"].min())
    width = int(rank.max(initial=0)) + 1
    times = {name: spans[name].to_numpy(np.int64) - origin for name in ("start_ns", "end_ns")}
    opens = (times["start_ns"] * width + rank)[kind == DP]
    gap = (kind == COMPUTE) & np.isin(address, np.unique(address[kind == PP]))
    gap &= np.isin(times["end_ns"] * width + rank, opens)
    row = np.flatnonzero(gap)
    length = (times["end_ns"] - times["start_ns"])[row]
    order = np.lexsort((-length, rank[row]))
    row = row[order]
    first = np.diff(rank[row], prepend=-1) != 0
    return pd.DataFrame(spans.iloc[row[first]])
